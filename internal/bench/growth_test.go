package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
)

// grown are the numbers of tokens that lists and searches are measured among.
func grown() []int {
	sizes := []int{fewTokens}
	if os.Getenv("VAULT_BENCH_MILLION") != "" {
		sizes = append(sizes, 1_000_000)
	}
	if os.Getenv("VAULT_BENCH_TEN_MILLION") != "" {
		sizes = append(sizes, 10_000_000)
	}
	return sizes
}

// BenchmarkGrowth measures calls that could cost more the more tokens there are.
// The figures are medians, in milliseconds, and the goals those of the largest
// tenant.
func BenchmarkGrowth(b *testing.B) {
	each(b, func(b *testing.B, on *backend) {
		for _, n := range grown() {
			b.Run(strconv.Itoa(n), func(b *testing.B) {
				g := newGrowth(b, on, n)
				for _, c := range g.calls() {
					b.Run(c.name, func(b *testing.B) {
						report(b, figure{what: c.name, metric: "ms", backend: on.name, callers: fmt.Sprint(n, " tokens"),
							value: medianMillis(b, c.call), unit: "ms", goal: c.goal, atMost: true})
					})
				}
			})
		}
	})
}

// growth is a tenant with tokens, and two that read them: one may read all, one
// those in half of the containers.
type growth struct {
	tokens             int
	admin, all, halves *vault.Client
}

func newGrowth(b *testing.B, on *backend, tokens int) *growth {
	b.Helper()
	dsn := on.create(b)
	u := newUser(b, on.openStore(b, dsn))
	for at := 0; at < tokens; at += loadBatch {
		batch := make([]map[string]any, loadBatch)
		for i := range batch {
			batch[i] = grownToken(at + i)
		}
		text, err := json.Marshal(batch)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := u.Tokenize(b.Context(), vault.JSON(text)); err != nil {
			b.Fatal(err)
		}
	}
	if on == onPostgres { // as the server does by itself some time after so many writes
		if _, err := openPostgres(b, dsn, false).Exec("VACUUM ANALYZE"); err != nil {
			b.Fatal(err)
		}
	}
	return &growth{tokens: tokens, admin: u.vault.Tenant(uuid.UUID(u.tenant)), all: u.Client,
		halves: u.application(b, vault.ApplicationParams{Rules: []vault.AccessRule{
			{Description: "Even teams", Priority: 1, Container: "/even/", Transform: "mask", Permissions: []vault.Permission{"token:read"}},
		}})}
}

func grownToken(n int) map[string]any {
	metadata := map[string]string{"share": "rest"}
	if n%10 == 0 {
		metadata["share"] = "tenth"
	}
	if n%1000 == 0 {
		metadata["rare"] = "yes"
	}
	return map[string]any{
		"type": "token", "data": fmt.Sprintf("value %016x", rand.Uint64()), "metadata": metadata,
		"containers": []string{fmt.Sprintf("/%s/team%d/", [...]string{"even", "odd"}[n%2], n%10)},
	}
}

type growthCall struct {
	name string
	goal float64 // milliseconds; zero for none
	call func() error
}

func (g *growth) calls() []growthCall {
	ctx := context.Background()
	const size = 20
	list := func(c *vault.Client, p vault.ListTokensParams, page int) func() error {
		return func() error {
			p.Size, p.Page = size, page
			_, err := c.ListTokens(ctx, p)
			return err
		}
	}
	search := func(query string) func() error {
		return func() error {
			_, err := g.all.SearchTokens(ctx, vault.SearchTokensParams{Query: query, PageParams: vault.PageParams{Size: size}})
			return err
		}
	}
	logs := func(p vault.ListLogsParams) func() error {
		return func() error {
			p.Size = size
			_, err := g.admin.ListLogs(ctx, p)
			return err
		}
	}
	far := min(10_000, g.tokens/size/5)
	two := vault.ListTokensParams{Metadata: map[string]string{"share": "tenth", "rare": "yes"}}
	return []growthCall{
		{"ListLogs", 2, logs(vault.ListLogsParams{})},
		{"ListLogs of deletions, of which there are none", 2, logs(vault.ListLogsParams{Operation: vault.OperationDelete})},
		{"ListLogs of applications, of which there are few", 2, logs(vault.ListLogsParams{EntityType: "application"})},
		{"ListLogs of an actor that did nothing", 0, logs(vault.ListLogsParams{ActorID: uuid.New()})},
		{"ListTokens", 0, list(g.all, vault.ListTokensParams{}, 1)},
		{"ListTokens under container rules", 0, list(g.halves, vault.ListTokensParams{}, 1)},
		{"two metadata filters (1/10 and 1/1000)", 10, list(g.all, two, 1)},
		{"search metadata.share:tenth AND type:token", 10, search("metadata.share:tenth AND type:token")},
		{"search NOT metadata.share:tenth", 10, search("NOT metadata.share:tenth")},
		{"search created_at:[2026-01-01 TO *]", 10, search("created_at:[2026-01-01 TO *]")},
		{"search created_by an application without tokens", 0, search("created_by:" + uuid.NewString())},
		{"search modified_at:[2026-01-01 TO *], of which there are none", 0, search("modified_at:[2026-01-01 TO *]")},
		{"search NOT metadata.share:tenth AND NOT metadata.share:rest, of which there are none", 0, search("NOT metadata.share:tenth AND NOT metadata.share:rest")},
		{fmt.Sprint("page ", far, " of ", size), 15, list(g.all, vault.ListTokensParams{}, far)},
		{fmt.Sprint("page ", far, " of ", size, " under container rules"), 40, list(g.halves, vault.ListTokensParams{}, far)},
		{"the last page", 0, list(g.all, vault.ListTokensParams{}, g.tokens/size)},
	}
}

// medianMillis is how long a call takes, in milliseconds.
func medianMillis(b *testing.B, call func() error) float64 {
	b.Helper()
	const calls = 21
	times := make([]float64, calls)
	for i := range times {
		start := time.Now()
		if err := call(); err != nil {
			b.Fatal(err)
		}
		times[i] = float64(time.Since(start).Microseconds()) / 1000
	}
	return median(times)
}
