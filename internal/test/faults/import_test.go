package faults

import (
	"bufio"
	"context"
	"fmt"
	"iter"
	"os"
	"strconv"
	"testing"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/long"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// The environment variables with the first and the last row that a child
// imports.
const (
	childImport     = "VAULT_FAULTS_IMPORT"
	childImportLast = "VAULT_FAULTS_IMPORT_LAST"
)

// importedRows is the number of rows of the import, by backend.
var importedRows = map[string]int{"sqlite": long.Rounds(5000, 200_000), "postgres": long.Rounds(5000, 50_000), "citus": long.Rounds(5000, 20_000)}

// savedEvery is how many rows a killed import repeats.
var savedEvery = long.Rounds(300, 3000)

// fileFrom returns rows of a file. Every second row has an id.
func fileFrom(first, last int) iter.Seq2[vault.TokenParams, error] {
	return func(yield func(vault.TokenParams, error) bool) {
		for row := first; row <= last; row++ {
			p := vault.TokenParams{Type: vault.TypeGeneric, Data: row, SearchIndexes: []string{}}
			if row%2 == 0 {
				p.ID = fmt.Sprintf("row-%d", row)
			}
			if !yield(p, nil) {
				return
			}
		}
	}
}

// importUntilKilled imports a file from a row on. It prints the number of each
// row that has its result.
func importUntilKilled(ctx context.Context, dsn string) error {
	v, err := openInChild(ctx, dsn, quietNode)
	if err != nil {
		return err
	}
	defer v.Close()
	first, err := strconv.Atoi(os.Getenv(childImport))
	if err != nil {
		return err
	}
	last, err := strconv.Atoi(os.Getenv(childImportLast))
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(os.Stdout, 64)
	opts := &vault.ImportOptions{Name: "the file", FirstRow: first, Resumed: true}
	for r, err := range v.Tenant(uuid.MustParse(os.Getenv(childTenant))).Import(ctx, fileFrom(first, last), opts) {
		if err != nil || r.Outcome == vault.ImportFailed {
			return fmt.Errorf("row %d: %w, %w", r.Row, err, r.Err)
		}
		fmt.Fprintln(out, r.Row)
	}
	return out.Flush()
}

// TestImportSurvivesKills kills an import several times. Each new import starts
// some rows before the last result, as if progress were saved now and then. At
// the end there is exactly one token for each row.
func TestImportSurvivesKills(t *testing.T) {
	t.Parallel()
	onEach(t, backends, func(t *testing.T, name, dsn string) {
		key := vault.NewKey()
		v := openVault(t, dsn, key, &vault.Config{SweepEvery: -1, WorkEvery: -1})
		tenant := must.Get(v.CreateTenant(t.Context(), "Acme"))(t)
		saved, rows := 0, importedRows[name]
		for _, kill := range []int{1000, rows/2 - 321, rows} {
			c := startChild(t, dsn, key, childTenant+"="+tenant.ID.String(),
				childImport+"="+strconv.Itoa(saved+1), childImportLast+"="+strconv.Itoa(rows))
			lines, _ := c.killWhen(t, func(lines []string) bool { // the child ends on its own after the last row
				return kill < rows && lines[len(lines)-1] == strconv.Itoa(kill)
			})
			reached := must.Get(strconv.Atoi(lines[len(lines)-1]))(t)
			if reached < kill {
				t.Fatalf("the child exited on its own at row %d", reached)
			}
			saved = max(0, reached-savedEvery)
		}
		wantImported(t, v.Tenant(tenant.ID), rows)
	})
}

// wantImported counts the tokens. Every row had a result, so an equal number of
// tokens means that no row was stored twice.
func wantImported(t *testing.T, c *vault.Owner, rows int) {
	t.Helper()
	stats := must.Get(c.Stats(t.Context()))(t)
	page := must.Get(c.ListTokens(t.Context(), vault.ListTokensParams{}))(t)
	if n := page.Pagination.TotalItems; stats.Tokens != rows || n != rows {
		t.Errorf("%d tokens in the statistics and %d in the list, want %d", stats.Tokens, n, rows)
	}
	for _, row := range []int{2, 1000, rows / 4 * 2, rows} {
		must.Match(t, fmt.Sprintf("row %d", row), must.Err(c.GetToken(t.Context(), fmt.Sprintf("row-%d", row))), nil)
	}
}
