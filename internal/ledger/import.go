package ledger

import (
	"bytes"
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/storage"
)

// Import appends some of the tenant's entries that are older than the tree, and
// returns how many. It reports whether there are more that it can append now: an
// open transaction may hold entries back.
func (l *Ledger) Import(ctx context.Context, tenant uuid.UUID) (n int64, more bool, err error) {
	if h, err := l.headOf(tenant); err != nil || !h.begun || h.closed {
		return 0, false, err // a begun event comes first
	}
	for attempt := 0; ; attempt++ {
		s, err := l.open(ctx, tenant)
		if err != nil {
			return 0, false, err
		}
		if s.state.Until == nil {
			return 0, false, nil
		}
		moved, err := s.importOld(ctx)
		if errors.Is(err, storage.ErrStale) && attempt < maxAttempts {
			continue
		}
		return s.frontier.Size() - s.was.Size, moved && s.state.Until != nil, err
	}
}

// importsNothing reports whether a tenant has no entries from before evidence. Once
// every older tenant has begun, this holds for all others.
func (l *Ledger) importsNothing(tenant uuid.UUID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := &l.vault.tenants
	return t.all || evidence.Millis(tenant) >= t.began.UnixMilli()
}

// closeBeginning records that every tenant which is older than the vault's tree has
// begun, once all were sequenced.
func (l *Ledger) closeBeginning(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.vault.tenants.all {
		return nil
	}
	return l.record(ctx, func() []evidence.Event {
		if l.vault.tenants.all { // by another node
			return nil
		}
		return []evidence.Event{{Kind: evidence.EventBegun}}
	})
}

// importOld appends the next entries that are older than the tree. It reports
// whether the import has moved on.
func (s *growth) importOld(ctx context.Context) (moved bool, err error) {
	page, next, err := s.l.c.Store.FollowLogs(ctx, following(s.tenant, s.state.Old, s.state.Until, true))
	if err != nil {
		return false, err
	}
	ends := bytes.Equal(next, s.state.Until)
	if bytes.Equal(next, s.state.Old) && !ends {
		return false, nil
	}
	if s.state.Old = next; ends {
		s.state.Old, s.state.Until = nil, nil
	}
	if err := s.append(ctx, page, evidence.KindImported); err != nil {
		return false, err
	}
	_, err = s.write(ctx)
	return err == nil, err
}
