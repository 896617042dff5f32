package sqlstore

import (
	"context"
	"strings"

	"github.com/seed-72ea4aab/vault/storage"
)

// probeRows is how far the rows of an index are counted in order to tell which
// of several should drive a query, and fewProbed is how few are not worth
// looking for fewer.
const (
	probeRows = 1000
	fewProbed = 100
)

// driver is a query for the ords of all tokens that one term of a conjunction
// holds for, answered by an index.
type driver struct {
	ords  clause
	exact bool // else the term must still be checked
	at    int  // of the term among the conjuncts
	rows  int  // how many there are, up to probeRows; known after a probe
}

// drivers returns the terms that an index can answer. A list of ids comes
// alone: no other can be shorter.
func (s *Store) drivers(tenant storage.ID, terms []storage.Cond) ([]driver, error) {
	var found []driver
	for i, term := range terms {
		d, ok, err := s.driver(tenant, term)
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
func (s *Store) driver(tenant storage.ID, cond storage.Cond) (driver, bool, error) {
	switch cond := cond.(type) {
	case storage.HashIs:
		return driver{exact: true, ords: clause{`SELECT h.ord FROM vault_token_hashes h WHERE h.tenant_id = ? AND h.hash = ?`,
			[]any{s.dialect.ID(tenant), cond[:]}}}, true, nil
	case storage.IDPrefix:
		if cond == "" {
			return driver{}, false, nil
		}
		return s.tokenDriver(tenant, cond)
	case storage.FingerprintIs, storage.IDIn:
		return s.tokenDriver(tenant, cond)
	case storage.Or:
		return s.unionDriver(tenant, cond)
	default:
		return driver{}, false, nil
	}
}

// tokenDriver drives by an index of tokens.
func (s *Store) tokenDriver(tenant storage.ID, cond storage.Cond) (driver, bool, error) {
	where, err := compile(&s.dialect, "f", cond)
	return driver{exact: true, ords: clause{`SELECT f.ord FROM vault_tokens f WHERE f.tenant_id = ? AND ` + where.text,
		append([]any{s.dialect.ID(tenant)}, where.args...)}}, err == nil, err
}

// unionDriver drives by an Or when an index answers a term of each of its parts.
func (s *Store) unionDriver(tenant storage.ID, parts storage.Or) (driver, bool, error) {
	if len(parts) == 0 || len(parts) > maxPairs {
		return driver{}, false, nil
	}
	union := driver{exact: true}
	texts := make([]string, len(parts))
	for i, part := range parts {
		terms := conjuncts(part)
		found, err := s.drivers(tenant, terms)
		if err != nil || len(found) == 0 {
			return driver{}, false, err
		}
		texts[i] = found[0].ords.text
		union.ords.args = append(union.ords.args, found[0].ords.args...)
		union.exact = union.exact && found[0].exact && len(terms) == 1
	}
	union.ords.text = strings.Join(texts, " UNION ")
	return union, true, nil
}

// best returns the driver with the fewest rows, counting as far as needed.
func (s *Store) best(ctx context.Context, candidates []driver) (driver, error) {
	best := candidates[0]
	for i := range candidates {
		d := &candidates[i]
		var err error
		d.rows, err = s.count(ctx, `SELECT count(*) FROM (SELECT o.ord FROM (`+d.ords.text+`) o LIMIT ?) c`,
			append(d.ords.args[:len(d.ords.args):len(d.ords.args)], probeRows)...)
		if err != nil {
			return driver{}, err
		}
		if i == 0 || d.rows < best.rows {
			best = *d
		}
		if best.rows <= fewProbed {
			break
		}
	}
	return best, nil
}
