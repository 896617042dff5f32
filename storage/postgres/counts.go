package postgres

import (
	"bytes"
	"slices"
	"strings"

	"github.com/seed-72ea4aab/vault/storage"
)

// countTokens adds up how a change alters the numbers of tokens. For updates
// and deletes it uses the set and type of the stored row.
func (s *statement) countTokens(c *storage.Change, shard int64) {
	var moved []string
	if len(c.UpdateTokens) > 0 {
		moved = append(moved, "SELECT set_id, type, 1 FROM before WHERE set_id <> old_set_id",
			"SELECT old_set_id, type, -1 FROM before WHERE set_id <> old_set_id")
	}
	if len(c.DeleteTokens) > 0 {
		moved = append(moved, "SELECT set_id, type, -1 FROM going")
	}
	created := counts(c.InsertTokens)
	switch {
	case len(moved) == 0 && len(created) > 0 && (s.routed || len(c.InsertTokens) > 1): // otherwise insertToken has counted it
		s.write("counted", anyRows, func(s *statement) string { return s.insertCounts(created, shard) })
	case len(moved) == 0:
	case s.routed:
		s.results = append(s.results, sumCounts("d.set_id, d.type, sum(d.n)::bigint, NULL::bytea", moved))
		s.later(func() step { return s.countFound(created, shard) })
	default:
		if len(created) > 0 {
			moved = append(moved, "SELECT u.set_id, u.type, u.n FROM "+s.rows(created.rows(shard)))
		}
		s.with("counted", "INSERT INTO vault_token_counts (tenant_id, set_id, type, shard, n) "+
			sumCounts("$1::bytea, d.set_id, d.type, "+s.number(shard)+", sum(d.n)", moved)+" ORDER BY d.set_id, d.type"+addToCounts)
	}
}

// sumCounts adds up the numbers of tokens that several queries return.
func sumCounts(columns string, moved []string) string {
	return "SELECT " + columns + " FROM (" + strings.Join(moved, " UNION ALL ") +
		") AS d(set_id, type, n) GROUP BY d.set_id, d.type HAVING sum(d.n) <> 0"
}

func (s *statement) insertCounts(sums tally, shard int64) string {
	return s.insert("vault_token_counts", sums.rows(shard)) + addToCounts
}

// countFound returns the statement that counts created tokens together with the
// found changes.
func (s *statement) countFound(created tally, shard int64) step {
	for _, c := range s.found.counts {
		created.sum(c)
	}
	if len(created) == 0 {
		return step{}
	}
	return s.step(anyRows, func(s *statement) string { return s.insertCounts(created, shard) })
}

// counts returns the numbers of tokens by set and type.
func counts(tokens []storage.Token) (sums tally) {
	for i := range tokens {
		sums.add(storage.ID{}, &tokens[i])
	}
	return sums
}

// insertSets adds sets that do not exist yet. A negative shard gives a
// transaction of the application its own rows, so that no other writer waits
// for them.
func (s *statement) insertSets(sets []storage.ContainerSet, shard int64) {
	if shard < 0 && !s.routed {
		from := s.rows(rowsOf(setColumns, sets, putSet))
		s.with("sets", "INSERT INTO vault_container_sets (tenant_id, "+setColumns.names("")+", shard) SELECT $1::bytea, u.*, "+
			s.number(shard)+" FROM "+from+" WHERE NOT EXISTS"+
			" (SELECT FROM vault_container_sets k WHERE k.tenant_id = $1 AND k.set_id = u.set_id)")
		return
	}
	slices.SortFunc(sets, func(a, b storage.ContainerSet) int { return bytes.Compare(a.Set[:], b.Set[:]) })
	rows := rowsOf(shardedSetColumns, sets, func(r *rows, set *storage.ContainerSet) {
		putSet(r, set)
		r.int(min(shard, 0))
	})
	s.write("sets", anyRows, func(s *statement) string {
		return s.insert("vault_container_sets", rows) + " ON CONFLICT DO NOTHING"
	})
}
