package console_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/console"
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
	store, err := sqlite.Open(ctx, filepath.Join(b.TempDir(), "vault.db"))
	if err != nil {
		b.Fatal(err)
	}
	v, err := vault.Open(ctx, store, vault.NewKey(), &vault.Config{Observer: rec})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = v.Close() })
	acme, err := v.CreateTenant(ctx, "Acme")
	if err != nil {
		b.Fatal(err)
	}
	return &benchVault{Vault: v, tenant: v.Tenant(acme.ID), rec: rec}
}

// grow adds tokens until there are so many.
func (v *benchVault) grow(b *testing.B, n int) {
	b.Helper()
	for v.tokens < n {
		batch := make([]any, min(n-v.tokens, 20_000))
		for i := range batch {
			batch[i] = v.tokens + i
		}
		if _, err := v.tenant.Tokenize(context.Background(), batch); err != nil {
			b.Fatal(err)
		}
		v.tokens += len(batch)
	}
}

// BenchmarkOverview is what the overview asks of the database, by how much is in
// it.
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

// BenchmarkTenScreens is the processor time that ten pages which are left open
// take, as a part of one processor.
func BenchmarkTenScreens(b *testing.B) {
	v := newBenchVault(b)
	v.grow(b, 10_000)
	srv := httptest.NewServer(http.StripPrefix("/console", console.Handler(v.Vault, &console.Options{Authorize: console.LocalOnly, Recorder: v.rec})))
	defer srv.Close()
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	var screens []*bufio.Reader
	for range 10 {
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL+"/console/events", nil)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		defer res.Body.Close()
		screens = append(screens, bufio.NewReader(res.Body))
	}
	round := func() {
		for _, s := range screens {
			for {
				line, err := s.ReadString('\n')
				if err != nil {
					b.Fatal(err)
				}
				if strings.HasPrefix(line, "event: overview") {
					break
				}
			}
		}
	}
	round() // all are connected
	began, used := time.Now(), processorTime(b)
	for b.Loop() {
		round()
	}
	b.ReportMetric(100*(processorTime(b)-used).Seconds()/time.Since(began).Seconds(), "%CPU")
}

// processorTime is what the process has used so far, tests and server together.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
