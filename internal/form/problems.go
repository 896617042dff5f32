// Package form reads and writes JSON objects field by field, strictly, and
// collects what is wrong with an input.
//
// What is wrong is a list of Problems. It is not an error: the vault's front
// turns it into its own InvalidError, which is the same struct, so that a list
// cannot reach a caller by accident.
package form

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed-72ea4aab/vault/internal/expr"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

// Problems is what is wrong with an input. The zero value is an empty list.
type Problems struct {
	// Fields maps the dotted path of a field (data.number, [2].data) to what is
	// wrong with it. The path of the input as a whole is "".
	Fields map[string][]string
}

// maxProblems bounds the fields of a list, and the messages about each: a
// document can have a million bad values.
const maxProblems = 1000

// Any reports whether something is wrong.
func (p *Problems) Any() bool { return p != nil && len(p.Fields) > 0 }

// Add records a message about a field. Messages name fields and rules; they
// must never hold a value.
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

// AddErr records what a parser said, under the path of its input.
func (p *Problems) AddErr(path string, err error) {
	var syntax *jsonx.Error
	var expression *expr.Error
	switch {
	case errors.As(err, &syntax):
		p.Add(jsonx.JoinPath(path, syntax.Path), "%s", syntax.Msg)
	case errors.As(err, &expression):
		p.Add(jsonx.JoinPath(path, expression.Path), "%s (at byte %d of the expression)", expression.Msg, expression.Offset)
	default:
		p.Add(path, "%s", err.Error())
	}
}

// AddAll records messages by path, each under the path of their input.
func (p *Problems) AddAll(path string, fields map[string][]string) {
	for at, messages := range fields {
		for _, m := range messages {
			p.Add(jsonx.JoinPath(path, at), "%s", m)
		}
	}
}

// unknownField is what is wrong with a field that an object does not have.
const unknownField = "is not a field of this object"

// AddUnknown records the unknown fields that another look at the same input
// found, each once.
func (p *Problems) AddUnknown(fields map[string][]string) {
	for path, messages := range fields {
		if slices.Contains(messages, unknownField) && !slices.Contains(p.Fields[path], unknownField) {
			p.Add(path, unknownField)
		}
	}
}

// String lists the fields and their messages in the order of the paths.
func (p *Problems) String() string { return Describe("invalid input", p.Fields) }

// Describe lists fields and what is wrong with them, in the order of their paths.
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

// Problem returns a list of one message about a field.
func Problem(path, format string, args ...any) *Problems {
	p := &Problems{}
	p.Add(path, format, args...)
	return p
}

// Of returns what a parser said, under the path of its input.
func Of(path string, err error) *Problems {
	p := &Problems{}
	p.AddErr(path, err)
	return p
}
