package ledger

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/pace"
)

// The nodes share the verification of everything. The vault's tree records its
// progress, so an attacker can neither restore an older state nor claim that more was
// verified than a node has verified.

// pass is the newest verification of everything, as the vault's tree has it.
type pass struct {
	owner uuid.UUID // the node that verifies
	began time.Time
	at    time.Time // when the owner last advanced
	last  uuid.UUID // the last tenant that was verified
	steps int64     // so far
	bad   bool      // tampering was found
	runs  bool      // it has not ended
	// done is the end of the last complete verification, and ok its result.
	done time.Time
	ok   bool
}

// passSize is the number of bytes of a pass in a summary.
const passSize = 16 + 16 + 3*8 + 8 + 1

func (p *pass) apply(e *evidence.Event) {
	p.owner, p.began, p.at, p.last, p.steps, p.bad, p.runs = e.ID, micro(e.Began), micro(e.Time), e.Last, e.Count, e.Bad, !e.Done
	if e.Done {
		p.done, p.ok = p.at, !e.Bad
	}
}

// micro returns a time as a summary has it.
func micro(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.UnixMicro(t.UnixMicro()).UTC()
}

func (p *pass) times() [3]*time.Time { return [3]*time.Time{&p.began, &p.at, &p.done} }

func (p *pass) encode(b []byte) []byte {
	b = append(append(b, p.owner[:]...), p.last[:]...)
	for _, t := range p.times() {
		b = binary.BigEndian.AppendUint64(b, uint64(t.UnixMicro()))
	}
	b = binary.BigEndian.AppendUint64(b, uint64(p.steps))
	var flags byte
	if p.bad {
		flags |= 1
	}
	if p.ok {
		flags |= 2
	}
	if p.runs {
		flags |= 4
	}
	return append(b, flags)
}

// decode reads passSize bytes.
func (p *pass) decode(b []byte) {
	p.owner, p.last = uuid.UUID(b[:16]), uuid.UUID(b[16:32])
	for i, t := range p.times() {
		if us := int64(binary.BigEndian.Uint64(b[32+8*i:])); us != (time.Time{}).UnixMicro() {
			*t = time.UnixMicro(us).UTC()
		}
	}
	p.steps, p.bad, p.ok, p.runs = int64(binary.BigEndian.Uint64(b[56:])), b[64]&1 != 0, b[64]&2 != 0, b[64]&4 != 0
}

// maxClockAhead is how far the clock of another node may be ahead.
const maxClockAhead = time.Hour

// age returns the time since the last complete verification. An end in the future
// comes from a node with another clock. It counts as long ago, so that it does not
// prevent a verification.
func (p *pass) age(now time.Time) time.Duration {
	if p.done.After(now.Add(maxClockAhead)) {
		return math.MaxInt64
	}
	return now.Sub(p.done)
}

const (
	// passLease is how long a node that verifies may be silent.
	passLease = 5 * time.Minute
	// saveEvery is how often a node that verifies records its progress.
	saveEvery = time.Minute
	// stalledAfter is how long a verification that is due may stand still. With the
	// time between two looks, the alarm comes within an hour.
	stalledAfter = 50 * time.Minute
	// workShare is the share of one CPU that the verification may use, as the
	// ratio of pauses to work.
	workShare = 3
)

// verifyInBackground continues the verification of everything if it is this node's
// turn, and notes since when this fails.
func (l *Ledger) verifyInBackground(ctx context.Context, interval time.Duration) error {
	err := l.continuePass(ctx, interval)
	switch {
	case err == nil:
		l.failing.Store(nil)
	case ctx.Err() == nil:
		now := l.c.Now()
		l.failing.CompareAndSwap(nil, &now)
	}
	return err
}

// continuePass continues the verification of everything if it is this node's turn. A node
// that may not append to the vault's tree verifies for itself alone.
func (l *Ledger) continuePass(ctx context.Context, interval time.Duration) error {
	l.mu.Lock()
	failed := ErrSuspended
	if l.vault.suspended == "" {
		failed = l.refresh(ctx)
	}
	r := &running{l: l, is: l.vault.tenants.pass, alone: failed != nil}
	own, now := l.vault.verified, l.c.Now()
	alive := l.saw.alive(r.is, now)
	l.mu.Unlock()
	r.fresh = now.Sub(own) < interval
	switch is := &r.is; {
	case failed != nil && !errors.Is(failed, ErrSuspended) && !errors.Is(failed, ErrTampered):
		return failed
	case r.alone && r.fresh, is.owner != l.id && alive, !is.runs && is.age(now) < interval:
		return nil
	}
	r.next = evidence.Event{Kind: evidence.EventVerified, ID: l.id, Began: now}
	if is := &r.is; is.runs && !r.alone {
		r.next.Began, r.next.Last, r.next.Count, r.next.Bad = is.began, is.last, is.steps, is.bad
	}
	return r.verify(ctx)
}

// running is the part of a verification that this node does.
type running struct {
	l     *Ledger
	alone bool           // progress cannot be recorded
	fresh bool           // this node has verified everything not long ago
	is    pass           // as the vault's tree has it
	next  evidence.Event // of the progress
	saved time.Time
}

// errLost means that another node continues the verification.
var errLost = errors.New("another node verifies")

// save records the progress. It returns errLost if another node has recorded some.
func (r *running) save(ctx context.Context) error {
	r.saved = time.Now()
	if r.alone {
		return nil
	}
	l := r.l
	l.mu.Lock()
	defer l.mu.Unlock()
	mine := true
	err := l.record(ctx, func() []evidence.Event {
		if mine = l.vault.tenants.pass == r.is; !mine {
			return nil
		}
		return []evidence.Event{r.next}
	})
	if err == nil && !mine {
		return errLost
	}
	if err == nil {
		r.is = l.vault.tenants.pass
	}
	return err
}

// tick records the progress once a minute. If that fails, the verification goes on:
// others raise an alarm, because it does not advance.
func (r *running) tick(ctx context.Context) error {
	if time.Since(r.saved) < saveEvery {
		return nil
	}
	if err := r.save(ctx); errors.Is(err, errLost) {
		return err
	}
	return nil
}

// verify verifies all tenants after the last verified one, slowly.
func (r *running) verify(ctx context.Context) error {
	failed := r.save(ctx)
	if errors.Is(failed, errLost) {
		return nil
	}
	if failed != nil && r.fresh {
		return failed
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	pause := r.l.pauses(ctx)
	v := &verification{l: r.l, ctx: ctx, report: &evidence.Report{}, pause: func() {
		pause()
		r.next.Count++
		if err := r.tick(ctx); err != nil {
			stop(err)
		}
	}}
	whole := r.next.Last == uuid.UUID{}
	if whole {
		if err := v.vault(&VerifyOptions{}); err != nil {
			return err
		}
	}
	err := v.tenants(r.next.Last, func(tenant uuid.UUID) error {
		r.next.Last, r.next.Bad = tenant, r.next.Bad || !v.report.OK()
		r.next.Count++
		v.alarm()
		return r.tick(ctx)
	})
	v.alarm()
	if errors.Is(err, errLost) || errors.Is(context.Cause(ctx), errLost) {
		return nil
	}
	if err != nil {
		return errors.Join(failed, err)
	}
	return errors.Join(failed, r.finish(ctx, v.report, whole))
}

// finish records the end of the verification.
func (r *running) finish(ctx context.Context, report *evidence.Report, whole bool) error {
	r.next.Done, r.next.Bad = true, r.next.Bad || !report.OK()
	err := r.save(ctx)
	if at := r.l.c.Now(); whole && !errors.Is(err, errLost) {
		if err == nil && !r.alone {
			at = r.is.done
		}
		r.l.setVerified(at, !r.next.Bad, report)
	}
	if errors.Is(err, errLost) {
		return nil
	}
	return err
}

// pauses returns a function that pauses in proportion to the time since it
// returned last.
func (l *Ledger) pauses(ctx context.Context) func() {
	last := time.Now()
	return func() {
		_ = pace.Sleep(ctx, workShare*min(time.Since(last), time.Second))
		last = time.Now()
	}
}

// watched is what a node has seen of the verification of everything.
type watched struct {
	pass pass
	at   time.Time // when it last advanced, or was not due
}

// alive reports whether a verification has advanced in the last minutes. A node trusts its
// own clock and what it has seen. It believes the time of a step only at its first look,
// so that a node whose clock is ahead neither keeps the others from verifying nor takes
// turns with them.
func (w *watched) alive(is pass, now time.Time) bool {
	switch {
	case w.pass == is:
	case w.at.IsZero() && is.at.Before(now):
		*w = watched{is, is.at}
	default:
		*w = watched{is, now}
	}
	return is.runs && now.Sub(w.at) < passLease
}

// watchPass raises an alarm if the verification of everything, or the signing of
// notes, does not advance. A node believes the vault's tree, and its own clock.
func (l *Ledger) watchPass(w *watched, interval time.Duration) {
	now := l.c.Now()
	l.mu.Lock()
	is, began, suspended := l.vault.tenants.pass, l.vault.tenants.began, l.vault.suspended != ""
	l.mu.Unlock()
	due := is.runs || is.age(now) >= interval
	if w.at.IsZero() || !due || suspended || is != w.pass {
		*w = watched{is, now}
	}
	if is.done.After(began) {
		began = is.done
	}
	signed, failing := l.rounds.succeeded(time.Time{}), l.failing.Load()
	switch {
	case suspended: // another alarm says so
	case !signed.IsZero() && now.Sub(signed) >= stalledAfter:
		l.alarms.raise(Alarm{Kind: AlarmStalled, Text: "no note was signed for almost an hour"})
	case failing != nil && now.Sub(*failing) >= stalledAfter, now.Sub(w.at) >= stalledAfter, now.Sub(began) >= 2*interval+stalledAfter:
		l.alarms.raise(Alarm{Kind: AlarmStalled, Text: "the verification of the log does not advance"})
	default:
		l.alarms.over(AlarmStalled)
	}
}
