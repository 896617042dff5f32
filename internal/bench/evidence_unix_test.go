//go:build unix

package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/evidence"
)

const (
	evidenceRounds = 6
	evidenceTime   = 3 * time.Second // of a round
	// verifyPiece is how many tokens are created at once for a long log.
	verifyPiece = 20_000
)

// BenchmarkEvidence compares creates with evidence and creates without. With evidence,
// the entries are sequenced once a second beside the creates, as always, and a note is
// signed at the end of each round, whose time counts. So all of the work falls into
// the contender's own rounds.
func BenchmarkEvidence(b *testing.B) {
	eachCount(b, func(b *testing.B, on *backend, callers int) {
		ctx := context.Background()
		plain := newUser(b, on.openStore(b, on.create(b)))
		kept := newUserWith(b, on.openStore(b, on.create(b)), &vault.Config{Evidence: &vault.EvidenceConfig{}})
		off := &contender{name: "without", call: func() error { return createCard(ctx, plain.Client) }}
		with := &contender{name: "with evidence", call: func() error { return createCard(ctx, kept.Client) }}
		warmUp(b, off, with)
		if _, err := kept.vault.Checkpoint(ctx); err != nil {
			b.Fatal(err)
		}
		var cpu [2][]float64 // microseconds of a create, without and with
		for round := range evidenceRounds {
			for i := range 2 {
				c, v := off, (*vault.Vault)(nil)
				which := (i + round) % 2
				if which == 1 {
					c, v = with, kept.vault
				}
				before := cpuTime(b)
				rate := evidenceRound(b, c, v, callers)
				c.rates = append(c.rates, rate)
				cpu[which] = append(cpu[which], float64((cpuTime(b)-before).Microseconds())/(rate*evidenceTime.Seconds()))
			}
		}
		report(b, figure{what: "CreateToken with evidence / without", metric: "x/without", backend: on.name, callers: strconv.Itoa(callers),
			value: with.over(off), unit: "x", goal: 0.95, rates: with.perSecond() + ", " + off.perSecond()})
		report(b, figure{what: "CPU time of this process, with evidence / without", metric: "x/cpu", backend: on.name, callers: strconv.Itoa(callers),
			value: median(cpu[1]) / median(cpu[0]), unit: "x", rates: fmt.Sprintf("%.0f µs, %.0f µs", median(cpu[1]), median(cpu[0]))})
	})
}

// cpuTime returns the CPU time that the process has used.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// evidenceRound returns the rate of a round. The vault is nil without evidence.
func evidenceRound(b *testing.B, c *contender, v *vault.Vault, callers int) float64 {
	b.Helper()
	rate, err := c.run(callers, evidenceTime)
	start := time.Now()
	if err == nil && v != nil {
		_, err = v.Checkpoint(b.Context())
	}
	if err != nil {
		b.Fatal(err)
	}
	return rate * evidenceTime.Seconds() / (evidenceTime + time.Since(start)).Seconds()
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
				s, err := u.vault.EvidenceStatus()
				if err != nil {
					b.Fatal(err)
				}
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
		if _, err := u.vault.Checkpoint(b.Context()); err != nil {
			b.Fatal(err)
		}
		verified := func(what string, verify func() (*evidence.Report, error)) {
			start := time.Now()
			r, err := verify()
			if err != nil || !r.OK() || r.Entries < int64(entries) {
				b.Fatal(r, err)
			}
			report(b, figure{what: fmt.Sprintf("verifying %d entries %s", entries, what), metric: "s/" + what, backend: on.name, callers: "1",
				value: time.Since(start).Seconds(), unit: "s", goal: 10 * float64(entries) / 1e6, atMost: true})
		}
		verified("in-place", func() (*evidence.Report, error) { return u.vault.VerifyLogs(b.Context(), nil) })
		bundle, err := os.Create(filepath.Join(b.TempDir(), "bundle"))
		if err != nil {
			b.Fatal(err)
		}
		defer bundle.Close()
		if err := u.vault.Tenant(uuid.UUID(u.tenant)).ExportEvidence(b.Context(), bundle); err != nil {
			b.Fatal(err)
		}
		key, err := u.vault.EvidenceKey()
		if err != nil {
			b.Fatal(err)
		}
		verified("offline", func() (*evidence.Report, error) {
			if _, err := bundle.Seek(0, io.SeekStart); err != nil {
				return nil, err
			}
			return evidence.Verify(bundle, key, nil)
		})
	})
}
