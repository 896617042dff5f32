package query

import (
	"slices"
	"strings"
	"time"
)

// Doc is a token for the evaluation of a query.
type Doc struct {
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

// Match reports whether a token matches a query. It defines the meaning of
// queries: databases that run queries are tested against it.
func Match(n Node, d *Doc) bool {
	holds := func(n Node) bool { return Match(n, d) }
	switch n := n.(type) {
	case And:
		return !slices.ContainsFunc(n, func(n Node) bool { return !holds(n) })
	case Or:
		return slices.ContainsFunc(n, holds)
	case Not:
		return !holds(n.Node)
	case IDIs:
		return d.ID == string(n)
	case TypeIs:
		return d.Type == string(n)
	case DataIs:
		return slices.Contains(d.Data, string(n))
	case FingerprintIs:
		return d.Fingerprint == string(n)
	case InContainer:
		return slices.ContainsFunc(d.Containers, n.holds)
	case MetadataIs:
		v, ok := d.Metadata[n.Key]
		return ok && Fold(v) == Fold(n.Value)
	case ByIs:
		return n.Field == CreatedBy && n.ID == d.CreatedBy || n.Field == ModifiedBy && n.ID == d.ModifiedBy
	case TimeIn:
		return n.Field == CreatedAt && n.holds(d.CreatedAt) || n.Field == ModifiedAt && n.holds(d.ModifiedAt)
	default:
		return false
	}
}

func (c InContainer) holds(container string) bool {
	return container == c.Path || c.Prefix && strings.HasPrefix(container, c.Path)
}

func (r TimeIn) holds(t time.Time) bool {
	return !t.IsZero() && !t.Before(r.From) && (r.To.IsZero() || t.Before(r.To))
}

// Fold returns the form in which metadata values are compared. A database
// index must use the same form.
func Fold(value string) string { return strings.ToLower(value) }
