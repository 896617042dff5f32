package model

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
)

// Write checks every guard, then writes every row.
func (s *Store) Write(ctx context.Context, c *storage.Change) error {
	leave, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if c.Late(time.Now()) {
		return storage.ErrLate
	}
	if h := c.Hold; h != nil && s.db.tenant(c.Tenant).records[recordID{h.Kind, h.ID}].Rev != h.Rev {
		return storage.ErrLate
	}
	if conflicts := s.db.judge(c); len(conflicts) > 0 {
		return &conflicts[0]
	}
	t := s.db.tenant(c.Tenant)
	t.writeClaim(c.Claim)
	t.writeTokens(c)
	s.db.writeRecords(t, c)
	t.writeJobs(c)
	for _, sealed := range c.Reseal {
		t.reseal(sealed)
	}
	s.db.enter(t, c.Logs)
	return nil
}

// enter writes the log entries of a change.
func (db *DB) enter(t *tenant, entries []storage.Log) {
	db.changes++
	byID := func(a, b storage.Log) int { return bytes.Compare(a.ID[:], b.ID[:]) }
	for _, entry := range slices.SortedFunc(slices.Values(entries), byID) {
		entry.CreatedAt = stored(entry.CreatedAt)
		entry.Seq = 0
		t.logs[entry.ID] = entry
		db.entries++
		t.written = append(t.written, written{entry.ID, db.entries, db.changes})
	}
}

func (t *tenant) writeClaim(c *storage.ClaimChange) {
	if c == nil {
		return
	}
	switch c.Op {
	case storage.ClaimTake:
		t.claims[c.Key] = copyClaim(c.Claim)
	case storage.ClaimFinish:
		held := t.claims[c.Key]
		held.Answer, held.KeyVersion = bytes.Clone(c.Answer), c.KeyVersion
		held.ExpiresAt = stored(c.ExpiresAt)
		t.claims[c.Key] = held
	case storage.ClaimDrop:
		delete(t.claims, c.Key)
	}
}

func (t *tenant) writeTokens(c *storage.Change) {
	for _, row := range c.InsertTokens {
		row.Tenant = c.Tenant
		t.tokens[row.Ord] = copyToken(row)
		t.sets[row.Set] = slices.Clone(row.Containers)
	}
	for _, u := range c.UpdateTokens {
		old, row := t.tokens[u.Token.Ord], copyToken(u.Token)
		row.Tenant, row.ID, row.Type = old.Tenant, old.ID, old.Type
		row.CreatedBy, row.CreatedAt, row.Rev = old.CreatedBy, old.CreatedAt, u.Rev+1
		if u.KeepHashes {
			row.Hashes = old.Hashes
		}
		t.tokens[row.Ord] = row
		t.sets[row.Set] = slices.Clone(row.Containers)
	}
	for _, d := range c.DeleteTokens {
		delete(t.tokens, d.Ord)
	}
}

func (db *DB) writeRecords(t *tenant, c *storage.Change) {
	put := func(row storage.Record) {
		id := recordID{row.Kind, row.ID}
		row.Tenant = c.Tenant
		t.records[id] = copyRecord(row)
		for _, key := range []storage.Key{row.Key, row.AltKey} {
			if !key.IsZero() {
				db.lookups[key] = recordRef{c.Tenant, id}
			}
		}
	}
	for _, row := range c.InsertRecords {
		put(row)
	}
	for _, u := range c.UpdateRecords {
		row := u.Record
		row.Rev = u.Rev + 1
		db.forget(t.records[recordID{row.Kind, row.ID}])
		put(row)
	}
	for _, d := range c.DeleteRecords {
		id := recordID{d.Kind, d.ID}
		db.forget(t.records[id])
		delete(t.records, id)
	}
}

// forget frees the keys of a record.
func (db *DB) forget(row storage.Record) {
	delete(db.lookups, row.Key)
	delete(db.lookups, row.AltKey)
}

func (t *tenant) writeJobs(c *storage.Change) {
	for _, job := range c.InsertJobs {
		job.Tenant = c.Tenant
		t.jobs[job.ID] = copyJob(job)
	}
	for _, u := range c.UpdateJobs {
		row, job := t.jobs[u.Job.ID], copyJob(u.Job)
		row.RunAt, row.Attempts, row.Dead = job.RunAt, job.Attempts, job.Dead
		row.KeyVersion, row.Payload = job.KeyVersion, job.Payload
		row.Owner, row.LeaseUntil = storage.ID{}, stored(u.Until)
		if !u.Until.IsZero() {
			row.Owner = u.Owner
		}
		t.jobs[row.ID] = row
	}
	for _, d := range c.DeleteJobs {
		delete(t.jobs, d.ID)
	}
}

func (t *tenant) reseal(sealed storage.Sealed) {
	switch sealed.Kind {
	case storage.SealedClaims:
		row, ok := t.claims[sealed.Key]
		if ok && row.Answer != nil && row.KeyVersion < sealed.Below() {
			row.KeyVersion, row.Answer = sealed.KeyVersion, bytes.Clone(sealed.Body)
			t.claims[sealed.Key] = row
		}
	case storage.SealedJobs:
		id := storage.ID(sealed.Key[:16])
		row, ok := t.jobs[id]
		if ok && row.KeyVersion < sealed.Below() {
			row.KeyVersion, row.Payload = sealed.KeyVersion, bytes.Clone(sealed.Body)
			t.jobs[id] = row
		}
	}
}

// Purge deletes rows of a tenant, kind by kind, records last.
func (s *Store) Purge(ctx context.Context, id storage.ID, limit int) (more bool, err error) {
	return locked(ctx, s, func() (bool, error) {
		t := s.db.tenant(id)
		purge(t.tokens, &limit)
		purge(t.sets, &limit)
		purge(t.logs, &limit)
		purge(t.claims, &limit)
		purge(t.jobs, &limit)
		delete(s.db.trees, id)
		for id, row := range t.records {
			if limit > 0 {
				s.db.forget(row)
				delete(t.records, id)
				limit--
			}
		}
		return len(t.records)+len(t.tokens)+len(t.sets)+len(t.logs)+len(t.claims)+len(t.jobs) > 0, nil
	})
}

func purge[K comparable, V any](rows map[K]V, limit *int) {
	maps.DeleteFunc(rows, func(K, V) bool {
		*limit--
		return *limit >= 0
	})
	*limit = max(*limit, 0)
}

// Sweep deletes expired claims and dead jobs of all tenants.
func (s *Store) Sweep(ctx context.Context, now time.Time, limit int) (more bool, err error) {
	return locked(ctx, s, func() (bool, error) {
		claims, jobs := limit, limit
		for _, t := range s.db.tenants {
			maps.DeleteFunc(t.claims, func(_ storage.Key, c storage.Claim) bool {
				return come(c.ExpiresAt, now) && (c.Answer != nil || !c.LeaseUntil.After(now)) && countDown(&claims)
			})
			maps.DeleteFunc(t.jobs, func(_ storage.ID, j storage.Job) bool {
				return j.Dead && come(j.RunAt, now) && countDown(&jobs)
			})
		}
		return claims < 0 || jobs < 0, nil
	})
}

// DeleteLogs deletes log entries of a tenant that were created before a time.
func (s *Store) DeleteLogs(ctx context.Context, id storage.ID, before time.Time, limit int) (deleted int, err error) {
	return locked(ctx, s, func() (int, error) {
		t := s.db.tenant(id)
		all := len(t.logs)
		maps.DeleteFunc(t.logs, func(_ storage.ID, entry storage.Log) bool {
			return entry.CreatedAt.Before(before) && countDown(&limit)
		})
		return all - len(t.logs), nil
	})
}

// KeepLogs deletes the log entries of a tenant that were created before a time, except
// those to keep.
func (s *Store) KeepLogs(id storage.ID, before time.Time, keep []storage.Log) {
	maps.DeleteFunc(s.db.tenant(id).logs, func(id storage.ID, entry storage.Log) bool {
		return entry.CreatedAt.Before(before) && !slices.ContainsFunc(keep, func(l storage.Log) bool { return l.ID == id })
	})
}

// countDown decrements left and reports whether it was above zero.
func countDown(left *int) bool {
	*left--
	return *left >= 0
}
