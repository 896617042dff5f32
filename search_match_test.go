package vault_test

import (
	"slices"
	"strings"
	"time"

	"github.com/seed-72ea4aab/vault/internal/query"
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

// matches reports whether a token matches a query. It defines the meaning of
// queries: databases that run queries are tested against it.
func matches(n query.Node, d *searched) bool {
	holds := func(n query.Node) bool { return matches(n, d) }
	switch n := n.(type) {
	case query.And:
		return !slices.ContainsFunc(n, func(n query.Node) bool { return !holds(n) })
	case query.Or:
		return slices.ContainsFunc(n, holds)
	case query.Not:
		return !holds(n.Node)
	case query.IDIs:
		return d.ID == string(n)
	case query.TypeIs:
		return d.Type == string(n)
	case query.DataIs:
		return slices.Contains(d.Data, string(n))
	case query.FingerprintIs:
		return d.Fingerprint == string(n)
	case query.InContainer:
		return slices.ContainsFunc(d.Containers, func(c string) bool { return c == n.Path || n.Prefix && strings.HasPrefix(c, n.Path) })
	case query.MetadataIs:
		v, ok := d.Metadata[n.Key]
		return ok && query.Fold(v) == query.Fold(n.Value)
	case query.ByIs:
		return n.Field == query.CreatedBy && n.ID == d.CreatedBy || n.Field == query.ModifiedBy && n.ID == d.ModifiedBy
	case query.TimeIn:
		return n.Field == query.CreatedAt && inTime(n, d.CreatedAt) || n.Field == query.ModifiedAt && inTime(n, d.ModifiedAt)
	default:
		return false
	}
}

func inTime(r query.TimeIn, t time.Time) bool {
	return !t.IsZero() && !t.Before(r.From) && (r.To.IsZero() || t.Before(r.To))
}
