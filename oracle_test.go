package vault_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// A caller with token:create gives guesses of a stored value the id of its own
// token, so that nothing can be created. A hit must look like a miss, for every way
// in which a row can be refused.
func TestRefusedTokensTellNothingAboutValues(t *testing.T) {
	t.Parallel()
	const secret, guess = "4242424242424242", "4111111111111111"
	yes := true
	for name, refused := range map[string]func(*vault.TokenParams){
		"taken id": func(p *vault.TokenParams) { p.ID = "taken" },
		"id expression": func(p *vault.TokenParams) {
			p.ID = "{{ data }}"
		},
		"size": func(p *vault.TokenParams) { p.Mask = strings.Repeat("x", 5<<20) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := vaulttest.New(t)
			create(t, v.Owner.Client, vault.TokenParams{ID: "secret", Type: vault.TypeCardNumber, Data: secret})
			blind := holding(t, v, "token:create")
			create(t, blind, aText("taken", "x"))
			row := func(number string) vault.TokenParams {
				p := vault.TokenParams{Type: vault.TypeCardNumber, Data: number, DeduplicateToken: &yes}
				refused(&p)
				return p
			}
			hit, miss := imported(t, blind, rowsOf(row(secret)), nil), imported(t, blind, rowsOf(row(guess)), nil)
			if diff := cmp.Diff(outcomes(miss), outcomes(hit)); diff != "" || hit[0].Outcome != vault.ImportFailed {
				t.Errorf("import (-miss +hit):\n%s%v", diff, outcomes(hit))
			}
			_, missed := blind.CreateToken(t.Context(), row(guess))
			if _, err := blind.CreateToken(t.Context(), row(secret)); fmt.Sprint(err) != fmt.Sprint(missed) || err == nil {
				t.Errorf("create: a hit is %v, a miss %v", err, missed)
			}
			_, missed = blind.Tokenize(t.Context(), []any{row(guess)})
			if _, err := blind.Tokenize(t.Context(), []any{row(secret)}); fmt.Sprint(err) != fmt.Sprint(missed) || err == nil {
				t.Errorf("tokenize: a hit is %v, a miss %v", err, missed)
			}
			if diff := cmp.Diff([]string{"create"}, operations(t, v, "secret")); diff != "" {
				t.Errorf("log (-want +got):\n%s", diff)
			}
		})
	}
}

// Each batch with refused or skipped rows has an entry in the log that counts
// them, since those rows leave no other.
func TestImportLogsRefusedAndSkippedRows(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	create(t, v.Owner.Client, aText("there", "x"))
	blind := holding(t, v, "token:create")
	var rows []vault.TokenParams
	for i := range 1200 {
		rows = append(rows, aText("there", fmt.Sprint("guess ", i)))
	}
	imported(t, blind, rowsOf(rows...), nil)
	imported(t, blind, rowsOf(aText("there", "x"), aText("new", "x"), vault.TokenParams{}), &vault.ImportOptions{OnDuplicate: vault.DuplicateSkips})
	imported(t, blind, rowsOf(aText("newer", "x")), nil)
	var got []string
	for _, e := range entries(t, v, vault.ListLogsParams{Operation: vault.OperationImport}) {
		if e.ActorID != blind.ApplicationID() || e.EntityType != "tenant" || e.EntityID != v.Acme.ID.String() {
			t.Errorf("%+v", e)
		}
		got = append(got, e.Message)
	}
	want := []string{
		"Import: of 1000 rows 1000 refused, 0 skipped",
		"Import: of 200 rows 200 refused, 0 skipped",
		"Import: of 3 rows 1 refused, 1 skipped",
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
