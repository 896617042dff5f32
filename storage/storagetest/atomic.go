package storagetest

import (
	"github.com/seed-72ea4aab/vault/storage"
)

func atomicRules() []rule {
	return []rule{
		{"all rows of a change are written", wholeChange},
		{"a change may be empty", emptyChange},
		{"a change that is refused for any row leaves nothing", refusedLeavesNothing},
		{"a taken id leaves no claim", failingTokenLeavesNoClaim},
		{"a refused change can be written once its reason is gone", refusedThenWritten},
	}
}

func wholeChange(w *world) {
	tenant, owner := w.id(), w.id()
	old, e := w.example("old"), w.example("new")
	gone := w.token("gone")
	c := old.insert(tenant)
	c.InsertTokens = append(c.InsertTokens, gone)
	w.write(c)
	w.lease(tenant, owner, 1)

	all := e.insert(tenant)
	next := w.changed(old.token)
	all.UpdateTokens = []storage.TokenUpdate{updateOf(old.token, next)}
	all.DeleteTokens = []storage.TokenDelete{deleteOf(gone)}
	renamed := old.record
	renamed.Name = "renamed"
	all.UpdateRecords = []storage.RecordUpdate{{Rev: 1, Record: renamed}}
	all.DeleteJobs = []storage.JobDelete{{Owner: owner, ID: old.job.ID}}
	all.Reseal = []storage.Sealed{{Kind: storage.SealedClaims, Key: old.claim.Key, KeyVersion: 8, Body: []byte("again")}}
	w.write(all)

	next.Rev = 2
	w.hasTokens(tenant, next, e.token)
	w.same("name of the updated record", w.lookup(old.record.Key).Name, "renamed")
	w.same("name of the new record", w.lookup(e.record.Key).Name, e.record.Name)
	w.same("answer that was sealed again", w.claimed(tenant, old.claim.Key).Answer, []byte("again"))
	w.same("new claim", w.claimed(tenant, e.claim.Key), &e.claim)
	logs, _ := w.logs(storage.LogFilter{Tenant: tenant, Limit: 10})
	w.same("logs", logs, []storage.Log{e.log, old.log})
	if jobs := w.lease(tenant, owner, 10); len(jobs) != 1 || jobs[0].ID != e.job.ID {
		w.Errorf("got %d jobs, want only the new job", len(jobs))
	}
}

func emptyChange(w *world) {
	tenant := w.id()
	w.unchanged(tenant, func() { w.write(&storage.Change{Tenant: tenant, Now: now}) })
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

// fresh returns a change that does not conflict with anything of the tenant.
func (r *refusals) fresh() *storage.Change { return r.full(r.tenant, "new") }

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

func failingTokenLeavesNoClaim(w *world) {
	r := w.refusals()
	c := r.fresh()
	c.InsertTokens[1].ID = r.old.InsertTokens[1].ID
	r.leavesNothing(c, storage.TokenIDTaken, 1)
	w.same("claim", w.claimed(r.tenant, c.Claim.Key), (*storage.Claim)(nil))

	dead := w.claim()
	dead.LeaseUntil = earlier
	w.write(take(r.tenant, dead))
	c.Claim.Key = dead.Key
	r.leavesNothing(c, storage.TokenIDTaken, 1)
	w.same("claim that was to be replaced", w.claimed(r.tenant, dead.Key), &dead)

	open := w.claim()
	w.write(take(r.tenant, open))
	c.Claim = &storage.ClaimChange{Op: storage.ClaimFinish, Claim: open}
	c.Claim.Answer = []byte("answer")
	r.leavesNothing(c, storage.TokenIDTaken, 1)
	w.same("claim that was to be finished", w.claimed(r.tenant, open.Key), &open)
}

func refusedThenWritten(w *world) {
	tenant, old := w.busy()
	c := w.full(tenant, "new")
	c.InsertTokens[2].ID = old.InsertTokens[0].ID
	w.refused(c, storage.TokenIDTaken, 2)
	c.InsertTokens[2].ID = "free"
	w.write(c)
	w.hasTokens(tenant, append(c.InsertTokens, old.InsertTokens...)...)
	w.same("claim", w.claimed(tenant, c.Claim.Key), &c.Claim.Claim)
}
