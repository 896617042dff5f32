package postgres

import (
	"bytes"
	"cmp"
	"slices"
	"sync"

	"github.com/seed-72ea4aab/vault/internal/bounded"
	"github.com/seed-72ea4aab/vault/storage"
)

// maxGroupedLogs limits the log entries of a change that shares a statement.
const maxGroupedLogs = 8

// onlyReadLogs reports whether a change may be committed without syncing.
func onlyReadLogs(c *storage.Change) bool {
	return c.Relaxed && c.Claim == nil && onlyLogs(c)
}

// onlyLogs reports whether a change has only log entries, and at most a claim
// besides.
func onlyLogs(c *storage.Change) bool { return len(c.InsertTokens) == 0 && onlyCreates(c) }

// onlyCreates reports whether a change only creates tokens, with at most a
// claim and log entries besides.
func onlyCreates(c *storage.Change) bool {
	return len(c.UpdateTokens) == 0 && len(c.DeleteTokens) == 0 &&
		len(c.InsertRecords) == 0 && len(c.UpdateRecords) == 0 && len(c.DeleteRecords) == 0 &&
		len(c.InsertJobs) == 0 && len(c.UpdateJobs) == 0 && len(c.DeleteJobs) == 0 && len(c.Reseal) == 0
}

func classOf(c *storage.Change) class {
	switch {
	case len(c.Logs) == 0 || len(c.Logs) > maxGroupedLogs:
		return alone
	case onlyReadLogs(c):
		return reads
	case len(c.InsertTokens) > 1 || !onlyCreates(c):
		return alone
	case c.Claim != nil && (c.Claim.Op != storage.ClaimTake || len(c.InsertTokens) == 0):
		return alone
	default:
		return creates
	}
}

// batchRule decides which changes may share a statement with those it has
// already accepted. They must be of one class and lane, and no two may take the
// same claim, because a statement cannot insert a row twice.
type batchRule struct {
	class  class
	lane   storage.ID
	claims map[claimKey]bool
}

type claimKey struct {
	tenant storage.ID
	key    storage.Key
}

func newBatchRule(first *pending) *batchRule {
	r := &batchRule{class: first.class, lane: first.Lane}
	r.accepts(first)
	return r
}

func (r *batchRule) accepts(p *pending) bool {
	if p.class == alone || p.class != r.class || p.Lane != r.lane {
		return false
	}
	if p.class != creates || p.change.Claim == nil {
		return true
	}
	key := claimKey{p.change.Tenant, p.change.Claim.Key}
	if r.claims[key] {
		return false
	}
	if r.claims == nil {
		r.claims = map[claimKey]bool{}
	}
	r.claims[key] = true
	return true
}

// sortByKeys sorts changes by the unique keys of their tokens, so that two batches with
// the same keys do not deadlock.
func sortByKeys(changes []*storage.Change) {
	slices.SortStableFunc(changes, func(a, b *storage.Change) int {
		if byTenant := bytes.Compare(a.Tenant[:], b.Tenant[:]); byTenant != 0 {
			return byTenant
		}
		if len(a.InsertTokens) == 0 || len(b.InsertTokens) == 0 {
			return len(a.InsertTokens) - len(b.InsertTokens)
		}
		t, u := &a.InsertTokens[0], &b.InsertTokens[0]
		return cmp.Or(bytes.Compare(t.Dedup[:], u.Dedup[:]), cmp.Compare(t.ID, u.ID))
	})
}

// conflicts remembers which creates have met a conflict. A conflict makes the
// statement of a group fail, and then its changes are written one by one. So a create
// with a key that was taken before is written alone. After a conflict with another key,
// its tenant writes alone for a while, so that others do not wait for it.
type conflicts struct {
	mu    sync.Mutex
	taken bounded.Map[takenKey, struct{}]
	alone bounded.Map[storage.ID, int] // how many creates are written alone
}

// takenKey is a unique key of a tenant that a create has found taken.
type takenKey struct {
	tenant storage.ID
	kind   storage.ConflictKind
	key    string
}

const (
	// aloneFor is the number of creates of a tenant that are written alone after a
	// conflict with a new key.
	aloneFor = 64
	// maxConflicts limits the keys and the tenants to remember.
	maxConflicts = 10_000
)

// keyOf returns the key of a create that a conflict is about.
func keyOf(c *storage.Change, kind storage.ConflictKind) takenKey {
	k := takenKey{tenant: c.Tenant, kind: kind}
	switch {
	case kind == storage.ClaimTaken && c.Claim != nil:
		k.key = string(c.Claim.Key[:])
	case len(c.InsertTokens) == 0:
	case kind == storage.DuplicateTaken && c.InsertTokens[0].Dedup != storage.Hash{}:
		k.key = string(c.InsertTokens[0].Dedup[:])
	case kind == storage.TokenIDTaken:
		k.key = c.InsertTokens[0].ID
	}
	return k
}

// met records a conflict of a create.
func (c *conflicts) met(change *storage.Change, kind storage.ConflictKind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := keyOf(change, kind)
	if _, known := c.taken[key]; !known {
		c.taken.Put(maxConflicts, key, struct{}{})
		c.alone.Put(maxConflicts, change.Tenant, aloneFor)
	}
}

// expects reports whether a create is written alone.
func (c *conflicts) expects(change *storage.Change) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, kind := range [...]storage.ConflictKind{storage.TokenIDTaken, storage.DuplicateTaken, storage.ClaimTaken} {
		if len(c.taken) == 0 {
			break
		}
		if _, known := c.taken[keyOf(change, kind)]; known {
			return true
		}
	}
	left := c.alone[change.Tenant]
	if left == 0 {
		return false
	}
	if c.alone[change.Tenant] = left - 1; left == 1 {
		delete(c.alone, change.Tenant)
	}
	return true
}
