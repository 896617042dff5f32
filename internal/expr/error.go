package expr

import (
	"fmt"

	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

// Error describes what is wrong with an expression, or why it could not be
// evaluated. It names filters and rules, never a value.
type Error struct {
	Path   string // position of the template in a tree, like number or a[0]; "" outside of a tree
	Offset int    // bytes from the start of the template
	Msg    string
}

// Problem returns the path of the template, and message and offset in one line.
func (e *Error) Problem() (path, message string) {
	return e.Path, fmt.Sprintf("%s (at byte %d of the expression)", e.Msg, e.Offset)
}

// Error returns path, message and offset in one line.
func (e *Error) Error() string {
	path, text := e.Problem()
	if path != "" {
		return path + ": " + text
	}
	return text
}

// under prepends the position of a part of a tree to the path of a failure
// inside it, so that a path costs nothing until something fails.
func (e *Error) under(segment string) *Error {
	e.Path = jsonx.JoinPath(segment, e.Path)
	return e
}

// faultf makes an error whose position the caller fills in. Its arguments must
// be names, kinds and limits, never values.
func faultf(format string, args ...any) *Error {
	return &Error{Msg: fmt.Sprintf(format, args...)}
}

// needs returns the error of a filter whose input or argument has the wrong
// kind.
func needs(what string, v jsonx.Value) *Error {
	return faultf("needs %s, not %s", what, article(v.Kind()))
}

func article(k jsonx.Kind) string {
	switch k {
	case jsonx.Invalid, jsonx.Null:
		return "null"
	case jsonx.Array, jsonx.Object:
		return "an " + k.String()
	default:
		return "a " + k.String()
	}
}
