// Package query reads the language in which tokens are searched.
//
// A query is made of terms, field:value, joined by AND and OR, negated by NOT,
// '!' or '-', and grouped by parentheses. NOT binds tighter than AND, and AND
// tighter than OR; terms that stand side by side are joined by AND. The three
// words are written in upper case.
//
//	type:card AND (metadata.user:"Jane Doe" OR container:/pci/*) -created_at:[2026-01-01 TO *]
//
// The fields are
//
//	id, type, fingerprint       equal, byte for byte
//	data                        equal to one of the token's search indexes
//	container                   one of the token's containers, as a path that
//	                            ends in '/', or the beginning of one and '*'
//	metadata.<key>              equal, ignoring case; the key exactly
//	created_by, modified_by     a UUID
//	created_at, modified_at     a date, a date-time, or a range of them
//
// A value, or a key of metadata, with a space or a special character goes in
// double quotes, or has a backslash before the character. Within quotes only
// '"' and '\' are special, and each takes a backslash.
//
// Dates are ISO 8601, in UTC unless they carry an offset. A date means the
// whole day, a date-time the whole of its last digit: 10:30 is a minute long,
// 10:30:00 a second. In ranges, square brackets include an end and braces leave
// it out, whole days and minutes too; they can be mixed, and '*' is an open end.
// So created_at:{2026-01-01 TO 2026-01-03] is the 2nd and the 3rd of January.
package query

import (
	"fmt"
	"time"
)

// MaxLength is the longest query that Parse takes, in characters.
const MaxLength = 200

// maxDepth bounds how deep parentheses and negations nest.
const maxDepth = 20

// Error says what is wrong with a query and where. It names rules and positions,
// never a part of the query.
type Error struct {
	Offset int // in characters, from 0
	Msg    string
}

// Error counts characters from 1, as people do.
func (e *Error) Error() string {
	return fmt.Sprintf("query: at character %d: %s", e.Offset+1, e.Msg)
}

// Node is a condition on tokens: And, Or, Not, or one of the terms.
type Node interface{ isNode() }

type (
	// And holds when every one of its nodes does. Parse gives it at least two.
	And []Node
	// Or holds when one of its nodes does. Parse gives it at least two.
	Or []Node
	// Not holds when its node does not.
	Not struct{ Node Node }

	// IDIs holds for the token with this id.
	IDIs string
	// TypeIs holds for tokens of this type.
	TypeIs string
	// DataIs holds for tokens that have a search index with this value.
	DataIs string
	// FingerprintIs holds for tokens with this fingerprint, in its text form.
	// It may be any text: one that is not a fingerprint matches no token.
	FingerprintIs string
	// InContainer holds for tokens in a container that is equal to Path or, for
	// a Prefix, starts with it. Path is in lower case.
	InContainer struct {
		Path   string
		Prefix bool
	}
	// MetadataIs holds for tokens with this pair. Values are compared in the form
	// that Fold gives; here the value is as it was written.
	MetadataIs struct{ Key, Value string }
	// ByIs holds for tokens that this actor created or last changed. Parse
	// never returns the zero ID.
	ByIs struct {
		Field Field
		ID    [16]byte
	}
	// TimeIn holds for tokens whose time is not before From and before To, each
	// of which is open when zero. Both are in UTC, in whole microseconds. A
	// token that was never modified is in no range of ModifiedAt.
	TimeIn struct {
		Field    Field
		From, To time.Time
	}
)

// Field tells the two pairs of fields of ByIs and TimeIn apart.
type Field uint8

// The fields of ByIs, and those of TimeIn.
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
