package storagetest

import (
	"github.com/seed-72ea4aab/vault/storage"
)

func atomicRules() []rule {
	return []rule{
		{"all rows of a change are written", wholeChange},
		{"a change may be empty", emptyChange},
		{"a taken id at any position leaves nothing", failingToken},
		{"a taken Dedup hash at any position leaves nothing", failingDedup},
		{"a taken key at any position leaves nothing", failingRecord},
		{"a stale revision at any position leaves nothing", failingRevision},
		{"a lost job leaves nothing", failingJob},
		{"a taken claim leaves nothing", failingClaim},
		{"a taken id leaves no claim", failingTokenLeavesNoClaim},
		{"a lost claim leaves nothing", failingFinish},
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
		w.Errorf("got %d jobs, want the new one alone", len(jobs))
	}
}

func emptyChange(w *world) {
	tenant := w.id()
	w.unchanged(tenant, func() { w.write(&storage.Change{Tenant: tenant, Now: now}) })
}

// leavesNothing writes a change that must be refused, and checks that none of
// its rows can be found by any way.
func (w *world) leavesNothing(c *storage.Change, kind storage.ConflictKind, rows ...int) {
	w.Helper()
	claim := (*storage.Claim)(nil)
	if c.Claim != nil {
		claim = w.claimed(c.Tenant, c.Claim.Key)
	}
	w.unchanged(c.Tenant, func() { w.refused(c, kind, rows...) })
	for _, token := range c.InsertTokens {
		for _, h := range token.Hashes {
			n := w.count(storage.TokenFilter{Tenant: c.Tenant, Where: storage.HashIs(h)})
			w.same("tokens by a hash of the refused change", n, 0)
		}
	}
	for _, record := range c.InsertRecords {
		for _, key := range []storage.Key{record.Key, record.AltKey} {
			if r := w.lookup(key); r != nil && r.ID == record.ID {
				w.Error("a key of the refused change is found")
			}
		}
	}
	if c.Claim != nil {
		w.same("claim", w.claimed(c.Tenant, c.Claim.Key), claim)
	}
}

// full returns a change with three rows of each kind, and a claim.
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

// busy returns a tenant that has rows already.
func (w *world) busy() (storage.ID, *storage.Change) {
	tenant := w.id()
	c := w.full(tenant, "old")
	w.write(c)
	return tenant, c
}

func failingToken(w *world) {
	tenant, old := w.busy()
	for i := range 3 {
		c := w.full(tenant, "new")
		c.InsertTokens[i].ID = old.InsertTokens[0].ID
		w.leavesNothing(c, storage.TokenIDTaken, i)
	}
}

func failingDedup(w *world) {
	tenant, old := w.busy()
	for i := range 3 {
		c := w.full(tenant, "new")
		c.InsertTokens[i].Dedup = old.InsertTokens[0].Dedup
		w.leavesNothing(c, storage.DuplicateTaken, i)
	}
}

func failingRecord(w *world) {
	tenant, old := w.busy()
	for i := range 3 {
		c := w.full(tenant, "new")
		c.InsertRecords[i].AltKey = old.InsertRecords[0].Key
		w.leavesNothing(c, storage.KeyTaken, i)
	}
}

func failingRevision(w *world) {
	tenant, old := w.busy()
	for i := range 3 {
		updates, deletes := w.full(tenant, "new"), w.full(tenant, "new")
		for j, token := range old.InsertTokens {
			updates.UpdateTokens = append(updates.UpdateTokens, updateOf(token, w.changed(token)))
			deletes.DeleteTokens = append(deletes.DeleteTokens, deleteOf(token))
			record := old.InsertRecords[j]
			updates.UpdateRecords = append(updates.UpdateRecords, storage.RecordUpdate{Rev: 1, Record: record})
			deletes.DeleteRecords = append(deletes.DeleteRecords,
				storage.RecordDelete{Kind: record.Kind, ID: record.ID, Rev: 1})
		}
		updates.UpdateTokens[i].Rev = 5
		w.leavesNothing(updates, storage.TokenStale, i)
		updates.UpdateTokens[i].Rev, updates.UpdateRecords[i].Rev = 1, 5
		w.leavesNothing(updates, storage.RecordStale, i)
		deletes.DeleteTokens[i].Rev = 5
		w.leavesNothing(deletes, storage.TokenStale, i)
		deletes.DeleteTokens[i].Rev, deletes.DeleteRecords[i].Rev = 1, 5
		w.leavesNothing(deletes, storage.RecordStale, i)
	}
}

func failingJob(w *world) {
	tenant, old := w.busy()
	c := w.full(tenant, "new")
	c.DeleteJobs = []storage.JobDelete{{Owner: w.id(), ID: old.InsertJobs[0].ID}}
	w.leavesNothing(c, storage.JobStale, 0)
	c.DeleteJobs, c.UpdateJobs = nil, []storage.JobUpdate{{Owner: w.id(), Job: old.InsertJobs[0]}}
	w.leavesNothing(c, storage.JobStale, 0)
}

func failingClaim(w *world) {
	tenant, old := w.busy()
	c := w.full(tenant, "new")
	c.Claim.Key = old.Claim.Key
	w.leavesNothing(c, storage.ClaimTaken, 0)
}

func failingTokenLeavesNoClaim(w *world) {
	tenant, old := w.busy()
	c := w.full(tenant, "new")
	c.InsertTokens[1].ID = old.InsertTokens[1].ID
	w.leavesNothing(c, storage.TokenIDTaken, 1)
	w.same("claim", w.claimed(tenant, c.Claim.Key), (*storage.Claim)(nil))

	dead := w.claim()
	dead.LeaseUntil = earlier
	w.write(take(tenant, dead))
	c.Claim.Key = dead.Key
	w.leavesNothing(c, storage.TokenIDTaken, 1)
	w.same("claim that was to be replaced", w.claimed(tenant, dead.Key), &dead)

	open := w.claim()
	w.write(take(tenant, open))
	c.Claim = &storage.ClaimChange{Op: storage.ClaimFinish, Claim: open}
	c.Claim.Answer = []byte("answer")
	w.leavesNothing(c, storage.TokenIDTaken, 1)
	w.same("claim that was to be finished", w.claimed(tenant, open.Key), &open)
}

func failingFinish(w *world) {
	tenant, _ := w.busy()
	c := w.full(tenant, "new")
	c.Claim.Op = storage.ClaimFinish
	w.leavesNothing(c, storage.ClaimLost, 0)
	c.Claim.Op = storage.ClaimDrop
	w.leavesNothing(c, storage.ClaimLost, 0)
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
