package vault_test

import (
	"context"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// alarms is an observer that keeps the names of alarms.
type alarms struct {
	mu    sync.Mutex
	names []string
}

func (a *alarms) Start(ctx context.Context, e vault.Event) (context.Context, func(error)) {
	if e.Kind == vault.EventAlarm {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.names = append(a.names, e.Name)
	}
	return ctx, func(error) {}
}

// take returns the alarms since the last call.
func (a *alarms) take() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	names := a.names
	a.names = nil
	return names
}

// alarmed returns a vault, a function that runs SQL on its database, and its
// alarms.
func alarmed(t testing.TB) (*vaulttest.Vault, func(sql string, args ...any), *alarms) {
	t.Helper()
	heard := &alarms{}
	v := vaulttest.Open(t, ":memory:", &vault.Config{Observer: heard})
	return v, func(sql string, args ...any) {
		t.Helper()
		if _, err := v.DB.ExecContext(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}, heard
}

// A database writer swaps the fingerprints of two tokens, so that deduplication
// finds the other one. That is an error and an alarm, and never a result.
func TestSwappedFingerprintsAreAnAlarm(t *testing.T) {
	t.Parallel()
	v, exec, heard := alarmed(t)
	yes := true
	number := func(id, number string) vault.TokenParams {
		return vault.TokenParams{ID: id, Type: vault.TypeCardNumber, Data: number, DeduplicateToken: &yes}
	}
	prints := map[string]string{}
	for id, data := range map[string]string{"aaa": visa, "bbb": "4111111111111111"} {
		create(t, v.Owner.Client, number(id, data))
		var print string
		if err := v.DB.QueryRowContext(t.Context(), `SELECT fingerprint FROM vault_tokens WHERE id = ?`, id).Scan(&print); err != nil {
			t.Fatal(err)
		}
		prints[id] = print
	}
	fingerprint := get(t, v.Owner.Client, "aaa").Fingerprint
	exec(`UPDATE vault_tokens SET fingerprint = ? WHERE id = 'aaa'`, []byte(prints["bbb"]))
	exec(`UPDATE vault_tokens SET fingerprint = ? WHERE id = 'bbb'`, []byte(prints["aaa"]))
	wantAlarm := func(what string, err error) {
		t.Helper()
		wantError(t, what, err, fault.ErrAltered)
		if diff := cmp.Diff([]string{"altered"}, heard.take()); diff != "" {
			t.Errorf("%s: alarms (-want +got):\n%s", what, diff)
		}
	}
	_, err := v.Owner.CreateToken(t.Context(), number("", visa))
	wantAlarm("a duplicate", err)
	_, err = v.Owner.Tokenize(t.Context(), []any{number("", visa)})
	wantAlarm("a duplicate in a document", err)
	for r, err := range v.Owner.Import(t.Context(), rowsOf(number("", visa)), nil) {
		wantAlarm("a duplicate in an import: "+string(r.Outcome), err)
	}
	for r, err := range v.Owner.Import(t.Context(), rowsOf(number("bbb", visa)), &vault.ImportOptions{Resumed: true}) {
		wantAlarm("a row that was imported before: "+string(r.Outcome), err)
	}
	_, err = v.Owner.GetToken(t.Context(), "aaa")
	wantAlarm("the token", err)
	page, err := v.Owner.SearchTokens(t.Context(), vault.SearchTokensParams{Query: "fingerprint:" + fingerprint})
	if err != nil || len(page.Data) > 0 {
		t.Errorf("a search by fingerprint finds %+v, %v", page, err)
	}
	wantAlarm("a search by fingerprint", fault.ErrAltered)
}

// The columns that a body is sealed with cannot be changed beside it.
func TestColumnsAreSealedWithTheBody(t *testing.T) {
	t.Parallel()
	for _, column := range []string{
		"fingerprint = randomblob(32)", "expression = randomblob(16)", "dedup = randomblob(16)", "set_id = randomblob(16)",
		"created_by = randomblob(16)", "modified_by = randomblob(16)", "created_at = created_at + 1", "modified_at = 1",
	} {
		v, exec, heard := alarmed(t)
		create(t, v.Owner.Client, aText("aaa", "x"))
		exec(`UPDATE vault_tokens SET ` + column)
		_, err := v.Owner.GetToken(t.Context(), "aaa")
		wantError(t, column, err, fault.ErrAltered)
		if diff := cmp.Diff([]string{"altered"}, heard.take()); diff != "" {
			t.Errorf("%s: alarms (-want +got):\n%s", column, diff)
		}
	}
}

// A database writer moves the hash of a search index to another token. The search
// does not find that token.
func TestMovedSearchHashesFindNothing(t *testing.T) {
	t.Parallel()
	v, exec, heard := alarmed(t)
	ssn := func(id, number, owner string) vault.TokenParams {
		return vault.TokenParams{ID: id, Type: vault.TypeSocialSecurityNumber, Data: number, Metadata: map[string]string{"owner": owner}}
	}
	create(t, v.Owner.Client, ssn("aaa", "123-45-6789", "jane"))
	create(t, v.Owner.Client, ssn("bbb", "987-65-4321", "joe"))
	exec(`UPDATE vault_token_hashes SET ord = (SELECT ord FROM vault_tokens WHERE id = 'bbb') WHERE ord = (SELECT ord FROM vault_tokens WHERE id = 'aaa')`)
	for _, query := range []string{`data:"123-45-6789"`, `metadata.owner:"jane"`, `NOT type:card AND data:"123-45-6789"`} {
		page, err := v.Owner.SearchTokens(t.Context(), vault.SearchTokensParams{Query: query})
		if err != nil || len(page.Data) > 0 {
			t.Errorf("%s finds %+v, %v", query, page, err)
		}
		if diff := cmp.Diff([]string{"altered"}, heard.take()); diff != "" {
			t.Errorf("%s: alarms (-want +got):\n%s", query, diff)
		}
	}
	page, err := v.Owner.SearchTokens(t.Context(), vault.SearchTokensParams{Query: `data:"987-65-4321" OR metadata.owner:"joe"`})
	if err != nil || len(page.Data) != 1 || page.Data[0].ID != "bbb" {
		t.Errorf("a search for what is there finds %+v, %v", page, err)
	}
}

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
