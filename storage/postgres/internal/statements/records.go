package statements

import (
	"bytes"
	"slices"
	"strings"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/wire"
)

func (s *Statement) insertRecords(records []storage.Record) {
	var lookups []wire.Lookup
	for i := range records {
		lookups = wire.LookupsOf(lookups, &records[i])
	}
	s.write("recorded", len(records), func(s *Statement) string {
		return s.Insert("vault_records", wire.RowsOf(wire.RecordColumns, records, sqlstore.PutRecord))
	})
	if len(lookups) > 0 {
		s.write("keyed", len(lookups), func(s *Statement) string { return s.insertLookups(lookups) })
	}
}

// insertLookups adds keys in the order in which every statement locks them.
func (s *Statement) insertLookups(lookups []wire.Lookup) string {
	slices.SortFunc(lookups, func(a, b wire.Lookup) int { return bytes.Compare(a.Key[:], b.Key[:]) })
	return s.Insert("vault_lookups", wire.RowsOf(wire.LookupColumns, lookups, wire.PutLookup))
}

func (s *Statement) updateRecords(updates []storage.RecordUpdate) {
	var lookups []wire.Lookup
	for i := range updates {
		lookups = wire.LookupsOf(lookups, &updates[i].Record)
	}
	from, found := s.find(wire.RowsOf(wire.RecordColumns, updates, wire.PutRecordUpdate), "vault_records", "r", "kind", "id")
	s.with("record_before", "SELECT r.ctid AS row_id, r.key_hash AS old_key_hash, r.alt_hash AS old_alt_hash, "+wire.RecordColumns.Names("u.")+
		" FROM "+from+" JOIN vault_records r ON "+found+" AND r.kind = u.kind AND r.id = u.id AND r.rev = u.rev"+
		" ORDER BY r.kind, r.id FOR UPDATE OF r")
	var set strings.Builder
	for _, c := range wire.RecordReplaced {
		set.WriteString(c.Name + " = b." + c.Name + ", ")
	}
	s.with("record_updated", "UPDATE vault_records r SET "+set.String()+"rev = b.rev + 1 FROM record_before b"+
		" WHERE r.ctid = b.row_id AND "+s.tenantIs("r")+" RETURNING 1")
	s.expect("record_updated", len(updates))
	s.with("keys_before", `SELECT k.hash, b.kind, b.id FROM record_before b,
		LATERAL (VALUES (b.old_key_hash), (b.old_alt_hash)) AS k(hash) WHERE k.hash IS NOT NULL`)
	s.Composer.replaceKeys(s, "keys_before", lookups)
}

// rekey replaces the keys that a query finds, if tables are distributed. It
// checks a key before another record gives it up.
func (s *Statement) rekey(before string, after []wire.Lookup) {
	if s.results = append(s.results, before); !s.rekeys {
		s.rekeys = true
		s.later(s.addKeys)
		s.later(s.dropKeys)
	}
	s.keys = append(s.keys, after...)
}

// addKeys returns the statement that adds the keys that were not found.
func (s *Statement) addKeys() Step {
	added := slices.DeleteFunc(slices.Clone(s.keys), func(l wire.Lookup) bool {
		return slices.Contains(s.found.keys, foundKey{*l.Key, l.Record.Kind, l.Record.ID})
	})
	if len(added) == 0 {
		return Step{}
	}
	return s.step(len(added), func(s *Statement) string { return s.insertLookups(added) })
}

// dropKeys returns the statement that deletes the found keys that are no longer
// used.
func (s *Statement) dropKeys() Step {
	gone := wire.NewRows(wire.ParseColumns("hash:bytea"), len(s.found.keys))
	for _, found := range s.found.keys {
		if !slices.ContainsFunc(s.keys, func(l wire.Lookup) bool { return *l.Key == found.key }) {
			gone.Bytes(found.key[:], sqlstore.NotNull)
		}
	}
	if gone.N == 0 {
		return Step{}
	}
	return s.step(anyRows, func(s *Statement) string {
		s.Args = nil // the table is not keyed by tenant
		s.values(gone)
		return "DELETE FROM vault_lookups WHERE hash = ANY($1::bytea[])"
	})
}

func (s *Statement) deleteRecords(deletes []storage.RecordDelete) {
	from, found := s.find(wire.RowsOf(wire.RecordDeleteColumns, deletes, wire.PutRecordDelete), "vault_records", "r", "kind", "id")
	s.with("record_going", "SELECT r.ctid AS row_id, r.kind, r.id, r.key_hash, r.alt_hash FROM "+from+
		" JOIN vault_records r ON "+found+" AND r.kind = u.kind AND r.id = u.id AND r.rev = u.rev"+
		" ORDER BY r.kind, r.id FOR UPDATE OF r")
	s.with("record_gone", "DELETE FROM vault_records r USING record_going b"+
		" WHERE r.ctid = b.row_id AND "+s.tenantIs("r")+" RETURNING 1")
	s.expect("record_gone", len(deletes))
	s.with("keys_going", `SELECT k.hash, b.kind, b.id FROM record_going b,
		LATERAL (VALUES (b.key_hash), (b.alt_hash)) AS k(hash) WHERE k.hash IS NOT NULL`)
	s.Composer.replaceKeys(s, "keys_going", nil)
}

func (s *Statement) jobs(c *storage.Change) {
	if len(c.InsertJobs) > 0 {
		s.write("queued", anyRows, func(s *Statement) string {
			return s.Insert("vault_jobs", wire.RowsOf(wire.JobColumns, c.InsertJobs, sqlstore.PutJob)) + " ON CONFLICT DO NOTHING"
		})
	}
	if len(c.UpdateJobs) > 0 {
		from, found := s.find(wire.RowsOf(wire.JobUpdateColumns, c.UpdateJobs, wire.PutJobUpdate), "vault_jobs", "j", "id")
		s.with("released", `UPDATE vault_jobs j SET run_at = u.run_at, attempts = u.attempts, dead = u.dead,
			key_version = u.key_version, payload = u.payload, lease_until = u.lease_until,
			owner = CASE WHEN u.lease_until IS NULL THEN NULL ELSE u.owner END FROM `+
			from+
			" WHERE "+found+" AND j.id = u.id AND j.owner = u.owner RETURNING 1")
		s.expect("released", len(c.UpdateJobs))
	}
	if len(c.DeleteJobs) > 0 {
		from, found := s.find(wire.RowsOf(wire.JobDeleteColumns, c.DeleteJobs, wire.PutJobDelete), "vault_jobs", "j", "id")
		s.with("finished", "DELETE FROM vault_jobs j USING "+from+
			" WHERE "+found+" AND j.id = u.id AND j.owner IS NOT DISTINCT FROM u.owner RETURNING 1")
		s.expect("finished", len(c.DeleteJobs))
	}
}

// reseal has no guard. It skips rows that were deleted or have a newer key.
func (s *Statement) reseal(sealed []storage.Sealed) {
	var claims, jobs []storage.Sealed
	for _, one := range sealed {
		if one.Kind == storage.SealedJobs {
			jobs = append(jobs, one)
		} else {
			claims = append(claims, one)
		}
	}
	if len(claims) > 0 {
		from, found := s.find(wire.RowsOf(wire.ResealClaimColumns, claims, wire.PutSealed), "vault_claims", "c", "key")
		s.with("resealed_claims", "UPDATE vault_claims c SET key_version = u.key_version, answer = u.body FROM "+
			from+
			" WHERE "+found+" AND c.key = u.key AND c.key_version < u.below AND c.answer IS NOT NULL")
	}
	if len(jobs) > 0 {
		from, found := s.find(wire.RowsOf(wire.ResealJobColumns, jobs, wire.PutSealed), "vault_jobs", "j", "id")
		s.with("resealed_jobs", "UPDATE vault_jobs j SET key_version = u.key_version, payload = u.body FROM "+
			from+
			" WHERE "+found+" AND j.id = u.id AND j.key_version < u.below")
	}
}
