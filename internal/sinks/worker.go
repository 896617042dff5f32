package sinks

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/logs"
	"github.com/seed-72ea4aab/vault/internal/pace"
	"github.com/seed-72ea4aab/vault/storage"
)

// worker sends the logs of all tenants to one sink.
type worker struct {
	*Sinks
	sink   Sink
	encode encoder
	owner  uuid.UUID // of leases
	began  time.Time // entries from this time on are sent

	now func() time.Time // for pauses; leases use the clock of the vault

	passing   pace.Lock // held while entries are sent
	tenants   logs.Tenants
	followers map[storage.ID]*follower
	failed    int       // failures in a row
	refusals  int       // entries skipped since the destination last accepted one
	noted     notes     // position in the signed notes
	nextLook  time.Time // when to look at the record of the sink again
	notBefore time.Time // when the destination may be tried again

	mu     sync.Mutex
	health Health
}

// Health is the state of sending on this node.
type Health struct {
	LastSuccess time.Time
	Failures    int64
	LastError   string // contains no value
	// Failed counts the failures by tenant, without the failures that concern no
	// tenant.
	Failed map[uuid.UUID]int64
	// Behind is the number of waiting entries, up to one batch of each tenant. Oldest
	// is when the oldest of them was created.
	Behind int
	Oldest time.Time
	Sent   int64
	// Refused counts the skipped entries.
	Refused int64
}

// loop sends until the context ends.
func (w *worker) loop(ctx context.Context) {
	for pause := time.Duration(0); pace.Sleep(ctx, pause) == nil; pause = max(pause, w.rest()) {
		more, err := w.pass(ctx)
		switch pause = tick; {
		case ctx.Err() != nil:
			return
		case err != nil:
			w.Vault.Logger.ErrorContext(ctx, "sending log entries failed; it is tried again", "sink", w.sink.Name, "error", err)
		case more:
			pause = 0
		}
	}
}

// rest returns how long to wait before the next try.
func (w *worker) rest() time.Duration {
	w.passing.Lock()
	defer w.passing.Unlock()
	return w.notBefore.Sub(w.now())
}

// sendAll ends all pauses, and sends all waiting entries. It blocks the loop, so
// that a failure of the loop does not make sendAll pause.
func (w *worker) sendAll(ctx context.Context) error {
	w.passing.Lock()
	defer w.passing.Unlock()
	w.notBefore, w.nextLook = time.Time{}, time.Time{}
	w.tenants.Relist()
	for _, f := range w.followers {
		f.next = time.Time{}
	}
	var unreadable error
	for more := true; more; {
		var err error
		more, err = w.passHeld(ctx)
		if err != nil && !core.Unreadable(err) && !core.KeyDenied(err) {
			return err
		}
		unreadable = errors.Join(unreadable, err)
	}
	return unreadable
}

// pass gives a turn to each tenant whose log may have grown. It reports whether
// more entries wait. A tenant whose rows cannot be read does not stop the others;
// its error is returned in the end.
func (w *worker) pass(ctx context.Context) (more bool, err error) {
	w.passing.Lock()
	defer w.passing.Unlock()
	if w.Vault.Key.Usable() != nil {
		return false, nil
	}
	return w.passHeld(ctx)
}

// passHeld is pass for a caller that holds the lock.
func (w *worker) passHeld(ctx context.Context) (more bool, err error) {
	if w.now().Before(w.notBefore) {
		return false, nil
	}
	if err := errors.Join(w.look(ctx), w.listTenants(ctx)); err != nil {
		return false, w.fail(uuid.UUID{}, err)
	}
	defer w.measure()
	var refuses, unreadable error
	for _, f := range w.due() {
		again, err := w.turn(ctx, f)
		switch {
		case errors.Is(err, errRefusesAll):
			refuses = err // unless it accepts the entries of another tenant
			f.next = w.now().Add(tick)
		case errors.Is(err, errLost):
			f.next = w.now().Add(tick)
		case errors.Is(err, fault.ErrNotFound):
			delete(w.followers, f.tenant) // the tenant is being deleted
		case core.Unreadable(err), core.KeyDenied(err):
			w.count(uuid.UUID(f.tenant), err)
			f.next, unreadable = w.now().Add(longestRetry), errors.Join(unreadable, err)
		case err != nil:
			return false, w.fail(uuid.UUID(f.tenant), err)
		}
		more = more || again && err == nil
	}
	if refuses != nil && w.refusals >= maxRefusals {
		return false, w.fail(uuid.UUID{}, refuses)
	}
	if err := w.sendNotes(ctx); err != nil && !errors.Is(err, errLost) {
		return false, w.fail(uuid.UUID{}, err)
	}
	return more, unreadable
}

// errRefusesAll means that the destination refuses every entry.
var errRefusesAll = errors.New("the destination refuses every entry; nothing more is passed over")

// look periodically reads the record of the sink. A sink that was reset has new
// cursors, and the logs of quiet tenants are sent again too.
func (w *worker) look(ctx context.Context) error {
	if w.now().Before(w.nextLook) {
		return nil
	}
	rec, begin, err := readSink(ctx, w.Vault.Store, w.sink.Name)
	if err != nil || rec == nil {
		return err
	}
	if !begin.Began.Equal(w.began) {
		for _, f := range w.followers {
			f.read, f.next = false, time.Time{}
		}
	}
	w.began, w.noted = begin.Began, begin.Notes
	w.nextLook = w.now().Add(lookEvery)
	return nil
}

// due returns the followers that are due, in the order of their tenants.
func (w *worker) due() []*follower {
	now := w.now()
	var all []*follower
	for _, f := range w.followers {
		if !f.next.After(now) {
			all = append(all, f)
		}
	}
	slices.SortFunc(all, func(a, b *follower) int { return bytes.Compare(a.tenant[:], b.tenant[:]) })
	return all
}

// fail records a failure, which may concern a tenant, and sets the time of the
// next try. The pause grows with each failure, and is at least the Retry-After
// time of the destination.
func (w *worker) fail(tenant uuid.UUID, err error) error {
	w.failed++
	pause := pace.Backoff(w.failed, firstRetry, longestRetry)
	pause = pause/2 + time.Duration(pace.Jitter()*float64(pause/2))
	if asks, ok := errors.AsType[interface {
		error
		RetryAfter() time.Duration
	}](err); ok {
		pause = max(pause, min(asks.RetryAfter(), longestAsked))
	}
	w.notBefore = w.now().Add(pause)
	w.count(tenant, err)
	return err
}

// count counts a failure, which may concern a tenant.
func (w *worker) count(tenant uuid.UUID, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.health.Failures++
	w.health.LastError = err.Error()
	if tenant != (uuid.UUID{}) {
		if w.health.Failed == nil {
			w.health.Failed = map[uuid.UUID]int64{}
		}
		w.health.Failed[tenant]++
	}
}

// listTenants adds followers for new tenants.
func (w *worker) listTenants(ctx context.Context) error {
	return w.tenants.New(ctx, w.now(), func(tenant storage.ID) (known bool) {
		if _, known = w.followers[tenant]; !known {
			w.followers[tenant] = &follower{tenant: tenant}
		}
		return known
	})
}

// turn sends several batches of a tenant's log. It reports whether more entries
// wait.
func (w *worker) turn(ctx context.Context, f *follower) (more bool, err error) {
	for range maxTurn {
		op, err := w.open(ctx, f)
		if err != nil {
			return false, err
		}
		if more, err = w.batch(ctx, op, f); err != nil || !more {
			return false, err
		}
	}
	return true, nil
}

// batch sends the next batch of a tenant's log, and reports whether the log had
// one.
func (w *worker) batch(ctx context.Context, op *core.Op, f *follower) (bool, error) {
	if !f.read {
		if err := w.readCursor(ctx, op, f); err != nil {
			return false, err
		}
	}
	rows, next, err := w.following(ctx, f, batchSize)
	if err != nil {
		return false, err
	}
	if len(rows) == 0 {
		f.waiting, f.behind = time.Time{}, 0
		f.pause = min(max(tick, f.pause*5/4), max(tick, time.Duration(len(w.followers))*pausePer), longestPause)
		f.next = w.now().Add(f.pause)
		return false, nil
	}
	f.pause, f.next = 0, time.Time{}
	f.waiting, f.behind = rows[0].CreatedAt, len(rows)
	if leased, err := w.takeLease(ctx, op, f); err != nil || !leased {
		return false, err
	}
	items, err := w.items(ctx, f, rows)
	if err != nil {
		return false, err
	}
	d := delivery{worker: w, op: op, f: f}
	sent := d.send(ctx, items)
	if d.done < len(rows) {
		if d.done == 0 {
			return false, sent
		}
		if _, next, err = w.following(ctx, f, d.done); err != nil {
			return false, errors.Join(sent, err)
		}
	}
	d.advance(next, rows, items)
	if err := op.Refresh(ctx); err != nil {
		return false, errors.Join(sent, err)
	}
	return sent == nil, errors.Join(sent, w.writeCursor(ctx, op, f))
}

// following reads the entries after the cursor.
func (w *worker) following(ctx context.Context, f *follower, limit int) ([]storage.Log, storage.LogPlace, error) {
	after := storage.LogFollowing{Tenant: f.tenant, After: f.cursor.Place, Limit: limit}
	if after.After == nil {
		after.From = w.began
	}
	return w.Vault.Store.FollowLogs(ctx, after)
}

// measure updates how far behind the sink is.
func (w *worker) measure() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.health.Behind, w.health.Oldest = 0, time.Time{}
	for _, f := range w.followers {
		if f.waiting.IsZero() || f.cursor.Owner != w.owner {
			continue
		}
		w.health.Behind += f.behind
		if w.health.Oldest.IsZero() || f.waiting.Before(w.health.Oldest) {
			w.health.Oldest = f.waiting
		}
	}
}

// delivery is a batch that is being sent.
type delivery struct {
	*worker
	op   *core.Op
	f    *follower
	done int // entries accepted or skipped
	took int // entries accepted
}

// send sends entries, and splits them in halves if they are refused.
func (d *delivery) send(ctx context.Context, rows []item) error {
	if leased, err := d.takeLease(ctx, d.op, d.f); err != nil || !leased {
		return errors.Join(errLost, err)
	}
	err := d.deliver(ctx, uuid.UUID(d.f.tenant), rows)
	switch {
	case err == nil:
		d.done, d.took, d.refusals = d.done+len(rows), d.took+len(rows), 0
		return nil
	case !isRefusal(err):
		return err
	case len(rows) == 1 && d.refusals >= maxRefusals:
		return errRefusesAll
	case len(rows) == 1:
		d.passOver(ctx, rows[0].Log)
		return nil
	}
	half := len(rows) / 2
	if err := d.send(ctx, rows[:half]); err != nil {
		return err
	}
	return d.send(ctx, rows[half:])
}

// deliver makes one attempt to send a batch.
func (w *worker) deliver(ctx context.Context, tenant uuid.UUID, items []item) error {
	body, contentType, err := w.encode(w.Sinks, tenant, items)
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	return w.sink.Sender.Send(limited, body, contentType)
}

func isRefusal(err error) bool {
	refusal, ok := errors.AsType[interface {
		error
		Refused() bool
	}](err)
	return ok && refusal.Refused()
}

// passOver skips an entry.
func (d *delivery) passOver(ctx context.Context, row *storage.Log) {
	d.Vault.Logger.ErrorContext(ctx, "a log sink refused an entry, which is passed over",
		"sink", d.sink.Name, "tenant", uuid.UUID(d.f.tenant), "entry", uuid.UUID(row.ID))
	d.done++
	d.refusals++
	d.f.cursor.Refused++
	d.mu.Lock()
	defer d.mu.Unlock()
	d.health.Refused++
}

// advance moves the cursor past the entries that are done.
func (d *delivery) advance(place storage.LogPlace, rows []storage.Log, items []item) {
	now := d.Vault.Now()
	c := &d.f.cursor
	c.Place, c.Sent, c.SentAt, c.Until = place, c.Sent+int64(d.took), now, now.Add(lease)
	c.Refusals = d.refusals
	if leaf := items[d.done-1].leaf; leaf != nil {
		c.Leaf = leaf.Index + 1
	}
	d.f.waiting, d.f.behind = time.Time{}, 0
	if d.done < len(rows) {
		d.f.waiting, d.f.behind = rows[d.done].CreatedAt, len(rows)-d.done
	}
	if d.took > 0 {
		d.failed, d.notBefore = 0, time.Time{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.health.Sent += int64(d.took)
	if d.took > 0 {
		d.health.LastSuccess = now
	}
}
