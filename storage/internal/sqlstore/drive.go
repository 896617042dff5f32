package sqlstore

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/seed-72ea4aab/vault/storage"
)

const (
	// probeRows is how many rows of each index are counted at first to find the
	// index with the fewest. If all have more, the limit grows by a factor of
	// probeMore, and so on. The cost is a multiple of the rows of the rarest
	// term.
	probeRows = 100
	probeMore = 4
)

// driver is a term of a conjunction that indexes can evaluate. Its tokens are
// the union of its parts.
type driver struct {
	parts []clause // queries for ords
	exact bool     // if false, the term must still be checked
	// unordered means that the rows of a part are not in the order of ords, so
	// that a page needs all of them.
	unordered bool
	at        int // index of the term among the conjuncts
	rows      int // number of rows, as far as they were counted
}

// drivers returns the terms that an index can evaluate. If one of them is a
// list of ids, it is the only result, because no other can be shorter.
func (s *Store) drivers(ctx context.Context, tenant storage.ID, terms []storage.Cond) ([]driver, error) {
	var found []driver
	for i, term := range terms {
		d, ok, err := s.driver(ctx, tenant, term)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		d.at = i
		if _, ok := term.(storage.IDIn); ok {
			return []driver{d}, nil
		}
		found = append(found, d)
	}
	return found, nil
}

// driver returns the query for the tokens of a condition, if an index supports
// it.
func (s *Store) driver(ctx context.Context, tenant storage.ID, cond storage.Cond) (driver, bool, error) {
	switch cond := cond.(type) {
	case storage.HashIs:
		return driver{exact: true, parts: []clause{{`SELECT h.ord FROM vault_token_hashes h WHERE h.tenant_id = ? AND h.hash = ?`,
			[]any{s.dialect.ID(tenant), cond[:]}}}}, true, nil
	case storage.IDPrefix:
		if cond == "" {
			return driver{}, false, nil
		}
		return s.unordered(tenant, cond, "f.id")
	case storage.TimeIn:
		if cond.Field != storage.ModifiedAt {
			return driver{}, false, nil
		}
		return s.unordered(tenant, cond, "f.modified_at")
	case storage.IDIn:
		if s.dialect.Lateral && len(cond) > 0 {
			found := s.tokensByID(tenant, cond)
			return driver{exact: true, parts: []clause{{`SELECT t.ord FROM ` + found.text, found.args}}}, true, nil
		}
		return s.tokenDriver(tenant, cond)
	case storage.FingerprintIs:
		return s.tokenDriver(tenant, cond)
	case storage.Or:
		return s.unionDriver(ctx, tenant, cond)
	default:
		return driver{}, false, nil
	}
}

// tokenDriver returns a driver that uses an index on tokens.
func (s *Store) tokenDriver(tenant storage.ID, cond storage.Cond) (driver, bool, error) {
	where, err := compile(&s.dialect, tenant, "f", cond)
	return driver{exact: true, parts: []clause{{`SELECT f.ord FROM vault_tokens f WHERE f.tenant_id = ? AND ` + where.text,
		append([]any{s.dialect.ID(tenant)}, where.args...)}}}, err == nil, err
}

// unordered returns a driver that uses the only index on tokens in the order of a
// column.
func (s *Store) unordered(tenant storage.ID, cond storage.Cond, column string) (driver, bool, error) {
	d, ok, err := s.tokenDriver(tenant, cond)
	d.unordered = true
	d.parts[0].text += ` ORDER BY ` + column
	return d, ok, err
}

// unionDriver returns a driver for an Or, if an index can evaluate a term of
// each of its parts.
func (s *Store) unionDriver(ctx context.Context, tenant storage.ID, parts storage.Or) (driver, bool, error) {
	if len(parts) == 0 || len(parts) > maxPairs {
		return driver{}, false, nil
	}
	union := driver{exact: true}
	for _, part := range parts {
		terms := conjuncts(part)
		found, err := s.drivers(ctx, tenant, terms)
		if err != nil || len(found) == 0 {
			return driver{}, false, err
		}
		best, err := s.best(ctx, found, 0)
		if err != nil {
			return driver{}, false, err
		}
		union.parts = append(union.parts, best.parts...)
		union.exact = union.exact && best.exact && len(terms) == 1
		union.unordered = union.unordered || best.unordered
	}
	return union, len(union.parts) <= maxPairs, nil
}

// best returns the driver with the fewest rows. It counts only as far as
// necessary, and up to most if that is not zero.
func (s *Store) best(ctx context.Context, candidates []driver, most int) (driver, error) {
	if len(candidates) == 1 {
		return candidates[0], nil
	}
	for limit := probeRows; ; limit *= probeMore {
		if err := s.probe(ctx, candidates, limit); err != nil {
			return driver{}, err
		}
		best := slices.MinFunc(candidates, func(a, b driver) int { return cmp.Compare(a.rows, b.rows) })
		if best.rows < limit || most > 0 && limit >= most {
			return best, nil
		}
	}
}

// probe counts the rows of drivers up to a limit each.
func (s *Store) probe(ctx context.Context, drivers []driver, limit int) error {
	counts, args, dest := make([]string, len(drivers)), []any(nil), make([]Field, len(drivers))
	for i := range drivers {
		query := all(drivers[i].parts, limit, false)
		counts[i] = `(SELECT count(*) FROM (SELECT * FROM (` + query.text + `) o LIMIT ?) c)`
		args = append(append(args, query.args...), limit)
		dest[i] = Field{&drivers[i].rows}
	}
	return s.each(ctx, `SELECT `+strings.Join(counts, ", "), args, dest, func() {})
}

// all returns the query for the union of several queries. If limit is not zero,
// it limits the rows of each. If once is set, it removes duplicates.
func all(parts []clause, limit int, once bool) clause {
	if len(parts) == 1 && limit == 0 {
		return parts[0]
	}
	texts := make([]string, len(parts))
	var args []any
	for i, part := range parts {
		texts[i] = `SELECT * FROM (` + part.text + `) q`
		args = append(args, part.args...)
		if limit > 0 {
			texts[i] = `SELECT * FROM (` + part.text + ` LIMIT ?) q`
			args = append(args, limit)
		}
	}
	union := " UNION ALL "
	if once {
		union = " UNION "
	}
	return clause{strings.Join(texts, union), slices.Clip(args)}
}
