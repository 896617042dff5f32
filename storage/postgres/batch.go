package postgres

import (
	"bytes"
	"cmp"
	"slices"

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
	r := &batchRule{class: first.class, lane: first.lane}
	r.accepts(first)
	return r
}

func (r *batchRule) accepts(p *pending) bool {
	if p.class == alone || p.class != r.class || p.lane != r.lane {
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

// ordered sorts changes by the unique keys of their tokens, so that two batches
// with the same keys do not deadlock.
func ordered(batch []*pending) []*pending {
	sorted := slices.Clone(batch)
	slices.SortStableFunc(sorted, func(a, b *pending) int {
		if byTenant := bytes.Compare(a.change.Tenant[:], b.change.Tenant[:]); byTenant != 0 {
			return byTenant
		}
		if len(a.change.InsertTokens) == 0 || len(b.change.InsertTokens) == 0 {
			return len(a.change.InsertTokens) - len(b.change.InsertTokens)
		}
		t, u := &a.change.InsertTokens[0], &b.change.InsertTokens[0]
		return cmp.Or(bytes.Compare(t.Dedup[:], u.Dedup[:]), cmp.Compare(t.ID, u.ID))
	})
	return sorted
}
