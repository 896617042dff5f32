package faults

import (
	"bufio"
	"context"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/long"
)

// A child gets the number of the row from which it imports on, and that of the
// last.
const (
	childImport     = "VAULT_FAULTS_IMPORT"
	childImportLast = "VAULT_FAULTS_IMPORT_LAST"
)

// importedRows is how many rows an import has that is killed.
var importedRows = map[string]int{"sqlite": long.Rounds(5000, 200_000), "postgres": long.Rounds(5000, 50_000), "citus": long.Rounds(5000, 20_000)}

// savedEvery is how far back an import goes on that was killed.
var savedEvery = long.Rounds(300, 3000)

// fileFrom are rows of a file. Some have an id, others get one.
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

// importUntilKilled imports a file from a row on, and prints the number of each
// row when it has its result.
func importUntilKilled(dsn string) error {
	ctx := context.Background()
	key, err := vault.ParseKey(os.Getenv(childKey))
	if err != nil {
		return err
	}
	store, err := openStore(ctx, dsn)
	if err != nil {
		return err
	}
	v, err := vault.Open(ctx, store, key, &vault.Config{WorkEvery: -1, SweepEvery: -1})
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

// TestImportSurvivesKills kills an import again and again. Each time it goes on
// from a row that it had given the result of, some way back, as one that was saved
// every so often. In the end there is a token for each row, and no other.
func TestImportSurvivesKills(t *testing.T) {
	t.Parallel()
	for name, newDSN := range backends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn, key := newDSN(t), vault.NewKey()
			v := openVault(t, dsn, key, &vault.Config{SweepEvery: -1, WorkEvery: -1})
			tenant, err := v.CreateTenant(t.Context(), "Acme")
			if err != nil {
				t.Fatal(err)
			}
			saved, rows := 0, importedRows[name]
			for _, kill := range []int{1000, rows/2 - 321, rows} {
				reached := importAndKill(t, childImport+"="+strconv.Itoa(saved+1), childImportLast+"="+strconv.Itoa(rows),
					kill, childDSN+"="+dsn, childKey+"="+key.Text(), childTenant+"="+tenant.ID.String())
				if reached < kill {
					t.Fatalf("the child stopped by itself at row %d", reached)
				}
				saved = max(0, reached-savedEvery)
			}
			wantImported(t, v.Tenant(tenant.ID), rows)
		})
	}
}

// importAndKill runs a child, kills it when it has reached a row, and returns which
// one that was. One that is to reach the last row has come to its end by then.
func importAndKill(t *testing.T, first, last string, kill int, env ...string) (reached int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(append(os.Environ(), first, last), env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			break // a line that was cut off says nothing
		}
		if reached, err = strconv.Atoi(strings.TrimSpace(line)); err != nil {
			t.Fatal(err)
		}
		if reached == kill && !strings.HasSuffix(last, "="+strconv.Itoa(kill)) {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait()
	return reached
}

// wantImported counts the tokens. Each row had a result, so as many as there are
// rows means that none was stored twice.
func wantImported(t *testing.T, c *vault.Owner, rows int) {
	t.Helper()
	stats, err := c.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	page, err := c.ListTokens(t.Context(), vault.ListTokensParams{})
	if err != nil {
		t.Fatal(err)
	}
	if n := page.Pagination.TotalItems; stats.Tokens != rows || n != rows {
		t.Errorf("%d tokens by the figures and %d by the list, want %d", stats.Tokens, n, rows)
	}
	for _, row := range []int{2, 1000, rows / 4 * 2, rows} {
		if _, err := c.GetToken(t.Context(), fmt.Sprintf("row-%d", row)); err != nil {
			t.Errorf("row %d: %v", row, err)
		}
	}
}
