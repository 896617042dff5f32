package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

const (
	fewTokens = 10_000
	// matching is the number of tokens that the metadata filter finds, in small
	// and large tenants.
	matching  = 500
	loadBatch = 10_000
)

// manyTokens returns the number of tokens of the large tenant.
func manyTokens() int {
	if os.Getenv("VAULT_BENCH_MILLION") != "" {
		return 1_000_000
	}
	return 100_000
}

// BenchmarkPage reads the first page of a list and its total.
func BenchmarkPage(b *testing.B) {
	each(b, func(b *testing.B, on *backend) {
		few, many := newShelf(b, on, fewTokens), newShelf(b, on, manyTokens())
		for _, kind := range []struct {
			name string
			list func(*shelf) error
		}{
			{"plain", func(s *shelf) error { return s.list(s.all, vault.ListTokensParams{}, s.tokens) }},
			{"under container rules", func(s *shelf) error { return s.list(s.ruled, vault.ListTokensParams{}, s.tokens/2) }},
			{"with a metadata filter", func(s *shelf) error {
				return s.list(s.all, vault.ListTokensParams{Metadata: map[string]string{"batch": "wanted"}}, matching)
			}},
		} {
			b.Run(kind.name, func(b *testing.B) {
				small := &contender{name: fmt.Sprint(fewTokens), call: func() error { return kind.list(few) }}
				large := &contender{name: fmt.Sprint(many.tokens), call: func() error { return kind.list(many) }}
				race(b, 1, small, large)
				report(b, figure{what: fmt.Sprintf("page and total %s, time of %d / %d", kind.name, many.tokens, fewTokens),
					metric: "time/small", backend: on.name, callers: "1", value: small.over(large), unit: "x", goal: 2, atMost: true,
					rates: small.perSecond() + ", " + large.perSecond()})
			})
		}
	})
}

// shelf is a vault with tokens. Half of them are in containers that the rules
// of one client cover.
type shelf struct {
	tokens     int
	all, ruled *vault.Client
}

func newShelf(b *testing.B, on *backend, tokens int) *shelf {
	b.Helper()
	dsn := on.create(b)
	u := newUser(b, on.openStore(b, dsn))
	for at := 0; at < tokens; at += loadBatch {
		text, err := json.Marshal(requests(at, tokens))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := u.Tokenize(b.Context(), vault.JSON(text)); err != nil {
			b.Fatal(err)
		}
	}
	if on == onPostgres { // autovacuum would do this later
		must.Get(openPostgres(b, dsn, false).Exec("VACUUM ANALYZE vault_tokens, vault_token_hashes, vault_token_counts, vault_logs"))(b)
	}
	ruled := u.application(b, vault.ApplicationParams{Rules: []vault.AccessRule{
		{Description: "Even teams", Priority: 1, Container: "/even/", Transform: "mask", Permissions: []vault.Permission{"token:read"}},
	}})
	return &shelf{tokens: tokens, all: u.Client, ruled: ruled}
}

// requests returns the token requests of a batch that starts at token number
// at. Every second token is in a container under /even/. The filtered metadata
// is on matching tokens, distributed evenly.
func requests(at, tokens int) []map[string]any {
	every := tokens / matching
	batch := make([]map[string]any, loadBatch)
	for i := range batch {
		n := at + i
		side := [...]string{"even", "odd"}[n%2]
		wanted := fmt.Sprint("other ", n%1000)
		if n%every == 0 {
			wanted = "wanted"
		}
		batch[i] = map[string]any{
			"type": "token", "data": fmt.Sprintf("value %016x", rand.Uint64()),
			"containers": []string{fmt.Sprintf("/%s/team%d/", side, n%10)},
			"metadata":   map[string]string{"batch": wanted},
		}
	}
	return batch
}

// list reads the first page and checks its total.
func (s *shelf) list(c *vault.Client, p vault.ListTokensParams, want int) error {
	p.Size = 20
	page, err := c.ListTokens(context.Background(), p)
	if err != nil {
		return err
	}
	if len(page.Data) != p.Size || page.Pagination.TotalItems != want {
		return fmt.Errorf("bench: %d tokens of %d, want %d of %d", len(page.Data), page.Pagination.TotalItems, p.Size, want)
	}
	return nil
}
