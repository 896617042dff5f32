package model

import "github.com/seed-72ea4aab/vault/storage"

// judge returns the first guard of the change that does not hold.
func (db *DB) judge(c *storage.Change) *storage.Conflict {
	t := db.tenant(c.Tenant)
	for _, guard := range []func(*tenant, *storage.Change) *storage.Conflict{
		judgeClaim, judgeTokenIDs, judgeDedup, judgeTokenRevs, db.judgeRecords, judgeRecordRevs, judgeJobs,
	} {
		if conflict := guard(t, c); conflict != nil {
			return conflict
		}
	}
	return nil
}

func judgeClaim(t *tenant, c *storage.Change) *storage.Conflict {
	if c.Claim == nil {
		return nil
	}
	held, ok := t.claims[c.Claim.Key]
	if c.Claim.Op == storage.ClaimTake {
		if ok && held.Live(c.Now) {
			return &storage.Conflict{Kind: storage.ClaimTaken}
		}
		return nil
	}
	if !ok || held.Answer != nil || held.Owner != c.Claim.Owner {
		return &storage.Conflict{Kind: storage.ClaimLost}
	}
	return nil
}

func judgeTokenIDs(t *tenant, c *storage.Change) *storage.Conflict {
	ids := map[string]bool{}
	for _, row := range t.tokens {
		ids[row.ID] = true
	}
	for i, row := range c.InsertTokens {
		if _, taken := t.tokens[row.Ord]; taken || ids[row.ID] {
			return &storage.Conflict{Kind: storage.TokenIDTaken, Index: i}
		}
		ids[row.ID] = true
	}
	return nil
}

func judgeDedup(t *tenant, c *storage.Change) *storage.Conflict {
	owner := map[storage.Hash]storage.ID{}
	for ord, row := range t.tokens {
		if row.Dedup != (storage.Hash{}) {
			owner[row.Dedup] = ord
		}
	}
	take := func(row storage.Token, i int) *storage.Conflict {
		if row.Dedup == (storage.Hash{}) {
			return nil
		}
		if by, taken := owner[row.Dedup]; taken && by != row.Ord {
			return &storage.Conflict{Kind: storage.DuplicateTaken, Index: i}
		}
		owner[row.Dedup] = row.Ord
		return nil
	}
	for i, row := range c.InsertTokens {
		if conflict := take(row, i); conflict != nil {
			return conflict
		}
	}
	for i, u := range c.UpdateTokens {
		if conflict := take(u.Token, i); conflict != nil {
			return conflict
		}
	}
	return nil
}

func judgeTokenRevs(t *tenant, c *storage.Change) *storage.Conflict {
	for i, u := range c.UpdateTokens {
		if row, ok := t.tokens[u.Token.Ord]; !ok || row.Rev != u.Rev {
			return &storage.Conflict{Kind: storage.TokenStale, Index: i}
		}
	}
	for i, d := range c.DeleteTokens {
		if row, ok := t.tokens[d.Ord]; !ok || row.Rev != d.Rev {
			return &storage.Conflict{Kind: storage.TokenStale, Index: i}
		}
	}
	return nil
}

// judgeRecords checks ids and keys. Keys are unique across tenants.
func (db *DB) judgeRecords(t *tenant, c *storage.Change) *storage.Conflict {
	added := map[storage.Key]recordRef{}
	free := func(key storage.Key, by recordRef) bool {
		if key.IsZero() {
			return true
		}
		if holder, taken := db.lookups[key]; taken && holder != by {
			return false
		}
		if holder, taken := added[key]; taken && holder != by {
			return false
		}
		added[key] = by
		return true
	}
	ids := map[recordID]bool{}
	for i, row := range c.InsertRecords {
		id := recordID{row.Kind, row.ID}
		by := recordRef{c.Tenant, id}
		_, taken := t.records[id]
		if taken || ids[id] || !free(row.Key, by) || !free(row.AltKey, by) {
			return &storage.Conflict{Kind: storage.KeyTaken, Index: i}
		}
		ids[id] = true
	}
	for i, u := range c.UpdateRecords {
		by := recordRef{c.Tenant, recordID{u.Record.Kind, u.Record.ID}}
		if !free(u.Record.Key, by) || !free(u.Record.AltKey, by) {
			return &storage.Conflict{Kind: storage.KeyTaken, Index: i}
		}
	}
	return nil
}

func judgeRecordRevs(t *tenant, c *storage.Change) *storage.Conflict {
	for i, u := range c.UpdateRecords {
		if row, ok := t.records[recordID{u.Record.Kind, u.Record.ID}]; !ok || row.Rev != u.Rev {
			return &storage.Conflict{Kind: storage.RecordStale, Index: i}
		}
	}
	for i, d := range c.DeleteRecords {
		if row, ok := t.records[recordID{d.Kind, d.ID}]; !ok || row.Rev != d.Rev {
			return &storage.Conflict{Kind: storage.RecordStale, Index: i}
		}
	}
	return nil
}

func judgeJobs(t *tenant, c *storage.Change) *storage.Conflict {
	for i, u := range c.UpdateJobs {
		if row, ok := t.jobs[u.Job.ID]; !ok || row.Owner != u.Owner {
			return &storage.Conflict{Kind: storage.JobStale, Index: i}
		}
	}
	for i, d := range c.DeleteJobs {
		if row, ok := t.jobs[d.ID]; !ok || row.Owner != d.Owner {
			return &storage.Conflict{Kind: storage.JobStale, Index: i}
		}
	}
	return nil
}
