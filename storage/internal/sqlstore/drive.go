package sqlstore

import (
	"context"
	"slices"
	"strings"

	"github.com/seed-72ea4aab/vault/storage"
)

const (
	// probeRows is how far the rows of indexes are counted at first in order to
	// tell which of several should drive a query. If all have more, they are
	// counted probeMore times as far, and so on: the cost is a multiple of the
	// rarest term's rows.
	probeRows = 100
	probeMore = 4
)

// driver is a term of a conjunction that indexes answer: its tokens are those of
// all parts together.
type driver struct {
	parts []clause // queries for ords
	exact bool     // else the term must still be checked
	// unordered says that the rows of a part do not come in the order of ords, so
	// that all of them have to be read for a page.
	unordered bool
	at        int // of the term among the conjuncts
	rows      int // how many there are, as far as they were counted
}

// drivers returns the terms that an index can answer. A list of ids comes
// alone: no other can be shorter.
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

// driver returns the query for the tokens of a condition, if an index has one.
func (s *Store) driver(ctx context.Context, tenant storage.ID, cond storage.Cond) (driver, bool, error) {
	switch cond := cond.(type) {
	case storage.HashIs:
		return driver{exact: true, parts: []clause{{`SELECT h.ord FROM vault_token_hashes h WHERE h.tenant_id = ? AND h.hash = ?`,
			[]any{s.dialect.ID(tenant), cond[:]}}}}, true, nil
	case storage.IDPrefix:
		if cond == "" {
			return driver{}, false, nil
		}
		d, ok, err := s.tokenDriver(tenant, cond)
		d.unordered = true
		return d, ok, err
	case storage.FingerprintIs, storage.IDIn:
		return s.tokenDriver(tenant, cond)
	case storage.Or:
		return s.unionDriver(ctx, tenant, cond)
	default:
		return driver{}, false, nil
	}
}

// tokenDriver drives by an index of tokens.
func (s *Store) tokenDriver(tenant storage.ID, cond storage.Cond) (driver, bool, error) {
	where, err := compile(&s.dialect, tenant, "f", cond)
	return driver{exact: true, parts: []clause{{`SELECT f.ord FROM vault_tokens f WHERE f.tenant_id = ? AND ` + where.text,
		append([]any{s.dialect.ID(tenant)}, where.args...)}}}, err == nil, err
}

// unionDriver drives by an Or when an index answers a term of each of its parts.
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

// best returns the driver with the fewest rows. It counts as far as it needs to
// tell, and no further than most, unless that is zero.
func (s *Store) best(ctx context.Context, candidates []driver, most int) (driver, error) {
	if len(candidates) == 1 {
		return candidates[0], nil
	}
	for limit := probeRows; ; limit *= probeMore {
		best := -1
		for i := range candidates {
			d := &candidates[i]
			if err := s.probe(ctx, d, limit); err != nil {
				return driver{}, err
			}
			if best < 0 || d.rows < candidates[best].rows {
				best = i
			}
		}
		if candidates[best].rows < limit || most > 0 && limit >= most {
			return candidates[best], nil
		}
	}
}

// probe counts the rows of a driver up to a limit.
func (s *Store) probe(ctx context.Context, d *driver, limit int) (err error) {
	query := all(d.parts, limit, false)
	d.rows, err = s.count(ctx, `SELECT count(*) FROM (SELECT * FROM (`+query.text+`) o LIMIT ?) c`, append(query.args, limit)...)
	return err
}

// all is the query for what several queries return; of each only so much, unless
// limit is zero, and what several have in common once, if that is wanted.
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
