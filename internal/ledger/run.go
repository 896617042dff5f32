package ledger

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
)

// Schedule says how often [Ledger.Run] does what.
type Schedule struct {
	Sequence   time.Duration // what this node has written; 1 s when zero
	Checkpoint time.Duration // all tenants, and a note; 1 min when zero
	Verify     time.Duration // everything; 12 h when zero
}

func (s Schedule) withDefaults() Schedule {
	set := func(d *time.Duration, to time.Duration) {
		if *d <= 0 {
			*d = to
		}
	}
	set(&s.Sequence, time.Second)
	set(&s.Checkpoint, time.Minute)
	set(&s.Verify, 12*time.Hour)
	return s
}

// firstVerify is how long after its start a node verifies everything at the latest,
// so that restarts do not put it off for ever.
const firstVerify = 10 * time.Minute

// Run keeps the trees up to date until the context ends. Errors go to failed; the
// next round tries again.
func (l *Ledger) Run(ctx context.Context, s Schedule, failed func(error)) {
	s = s.withDefaults()
	sequence, checkpoint, verify := time.NewTicker(s.Sequence), time.NewTicker(s.Checkpoint), time.NewTicker(min(firstVerify, s.Verify))
	defer sequence.Stop()
	defer checkpoint.Stop()
	defer verify.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-sequence.C:
			if err = l.SequenceDirty(ctx); err == nil {
				err = l.Watch(ctx)
			}
		case <-checkpoint.C:
			err = l.Round(ctx)
		case <-verify.C:
			verify.Reset(s.Verify)
			_, err = l.Verify(ctx, VerifyOptions{})
		}
		if err != nil && ctx.Err() == nil {
			failed(err)
		}
	}
}

// Round does what is due once a minute: it sequences all tenants, goes on with
// imports, looks for entries that are gone, looks at the anchors and signs a note.
func (l *Ledger) Round(ctx context.Context) error {
	if l.c.Refresh != nil {
		if err := l.c.Refresh(ctx); err != nil {
			return err
		}
	}
	for _, a := range l.anchors {
		a.kick(nil)
	}
	if err := l.SequenceAll(ctx); err != nil && !errors.Is(err, ErrTampered) {
		return err
	}
	if err := l.importSome(ctx); err != nil && !errors.Is(err, ErrTampered) {
		return err
	}
	if err := l.Watch(ctx); err != nil {
		return err
	}
	_, err := l.Checkpoint(ctx)
	return err
}

// importSteps bounds how much of each tenant's old log a round imports.
const importSteps = 100

// importSome goes on with imports.
func (l *Ledger) importSome(ctx context.Context) error {
	return l.eachTenant(ctx, func(tenant uuid.UUID) error {
		for range importSteps {
			if more, err := l.Import(ctx, tenant); err != nil || !more {
				return err
			}
		}
		return nil
	})
}
