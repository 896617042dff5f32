package token

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed-72ea4aab/vault/storage"
)

// MaxQuery is the maximum length of a query, in characters.
const MaxQuery = 200

// maxQueryDepth is the maximum nesting of parentheses and negations.
const maxQueryDepth = 20

// QueryError describes an error in a query and its position. It names rules and
// positions, and never quotes the query.
type QueryError struct {
	Offset int // in characters, from 0
	Msg    string
}

// Error returns the message with its position, counted from 1.
func (e *QueryError) Error() string {
	return fmt.Sprintf("query: at character %d: %s", e.Offset+1, e.Msg)
}

// QueryTerms makes the conditions on values that a storage does not know: it has hashes
// of them.
type QueryTerms interface {
	// Data is for tokens that have a search index with this value.
	Data(value string) storage.Cond
	// Metadata is for tokens with this pair. Values are compared in the form that
	// FoldMetadata returns.
	Metadata(key, value string) storage.Cond
	// Container is for tokens in a container that equals path or, if prefix is
	// true, starts with path. The path is in lower case.
	Container(path string, prefix bool) storage.Cond
}

// FoldMetadata returns the form in which metadata values are compared. A database
// index must use the same form.
func FoldMetadata(value string) string { return strings.ToLower(value) }

const fieldNames = "id, type, data, fingerprint, container, metadata.<key>, created_by, created_at, modified_by, modified_at"

// ParseQuery turns a search into a condition of the storage. Its And and Or have at
// least two parts. Its error is a [*QueryError].
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
func ParseQuery(q string, t QueryTerms) (storage.Cond, error) {
	if utf8.RuneCountInString(q) > MaxQuery {
		return nil, &QueryError{MaxQuery, fmt.Sprintf("a query may have at most %d characters", MaxQuery)}
	}
	return parseQuery(q, t)
}

// parseQuery is ParseQuery for a query of any length.
func parseQuery(q string, t QueryTerms) (n storage.Cond, err error) {
	defer func() {
		switch failed := recover().(type) {
		case nil:
		case *QueryError:
			n, err = nil, failed
		default:
			panic(failed)
		}
	}()
	for i, r := range q {
		if r == 0 || r == utf8.RuneError && !strings.HasPrefix(q[i:], string(utf8.RuneError)) {
			return nil, &QueryError{utf8.RuneCountInString(q[:i]), "a query must be valid UTF-8 without NUL characters"}
		}
	}
	p := &queryParser{QueryTerms: t, text: []rune(q)}
	p.space()
	if p.done() {
		p.failf("a query needs at least one term, such as type:card")
	}
	n = p.or(0)
	if !p.done() {
		p.failf("this parenthesis was never opened")
	}
	return n, nil
}

// queryParser reads the text from left to right. A method that reads a whole part
// of the query also skips the space after it. If the query is not valid, it
// panics with an [*QueryError].
type queryParser struct {
	QueryTerms
	text []rune
	at   int
}

func (p *queryParser) failf(format string, args ...any) {
	panic(&QueryError{p.at, fmt.Sprintf(format, args...)})
}

func (p *queryParser) done() bool { return p.at == len(p.text) }

// next reports whether the next character is one of chars.
func (p *queryParser) next(chars string) bool {
	return !p.done() && strings.ContainsRune(chars, p.text[p.at])
}

func isQuerySpace(r rune) bool { return r == ' ' || r == '\t' || r == '\n' || r == '\r' }

func (p *queryParser) space() {
	for !p.done() && isQuerySpace(p.text[p.at]) {
		p.at++
	}
}

// word reads the given word if it is a separate word.
func (p *queryParser) word(w string) bool {
	end := p.at + len(w)
	if end > len(p.text) || string(p.text[p.at:end]) != w {
		return false
	}
	if end < len(p.text) && !isQuerySpace(p.text[end]) && !strings.ContainsRune("()!-", p.text[end]) {
		return false
	}
	p.at = end
	p.space()
	return true
}

func (p *queryParser) or(depth int) storage.Cond {
	var nodes storage.Or
	for {
		nodes = append(nodes, p.and(depth))
		if !p.word("OR") {
			break
		}
	}
	if len(nodes) == 1 {
		return nodes[0]
	}
	return nodes
}

func (p *queryParser) and(depth int) storage.Cond {
	var nodes storage.And
	for {
		nodes = append(nodes, p.unary(depth))
		if !p.word("AND") && (p.done() || p.next(")") || p.atOr()) {
			break
		}
	}
	if len(nodes) == 1 {
		return nodes[0]
	}
	return nodes
}

// atOr reports whether the next word is OR, without reading it.
func (p *queryParser) atOr() bool {
	ahead := *p
	return ahead.word("OR")
}

func (p *queryParser) unary(depth int) storage.Cond {
	if depth > maxQueryDepth {
		p.failf("parentheses and negations may be nested at most %d levels deep", maxQueryDepth)
	}
	if p.next("!-") {
		p.at++
		p.space()
	} else if !p.word("NOT") {
		return p.primary(depth)
	}
	return storage.Not{Cond: p.unary(depth + 1)}
}

func (p *queryParser) primary(depth int) storage.Cond {
	if !p.next("(") {
		return p.term()
	}
	open := p.at
	p.at++
	p.space()
	n := p.or(depth + 1)
	if !p.next(")") {
		panic(&QueryError{open, "this parenthesis is never closed"})
	}
	p.at++
	p.space()
	return n
}

// term reads field:value.
func (p *queryParser) term() storage.Cond {
	start := p.at
	field, key := p.field()
	build, known := queryTerms[field]
	if !known {
		panic(&QueryError{start, "unknown field; the fields are " + fieldNames})
	}
	p.at++ // the colon
	p.space()
	v := p.value(field)
	v.key = key
	return build(p, v)
}

// field reads the name of a field up to the colon, and the key for metadata.
func (p *queryParser) field() (name, key string) {
	start := p.at
	for !p.done() && (p.text[p.at] == '_' || unicode.IsLetter(p.text[p.at])) {
		p.at++
	}
	name = string(p.text[start:p.at])
	if name == "metadata" && p.next(".") {
		p.at++
		name = "metadata."
		key = p.key()
	}
	if !p.next(":") {
		panic(&QueryError{start, "expected a term like field:value; AND, OR and NOT must be in upper case"})
	}
	return name, key
}

func (p *queryParser) key() string {
	v := p.plain(":")
	switch {
	case v.star >= 0:
		panic(&QueryError{v.star, "put '*' in quotes to search for the character"})
	case v.text == "":
		panic(&QueryError{v.at, "metadata needs a key, as in metadata.user:jane"})
	}
	return v.text
}
