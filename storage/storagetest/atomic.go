package storagetest

import (
	"github.com/seed-72ea4aab/vault/storage"
)

func atomicRules() []rule {
	return []rule{
		{"a change that is refused for any row leaves nothing", refusedLeavesNothing},
	}
}

// refusals is a tenant that rejected changes must leave as it is.
type refusals struct {
	*world
	tenant storage.ID
	old    *storage.Change // the rows of the tenant
	owner  storage.ID      // of its jobs
	before state
}

// refusals returns a tenant with rows.
func (w *world) refusals() *refusals {
	w.Helper()
	tenant, old := w.busy()
	owner := w.id()
	w.lease(tenant, owner, 3)
	return &refusals{world: w, tenant: tenant, old: old, owner: owner, before: w.state(tenant)}
}

// leavesNothing writes a change that must be rejected, and checks that none of
// its rows can be found in any way.
func (r *refusals) leavesNothing(c *storage.Change, kind storage.ConflictKind, row int) {
	r.Helper()
	claim := r.claimed(r.tenant, c.Claim.Key)
	r.refused(c, kind, row)
	r.same("state of the tenant", r.state(r.tenant), r.before)
	r.same("claim", r.claimed(r.tenant, c.Claim.Key), claim)
	for i, token := range c.InsertTokens {
		n := r.count(storage.TokenFilter{Tenant: r.tenant, Where: storage.HashIs(token.Hashes[i%2])})
		r.same("tokens by a hash of the refused change", n, 0)
	}
	for _, record := range c.InsertRecords {
		for _, key := range []storage.Key{record.Key, record.AltKey} {
			if found := r.lookup(key); found != nil && found.ID == record.ID {
				r.Error("a key of the refused change is found")
			}
		}
	}
}

// full returns a change with three rows of each kind and a claim.
func (w *world) full(tenant storage.ID, prefix string) *storage.Change {
	c := &storage.Change{Tenant: tenant, Now: now, Claim: &storage.ClaimChange{Op: storage.ClaimTake, Claim: w.answered()}}
	c.InsertTokens = w.tokenSeries(prefix, 3)
	for i := range c.InsertTokens {
		c.InsertTokens[i].Dedup = w.hash()
		c.InsertRecords = append(c.InsertRecords, w.record("proxy", prefix))
		c.InsertJobs = append(c.InsertJobs, w.job(earlier))
		c.Logs = append(c.Logs, w.log("token", c.InsertTokens[i].ID))
	}
	return c
}

// busy returns a tenant with rows, and the change that wrote them.
func (w *world) busy() (storage.ID, *storage.Change) {
	tenant := w.id()
	c := w.full(tenant, "old")
	w.write(c)
	return tenant, c
}

// refusedLeavesNothing breaks one guard at a time, for each of three rows.
func refusedLeavesNothing(w *world) {
	r := w.refusals()
	old := r.old
	dead, open := w.claim(), w.claim()
	dead.LeaseUntil = earlier
	w.write(take(r.tenant, dead))
	w.write(take(r.tenant, open))
	for _, guard := range []struct {
		kind   storage.ConflictKind
		breaks func(c *storage.Change, i int)
	}{
		{storage.TokenIDTaken, func(c *storage.Change, i int) { c.InsertTokens[i].ID = old.InsertTokens[0].ID }},
		{storage.DuplicateTaken, func(c *storage.Change, i int) { c.InsertTokens[i].Dedup = old.InsertTokens[0].Dedup }},
		{storage.KeyTaken, func(c *storage.Change, i int) { c.InsertRecords[i].AltKey = old.InsertRecords[0].Key }},
		{storage.KeyTaken, func(c *storage.Change, i int) { c.InsertRecords[i].ID = old.InsertRecords[1].ID }},
		{storage.TokenStale, func(c *storage.Change, i int) { r.updateAll(c); c.UpdateTokens[i].Rev = 5 }},
		{storage.TokenStale, func(c *storage.Change, i int) { r.updateAll(c); c.UpdateTokens[i].Token.Ord = w.id() }},
		{storage.RecordStale, func(c *storage.Change, i int) { r.updateAll(c); c.UpdateRecords[i].Rev = 5 }},
		{storage.RecordStale, func(c *storage.Change, i int) { r.updateAll(c); c.UpdateRecords[i].Record = w.record("session", "") }},
		{storage.TokenStale, func(c *storage.Change, i int) { r.deleteAll(c); c.DeleteTokens[i].Rev = 5 }},
		{storage.TokenStale, func(c *storage.Change, i int) { r.deleteAll(c); c.DeleteTokens[i].Ord = w.id() }},
		{storage.RecordStale, func(c *storage.Change, i int) { r.deleteAll(c); c.DeleteRecords[i].Rev = 5 }},
		{storage.RecordStale, func(c *storage.Change, i int) { r.deleteAll(c); c.DeleteRecords[i].Kind = "session" }},
		{storage.JobStale, func(c *storage.Change, i int) { r.updateJobs(c); c.UpdateJobs[i].Owner = w.id() }},
		{storage.JobStale, func(c *storage.Change, i int) { r.updateJobs(c); c.UpdateJobs[i].Job.ID = w.id() }},
		{storage.JobStale, func(c *storage.Change, i int) { r.deleteJobs(c); c.DeleteJobs[i].Owner = w.id() }},
		{storage.JobStale, func(c *storage.Change, i int) { r.deleteJobs(c); c.DeleteJobs[i].ID = w.id() }},
	} {
		for i := range 3 {
			c := r.full(r.tenant, "new")
			switch i { // a claim that is new, replaced or finished
			case 1:
				c.Claim.Key = dead.Key
			case 2:
				c.Claim.Op, c.Claim.Key, c.Claim.Owner = storage.ClaimFinish, open.Key, open.Owner
			}
			guard.breaks(c, i)
			r.leavesNothing(c, guard.kind, i)
		}
	}
	for op, kind := range map[storage.ClaimOp]storage.ConflictKind{
		storage.ClaimTake: storage.ClaimTaken, storage.ClaimFinish: storage.ClaimLost, storage.ClaimDrop: storage.ClaimLost,
	} {
		c := r.full(r.tenant, "new")
		c.Claim.Op, c.Claim.Key = op, old.Claim.Key
		r.leavesNothing(c, kind, 0)
	}
}

// updateAll adds updates of all the tenant's tokens and records to a change.
func (r *refusals) updateAll(c *storage.Change) {
	for i, token := range r.old.InsertTokens {
		c.UpdateTokens = append(c.UpdateTokens, updateOf(token, r.changed(token)))
		c.UpdateRecords = append(c.UpdateRecords, storage.RecordUpdate{Rev: 1, Record: r.old.InsertRecords[i]})
	}
}

// deleteAll adds deletes of all the tenant's tokens and records to a change.
func (r *refusals) deleteAll(c *storage.Change) {
	for i, token := range r.old.InsertTokens {
		record := r.old.InsertRecords[i]
		c.DeleteTokens = append(c.DeleteTokens, deleteOf(token))
		c.DeleteRecords = append(c.DeleteRecords, storage.RecordDelete{Kind: record.Kind, ID: record.ID, Rev: 1})
	}
}

// updateJobs and deleteJobs add all the tenant's jobs to a change.
func (r *refusals) updateJobs(c *storage.Change) {
	for _, job := range r.old.InsertJobs {
		c.UpdateJobs = append(c.UpdateJobs, storage.JobUpdate{Owner: r.owner, Job: job})
	}
}

func (r *refusals) deleteJobs(c *storage.Change) {
	for _, job := range r.old.InsertJobs {
		c.DeleteJobs = append(c.DeleteJobs, storage.JobDelete{Owner: r.owner, ID: job.ID})
	}
}
