package console_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/console"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

// benchVault is a vault in a file, with tokens.
type benchVault struct {
	*vault.Vault
	tenant *vault.Client
	rec    *console.Recorder
	tokens int
}

func newBenchVault(b *testing.B) *benchVault {
	b.Helper()
	ctx, rec := context.Background(), console.NewRecorder()
	store := must.Get(sqlite.Open(ctx, filepath.Join(b.TempDir(), "vault.db")))(b)
	v := must.Get(vault.Open(ctx, store, vault.NewKey(), &vault.Config{Observer: rec}))(b)
	b.Cleanup(func() { _ = v.Close() })
	acme := must.Get(v.CreateTenant(ctx, "Acme"))(b)
	return &benchVault{Vault: v, tenant: v.Tenant(acme.ID).Client, rec: rec}
}

// grow adds tokens until the tenant has n of them.
func (v *benchVault) grow(b *testing.B, n int) {
	b.Helper()
	for v.tokens < n {
		batch := make([]any, min(n-v.tokens, 20_000))
		for i := range batch {
			batch[i] = v.tokens + i
		}
		must.Get(v.tenant.Tokenize(context.Background(), batch))(b)
		v.tokens += len(batch)
	}
}

// BenchmarkOverview measures the database queries of the overview for several
// numbers of tokens.
func BenchmarkOverview(b *testing.B) {
	v := newBenchVault(b)
	h := console.Handler(v.Vault, &console.Options{Authorize: console.LocalOnly, Recorder: v.rec})
	for _, n := range []int{10_000, 1_000_000} {
		b.Run(fmt.Sprintf("tokens=%d", n), func(b *testing.B) {
			v.grow(b, n)
			for b.Loop() {
				tokens, err := console.Look(context.Background(), h)
				if err != nil || tokens != n {
					b.Fatal(tokens, err)
				}
			}
		})
	}
}

// BenchmarkTenScreens measures the processor time of a server, as a share of one
// processor: with and without ten open pages, and with and without callers. A
// profile shows the share of the console.
func BenchmarkTenScreens(b *testing.B) {
	for _, callers := range []int{0, 4} {
		for _, screens := range []int{0, 10} {
			b.Run(fmt.Sprintf("callers=%d/screens=%d", callers, screens), func(b *testing.B) { benchScreens(b, callers, screens) })
		}
	}
}

func benchScreens(b *testing.B, callers, screens int) {
	v := newBenchVault(b)
	v.grow(b, 10_000)
	srv := httptest.NewServer(http.StripPrefix("/console", console.Handler(v.Vault, &console.Options{Authorize: console.LocalOnly, Recorder: v.rec})))
	defer srv.Close()
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	var open []*bufio.Reader
	for range screens {
		open = append(open, openScreen(ctx, b, srv.URL+"/console/events"))
	}
	nextNews(b, open) // all are connected
	stop := v.call(ctx, b, callers)
	began, used := time.Now(), processorTime(b)
	for b.Loop() {
		if screens == 0 {
			<-time.After(2 * time.Second) // as long as a round takes
		}
		nextNews(b, open)
	}
	spent, took := processorTime(b)-used, time.Since(began)
	b.ReportMetric(100*spent.Seconds()/took.Seconds(), "%CPU")
	b.ReportMetric(float64(stop())/took.Seconds(), "calls/s")
}

// openScreen opens the stream of a page.
func openScreen(ctx context.Context, b *testing.B, address string) *bufio.Reader {
	b.Helper()
	req := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, address, nil))(b)
	res := must.Get(http.DefaultClient.Do(req))(b)
	b.Cleanup(func() { _ = res.Body.Close() })
	return bufio.NewReader(res.Body)
}

// nextNews waits until every screen has received its next news.
func nextNews(b *testing.B, open []*bufio.Reader) {
	b.Helper()
	for _, s := range open {
		for line := ""; !strings.HasPrefix(line, "event: overview"); {
			var err error
			if line, err = s.ReadString('\n'); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// call starts callers that each create a token and read it a hundred times a
// second. stop ends them and returns the number of calls.
func (v *benchVault) call(ctx context.Context, b *testing.B, callers int) (stop func() int64) {
	b.Helper()
	ctx, cancel := context.WithCancel(ctx)
	var calls atomic.Int64
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for ctx.Err() == nil {
				<-tick.C
				t, err := v.tenant.CreateToken(context.Background(), vault.TokenParams{Type: vault.TypeGeneric, Data: "x"})
				if err == nil {
					_, err = v.tenant.GetToken(context.Background(), t.ID)
				}
				if err != nil {
					b.Error(err)
					return
				}
				calls.Add(2)
			}
		})
	}
	return func() int64 {
		cancel()
		wg.Wait()
		return calls.Load()
	}
}

// processorTime returns the time that the process has used so far, for tests and
// server together.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	must.Do(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
