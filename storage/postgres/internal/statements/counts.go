package statements

import (
	"bytes"
	"cmp"
	"database/sql/driver"
	"slices"
	"strings"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/wire"
)

// countTokens adds up how a change alters the numbers of tokens. For updates
// and deletes it uses the set and type of the stored row.
func (s *Statement) countTokens(c *storage.Change, shard int64) {
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
		s.Composer.moveCounts(s, moved, created, shard)
	case len(created) > 0:
		s.write("counted", anyRows, func(s *Statement) string { return s.InsertCounts(created, shard) })
	}
}

// sumCounts adds up the numbers of tokens that several queries return.
func sumCounts(columns string, moved []string) string {
	return "SELECT " + columns + " FROM (" + strings.Join(moved, " UNION ALL ") +
		") AS d(set_id, type, n) GROUP BY d.set_id, d.type HAVING sum(d.n) <> 0"
}

// InsertCounts returns an INSERT that adds numbers to the counts of tokens.
func (s *Statement) InsertCounts(sums Counts, shard int64) string {
	return s.Insert("vault_token_counts", sums.rows(shard)) + addToCounts
}

// countFound returns the statement that counts created tokens together with the
// found changes.
func (s *Statement) countFound(created Counts, shard int64) Step {
	for _, c := range s.found.counts {
		created.Add(c)
	}
	if len(created) == 0 {
		return Step{}
	}
	return s.step(anyRows, func(s *Statement) string { return s.InsertCounts(created, shard) })
}

// counts returns the numbers of tokens by set and type.
func counts(tokens []storage.Token) (sums Counts) {
	for i := range tokens {
		sums.add(storage.ID{}, &tokens[i])
	}
	return sums
}

// Counts holds numbers of tokens by tenant, set and type.
type Counts []Count

// Count is a number of tokens of one set and type.
type Count struct {
	tenant storage.ID
	Set    storage.Hash
	Kind   string // the type of the tokens
	N      int64
}

func (t *Counts) add(tenant storage.ID, token *storage.Token) {
	t.Add(Count{tenant, token.Set, token.Type, 1})
}

// Add adds a number. A linear search is enough, because a change or a batch has
// few sets and types.
func (t *Counts) Add(more Count) {
	for i := range *t {
		if c := &(*t)[i]; c.Set == more.Set && c.Kind == more.Kind && c.tenant == more.tenant {
			c.N += more.N
			return
		}
	}
	*t = append(*t, more)
}

// rows returns the numbers as rows under a shard.
func (t Counts) rows(shard int64) *wire.Rows {
	slices.SortFunc(t, compareCounts)
	return wire.RowsOf(wire.CountColumns, t, func(r sqlstore.Put, c *Count) { c.put(r, shard) })
}

// addTo adds the numbers to rows under a shard, with their tenants.
func (t Counts) addTo(r *wire.Rows, shard int64) {
	slices.SortFunc(t, compareCounts)
	for i := range t {
		r.Bytes(t[i].tenant[:], sqlstore.NotNull)
		t[i].put(r, shard)
	}
}

func (c *Count) put(r sqlstore.Put, shard int64) {
	r.Int(shard, sqlstore.NotNull)
	r.Bytes(c.Set[:], sqlstore.NotNull)
	r.Text(c.Kind, sqlstore.NotNull)
	r.Int(c.N, sqlstore.NotNull)
}

// compareCounts is the order in which every statement locks counts, so that two
// statements cannot deadlock.
func compareCounts(a, b Count) int {
	return cmp.Or(bytes.Compare(a.tenant[:], b.tenant[:]), bytes.Compare(a.Set[:], b.Set[:]), strings.Compare(a.Kind, b.Kind))
}

// below reports whether a stored count is larger than the number just added to
// it.
func (t Counts) below(row []driver.Value) bool {
	set, _ := row[0].([]byte)
	n, _ := row[2].(int64)
	return slices.ContainsFunc(t, func(c Count) bool {
		return bytes.Equal(c.Set[:], set) && c.Kind == textOf(row[1]) && c.N < n
	})
}

// setsOf returns the distinct sets of containers of a change. Every change
// writes them. Most exist already, which costs the server too little to
// measure.
func setsOf(c *storage.Change) (sets []storage.ContainerSet) {
	add := func(t *storage.Token) {
		if !slices.ContainsFunc(sets, func(s storage.ContainerSet) bool { return s.Set == t.Set }) {
			sets = append(sets, storage.ContainerSet{Set: t.Set, Containers: t.Containers})
		}
	}
	for i := range c.InsertTokens {
		add(&c.InsertTokens[i])
	}
	for i := range c.UpdateTokens {
		add(&c.UpdateTokens[i].Token)
	}
	return sets
}
