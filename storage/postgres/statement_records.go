package postgres

import (
	"bytes"
	"slices"

	"github.com/seed-72ea4aab/vault/storage"
)

func (s *statement) insertRecords(records []storage.Record) {
	var lookups []lookup
	for i := range records {
		lookups = lookupsOf(lookups, &records[i])
	}
	s.write("recorded", len(records), func(s *statement) string {
		return s.insert("vault_records", rowsOf(recordColumns, records, putRecord))
	})
	if len(lookups) > 0 {
		s.write("keyed", len(lookups), func(s *statement) string { return s.insertLookups(lookups) })
	}
}

// insertLookups adds keys in the order in which every statement locks them.
func (s *statement) insertLookups(lookups []lookup) string {
	slices.SortFunc(lookups, func(a, b lookup) int { return bytes.Compare(a.key[:], b.key[:]) })
	return s.insert("vault_lookups", rowsOf(lookupColumns, lookups, putLookup))
}

func (s *statement) updateRecords(updates []storage.RecordUpdate) {
	var lookups []lookup
	for i := range updates {
		lookups = lookupsOf(lookups, &updates[i].Record)
	}
	from, found := s.find(rowsOf(recordColumns, updates, putRecordUpdate), "vault_records", "r", "kind", "id")
	s.with("record_before", "SELECT r.ctid AS place, r.key_hash AS old_key_hash, r.alt_hash AS old_alt_hash, "+recordColumns.names("u.")+
		" FROM "+from+" JOIN vault_records r ON "+found+" AND r.kind = u.kind AND r.id = u.id AND r.rev = u.rev"+
		" ORDER BY r.kind, r.id FOR UPDATE OF r")
	s.with("record_updated", `UPDATE vault_records r SET name = b.name, name_fold = b.name_fold, key_hash = b.key_hash,
		alt_hash = b.alt_hash, expires_at = b.expires_at, key_version = b.key_version, body = b.body,
		created_at = b.created_at, rev = b.rev + 1 FROM record_before b
		WHERE r.ctid = b.place AND `+s.tenantIs("r")+" RETURNING 1")
	s.expect("record_updated", len(updates))
	s.with("keys_before", `SELECT k.hash, b.kind, b.id FROM record_before b,
		LATERAL (VALUES (b.old_key_hash), (b.old_alt_hash)) AS k(hash) WHERE k.hash IS NOT NULL`)
	s.layout.replaceKeys(s, lookups)
}

// rekey replaces the keys that a query finds, if tables are distributed. It
// checks a key before another record gives it up.
func (s *statement) rekey(before string, after []lookup) {
	if s.results = append(s.results, before); !s.rekeys {
		s.rekeys = true
		s.later(s.addKeys)
		s.later(s.dropKeys)
	}
	s.keys = append(s.keys, after...)
}

// addKeys returns the statement that adds the keys that were not found.
func (s *statement) addKeys() step {
	added := slices.DeleteFunc(slices.Clone(s.keys), func(l lookup) bool {
		return slices.Contains(s.found.keys, foundKey{*l.key, l.record.Kind, l.record.ID})
	})
	if len(added) == 0 {
		return step{}
	}
	return s.step(len(added), func(s *statement) string { return s.insertLookups(added) })
}

// dropKeys returns the statement that deletes the found keys that are no longer
// used.
func (s *statement) dropKeys() step {
	gone := newRows(columns{{"hash", bytea}}, len(s.found.keys))
	for _, found := range s.found.keys {
		if !slices.ContainsFunc(s.keys, func(l lookup) bool { return *l.key == found.key }) {
			gone.bytes(found.key[:])
		}
	}
	if gone.n == 0 {
		return step{}
	}
	return s.step(anyRows, func(s *statement) string {
		s.args = nil // the table is not keyed by tenant
		s.values(gone)
		return "DELETE FROM vault_lookups WHERE hash = ANY($1::bytea[])"
	})
}

func (s *statement) deleteRecords(deletes []storage.RecordDelete) {
	from, found := s.find(rowsOf(recordDeleteColumns, deletes, putRecordDelete), "vault_records", "r", "kind", "id")
	s.with("record_going", "SELECT r.ctid AS place, r.kind, r.id, r.key_hash, r.alt_hash FROM "+from+
		" JOIN vault_records r ON "+found+" AND r.kind = u.kind AND r.id = u.id AND r.rev = u.rev"+
		" ORDER BY r.kind, r.id FOR UPDATE OF r")
	s.with("record_gone", "DELETE FROM vault_records r USING record_going b"+
		" WHERE r.ctid = b.place AND "+s.tenantIs("r")+" RETURNING 1")
	s.expect("record_gone", len(deletes))
	s.layout.dropKeys(s)
}

func (s *statement) jobs(c *storage.Change) {
	if len(c.InsertJobs) > 0 {
		s.write("queued", anyRows, func(s *statement) string {
			return s.insert("vault_jobs", rowsOf(jobColumns, c.InsertJobs, putJob)) + " ON CONFLICT DO NOTHING"
		})
	}
	if len(c.UpdateJobs) > 0 {
		from, found := s.find(rowsOf(jobUpdateColumns, c.UpdateJobs, putJobUpdate), "vault_jobs", "j", "id")
		s.with("released", `UPDATE vault_jobs j SET run_at = u.run_at, attempts = u.attempts, dead = u.dead,
			key_version = u.key_version, payload = u.payload, lease_until = u.lease_until,
			owner = CASE WHEN u.lease_until IS NULL THEN NULL ELSE u.owner END FROM `+
			from+
			" WHERE "+found+" AND j.id = u.id AND j.owner = u.owner RETURNING 1")
		s.expect("released", len(c.UpdateJobs))
	}
	if len(c.DeleteJobs) > 0 {
		from, found := s.find(rowsOf(jobDeleteColumns, c.DeleteJobs, putJobDelete), "vault_jobs", "j", "id")
		s.with("finished", "DELETE FROM vault_jobs j USING "+from+
			" WHERE "+found+" AND j.id = u.id AND j.owner IS NOT DISTINCT FROM u.owner RETURNING 1")
		s.expect("finished", len(c.DeleteJobs))
	}
}

// reseal has no guard. It skips rows that were deleted or have a newer key.
func (s *statement) reseal(sealed []storage.Sealed) {
	var claims, jobs []storage.Sealed
	for _, one := range sealed {
		if one.Kind == storage.SealedJobs {
			jobs = append(jobs, one)
		} else {
			claims = append(claims, one)
		}
	}
	if len(claims) > 0 {
		from, found := s.find(rowsOf(resealClaimColumns, claims, putSealed), "vault_claims", "c", "key")
		s.with("resealed_claims", "UPDATE vault_claims c SET key_version = u.key_version, answer = u.body FROM "+
			from+
			" WHERE "+found+" AND c.key = u.key AND c.key_version < u.below AND c.answer IS NOT NULL")
	}
	if len(jobs) > 0 {
		from, found := s.find(rowsOf(resealJobColumns, jobs, putSealed), "vault_jobs", "j", "id")
		s.with("resealed_jobs", "UPDATE vault_jobs j SET key_version = u.key_version, payload = u.body FROM "+
			from+
			" WHERE "+found+" AND j.id = u.id AND j.key_version < u.below")
	}
}
