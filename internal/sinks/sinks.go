// Package sinks sends the audit log to destinations of the operator, such as a file
// or a SIEM. Package logs has the lists and followers of callers.
//
// A request never waits for a sink, because its entry is in the database when the
// request returns. A worker for each sink reads the log of every tenant in commit
// order and sends it in batches. It moves a cursor when the destination has
// accepted a batch. The cursor is a sealed record of the tenant, with a lease. One
// node sends the log of a tenant, and another node takes over when the lease has
// expired. A node that stops between sending a batch and moving the cursor causes
// a resend, so delivery is at least once.
//
// A sink retries an unreachable destination forever. If a destination refuses the
// content of a batch, the sink sends smaller batches until the refused entry is
// alone. It counts that entry, logs its id, and skips it. A destination that
// refuses many entries in a row is treated as broken: the sink skips no more
// entries, and retries as for an unreachable destination.
package sinks

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/ledger"
	"github.com/seed-72ea4aab/vault/internal/logs"
	"github.com/seed-72ea4aab/vault/internal/pace"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/storage"
)

// Sender sends a batch. An error with a method Refused() bool that returns true
// means that the content was refused. After any other error the batch is sent
// again. An error with a method RetryAfter() time.Duration sets the pause before
// that.
type Sender interface {
	Send(ctx context.Context, batch []byte, contentType string) error
}

// Sink is a destination of the log.
type Sink struct {
	Name      string
	Sender    Sender
	Format    string // Native, OTLP or OCSF; empty means Native
	FromStart bool   // a new sink starts with the oldest entry
}

// The kinds of records. The record of a sink belongs to no tenant. Its cursors
// belong to the tenants.
var (
	KindSink   = seal.RecordKind("sink")
	KindCursor = seal.RecordKind("sink_cursor")
)

// Bounds of a worker.
const (
	batchSize   = 500              // entries
	sendTimeout = 10 * time.Second // for one batch
	lease       = 20 * time.Second // longer than sendTimeout, and short enough for a takeover within 30 s
	maxTurn     = 20               // batches of one tenant before the next tenant's turn
	maxRefusals = 10               // entries skipped in a row before the destination counts as broken

	tick         = time.Second           // between looks at busy logs
	longestPause = 15 * time.Second      // between looks at a quiet log, with many tenants
	pausePer     = 50 * time.Millisecond // for each tenant, so that a few logs are read every tick
	lookEvery    = 5 * time.Second       // between looks at the record of a sink

	firstRetry, longestRetry = time.Second, time.Minute
	longestAsked             = time.Hour // longest Retry-After that is obeyed
)

// Config holds the dependencies of sinks. All fields except Ledger are required.
type Config struct {
	Vault  *core.Vault
	Ledger *ledger.Ledger // nil without evidence
	Sinks  []Sink
	// Native returns an entry as the API shows it.
	Native func(tenant uuid.UUID, row *storage.Log) any
}

// Sinks are the sinks of a vault.
type Sinks struct {
	Config
	workers []*worker
}

var goodName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// New returns sinks that send nothing yet. It checks their names, formats and
// senders.
func New(cfg Config) (*Sinks, error) {
	s := &Sinks{Config: cfg}
	seen := map[string]bool{}
	for _, sink := range cfg.Sinks {
		switch {
		case !goodName.MatchString(sink.Name):
			return nil, errors.New("vault: the name of a log sink must have 1 to 64 letters, digits, dots, dashes or underscores")
		case seen[sink.Name]:
			return nil, fmt.Errorf("vault: there are two log sinks with the name %s", sink.Name)
		case sink.Sender == nil:
			return nil, fmt.Errorf("vault: the log sink %s has no sender", sink.Name)
		}
		seen[sink.Name] = true
		encode, err := encoderOf(sink.Format)
		if err != nil {
			return nil, fmt.Errorf("vault: the log sink %s: %w", sink.Name, err)
		}
		if p, ok := sink.Sender.(interface{ Prepare(format string) error }); ok {
			if err := p.Prepare(sink.Format); err != nil {
				return nil, fmt.Errorf("vault: the log sink %s: %w", sink.Name, err)
			}
		}
		s.workers = append(s.workers, &worker{
			Sinks: s, sink: sink, encode: encode, owner: uuid.New(), followers: map[storage.ID]*follower{},
			tenants: logs.Tenants{Store: cfg.Vault.Store}, now: time.Now, passing: pace.NewLock(),
		})
	}
	return s, nil
}

// Start reads where the log begins for each sink, and stores a record for new
// sinks.
func (s *Sinks) Start(ctx context.Context) error {
	for _, w := range s.workers {
		if err := w.start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Loop sends until the context ends.
func (s *Sinks) Loop(ctx context.Context) {
	var all sync.WaitGroup
	for _, w := range s.workers {
		all.Go(func() { w.loop(ctx) })
	}
	all.Wait()
}

// Send sends the entries that exist now, and returns when each sink has sent them
// or failed. It is for programs that run no loop.
func (s *Sinks) Send(ctx context.Context) error {
	var errs []error
	for _, w := range s.workers {
		if err := w.sendAll(ctx); err != nil {
			errs = append(errs, fmt.Errorf("vault: the log sink %s: %w", w.sink.Name, err))
		}
	}
	return errors.Join(errs...)
}

// Close closes the files of sinks. Nothing is sent after that.
func (s *Sinks) Close() error {
	var errs []error
	for _, w := range s.workers {
		if to, ok := w.sink.Sender.(*Writer); ok {
			if f, ok := to.w.(*file); ok {
				errs = append(errs, f.Close())
			}
		}
	}
	return errors.Join(errs...)
}

// Health returns the state of sending on this node, by sink name.
func (s *Sinks) Health() map[string]Health {
	all := map[string]Health{}
	for _, w := range s.workers {
		w.mu.Lock()
		h := w.health
		h.Failed = maps.Clone(h.Failed)
		w.mu.Unlock()
		all[w.sink.Name] = h
	}
	return all
}

// recordID returns the id of a sink's records.
func recordID(name string) storage.ID {
	sum := sha256.Sum256([]byte("vault/sink/" + name))
	return storage.ID(sum[:16])
}

// beginning is the content of a sink's record. It belongs to no tenant, so it is
// not sealed.
type beginning struct {
	Began  time.Time `json:"began"` // entries from this time on are sent
	Format string    `json:"format"`
	Notes  notes     `json:"notes,omitzero"`
}

// start reads where the log begins for the sink. A new sink begins now, or with
// the oldest entry.
func (w *worker) start(ctx context.Context) error {
	for range core.MaxAttempts {
		rec, begin, err := readSink(ctx, w.Vault.Store, w.sink.Name)
		if err != nil {
			return err
		}
		if rec != nil {
			w.began, w.noted = begin.Began, begin.Notes
			return nil
		}
		begin = beginning{Began: w.Vault.Now(), Format: cmp.Or(w.sink.Format, Native)}
		if w.sink.FromStart {
			begin.Began = theBeginning
		}
		err = writeSink(ctx, w.Vault, w.sink.Name, nil, begin)
		if err != nil && !errors.Is(err, storage.ErrExists) {
			return err
		}
	}
	return fault.ErrFaster
}

// theBeginning is earlier than any entry.
var theBeginning = time.Unix(1, 0).UTC()

// readSink returns the record of a sink, or nil if it does not exist.
func readSink(ctx context.Context, store storage.Storage, name string) (*storage.Record, beginning, error) {
	var begin beginning
	recs, err := store.Records(ctx, storage.ID{}, KindSink, []storage.ID{recordID(name)})
	if err != nil || len(recs) == 0 {
		return nil, begin, err
	}
	if json.Unmarshal(recs[0].Body, &begin) != nil { // it was changed in the database; entries may be sent again
		begin = beginning{Began: theBeginning, Format: Native}
	}
	return &recs[0], begin, nil
}

// writeSink writes the record of a sink, and replaces the record that was read.
func writeSink(ctx context.Context, v *core.Vault, name string, was *storage.Record, begin beginning) error {
	body, err := json.Marshal(begin)
	if err != nil {
		return err
	}
	now := v.Now()
	rec := storage.Record{Kind: KindSink, ID: recordID(name), Name: name, CreatedAt: now, Body: body}
	ch := &storage.Change{Now: now}
	if was == nil {
		ch.InsertRecords = []storage.Record{rec}
	} else {
		rec.CreatedAt = was.CreatedAt
		ch.UpdateRecords = []storage.RecordUpdate{{Rev: was.Rev, Record: rec}}
	}
	return v.Store.Write(ctx, ch)
}
