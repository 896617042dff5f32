package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
)

const (
	pauseRounds = 10
	pauseRound  = time.Second
	pauseSeed   = 30_000 // tokens
	// pauseCallers is the number of concurrent callers; one in pauseReaders
	// reads.
	pauseCallers = 32
	pauseReaders = 8
)

// BenchmarkPauses measures how long calls wait while pages are moved from the
// write-ahead log, and how long the log gets. The configurations take turns,
// and a different one goes first each time, because the writes of one may be
// synced in the round of the next.
func BenchmarkPauses(b *testing.B) {
	ways := []*pauses{{pages: autoCheckpoint}, {pages: 4000}, {pages: 1000, alone: true}, {pages: 4000, alone: true}, {pages: 8000, alone: true}}
	for _, p := range ways {
		p.open(b)
	}
	for round := range pauseRounds {
		for i := range ways {
			ways[(i+round)%len(ways)].round(b)
		}
	}
	for _, p := range ways {
		p.print()
	}
	b.ReportMetric(0, "ns/op")
}

// pauses holds what callers observe with one way of moving pages.
type pauses struct {
	pages int  // pages in the log at which the writer moves them
	alone bool // without the checkpointer

	store *Store
	path  string
	known string // the id of a token
	calls []time.Duration
	worst []time.Duration // of each round
	log   int64           // its largest size
}

func (p *pauses) open(b *testing.B) {
	b.Helper()
	p.path = filepath.Join(b.TempDir(), "vault.db")
	s := must.Get(Open(b.Context(), p.path))(b)
	b.Cleanup(func() { _ = s.Close() })
	p.store = s
	for range pauseSeed / 1000 {
		tokens := make([]storage.Token, 1000)
		for i := range tokens {
			tokens[i] = benchmarkToken()
		}
		must.Do(b, s.Write(b.Context(), insert(tokens...)))
		p.known = tokens[0].ID
	}
	w := s.writes.writer
	must.Get(w.conn.ExecContext(background, fmt.Sprint("PRAGMA wal_autocheckpoint = ", p.pages)))(b)
	if p.alone {
		must.Do(b, w.checkpoints.stop())
		w.checkpoints = nil
	}
}

// round makes callers create and read tokens while it watches the log.
func (p *pauses) round(b *testing.B) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), pauseRound)
	defer cancel()
	var mu sync.Mutex
	var callers sync.WaitGroup
	worst := time.Duration(0)
	for n := range pauseCallers {
		callers.Go(func() {
			calls, err := p.caller(ctx, n%pauseReaders == 0)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				b.Error(err)
			}
			p.calls = append(p.calls, calls...)
			for _, took := range calls {
				worst = max(worst, took)
			}
		})
	}
	for ctx.Err() == nil {
		if info, err := os.Stat(p.path + "-wal"); err == nil {
			p.log = max(p.log, info.Size())
		}
		time.Sleep(10 * time.Millisecond)
	}
	callers.Wait()
	p.worst = append(p.worst, worst)
}

// caller makes calls until the time is over, and returns how long each took.
func (p *pauses) caller(ctx context.Context, reads bool) (calls []time.Duration, err error) {
	for len(calls) == 0 || ctx.Err() == nil {
		c := &storage.Change{Tenant: tenant, Logs: benchmarkLog(p.known), Relaxed: reads}
		start := time.Now()
		if reads {
			_, err = p.store.Tokens(background, tenant, []string{p.known})
		} else {
			c.InsertTokens = []storage.Token{benchmarkToken()}
		}
		if err = errors.Join(err, p.store.Write(background, c)); err != nil {
			return calls, err
		}
		calls = append(calls, time.Since(start))
	}
	return calls, nil
}

func (p *pauses) print() {
	slices.Sort(p.calls)
	slices.Sort(p.worst)
	millis := func(times []time.Duration, share float64) float64 {
		return times[int(share*float64(len(times)-1))].Seconds() * 1000
	}
	who := "the checkpointer, or "
	if p.alone {
		who = ""
	}
	fmt.Printf("%22sthe writer at %d pages: %5.0f/s, p50 %4.1f, p99 %4.1f, p99.9 %5.1f, worst %5.1f (%.1f in half of the rounds) ms, log of %.0f MB\n",
		who, p.pages, float64(len(p.calls))/(pauseRounds*pauseRound.Seconds()), millis(p.calls, 0.5), millis(p.calls, 0.99),
		millis(p.calls, 0.999), millis(p.calls, 1), millis(p.worst, 0.5), float64(p.log)/1e6)
}

// benchmarkToken returns a token with the size and randomness of the vault's
// tokens.
func benchmarkToken() storage.Token {
	t := storage.Token{
		Ord: storage.ID(uuid.Must(uuid.NewV7())), ID: uuid.NewString(), Type: "card",
		Set: storage.Hash{1}, Containers: []string{"/pci/high/"}, KeyVersion: 1, Body: make([]byte, 400),
		Hashes: []storage.Hash{storage.Hash(uuid.New()), storage.Hash(uuid.New())}, CreatedAt: time.Now(),
	}
	random := uuid.New()
	copy(t.Fingerprint[:], random[:])
	return t
}

func benchmarkLog(entity string) []storage.Log {
	return []storage.Log{{
		ID: storage.ID(uuid.Must(uuid.NewV7())), EntityType: "card", EntityID: entity,
		Operation: "read", Message: "Token read", CreatedAt: time.Now(),
	}}
}
