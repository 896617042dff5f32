// Package query turns the language for searching tokens into conditions of the
// storage.
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

	"github.com/seed-72ea4aab/vault/storage"
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

// Terms makes the conditions on values that a storage does not know: it has hashes
// of them.
type Terms interface {
	// Data is for tokens that have a search index with this value.
	Data(value string) storage.Cond
	// Metadata is for tokens with this pair. Values are compared in the form that
	// Fold returns.
	Metadata(key, value string) storage.Cond
	// Container is for tokens in a container that equals path or, if prefix is
	// true, starts with path. The path is in lower case.
	Container(path string, prefix bool) storage.Cond
}

// Fold returns the form in which metadata values are compared. A database
// index must use the same form.
func Fold(value string) string { return strings.ToLower(value) }
