package vault_test

import (
	"slices"
	"strings"
	"time"

	"github.com/mr-tron/base58"

	"github.com/seed-72ea4aab/vault/internal/token"
	"github.com/seed-72ea4aab/vault/storage"
)

// searched is a token for the evaluation of a query.
type searched struct {
	ID          string
	Type        string
	Data        []string // values of its search indexes
	Fingerprint string
	Containers  []string // in lower case
	Metadata    map[string]string
	CreatedBy   [16]byte
	CreatedAt   time.Time
	ModifiedBy  [16]byte  // zero if never modified
	ModifiedAt  time.Time // zero if never modified
}

// terms are the conditions of a query on values that the storage has as hashes.
type terms struct{ asksData bool }

// onValue is a condition on the values of a token.
type onValue struct {
	storage.Cond
	holds func(d *searched) bool
}

func (t *terms) Data(value string) storage.Cond {
	t.asksData = true
	return onValue{holds: func(d *searched) bool { return slices.Contains(d.Data, value) }}
}

func (*terms) Metadata(key, value string) storage.Cond {
	return onValue{holds: func(d *searched) bool {
		v, ok := d.Metadata[key]
		return ok && token.FoldMetadata(v) == token.FoldMetadata(value)
	}}
}

func (*terms) Container(path string, prefix bool) storage.Cond {
	in := func(c string) bool { return c == path || prefix && strings.HasPrefix(c, path) }
	return onValue{holds: func(d *searched) bool { return slices.ContainsFunc(d.Containers, in) }}
}

// matches reports whether a token matches a query. It defines the meaning of
// queries: databases that run queries are tested against it.
func matches(n storage.Cond, d *searched) bool {
	holds := func(n storage.Cond) bool { return matches(n, d) }
	switch n := n.(type) {
	case storage.And:
		return !slices.ContainsFunc(n, func(n storage.Cond) bool { return !holds(n) })
	case storage.Or:
		return slices.ContainsFunc(n, holds)
	case storage.Not:
		return !holds(n.Cond)
	case storage.IDIn:
		return slices.Contains(n, d.ID)
	case storage.TypeIn:
		return slices.Contains(n, d.Type)
	case storage.FingerprintIs:
		return d.Fingerprint == base58.Encode(n[:])
	case onValue:
		return n.holds(d)
	case storage.ByIs:
		return n.Field == storage.CreatedBy && n.ID == d.CreatedBy || n.Field == storage.ModifiedBy && n.ID == d.ModifiedBy
	case storage.TimeIn:
		return n.Field == storage.CreatedAt && inTime(n, d.CreatedAt) || n.Field == storage.ModifiedAt && inTime(n, d.ModifiedAt)
	default:
		return false
	}
}

func inTime(r storage.TimeIn, t time.Time) bool {
	return !t.IsZero() && !t.Before(r.From) && (r.To.IsZero() || t.Before(r.To))
}
