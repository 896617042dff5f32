package postgres

import (
	"bytes"
	"cmp"
	"database/sql/driver"
	"slices"
	"strings"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/wire"
)

// tally holds numbers of tokens by tenant, set and type.
type tally []count

type count struct {
	tenant storage.ID
	set    storage.Hash
	kind   string // the type of the tokens
	n      int64
}

func (t *tally) add(tenant storage.ID, token *storage.Token) {
	t.sum(count{tenant, token.Set, token.Type, 1})
}

// sum adds a number. A linear search is enough, because a change or a batch has
// few sets and types.
func (t *tally) sum(more count) {
	for i := range *t {
		if c := &(*t)[i]; c.set == more.set && c.kind == more.kind && c.tenant == more.tenant {
			c.n += more.n
			return
		}
	}
	*t = append(*t, more)
}

// rows returns the numbers as rows under a shard.
func (t tally) rows(shard int64) *wire.Rows {
	slices.SortFunc(t, compareCounts)
	return wire.RowsOf(wire.CountColumns, t, func(r *wire.Rows, c *count) { c.put(r, shard) })
}

// addTo adds the numbers to rows under a shard, with their tenants.
func (t tally) addTo(r *wire.Rows, shard int64) {
	slices.SortFunc(t, compareCounts)
	for i := range t {
		r.Bytes(t[i].tenant[:])
		t[i].put(r, shard)
	}
}

func (c *count) put(r *wire.Rows, shard int64) {
	r.Int(shard)
	r.Bytes(c.set[:])
	r.Text(c.kind)
	r.Int(c.n)
}

// compareCounts is the order in which every statement locks counts, so that two
// statements cannot deadlock.
func compareCounts(a, b count) int {
	return cmp.Or(bytes.Compare(a.tenant[:], b.tenant[:]), bytes.Compare(a.set[:], b.set[:]), strings.Compare(a.kind, b.kind))
}

// below reports whether a stored count is larger than the number just added to
// it.
func (t tally) below(row []driver.Value) bool {
	set, _ := row[0].([]byte)
	n, _ := row[2].(int64)
	return slices.ContainsFunc(t, func(c count) bool {
		return bytes.Equal(c.set[:], set) && c.kind == textOf(row[1]) && c.n < n
	})
}
