package relay

import (
	"net/url"
	"slices"
	"strings"

	"github.com/seed-72ea4aab/vault/internal/form"
)

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
