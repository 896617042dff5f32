package vault_test

import (
	"context"
	"encoding/json"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
)

// One row that does not open does not hide the others of its page.
func TestUnreadableRowsStayInTheirList(t *testing.T) {
	t.Parallel()
	v, exec, heard := alarmed(t)
	for _, id := range []string{"aaa", "bad", "ccc"} {
		create(t, v.Owner.Client, aText(id, "x"))
	}
	want := []vault.Token{
		{ID: "aaa"}, {ID: "bad", TenantID: v.Acme.ID, Type: vault.TypeGeneric, CreatedAt: get(t, v.Owner.Client, "bad").CreatedAt, Unreadable: true}, {ID: "ccc"},
	}
	exec(`UPDATE vault_tokens SET body = randomblob(100) WHERE id = 'bad'`)
	check := func(how string, got []vault.Token) {
		t.Helper()
		for i := range got {
			if !got[i].Unreadable {
				got[i] = vault.Token{ID: got[i].ID}
			}
		}
		byID := cmpopts.SortSlices(func(a, b vault.Token) bool { return a.ID < b.ID })
		if diff := cmp.Diff(want, got, byID); diff != "" {
			t.Errorf("%s (-want +got):\n%s", how, diff)
		}
		if diff := cmp.Diff([]string{"unreadable"}, heard.take()); diff != "" {
			t.Errorf("%s: alarms (-want +got):\n%s", how, diff)
		}
	}
	page, err := v.Owner.ListTokens(t.Context(), vault.ListTokensParams{})
	if err != nil {
		t.Fatal(err)
	}
	check("list", page.Data)
	page, err = v.Owner.SearchTokens(t.Context(), vault.SearchTokensParams{Query: "type:token"})
	if err != nil {
		t.Fatal(err)
	}
	check("search", page.Data)
	var all []vault.Token
	for tok, err := range v.Owner.AllTokens(t.Context(), vault.TokenFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, *tok)
	}
	check("all", all)
	if _, err := v.Owner.GetToken(t.Context(), "bad"); err == nil {
		t.Error("the row itself can be read")
	}
	if diff := cmp.Diff([]string{"create", "read"}, operations(t, v, "bad")); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff) // it was read once, before
	}
}

// One application, reactor, proxy or session that does not open does not hide the
// others of its page.
func TestUnreadableRecordsStayInTheirList(t *testing.T) {
	t.Parallel()
	v, exec, heard := alarmed(t)
	_, key := v.NewApplication(t, v.Owner, vault.ApplicationPublic, nil)
	public := authenticated(t, v.Vault, key)
	for range 2 {
		private(t, v)
		if _, err := v.Owner.CreateReactor(t.Context(), reactorParams("r")); err != nil {
			t.Fatal(err)
		}
		if _, err := v.Owner.CreateProxy(t.Context(), vault.ProxyParams{Name: "p", DestinationURL: "https://example.com"}); err != nil {
			t.Fatal(err)
		}
		if _, err := public.CreateSession(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	tenant := `"tenant_id":"` + v.Acme.ID.String() + `",`
	for _, kind := range []struct {
		name, columns, more string
		total               int
		list, all           func() (any, error)
	}{
		{"session", "", "", 2, aPage(v.Owner.ListSessions, vault.ListSessionsParams{}), aWalk(v.Owner.AllSessions(t.Context()))},
		{"application", tenant, "", 6, aPage(v.Owner.ListApplications, vault.ListApplicationsParams{}), aWalk(v.Owner.AllApplications(t.Context(), vault.ApplicationFilter{}))},
		{"reactor", tenant, "", 2, aPage(v.Owner.ListReactors, vault.ListReactorsParams{}), aWalk(v.Owner.AllReactors(t.Context(), vault.ReactorFilter{}))},
		{"proxy", tenant, `"require_auth":true,`, 2, aPage(v.Owner.ListProxies, vault.ListProxiesParams{}), aWalk(v.Owner.AllProxies(t.Context(), vault.ProxyFilter{}))},
	} {
		var id []byte
		if err := v.DB.QueryRowContext(t.Context(), `SELECT max(id) FROM vault_records WHERE kind = ?`, kind.name).Scan(&id); err != nil {
			t.Fatal(err)
		}
		exec(`UPDATE vault_records SET body = randomblob(100) WHERE kind = ? AND id = ?`, kind.name, id)
		bad := uuid.UUID(id)
		for how, ask := range map[string]func() (any, error){"list": kind.list, "all": kind.all} {
			got, err := ask()
			if err != nil {
				t.Errorf("%s of %s: %v", how, kind.name, err)
				continue
			}
			text, _ := json.Marshal(got)
			want := `{"id":"` + bad.String() + `",` + kind.columns + kind.more + `"created_at":"` + v.Acme.CreatedAt.Format(time.RFC3339Nano) + `","unreadable":true}`
			if !strings.Contains(string(text), want) || strings.Count(string(text), `"unreadable":true`) != 1 || strings.Count(string(text), `{"id"`) != kind.total {
				t.Errorf("%s of %s: %s, want %s", how, kind.name, text, want)
			}
			if diff := cmp.Diff([]string{"unreadable"}, heard.take()); diff != "" {
				t.Errorf("%s of %s: alarms (-want +got):\n%s", how, kind.name, diff)
			}
		}
		if diff := cmp.Diff([]string{"create"}, operations(t, v, bad.String())); diff != "" {
			t.Errorf("log of %s (-want +got):\n%s", kind.name, diff)
		}
	}
	page, err := v.Owner.ListApplications(t.Context(), vault.ListApplicationsParams{Types: []vault.ApplicationType{vault.ApplicationPrivate}})
	if err != nil || len(page.Data) != 2 || page.Data[0].Unreadable {
		t.Errorf("applications of a type: %+v, %v", page, err)
	}
	list, err := v.Owner.ListSessions(t.Context(), vault.ListSessionsParams{})
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Owner.DeleteSession(t.Context(), list.Data[0].ID); err != nil || !list.Data[0].Unreadable {
		t.Errorf("an unreadable session (%t) cannot be ended: %v", list.Data[0].Unreadable, err)
	}
}

// aPage and aWalk return functions that list entities.
func aPage[P, T any](list func(context.Context, P) (*vault.Page[T], error), p P) func() (any, error) {
	return func() (any, error) {
		page, err := list(context.Background(), p)
		if err != nil {
			return nil, err
		}
		return page.Data, nil
	}
}

func aWalk[T any](items iter.Seq2[*T, error]) func() (any, error) {
	return func() (any, error) {
		var all []*T
		for item, err := range items {
			if err != nil {
				return nil, err
			}
			all = append(all, item)
		}
		return all, nil
	}
}
