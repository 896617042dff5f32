// Package query parses the language for searching tokens.
//
// A query consists of terms, field:value, joined by AND and OR, negated by
// NOT, '!' or '-', and grouped by parentheses. NOT binds tighter than AND,
// and AND tighter than OR. Adjacent terms are joined by AND. The three words
// must be in upper case.
//
//	type:card AND (metadata.user:"Jane Doe" OR container:/pci/*) -created_at:[2026-01-01 TO *]
//
// The fields are
//
//	id, type, fingerprint       equal, byte for byte
//	data                        equal to one of the token's search indexes
//	container                   one of the token's containers, as a path that
//	                            ends in '/', or the start of a path and '*'
//	metadata.<key>              equal, ignoring case; the key exactly
//	created_by, modified_by     a UUID
//	created_at, modified_at     a date, a date-time, or a range of them
//
// A value, or a key of metadata, with a space or a special character must be
// in double quotes, or have a backslash before the character. Within quotes
// only '"' and '\' are special, and each needs a backslash.
//
// Dates are ISO 8601, in UTC unless they have an offset. A date means the
// whole day. A date-time covers its last digit: 10:30 is a minute long,
// 10:30:00 a second. In ranges, square brackets include an end and braces
// exclude it, including whole days and minutes. They can be mixed, and '*' is
// an open end. For example, created_at:{2026-01-01 TO 2026-01-03] is the 2nd
// and the 3rd of January.
package query

import (
	"fmt"
	"strings"
	"time"
)

// MaxLength is the maximum length of a query, in characters.
const MaxLength = 200

// maxDepth is the maximum nesting of parentheses and negations.
const maxDepth = 20

// Error describes an error in a query and its position. It names rules and
// positions, and never quotes the query.
type Error struct {
	Offset int // in characters, from 0
	Msg    string
}

// Error returns the message with its position, counted from 1.
func (e *Error) Error() string {
	return fmt.Sprintf("query: at character %d: %s", e.Offset+1, e.Msg)
}

// Node is a condition on tokens: And, Or, Not, or one of the terms.
type Node interface{ isNode() }

type (
	// And holds if all of its nodes hold. Parse returns at least two.
	And []Node
	// Or holds if one of its nodes holds. Parse returns at least two.
	Or []Node
	// Not holds if its node does not hold.
	Not struct{ Node Node }

	// IDIs holds for the token with this id.
	IDIs string
	// TypeIs holds for tokens of this type.
	TypeIs string
	// DataIs holds for tokens that have a search index with this value.
	DataIs string
	// FingerprintIs holds for tokens with this fingerprint, in text form.
	// Text that is not a fingerprint matches no token.
	FingerprintIs string
	// InContainer holds for tokens in a container that equals Path or, if
	// Prefix is true, starts with Path. Path is in lower case.
	InContainer struct {
		Path   string
		Prefix bool
	}
	// MetadataIs holds for tokens with this pair. Values are compared in the
	// form that Fold returns. Value has the original form.
	MetadataIs struct{ Key, Value string }
	// ByIs holds for tokens that this actor created or last changed. Parse
	// never returns the zero ID.
	ByIs struct {
		Field Field
		ID    [16]byte
	}
	// TimeIn holds for tokens whose time is not before From and is before To.
	// A zero time is an open end. Both are in UTC, in whole microseconds. A
	// token that was never modified is in no range of ModifiedAt.
	TimeIn struct {
		Field    Field
		From, To time.Time
	}
)

// Fold returns the form in which metadata values are compared. A database
// index must use the same form.
func Fold(value string) string { return strings.ToLower(value) }

// Field selects a field for ByIs and TimeIn.
type Field uint8

// The fields of ByIs and of TimeIn.
const (
	CreatedBy Field = iota + 1
	CreatedAt
	ModifiedBy
	ModifiedAt
)

func (And) isNode()           {}
func (Or) isNode()            {}
func (Not) isNode()           {}
func (IDIs) isNode()          {}
func (TypeIs) isNode()        {}
func (DataIs) isNode()        {}
func (FingerprintIs) isNode() {}
func (InContainer) isNode()   {}
func (MetadataIs) isNode()    {}
func (ByIs) isNode()          {}
func (TimeIn) isNode()        {}
