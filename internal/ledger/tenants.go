package ledger

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/storage"
)

// tenants is what the vault's tree says about tenants: their newest heads, which
// of them were deleted, and how far they were verified.
type tenants struct {
	began   time.Time // when the vault's tree began
	all     bool      // every tenant that is older than the vault's tree has begun
	heads   map[uuid.UUID]head
	deleted map[uuid.UUID]time.Time // when this node learned of it; zero before its start
	pass    pass
}

// head is a tenant's newest head.
type head struct {
	index, size int64
	root, state evidence.Hash
	revision    int64
	begun       bool // there is a begun event
	closed      bool // no further entries may be imported
}

func newTenants() tenants {
	return tenants{heads: map[uuid.UUID]head{}, deleted: map[uuid.UUID]time.Time{}}
}

func (t *tenants) clone() tenants {
	return tenants{t.began, t.all, maps.Clone(t.heads), maps.Clone(t.deleted), t.pass}
}

// head returns the newest head of a tenant, or a head with index -1 if it has none.
func (t *tenants) head(tenant uuid.UUID) head {
	if h, ok := t.heads[tenant]; ok {
		return h
	}
	return head{index: -1}
}

// apply takes in an event of the vault's tree. now is zero while a node starts.
func (t *tenants) apply(stored *storage.TreeEvent, now time.Time) error {
	e, err := evidence.ParseEvent(stored.Body)
	if err != nil {
		return fmt.Errorf("%w: an event cannot be read", ErrTampered)
	}
	if stored.N == 0 {
		t.began = e.Time
	}
	h := t.head(e.Tenant)
	if e.Kind == evidence.EventBegun && e.Tenant == (uuid.UUID{}) {
		t.all = true
		return nil
	}
	switch e.Kind {
	case evidence.EventHead:
		h.index, h.size, h.root, h.state, h.revision = stored.N, e.Size, e.Root, e.State, e.Revision
		t.heads[e.Tenant] = h
	case evidence.EventBegun:
		h.begun, h.closed = true, !e.Import
		t.heads[e.Tenant] = h
	case evidence.EventImported:
		h.closed = true
		t.heads[e.Tenant] = h
	case evidence.EventTenantDeleted:
		delete(t.heads, e.Tenant)
		t.deleted[e.Tenant] = now
	case evidence.EventVerified:
		t.pass.apply(e)
	case evidence.EventSummary:
		return t.decode(e.Summary)
	default:
	}
	return nil
}

// applyAll takes in events that this node has appended.
func (t *tenants) applyAll(events []storage.TreeEvent) error {
	now := time.Now()
	for i := range events {
		if err := t.apply(&events[i], now); err != nil {
			return err
		}
	}
	return nil
}

// headSize is the number of bytes of a head in a summary: the tenant, index, size
// and revision, root and state, and two flags.
const headSize = 16 + 8 + 8 + 8 + 32 + 32 + 1

// allFlag is set in the number of heads of a summary if every older tenant has
// begun.
const allFlag = 1 << 63

// encode returns a summary: when the tree began, the number of heads, the newest
// verification, the heads, and the deleted tenants.
func (t *tenants) encode() []byte {
	b := make([]byte, 0, 16+passSize+headSize*len(t.heads)+16*len(t.deleted))
	b = binary.BigEndian.AppendUint64(b, uint64(t.began.UnixMicro()))
	n := uint64(len(t.heads))
	if t.all {
		n |= allFlag
	}
	b = t.pass.encode(binary.BigEndian.AppendUint64(b, n))
	for _, id := range sortedIDs(t.heads) {
		h := t.heads[id]
		b = binary.BigEndian.AppendUint64(append(b, id[:]...), uint64(h.index))
		b = binary.BigEndian.AppendUint64(b, uint64(h.size))
		b = binary.BigEndian.AppendUint64(b, uint64(h.revision))
		b = append(append(b, h.root[:]...), h.state[:]...)
		var flags byte
		if h.begun {
			flags |= 1
		}
		if h.closed {
			flags |= 2
		}
		b = append(b, flags)
	}
	for _, id := range sortedIDs(t.deleted) {
		b = append(b, id[:]...)
	}
	return b
}

// decode replaces everything by a summary.
func (t *tenants) decode(b []byte) error {
	bad := fmt.Errorf("%w: a summary cannot be read", ErrTampered)
	if len(b) < 16+passSize {
		return bad
	}
	next := newTenants()
	next.began = time.UnixMicro(int64(binary.BigEndian.Uint64(b))).UTC()
	next.pass.decode(b[16:])
	n, b := binary.BigEndian.Uint64(b[8:]), b[16+passSize:]
	next.all = n&allFlag != 0
	n &^= allFlag
	if n > uint64(len(b)/headSize) || (len(b)-int(n)*headSize)%16 != 0 {
		return bad
	}
	for ; n > 0; n-- {
		next.heads[uuid.UUID(b[:16])] = head{
			index: int64(binary.BigEndian.Uint64(b[16:])), size: int64(binary.BigEndian.Uint64(b[24:])), revision: int64(binary.BigEndian.Uint64(b[32:])),
			root: evidence.Hash(b[40:72]), state: evidence.Hash(b[72:104]), begun: b[104]&1 != 0, closed: b[104]&2 != 0,
		}
		b = b[headSize:]
	}
	for ; len(b) > 0; b = b[16:] {
		next.deleted[uuid.UUID(b[:16])] = t.deleted[uuid.UUID(b[:16])]
	}
	*t = next
	return nil
}

func sortedIDs[T any](m map[uuid.UUID]T) []uuid.UUID {
	return slices.SortedFunc(maps.Keys(m), compareIDs)
}

func compareIDs(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }

// headOf returns the newest head of a tenant. ErrGone means that the deletion of
// the tenant is signed, and ErrSuspended that heads are unknown.
func (l *Ledger) headOf(tenant uuid.UUID) (head, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.vault.headOf(tenant)
}

func (v *vaultTree) headOf(tenant uuid.UUID) (head, error) {
	if v.blind {
		return head{}, ErrSuspended
	}
	if _, ok := v.tenants.deleted[tenant]; ok {
		return head{}, ErrGone
	}
	return v.tenants.head(tenant), nil
}

// Deleted reports whether the deletion of a tenant is signed. Such a tenant
// never exists again.
func (l *Ledger) Deleted(tenant uuid.UUID) bool {
	_, ok := l.deletion(tenant)
	return ok
}

// deletion returns when this node learned of the deletion of a tenant.
func (l *Ledger) deletion(tenant uuid.UUID) (at time.Time, ok bool) {
	l.gone.RLock()
	defer l.gone.RUnlock()
	at, ok = l.vault.tenants.deleted[tenant]
	return at, ok
}

// deletionTime is how long the deletion of a tenant's keys may take after it was
// signed.
const deletionTime = 10 * time.Second

// Refuses reports whether a tenant that exists in the database must not be served,
// because its deletion is signed. It raises an alarm unless the deletion may be
// going on.
func (l *Ledger) Refuses(tenant uuid.UUID) bool {
	if l.isBack(tenant) {
		l.alarms.raise(Alarm{Kind: AlarmTampered, Tenant: tenant, Verdict: evidence.Forged, Text: "a deleted tenant is in the database again"})
	}
	return l.Deleted(tenant)
}

// isBack reports whether a tenant that exists in the database was deleted before.
func (l *Ledger) isBack(tenant uuid.UUID) bool {
	since, ok := l.deletion(tenant)
	return ok && (since.IsZero() || time.Since(since) > deletionTime)
}

// Dropped tells the ledger that the keys of a deleted tenant no longer exist. From
// then on it is an alarm if they do.
func (l *Ledger) Dropped(tenant uuid.UUID) {
	l.Forget(tenant)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Deleted(tenant) {
		l.gone.Lock()
		defer l.gone.Unlock()
		l.vault.tenants.deleted[tenant] = time.Time{}
	}
}

// set makes v the tree that this node knows.
func (l *Ledger) set(v *vaultTree) {
	l.gone.Lock()
	defer l.gone.Unlock()
	l.vault = *v
}
