// Package form reads and writes JSON objects field by field, strictly, and
// collects the problems of an input.
//
// Problems is not an error. Package vault converts it to its own
// InvalidError, which is the same struct, so that a list cannot reach a
// caller by accident.
package form

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

// Problems lists the problems of an input. The zero value is an empty list.
type Problems struct {
	// Fields maps the dotted path of a field (data.number, [2].data) to its
	// problems. The path of the whole input is "".
	Fields map[string][]string
}

// maxProblems is the maximum number of fields in a list, and of messages
// about each field, because a document can have a million bad values.
const maxProblems = 1000

// Any reports whether there is a problem.
func (p *Problems) Any() bool { return p != nil && len(p.Fields) > 0 }

// Add records a message about a field. Messages name fields and rules, and
// must never contain a value.
func (p *Problems) Add(path, format string, args ...any) {
	if p.Fields == nil {
		p.Fields = map[string][]string{}
	}
	known := len(p.Fields[path])
	if known == 0 && len(p.Fields) >= maxProblems || known >= maxProblems {
		return
	}
	p.Fields[path] = append(p.Fields[path], fmt.Sprintf(format, args...))
}

// located is an error of a parser that knows the path of the bad value.
type located interface {
	error
	Problem() (path, message string)
}

// AddErr records the error of a parser under the path of its input.
func (p *Problems) AddErr(path string, err error) {
	if at, ok := errors.AsType[located](err); ok {
		below, message := at.Problem()
		p.Add(jsonx.JoinPath(path, below), "%s", message)
		return
	}
	p.Add(path, "%s", err.Error())
}

// AddAll records messages by path, below the path of their input.
func (p *Problems) AddAll(path string, fields map[string][]string) {
	for at, messages := range fields {
		for _, m := range messages {
			p.Add(jsonx.JoinPath(path, at), "%s", m)
		}
	}
}

// unknownField is the message about a field that an object does not have.
const unknownField = "is not a field of this object"

// AddUnknown records the unknown fields from another reading of the same
// input, each once.
func (p *Problems) AddUnknown(fields map[string][]string) {
	for path, messages := range fields {
		if slices.Contains(messages, unknownField) && !slices.Contains(p.Fields[path], unknownField) {
			p.Add(path, unknownField)
		}
	}
}

// String lists the fields and their messages, sorted by path.
func (p *Problems) String() string { return Describe("invalid input", p.Fields) }

// Describe lists fields and their messages, sorted by path.
func Describe(what string, fields map[string][]string) string {
	var b strings.Builder
	b.WriteString(what)
	for _, path := range slices.Sorted(maps.Keys(fields)) {
		for _, m := range fields[path] {
			b.WriteString("; ")
			if path != "" {
				b.WriteString(path + ": ")
			}
			b.WriteString(m)
		}
	}
	return b.String()
}

// Problem returns a list with one message about a field.
func Problem(path, format string, args ...any) *Problems {
	p := &Problems{}
	p.Add(path, format, args...)
	return p
}

// Of returns the error of a parser as a list, under the path of its input.
func Of(path string, err error) *Problems {
	p := &Problems{}
	p.AddErr(path, err)
	return p
}
