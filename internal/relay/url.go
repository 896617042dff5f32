package relay

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/seed-72ea4aab/vault/internal/expr"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

// DropPrefixed removes the headers whose names start with a prefix.
func DropPrefixed(header http.Header, prefix string) {
	if prefix == "" {
		return
	}
	for name := range header {
		if len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix) {
			delete(header, name)
		}
	}
}

// Place is an expression outside of the body.
type Place struct {
	Path string // for messages
	IDs  []string
}

// Places returns the values of headers and of a query that consist of one
// well-formed expression. It stops when they name enough tokens.
func Places(header http.Header, query string, enough int) []Place {
	var found []Place
	add := func(path, value string) {
		if enough <= 0 || !strings.HasPrefix(value, "{{") || !strings.HasSuffix(value, "}}") {
			return
		}
		t, err := expr.CompileTokens(value)
		if err != nil || !t.IsExpression() {
			return
		}
		place := Place{Path: path}
		for _, ref := range t.Refs() {
			place.IDs = append(place.IDs, ref.ID)
		}
		enough -= len(place.IDs)
		found = append(found, place)
	}
	if opening.MatchString(query) {
		for pair := range strings.SplitSeq(query, "&") {
			name, value, _ := strings.Cut(pair, "=")
			plain, err := url.QueryUnescape(value)
			if name, nameErr := url.QueryUnescape(name); err == nil && nameErr == nil {
				add(jsonx.JoinName("query", name), plain)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(header)) {
		for _, value := range header[name] {
			add(jsonx.JoinName("headers", name), value)
		}
	}
	return found
}

// Extend appends a path and a query to a URL.
func Extend(base *url.URL, path, query string) (*url.URL, *form.Problems) {
	u := *base
	if path != "" {
		if path[0] != '/' {
			return nil, form.Problem("path", "must start with a slash")
		}
		raw := strings.TrimSuffix(base.EscapedPath(), "/") + path
		plain, err := url.PathUnescape(raw)
		if err != nil {
			return nil, form.Problem("path", "has a %% that is not followed by two hexadecimal digits")
		}
		if hasDotSegment(path) {
			return nil, form.Problem("path", "must not have dot segments")
		}
		u.Path, u.RawPath = plain, raw
	}
	switch {
	case u.RawQuery == "":
		u.RawQuery = query
	case query != "":
		u.RawQuery += "&" + query
	}
	if strings.ContainsFunc(u.RawQuery, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return nil, form.Problem("query", "must not have spaces or control characters")
	}
	return &u, nil
}

// hasDotSegment reports whether a path could lead upwards. A destination may
// decode the path first, treat backslashes as slashes, or ignore the
// parameters of a segment ("..;x").
func hasDotSegment(path string) bool {
	plain, err := url.PathUnescape(path)
	if err != nil {
		return true
	}
	isSlash := func(r rune) bool { return r == '/' || r == '\\' }
	return slices.ContainsFunc(strings.FieldsFunc(plain, isSlash), func(segment string) bool {
		name, _, _ := strings.Cut(segment, ";")
		return name == "." || name == ".."
	})
}
