package ledger

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"time"

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
		if err := l.setBoundary(ctx, tenant, &s.state); err != nil {
			return 0, false, err
		}
		moved, err := s.importOld(ctx)
		if errors.Is(err, storage.ErrStale) && attempt < maxAttempts {
			continue
		}
		return s.frontier.Size() - s.was.Size, moved && s.state.Until != nil, err
	}
}

// setBoundary sets the boundary of an open import from the begun event, if an
// earlier version has begun the tree.
func (l *Ledger) setBoundary(ctx context.Context, tenant uuid.UUID, st *state) error {
	if st.Until == nil || st.Boundary != (uuid.UUID{}) {
		return nil
	}
	about := storage.ID(tenant)
	return l.eachEvent(ctx, storage.EventQuery{To: newest, About: &about}, func(_ int64, e *evidence.Event) {
		if e.Kind == evidence.EventBegun {
			st.Boundary = e.Entry
		}
	})
}

// boundaryAt returns the greatest id of an entry that was created until a time.
func boundaryAt(t time.Time) (id uuid.UUID) {
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(t.UnixMilli()))
	copy(id[:], ms[2:])
	for i := 6; i < len(id); i++ {
		id[i] = 0xff
	}
	return id
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

// heldBack is how long an import stays open at least. When it began, an open
// transaction may have held back old entries, which then come with the new ones.
const heldBack = time.Minute

// importOld appends the next entries that are older than the tree. It reports
// whether the import has moved on.
func (s *growth) importOld(ctx context.Context) (moved bool, err error) {
	page, next, err := s.l.c.Store.FollowLogs(ctx, following(s.tenant, s.state.Old, s.state.Until, true))
	if err != nil {
		return false, err
	}
	ends := bytes.Equal(next, s.state.Until) && evidence.Millis(s.state.Boundary) <= s.l.c.Now().Add(-heldBack).UnixMilli()
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
