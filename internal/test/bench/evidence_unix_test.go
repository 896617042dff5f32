//go:build unix && !race

package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

const (
	evidenceRounds = 6
	evidenceTime   = 3 * time.Second // of a round
	// verifyPiece is how many tokens are created at once for a long log.
	verifyPiece = 20_000
)

// BenchmarkEvidence compares creates and reads with evidence to those without: rates,
// and CPU time of this process and of PostgreSQL. With evidence, the entries are
// sequenced once a second beside the calls, as always, and a note is signed at the
// end of each round. Its time counts, so all of the work falls into the contender's
// own rounds.
func BenchmarkEvidence(b *testing.B) {
	eachCount(b, func(b *testing.B, on *backend, callers int) {
		without, with := newLogged(b, on, nil), newLogged(b, on, &vault.EvidenceConfig{})
		for _, op := range []string{"CreateToken", "GetToken"} {
			b.Run(op, func(b *testing.B) {
				both := []*loggedCalls{without.calls(b, op, "without"), with.calls(b, op, "with evidence")}
				warmUp(b, &both[0].contender, &both[1].contender)
				for round := range evidenceRounds {
					for i := range both {
						both[(i+round)%2].round(b, callers)
					}
				}
				off, on := both[0], both[1]
				report(b, figure{what: op + " with evidence / without", metric: "x/without", backend: with.on.name, callers: strconv.Itoa(callers),
					value: on.over(&off.contender), unit: "x", goal: 0.95, rates: on.perSecond() + ", " + off.perSecond()})
				report(b, figure{what: "CPU time of " + op + ", with evidence / without", metric: "x/cpu", backend: with.on.name, callers: strconv.Itoa(callers),
					value: (median(on.here) + median(on.there)) / (median(off.here) + median(off.there)), unit: "x", goal: 1.05, atMost: true, rates: on.cpu() + "; " + off.cpu()})
			})
		}
	})
}

// logged is a vault with or without evidence.
type logged struct {
	*user
	on       *backend
	served   *served // nil on SQLite
	evidence bool
}

func newLogged(b *testing.B, on *backend, evidence *vault.EvidenceConfig) *logged {
	b.Helper()
	l, dsn := &logged{on: on, evidence: evidence != nil}, on.create(b)
	if on == onPostgres {
		dsn += fmt.Sprintf("&application_name=vault_evidence_%t", l.evidence)
		l.served = &served{dsn: dsn}
	}
	l.user = newUserWith(b, on.openStore(b, dsn), &vault.Config{Evidence: evidence})
	return l
}

// loggedCalls are calls on such a vault, with the CPU time of each round per call in
// microseconds.
type loggedCalls struct {
	contender
	vault       *logged
	here, there []float64 // this process, PostgreSQL
}

func (l *logged) calls(b *testing.B, op, name string) *loggedCalls {
	b.Helper()
	ctx := b.Context()
	c := &loggedCalls{vault: l, contender: contender{name: name, call: func() error { return createCard(ctx, l.Client) }}}
	if op == "GetToken" {
		ids, next := createGeneric(b, l.Client, 1000), atomic.Int64{}
		c.call = func() error {
			_, err := l.GetToken(ctx, ids[next.Add(1)%int64(len(ids))])
			return err
		}
	}
	l.sign(b)
	return c
}

func (c *loggedCalls) cpu() string {
	return fmt.Sprintf("%s %.0f + %.0f µs", c.name, median(c.here), median(c.there))
}

// round runs one round. It counts the time of signing a note.
func (c *loggedCalls) round(b *testing.B, callers int) {
	b.Helper()
	here, there := cpuTime(b), c.vault.served.nanoseconds(b)
	rate := must.Get(c.run(callers, evidenceTime))(b)
	calls, start := rate*evidenceTime.Seconds(), time.Now()
	c.vault.sign(b)
	c.rates = append(c.rates, calls/(evidenceTime+time.Since(start)).Seconds())
	c.here = append(c.here, float64((cpuTime(b)-here).Microseconds())/calls)
	c.there = append(c.there, float64(c.vault.served.nanoseconds(b)-there)/1e3/calls)
}

// sign sequences all entries and signs a note, with evidence.
func (l *logged) sign(b *testing.B) {
	b.Helper()
	if !l.evidence {
		return
	}
	must.Get(l.vault.Checkpoint(b.Context()))(b)
}

// cpuTime returns the CPU time that the process has used.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	must.Do(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkEvidenceLag measures how far the trees are behind the log under 32 callers.
func BenchmarkEvidenceLag(b *testing.B) {
	each(b, func(b *testing.B, on *backend) {
		u := newUserWith(b, on.openStore(b, on.create(b)), &vault.Config{Evidence: &vault.EvidenceConfig{}})
		c := &contender{name: "create", call: func() error { return createCard(context.Background(), u.Client) }}
		done := make(chan error, 1)
		go func() {
			_, err := c.run(32, 15*time.Second)
			done <- err
		}()
		var lags []time.Duration
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for running := true; running; {
			select {
			case err := <-done:
				if running = false; err != nil {
					b.Fatal(err)
				}
			case <-tick.C:
				s := must.Get(u.vault.EvidenceStatus())(b)
				lags = append(lags, s.Lag)
			}
		}
		slices.Sort(lags)
		report(b, figure{what: "lag of the trees, p99", metric: "s", backend: on.name, callers: "32",
			value: lags[len(lags)*99/100].Seconds(), unit: "s", goal: 2, atMost: true})
	})
}

// BenchmarkVerifyLogs verifies a log of VAULT_BENCH_ROWS entries, in place and from
// its bundle.
func BenchmarkVerifyLogs(b *testing.B) {
	each(b, func(b *testing.B, on *backend) {
		entries := rowsToMove(b)
		u := newUserWith(b, on.openStore(b, on.create(b)), &vault.Config{Evidence: &vault.EvidenceConfig{Every: -1}})
		for n := 0; n < entries; n += verifyPiece {
			createGeneric(b, u.Client, verifyPiece)
		}
		must.Get(u.vault.Checkpoint(b.Context()))(b)
		verified := func(what string, verify func() (*evidence.Report, error)) {
			heap := watchHeap()
			start := time.Now()
			r, err := verify()
			took := time.Since(start)
			report(b, figure{what: fmt.Sprintf("peak heap of verifying %d entries %s", entries, what), metric: "MiB/" + what, backend: on.name, callers: "1",
				value: float64(heap()) / (1 << 20), unit: "MiB", goal: 64, atMost: true})
			if err != nil || !r.OK() || r.Entries < int64(entries) {
				b.Fatal(r, err)
			}
			report(b, figure{what: fmt.Sprintf("verifying %d entries %s", entries, what), metric: "s/" + what, backend: on.name, callers: "1",
				value: took.Seconds(), unit: "s", goal: 10 * float64(entries) / 1e6, atMost: true})
		}
		verified("in-place", func() (*evidence.Report, error) { return u.vault.VerifyLogs(b.Context(), nil) })
		bundle := must.Get(os.Create(filepath.Join(b.TempDir(), "bundle")))(b)
		defer bundle.Close()
		must.Do(b, u.vault.Tenant(uuid.UUID(u.tenant)).ExportEvidence(b.Context(), bundle))
		key := must.Get(u.vault.EvidenceKey())(b)
		verified("offline", func() (*evidence.Report, error) {
			if _, err := bundle.Seek(0, io.SeekStart); err != nil {
				return nil, err
			}
			return evidence.Verify(bundle, key, nil)
		})
	})
}

// watchHeap starts to watch the heap. The result stops it, and returns by how many
// bytes the heap grew at most, garbage included.
func watchHeap() (stop func() uint64) {
	runtime.GC()
	size := func() uint64 {
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	base, most := size(), uint64(0)
	ended := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				return
			case <-tick.C:
				most = max(most, size())
			}
		}
	})
	return func() uint64 {
		close(ended)
		watching.Wait()
		return max(most, base) - base
	}
}
