package console

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/seed-72ea4aab/vault"
)

// figures are what happened in a span of time: creates and reads in the log, and
// the rest as the recorder of this process has seen it.
type figures struct {
	Points                  []point // oldest first
	Creates, Reads          int
	Errors, Runs, RunErrors int
	Running                 int
	P50, P99                time.Duration
}

// point is one step of a span.
type point struct {
	At                     time.Time
	Creates, Reads, Errors int
	P50, P99               time.Duration
}

// span is a period up to now, divided into steps.
type span struct {
	name          string
	points, every int // minutes
}

var (
	lastHour = span{"hour", 60, 1}
	lastDay  = span{"day", 96, 15}
)

// first returns the first minute of a span that ends at a time.
func (s span) first(now time.Time) int64 {
	every := int64(s.every)
	last := (now.Unix()/60 + every) / every * every // exclusive
	return last - int64(s.points)*every
}

// figures adds up the minutes of a span.
func (r *Recorder) figures(s span) *figures {
	out := &figures{Points: make([]point, s.points)}
	var all [latencyBuckets]int
	r.mu.Lock()
	defer r.mu.Unlock()
	out.Running = r.running
	for i := range out.Points {
		from := s.first(r.now()) + int64(i*s.every)
		p := &out.Points[i]
		var took [latencyBuckets]int
		for at := from; at < from+int64(s.every); at++ {
			if m := &r.minutes[at%minutesKept]; m.at == at {
				out.Errors += int(m.errors)
				out.Runs += int(m.runs)
				out.RunErrors += int(m.runErrors)
				p.Errors += int(m.errors)
				for b, n := range m.took {
					took[b] += int(n)
					all[b] += int(n)
				}
			}
		}
		p.P50, p.P99 = quantile(&took, 50), quantile(&took, 99)
	}
	out.P50, out.P99 = quantile(&all, 50), quantile(&all, 99)
	return out
}

// quantile returns the duration that this percentage of the calls did not exceed,
// or 0 without calls.
func quantile(took *[latencyBuckets]int, percent int) time.Duration {
	total := 0
	for _, n := range took {
		total += n
	}
	if total == 0 {
		return 0
	}
	rank, seen := (total*percent+99)/100, 0
	for b, n := range took {
		if seen += n; seen >= rank {
			return bucketTime(b)
		}
	}
	return bucketTime(latencyBuckets - 1)
}

// tally counts creates and reads of tokens by minute, from the log of the newest
// tenants, so whichever node did them. Reads made in the console do not count.
type tally struct {
	vault *vault.Vault

	mu             sync.Mutex
	looked         time.Time
	since, until   int64           // the minutes that are counted, both included
	creates, reads map[int64]int32 // by minute
	partial        bool            // the log had more entries than maxTally
}

// maxTally bounds the entries that one look at the log reads.
const maxTally = 100_000

// look counts the entries of a span up to now, unless they were just counted.
func (t *tally) look(ctx context.Context, s span, now time.Time) error {
	first := s.first(now)
	if time.Since(t.looked) < databaseEvery && t.since > 0 && first >= t.since {
		return nil
	}
	from := t.until - 1 // entries appear later than their time says
	if t.since == 0 || first < t.since || first > from {
		t.creates, t.reads, t.partial = map[int64]int32{}, map[int64]int32{}, false
		from, t.since = first, first
	}
	for _, counts := range []map[int64]int32{t.creates, t.reads} {
		maps.DeleteFunc(counts, func(minute int64, _ int32) bool { return minute >= from || minute < lastDay.first(now) })
	}
	if err := t.count(ctx, time.Unix(from*60, 0)); err != nil {
		t.since = 0
		return err
	}
	t.until, t.looked = now.Unix()/60, time.Now()
	return nil
}

// count counts the entries since a time.
func (t *tally) count(ctx context.Context, since time.Time) error {
	left, tenants := maxTally, mostTenants
	for tenant, err := range t.vault.AllTenants(ctx) {
		if err != nil || tenants == 0 {
			return err
		}
		tenants--
		if tenant.Unreadable {
			continue
		}
		for e, err := range t.vault.Tenant(tenant.ID).From(fromConsole).AllLogs(ctx, vault.ListLogsParams{StartDate: since}) {
			if errors.Is(err, vault.ErrNotFound) {
				break // it was deleted after the list was read
			}
			if err != nil {
				return err
			}
			if left--; left < 0 {
				t.partial = true
				return nil
			}
			t.add(e)
		}
	}
	return nil
}

func (t *tally) add(e *vault.LogEntry) {
	switch {
	case notTokens[e.EntityType], consoleRead(e):
	case e.Operation == vault.OperationCreate:
		t.creates[e.CreatedAt.Unix()/60]++
	case e.Operation == vault.OperationRead:
		t.reads[e.CreatedAt.Unix()/60]++
	}
}

// fill puts the counts of a span into figures.
func (t *tally) fill(ctx context.Context, f *figures, s span) (partial bool, err error) {
	info, err := t.vault.Info(ctx)
	if err != nil {
		return false, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := info.Config.Now()
	if err := t.look(ctx, s, now); err != nil {
		return false, err
	}
	for i := range f.Points {
		p, from := &f.Points[i], s.first(now)+int64(i*s.every)
		p.At = time.Unix(from*60, 0).UTC()
		for minute := from; minute < from+int64(s.every); minute++ {
			p.Creates += int(t.creates[minute])
			p.Reads += int(t.reads[minute])
		}
		f.Creates += p.Creates
		f.Reads += p.Reads
	}
	return t.partial, nil
}
