package docs_test

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/long"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
	"github.com/seed-72ea4aab/vault/storage/postgres"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// measured is the number of tokens. In the short run, pages that are not full
// weigh more.
var measured = long.Rounds(5_000, 20_000)

const (
	batch = 500 // tokens of one Tokenize
	// Pages of an index split a little differently each time.
	tolerance      = 0.20 // of one relation
	totalTolerance = 0.05
)

// cards returns n requests for card tokens with two pairs of metadata each.
func cards(from, n int) []any {
	all := make([]any, n)
	for i := range all {
		all[i] = map[string]any{
			"type":     "card",
			"data":     map[string]any{"number": luhn(fmt.Sprintf("400000%09d", from+i)), "expiration_month": 12, "expiration_year": 2030},
			"metadata": map[string]any{"customer": fmt.Sprintf("customer-%d", from+i), "region": "eu"},
		}
	}
	return all
}

// luhn appends the check digit.
func luhn(digits string) string {
	sum := 0
	for i := range digits {
		d := int(digits[len(digits)-1-i] - '0')
		if i%2 == 0 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return digits + strconv.Itoa((10-sum%10)%10)
}

// relationSizes returns the bytes of each table and index in the current schema.
// Out-of-line values count with their table.
func relationSizes(ctx context.Context, db *sql.DB) (map[string]float64, error) {
	rows, err := db.QueryContext(ctx, `SELECT c.relname, CASE WHEN c.relkind = 'r' THEN pg_table_size(c.oid) ELSE pg_relation_size(c.oid) END
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = current_schema() AND c.relkind IN ('r', 'i')`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	sizes := map[string]float64{}
	for rows.Next() {
		var name string
		var bytes float64
		if err := rows.Scan(&name, &bytes); err != nil {
			return nil, err
		}
		sizes[name] = bytes
	}
	return sizes, rows.Err()
}

// sizeRow is a row of the table: a relation, its description, and its bytes.
var sizeRow = regexp.MustCompile("(?m)^\\| `?(\\w+)`? \\|[^|]*\\| ([\\d,]+) \\|$")

// TestBytesPerToken creates tokens in PostgreSQL and compares their size with the
// table in scaling.md.
func TestBytesPerToken(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	store := must.Get(postgres.Open(t.Context(), url))(t)
	v := vaulttest.OpenStorage(t, store, nil)
	db := must.Get(sql.Open("postgres", url))(t)
	defer db.Close()
	empty := must.Get(relationSizes(t.Context(), db))(t)
	for from := 0; from < measured; from += batch {
		must.Get(v.Private.Tokenize(t.Context(), cards(from, batch)))(t)
	}
	sizes := must.Get(relationSizes(t.Context(), db))(t)
	for name, before := range empty {
		sizes[name] -= before
	}
	documented := map[string]float64{}
	for _, m := range sizeRow.FindAllStringSubmatch(readText(t, "scaling.md"), -1) {
		documented[m[1]], _ = strconv.ParseFloat(strings.ReplaceAll(m[2], ",", ""), 64)
	}
	compareSizes(t, sizes, documented)
}

// compareSizes compares the bytes per token of each relation that grows with the
// tokens, and the total.
func compareSizes(t *testing.T, sizes, documented map[string]float64) {
	t.Helper()
	total := 0.0
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		perToken := sizes[name] / float64(measured)
		if perToken < 4 { // a page or two
			continue
		}
		total += perToken
		t.Logf("%-24s %6.0f", name, perToken)
		if math.Abs(perToken-documented[name]) > tolerance*perToken {
			t.Errorf("%s takes %.0f bytes per token, scaling.md says %.0f", name, perToken, documented[name])
		}
	}
	t.Logf("%-24s %6.0f", "total", total)
	if math.Abs(total-documented["total"]) > totalTolerance*total {
		t.Errorf("a token takes %.0f bytes, scaling.md says %.0f", total, documented["total"])
	}
}
