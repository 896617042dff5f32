//go:build long && unix

package faults

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/long"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/jsruntime"
)

// TestEverythingAtOnce does everything at once for half an hour, while one tenant sends
// more than its share. Memory, goroutines, files, connections and the latency of the
// other tenant must not grow: the slope of each, less twice its standard error, is
// below a limit.
//
//	go test -tags long -run TestEverythingAtOnce/sqlite -timeout 0 ./internal/test/faults -v
func TestEverythingAtOnce(t *testing.T) {
	for name, newDSN := range backends {
		t.Run(name, func(t *testing.T) { everythingAtOnce(t, newDSN(t)) })
	}
}

// busy is a vault on which everything happens.
type busy struct {
	*testing.T
	v            *vault.Vault
	calm, greedy *vault.Owner
	reactor      uuid.UUID
	proxy        string
	public       *vault.Client
	url          string
	done         atomic.Int64
	sent         atomic.Int64
	sink         atomic.Int64

	mu   sync.Mutex
	took []time.Duration // of the calm tenant's creates and reads, since the last sample
}

func everythingAtOnce(t *testing.T, dsn string) {
	b := &busy{T: t}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { b.sent.Add(1) }))
	defer server.Close()
	b.url = server.URL
	b.v = openVault(t, dsn, vault.NewKey(), &vault.Config{
		Runtime: jsruntime.New(nil), SweepEvery: time.Second, WorkEvery: 100 * time.Millisecond,
		Egress:   vault.EgressPolicy{AllowHTTP: true, AllowPrivate: true},
		Evidence: &vault.EvidenceConfig{Every: 2 * time.Second, Anchors: []vault.Anchor{vault.AnchorFile(t.TempDir() + "/notes")}},
		Sinks:    []vault.Sink{{Name: "siem", Sender: counted{&b.sink}, FromStart: true}},
	})
	b.enroll()
	ctx, stop := context.WithTimeout(t.Context(), long.Time(30*time.Minute))
	defer stop()
	var work sync.WaitGroup
	for _, do := range b.work() {
		work.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				if err := do(ctx, n); err != nil && ctx.Err() == nil && !expected(err) {
					t.Errorf("%v", err)
					return
				}
				b.done.Add(1)
			}
		})
	}
	samples := b.sample(ctx)
	work.Wait()
	must.Same(t, "alarms", 0, len(must.Get(b.v.EvidenceStatus())(t).Alarms))
	b.judge(samples)
}

// counted is a sink that counts batches.
type counted struct{ n *atomic.Int64 }

// Send implements vault.LogSender.
func (c counted) Send(context.Context, []byte, string) error {
	c.n.Add(1)
	return nil
}

// expected reports whether a busy vault may return an error.
func expected(err error) bool {
	return errors.Is(err, vault.ErrUnavailable) || errors.Is(err, vault.ErrBusy) || errors.Is(err, vault.ErrNotFound)
}

func (b *busy) enroll() {
	b.Helper()
	owner := func(name string) *vault.Owner { return b.v.Tenant(must.Get(b.v.CreateTenant(b.Context(), name))(b).ID) }
	b.calm, b.greedy = owner("calm"), owner("greedy")
	b.reactor = must.Get(b.calm.CreateReactor(b.Context(), vault.ReactorParams{Name: "r", Code: "module.exports = (r) => ({raw: r.args})"}))(b).ID
	b.proxy = must.Get(b.calm.CreateProxy(b.Context(), vault.ProxyParams{Name: "p", DestinationURL: b.url}))(b).Key
	app := must.Get(b.calm.CreateApplication(b.Context(), vault.ApplicationParams{Name: "page", Type: vault.ApplicationPublic, Permissions: []vault.Permission{"token:create"}}))(b)
	b.public = must.Get(b.v.Authenticate(b.Context(), app.Key))(b)
}

// work returns what happens at once. It takes the same share of the time from the
// beginning to the end: tokens expire, and a verification ends after two seconds. Only the
// log grows.
func (b *busy) work() []func(ctx context.Context, n int) error {
	token := func(n int) vault.TokenParams {
		return vault.TokenParams{Type: vault.TypeGeneric, Data: fmt.Sprint("value ", n), ExpiresAt: time.Now().Add(20 * time.Second)}
	}
	return []func(ctx context.Context, n int) error{
		b.measured(func(ctx context.Context, n int) error {
			tok, err := b.calm.CreateToken(ctx, token(n))
			if err == nil {
				_, err = b.calm.GetToken(ctx, tok.ID)
			}
			return err
		}),
		func(ctx context.Context, n int) error {
			_, err := b.calm.React(ctx, b.reactor, vault.ReactParams{Args: map[string]int{"n": n}})
			return err
		},
		func(ctx context.Context, n int) error {
			_, err := b.calm.ReactAsync(ctx, b.reactor, vault.ReactParams{Args: map[string]int{"n": n}, CallbackURL: b.url})
			return first(err, pause(ctx, 50*time.Millisecond))
		},
		func(ctx context.Context, _ int) error {
			s, err := b.public.CreateSession(ctx)
			if err != nil {
				return err
			}
			err = b.calm.AuthorizeSession(ctx, vault.SessionGrant{Nonce: s.Nonce, Permissions: []vault.Permission{"token:read"}, ExpiresAt: time.Now().Add(20 * time.Second)})
			return first(err, pause(ctx, 50*time.Millisecond))
		},
		func(ctx context.Context, _ int) error {
			res, err := b.calm.InvokeProxy(ctx, vault.ProxyCall{Key: b.proxy, Method: http.MethodPost})
			if err == nil {
				err = res.Body.Close()
			}
			return first(err, pause(ctx, 20*time.Millisecond))
		},
		func(ctx context.Context, _ int) error {
			return first(b.v.RotateDataKeys(ctx, b.calm.TenantID(), nil), pause(ctx, time.Second))
		},
		func(ctx context.Context, _ int) error {
			part, stop := context.WithTimeout(ctx, 2*time.Second)
			defer stop()
			report, err := b.v.VerifyLogs(part, nil)
			if err == nil && !report.OK() {
				err = fmt.Errorf("the evidence does not verify: %v", report.Findings)
			}
			if errors.Is(err, context.DeadlineExceeded) {
				err = nil
			}
			return first(err, pause(ctx, 8*time.Second))
		},
		b.greed(token), b.greed(token), b.greed(token), b.greed(token),
	}
}

// greed is the work of the tenant that misbehaves: batches, and pages of everything.
func (b *busy) greed(token func(int) vault.TokenParams) func(ctx context.Context, n int) error {
	return func(ctx context.Context, n int) error {
		var doc []any
		for i := range 200 {
			doc = append(doc, map[string]any{"type": "token", "data": fmt.Sprint(n, " ", i), "expires_at": token(n).ExpiresAt})
		}
		if _, err := b.greedy.Tokenize(ctx, doc); err != nil {
			return err
		}
		_, err := b.greedy.ListTokens(ctx, vault.ListTokensParams{PageParams: vault.PageParams{Size: 100}})
		return first(err, pause(ctx, 100*time.Millisecond))
	}
}

// measured notes how long work takes.
func (b *busy) measured(do func(context.Context, int) error) func(context.Context, int) error {
	return func(ctx context.Context, n int) error {
		began := time.Now()
		err := do(ctx, n)
		b.mu.Lock()
		b.took = append(b.took, time.Since(began))
		b.mu.Unlock()
		return first(err, pause(ctx, 5*time.Millisecond))
	}
}

// first returns the first error.
func first(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	return nil
}

// figures are what must not grow, in the order of a sample.
var figures = []struct {
	name  string
	limit float64 // growth in an hour, as a share of the mean
}{{"MB of heap", 0.5}, {"goroutines", 0.3}, {"files", 0.3}, {"connections", 0.3}, {"ms at p50", 0.5}, {"ms at p99", 1}}

// sample looks at the figures every five seconds, after a sixth of the time, in which
// pools and workers start.
func (b *busy) sample(ctx context.Context) (all [][]float64) {
	began, every, warm := time.Now(), 5*time.Second, long.Time(30*time.Minute)/6
	for pause(ctx, every); ctx.Err() == nil; pause(ctx, every) {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		files, _ := os.ReadDir("/dev/fd")
		open := 0
		for _, p := range b.v.Pools() {
			open += p.OpenConnections
		}
		b.mu.Lock()
		took := b.took
		b.took = nil
		b.mu.Unlock()
		slices.Sort(took)
		ms := func(share float64) float64 {
			if len(took) == 0 {
				return math.NaN()
			}
			return float64(took[int(share*float64(len(took)-1))].Microseconds()) / 1000
		}
		x := []float64{time.Since(began).Hours(), float64(m.HeapAlloc) / 1e6, float64(runtime.NumGoroutine()), float64(len(files)), float64(open), ms(0.5), ms(0.99)}
		if time.Since(began) > warm && !math.IsNaN(x[5]) {
			all = append(all, x)
		}
		if len(all)%6 == 1 {
			fmt.Fprintf(os.Stderr, "%s: %d operations, %d requests sent, %d batches of the sink; %.2f\n", time.Since(began).Round(time.Second), b.done.Load(), b.sent.Load(), b.sink.Load(), x[1:])
		}
	}
	return all
}

// judge fits a line to each figure.
func (b *busy) judge(samples [][]float64) {
	b.Helper()
	if len(samples) < 10 {
		b.Fatalf("%d samples", len(samples))
	}
	for i, f := range figures {
		mean, slope, deviation := line(samples, i+1)
		b.Logf("%-12s %8.2f, slope %+.2f ± %.2f an hour", f.name, mean, slope, deviation)
		if slope-2*deviation > f.limit*mean {
			b.Errorf("%s grow by %.2f ± %.2f an hour, and are %.2f", f.name, slope, deviation, mean)
		}
	}
	b.Logf("%d operations, %d requests sent, %d batches of the sink, %d samples", b.done.Load(), b.sent.Load(), b.sink.Load(), len(samples))
}

// line returns the mean of a column, its slope over the first column, and the standard
// error of the slope.
func line(rows [][]float64, column int) (mean, slope, deviation float64) {
	var n, sx, sy float64
	for _, r := range rows {
		n, sx, sy = n+1, sx+r[0], sy+r[column]
	}
	mx, my := sx/n, sy/n
	var sxx, sxy float64
	for _, r := range rows {
		sxx, sxy = sxx+(r[0]-mx)*(r[0]-mx), sxy+(r[0]-mx)*(r[column]-my)
	}
	slope = sxy / sxx
	var rest float64
	for _, r := range rows {
		d := r[column] - my - slope*(r[0]-mx)
		rest += d * d
	}
	return my, slope, math.Sqrt(rest / (n - 2) / sxx)
}
