//go:build !race

package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
)

// grown returns the numbers of tokens among which lists and searches are
// measured.
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

// BenchmarkGrowth measures calls that could become slower with the number of
// tokens. The figures are medians in milliseconds. The goals are for the
// largest tenant. The last page should take as long as the first. The goal is
// twice that time, because it is so short.
func BenchmarkGrowth(b *testing.B) {
	each(b, func(b *testing.B, on *backend) {
		for _, n := range grown() {
			b.Run(strconv.Itoa(n), func(b *testing.B) {
				g := newGrowth(b, on, n)
				first := 0.0
				for _, c := range g.calls() {
					b.Run(c.name, func(b *testing.B) {
						took := medianMillis(b, grownCalls, c.call)
						switch c.name {
						case firstPage:
							first = took
						case lastPage:
							c.goal = 2 * first
						}
						report(b, figure{what: c.name, metric: "ms", backend: on.name, callers: fmt.Sprint(n, " tokens"),
							value: took, unit: "ms", goal: c.goal, atMost: true})
					})
				}
			})
		}
	})
}

const (
	firstPage = "the first page"
	lastPage  = "the last page"
)

// growth is a tenant with tokens and two clients that read them: all may read
// every token, halves only half of the containers.
type growth struct {
	tokens             int
	admin, all, halves *vault.Client
}

func newGrowth(b *testing.B, on *backend, tokens int) *growth {
	b.Helper()
	dsn := on.create(b)
	u := newUser(b, on.openStore(b, dsn))
	u.load(b, tokens)
	if on.name == onPostgres.name { // autovacuum would do this later
		must.Get(openPostgres(b, dsn, false).Exec("VACUUM ANALYZE"))(b)
	}
	return growthOf(b, u, tokens)
}

// growthOf returns the clients of a tenant with tokens.
func growthOf(b *testing.B, u *user, tokens int) *growth {
	b.Helper()
	return &growth{tokens: tokens, admin: u.vault.Tenant(uuid.UUID(u.tenant)).Client, all: u.Client,
		halves: u.application(b, vault.ApplicationParams{Rules: []vault.AccessRule{
			{Description: "Even teams", Priority: 1, Container: "/even/", Transform: "mask", Permissions: []vault.Permission{"token:read"}},
		}})}
}

// load creates tokens in batches, with one goroutine per processor: one batch
// is sealed while another is written.
func (u *user) load(b *testing.B, tokens int) {
	b.Helper()
	batches := make(chan int)
	var loaders sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		loaders.Go(func() {
			for at := range batches {
				must.Match(b, "loadBatch", u.loadBatch(b.Context(), at), nil)
			}
		})
	}
	for at := 0; at < tokens && !b.Failed(); at += loadBatch {
		batches <- at
	}
	close(batches)
	loaders.Wait()
	if b.Failed() {
		b.FailNow()
	}
}

func (u *user) loadBatch(ctx context.Context, at int) error {
	batch := make([]map[string]any, loadBatch)
	for i := range batch {
		batch[i] = grownToken(at + i)
	}
	text, err := json.Marshal(batch)
	if err != nil {
		return err
	}
	_, err = u.Tokenize(ctx, vault.JSON(text))
	return err
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

const (
	fewTokens  = 10_000
	loadBatch  = 10_000
	grownPage  = 20 // items in a page
	grownCalls = 21
)

func (g *growth) calls() []growthCall {
	n := g.tokens
	far := min(10_000, n/grownPage/5)
	all := vault.ListTokensParams{}
	one := vault.ListTokensParams{Metadata: map[string]string{"share": "tenth"}}
	two := vault.ListTokensParams{Metadata: map[string]string{"share": "tenth", "rare": "yes"}}
	return []growthCall{
		{"ListLogs, first page", 2, g.logs(vault.ListLogsParams{}, n)},
		{"ListLogs of deletions, of which there are none", 2, g.logs(vault.ListLogsParams{Operation: vault.OperationDelete}, 0)},
		{"ListLogs of applications, of which there are few", 2, g.logs(vault.ListLogsParams{EntityType: "application"}, 1)},
		{"ListLogs of an actor that did nothing", 0, g.logs(vault.ListLogsParams{ActorID: uuid.New()}, 0)},
		{firstPage, 0, g.list(g.all, all, 1, n)},
		{"the first page under container rules", 0, g.list(g.halves, all, 1, n/2)},
		{"a metadata filter (1/10)", 0, g.list(g.all, one, 1, min(n/10, 10_000))},
		{"a metadata filter (1/10) under container rules", 0, g.list(g.halves, one, 1, min(n/10, 10_000))},
		{"two metadata filters (1/10 and 1/1000)", 10, g.list(g.all, two, 1, n/1000)},
		{"search metadata.share:tenth AND type:token", 10, g.search("metadata.share:tenth AND type:token", n/10)},
		{"search NOT metadata.share:tenth", 10, g.search("NOT metadata.share:tenth", n-n/10)},
		{"search created_at:[2026-01-01 TO *]", 10, g.search("created_at:[2026-01-01 TO *]", n)},
		{"search created_by an application without tokens", 0, g.search("created_by:"+uuid.NewString(), 0)},
		{"search modified_at:[2026-01-01 TO *], of which there are none", 0, g.search("modified_at:[2026-01-01 TO *]", 0)},
		{"search NOT metadata.share:tenth AND NOT metadata.share:rest, of which there are none", 0, g.search("NOT metadata.share:tenth AND NOT metadata.share:rest", 0)},
		{fmt.Sprint("page ", far, " of ", grownPage), 15, g.list(g.all, all, far, n)},
		{fmt.Sprint("page ", far, " of ", grownPage, " under container rules"), 40, g.list(g.halves, all, far, n/2)},
		{lastPage, 0, g.list(g.all, all, n/grownPage, n)},
	}
}

// logs reads the first page of a log list that must have at least this many
// entries.
func (g *growth) logs(p vault.ListLogsParams, least int) func() error {
	p.Size = grownPage
	return func() error {
		page, err := g.admin.ListLogs(context.Background(), p)
		if err == nil && (len(page.Data) != min(grownPage, page.Pagination.TotalItems) || page.Pagination.TotalItems < least) {
			err = fmt.Errorf("bench: %d entries of %d", len(page.Data), page.Pagination.TotalItems)
		}
		return err
	}
}

// list reads a page of a list that must have total tokens.
func (g *growth) list(c *vault.Client, p vault.ListTokensParams, number, total int) func() error {
	p.Size, p.Page = grownPage, number
	return func() error {
		page, err := c.ListTokens(context.Background(), p)
		return checked(page, err, total)
	}
}

// search reads the first page of a search that must find this many tokens. At
// most 10,000 are counted.
func (g *growth) search(query string, found int) func() error {
	p := vault.SearchTokensParams{Query: query, PageParams: vault.PageParams{Size: grownPage}}
	return func() error {
		page, err := g.all.SearchTokens(context.Background(), p)
		return checked(page, err, min(found, 10_000))
	}
}

// checked checks that a page has the right total, and is full unless the total
// is smaller.
func checked(page *vault.Page[vault.Token], err error, total int) error {
	if err == nil && (len(page.Data) != min(grownPage, total) || page.Pagination.TotalItems != total) {
		err = fmt.Errorf("bench: %d tokens of %d, want %d of %d", len(page.Data), page.Pagination.TotalItems, min(grownPage, total), total)
	}
	return err
}

// medianMillis returns the median duration of a call in milliseconds. Slow
// calls are repeated less often.
func medianMillis(b *testing.B, calls int, call func() error) float64 {
	b.Helper()
	const enough, most = 3, 2 * time.Second
	var times []float64
	for all := time.Now(); len(times) < enough || len(times) < calls && time.Since(all) < most; {
		start := time.Now()
		if err := call(); err != nil && !errors.Is(err, storage.ErrSlow) { // the time up to the limit counts
			b.Fatal(err)
		}
		times = append(times, float64(time.Since(start).Microseconds())/1000)
	}
	return median(times)
}
