package postgres

import (
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
	case len(moved) > 0:
		s.layout.moveCounts(s, moved, created, shard)
	case len(created) > 0:
		s.write("counted", anyRows, func(s *statement) string { return s.insertCounts(created, shard) })
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

// insertSets adds sets that do not exist yet. Transactions of the
// application have a negative shard.
func (s *statement) insertSets(sets []storage.ContainerSet, shard int64) {
	s.layout.insertSets(s, sets, shard)
}
