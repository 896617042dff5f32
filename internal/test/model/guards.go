package model

import "github.com/seed-72ea4aab/vault/storage"

// Conflicts returns the guards of a change that do not hold. A backend may
// report any of them.
func (s *Store) Conflicts(c *storage.Change) []storage.Conflict {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	return s.db.judge(c)
}

func (db *DB) judge(c *storage.Change) []storage.Conflict {
	j := &judgement{Change: c, tenant: db.tenant(c.Tenant)}
	j.claim()
	j.tokens()
	j.dedups()
	j.records(db)
	j.revisions()
	return j.found
}

// judgement collects the guards of a change that do not hold.
type judgement struct {
	*storage.Change
	*tenant
	found []storage.Conflict
}

// unless adds a conflict on a row unless the guard holds.
func (j *judgement) unless(holds bool, kind storage.ConflictKind, row int) {
	if !holds {
		j.found = append(j.found, storage.Conflict{Kind: kind, Index: row})
	}
}

func (j *judgement) claim() {
	if j.Claim == nil {
		return
	}
	held, ok := j.claims[j.Claim.Key]
	if j.Claim.Op == storage.ClaimTake {
		j.unless(!ok || !held.Live(j.Now), storage.ClaimTaken, 0)
		return
	}
	j.unless(ok && held.Answer == nil && held.Owner == j.Claim.Owner, storage.ClaimLost, 0)
}

func (j *judgement) tokens() {
	ids := map[string]int{}
	for _, row := range j.tenant.tokens {
		ids[row.ID]++
	}
	for _, row := range j.InsertTokens {
		ids[row.ID]++
	}
	for i, row := range j.InsertTokens {
		_, taken := j.tenant.tokens[row.Ord]
		j.unless(!taken && ids[row.ID] == 1, storage.TokenIDTaken, i)
	}
}

// dedups checks that no two tokens have the same Dedup hash after the change.
func (j *judgement) dedups() {
	users := map[storage.Hash]map[storage.ID]bool{}
	use := func(row storage.Token) {
		if users[row.Dedup] == nil {
			users[row.Dedup] = map[storage.ID]bool{}
		}
		users[row.Dedup][row.Ord] = true
	}
	for _, row := range j.tenant.tokens {
		use(row)
	}
	for _, row := range j.InsertTokens {
		use(row)
	}
	for _, u := range j.UpdateTokens {
		use(u.Token)
	}
	free := func(row storage.Token) bool { return row.Dedup == storage.Hash{} || len(users[row.Dedup]) == 1 }
	for i, row := range j.InsertTokens {
		j.unless(free(row), storage.DuplicateTaken, i)
	}
	for i, u := range j.UpdateTokens {
		j.unless(free(u.Token), storage.DuplicateTaken, i)
	}
}

// records checks ids and keys. Keys are unique across tenants.
func (j *judgement) records(db *DB) {
	users, ids := map[storage.Key]map[recordRef]bool{}, map[recordID]int{}
	ref := func(row storage.Record) recordRef { return recordRef{j.Tenant, recordID{row.Kind, row.ID}} }
	use := func(row storage.Record) {
		for _, key := range []storage.Key{row.Key, row.AltKey} {
			if users[key] == nil {
				users[key] = map[recordRef]bool{}
			}
			users[key][ref(row)] = true
			if by, taken := db.lookups[key]; taken {
				users[key][by] = true
			}
		}
	}
	for _, row := range j.InsertRecords {
		use(row)
		ids[recordID{row.Kind, row.ID}]++
	}
	for _, u := range j.UpdateRecords {
		use(u.Record)
	}
	free := func(key storage.Key) bool { return key.IsZero() || len(users[key]) == 1 }
	for i, row := range j.InsertRecords {
		id := recordID{row.Kind, row.ID}
		_, taken := j.tenant.records[id]
		j.unless(!taken && ids[id] == 1 && free(row.Key) && free(row.AltKey), storage.KeyTaken, i)
	}
	for i, u := range j.UpdateRecords {
		j.unless(free(u.Record.Key) && free(u.Record.AltKey), storage.KeyTaken, i)
	}
}

// revisions checks the revisions of tokens and records, and the owners of jobs.
func (j *judgement) revisions() {
	token := func(ord storage.ID, rev int64, i int) {
		row, ok := j.tenant.tokens[ord]
		j.unless(ok && row.Rev == rev, storage.TokenStale, i)
	}
	record := func(id recordID, rev int64, i int) {
		row, ok := j.tenant.records[id]
		j.unless(ok && row.Rev == rev, storage.RecordStale, i)
	}
	job := func(id, owner storage.ID, i int) {
		row, ok := j.jobs[id]
		j.unless(ok && row.Owner == owner, storage.JobStale, i)
	}
	for i, u := range j.UpdateTokens {
		token(u.Token.Ord, u.Rev, i)
	}
	for i, d := range j.DeleteTokens {
		token(d.Ord, d.Rev, i)
	}
	for i, u := range j.UpdateRecords {
		record(recordID{u.Record.Kind, u.Record.ID}, u.Rev, i)
	}
	for i, d := range j.DeleteRecords {
		record(recordID{d.Kind, d.ID}, d.Rev, i)
	}
	for i, u := range j.UpdateJobs {
		job(u.Job.ID, u.Owner, i)
	}
	for i, d := range j.DeleteJobs {
		job(d.ID, d.Owner, i)
	}
}
