package vault_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// exported returns the JSON lines of an export.
func exported(t testing.TB, c *vault.Client, query string) []string {
	t.Helper()
	var lines []string
	for p, err := range c.Export(t.Context(), vault.ExportOptions{Query: query}) {
		if err != nil {
			t.Fatalf("after %d tokens: %v", len(lines), err)
		}
		line, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(line))
	}
	return lines
}

// TestExportImport moves tokens from one vault to another, and back once more.
func TestExportImport(t *testing.T) {
	t.Parallel()
	from, to := vaulttest.New(t), vaulttest.New(t)
	no := false
	expires := from.Clock.Now().Add(time.Hour).Truncate(time.Second)
	for _, p := range []vault.TokenParams{
		{ID: "card", Type: vault.TypeCard, Data: vault.CardData{Number: visa, ExpirationMonth: 3, ExpirationYear: 2031, CVC: "123"}},
		{ID: "full", Type: vault.TypeGeneric, Data: vault.JSON(`{"a":[1.10,null,"x"]}`), Mask: vault.JSON(`{"a":"{{ data.a | first }}"}`),
			Containers: []string{"/a/", "/b/"}, Metadata: map[string]string{"k": "v"}, SearchIndexes: []string{"{{ data.a | last }}"},
			FingerprintExpression: "{{ data.a | size }}", DeduplicateToken: &no, ExpiresAt: expires},
		{ID: "none", Type: vault.TypeSocialSecurityNumber, Data: "123-45-6789", SearchIndexes: []string{}},
		{ID: "ssn", Type: vault.TypeSocialSecurityNumber, Data: "123-45-6789"},
	} {
		create(t, from.Owner, p)
		from.Clock.Advance(time.Second)
	}
	want := []string{
		`{"id":"card","type":"card","data":{"number":"4242424242424242","expiration_month":3,"expiration_year":2031},"containers":["/pci/high/"]}`,
		`{"id":"full","type":"token","data":{"a":[1.10,null,"x"]},"mask":{"a":"{{ data.a | first }}"},"containers":["/a/","/b/"],"metadata":{"k":"v"},` +
			`"search_indexes":["{{ data.a | last }}"],"fingerprint_expression":"{{ data.a | size }}","deduplicate_token":false,"expires_at":"` + expires.Format(time.RFC3339Nano) + `"}`,
		`{"id":"none","type":"social_security_number","data":"123-45-6789","containers":["/pii/high/"],"search_indexes":[]}`,
		`{"id":"ssn","type":"social_security_number","data":"123-45-6789","containers":["/pii/high/"]}`,
	}
	if diff := cmp.Diff(want, exported(t, from.Owner, "")); diff != "" {
		t.Errorf("export (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"create", "use"}, operations(t, from, "full")); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	for _, r := range imported(t, to.Owner, from.Owner.Export(t.Context(), vault.ExportOptions{}), vault.ImportOptions{}) {
		if r.Outcome != vault.ImportCreated {
			t.Errorf("row %d: %v", r.Row, r.Err)
		}
	}
	if diff := cmp.Diff(want, exported(t, to.Owner, "")); diff != "" {
		t.Errorf("export of the copy (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want[3:], exported(t, to.Owner, `data:"6789"`)); diff != "" {
		t.Errorf("found by an index (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want[2:], exported(t, to.Owner, "type:social_security_number")); diff != "" {
		t.Errorf("found by type (-want +got):\n%s", diff)
	}
}

// TestExportRights leaves out what the client may not see in clear.
func TestExportRights(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	for _, container := range []string{"/open/", "/masked/", "/closed/"} {
		create(t, v.Owner, vault.TokenParams{ID: "in" + container[1:len(container)-1], Type: vault.TypeGeneric, Data: "x", Containers: []string{container}})
	}
	c := private(t, v, rule(1, "/open/", vault.TransformReveal, "token:use"), rule(2, "/masked/", vault.TransformMask, "token:use", "token:read"))
	if diff := cmp.Diff([]string{`{"id":"inopen","type":"token","data":"x","containers":["/open/"]}`}, exported(t, c, "")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := len(exported(t, holding(t, v, "token:use"), "")); got != 3 {
		t.Errorf("a plain permission exports %d tokens, want 3", got)
	}
	for what, c := range map[string]*vault.Client{
		"masked": private(t, v, rule(1, "/", vault.TransformMask, "token:use")),
		"read":   private(t, v, rule(1, "/", vault.TransformReveal, "token:read", "token:search")),
	} {
		for _, err := range c.Export(t.Context(), vault.ExportOptions{}) {
			wantError(t, what, err, vault.ErrForbidden)
		}
	}
	for _, err := range v.Owner.Export(t.Context(), vault.ExportOptions{Query: "type:"}) {
		wantFields(t, "a bad query", err, "query")
	}
	if got := fmt.Sprintf("%v %+v", vault.ExportOptions{Query: visa}, []vault.ExportOptions{{Query: visa}}); got == "" || slices.Contains([]byte(got), '4') {
		t.Errorf("printed as %s", got)
	}
}

// TestExportOfMany goes over the ends of pages, and stops where its loop does.
func TestExportOfMany(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	const n = 2500
	rows := func(yield func(vault.TokenParams, error) bool) {
		for i := range n {
			if !yield(aText(fmt.Sprintf("row-%04d", i), "x"), nil) {
				return
			}
		}
	}
	imported(t, v.Owner, rows, vault.ImportOptions{})
	i := 0
	for p, err := range v.Owner.Export(t.Context(), vault.ExportOptions{}) {
		if want := fmt.Sprintf("row-%04d", i); err != nil || p.ID != want {
			t.Fatalf("%s, %v, want %s", p.ID, err, want)
		}
		i++
	}
	used := entries(t, v, vault.ListLogsParams{Operation: vault.OperationUse})
	page, err := v.Owner.ListLogs(t.Context(), vault.ListLogsParams{Operation: vault.OperationUse})
	if err != nil || i != n || page.Pagination.TotalItems != n || used[0].EntityType != "token" {
		t.Errorf("%d tokens and %d uses, %v, want %d", i, page.Pagination.TotalItems, err, n)
	}
	for range v.Owner.Export(t.Context(), vault.ExportOptions{}) {
		break
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var ended error
	for _, err := range v.Owner.Export(ctx, vault.ExportOptions{}) {
		cancel()
		ended = err
	}
	wantError(t, "canceled", ended, context.Canceled)
}
