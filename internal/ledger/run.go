package ledger

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
)

// Schedule sets the intervals of [Ledger.Run].
type Schedule struct {
	Sequence   time.Duration // sequence the tenants this node has written to; 1 s if zero
	Checkpoint time.Duration // sequence all tenants and sign a note; 1 min if zero
	Verify     time.Duration // verify everything; 12 h if zero
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

// firstVerify is the longest time between the start of a node and its first
// verification of everything. Without it, frequent restarts could postpone
// verification for ever.
const firstVerify = 10 * time.Minute

// Run keeps the trees up to date until ctx ends. It passes errors to failed and
// tries again in the next round.
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
			if err = l.SequenceDirty(ctx); err == nil || errors.Is(err, ErrTampered) {
				err = errors.Join(err, l.Watch(ctx))
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

// Round does the work that is due once a minute. It calls Config.Refresh, reads
// the anchors, sequences all tenants, continues imports, looks for missing
// entries and signs a note.
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
	if err := l.Watch(ctx); err != nil && !errors.Is(err, ErrTampered) {
		return err
	}
	_, err := l.Checkpoint(ctx)
	return err
}

// importSteps limits how many steps of each tenant's import a round does.
const importSteps = 100

// importSome continues the imports of all tenants.
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
