package relay

import (
	"slices"

	"github.com/seed-72ea4aab/vault/internal/relay/search"
)

// Limits on the texts, in bytes, that later requests on a connection have to find.
const (
	maxCarried    = 2 << 10  // texts of earlier requests
	maxRemembered = 64 << 10 // all texts
	maxCompared   = 64 << 10 // a body that is searched for texts of earlier requests
)

// tooMuch is carried in place of texts that are not remembered.
const tooMuch = "too much"

// carry returns the function of egress.Keep with which the search also finds what
// earlier requests have sent on the same connection. A destination may repeat such data
// after its response, when the next request has been sent. A request for which that is
// too much needs another connection.
//
// A text of the request itself may be a guess at earlier data. It stays as it is in the
// response, and the connection does not depend on it.
func (e *Echo) carry(out *Request) func(before any) (after any, ok bool) {
	own := e.filters[0].Secrets()
	return func(before any) (any, bool) {
		earlier, known := before.([]search.Secret)
		if before != nil && !known {
			return nil, false
		}
		earlier = slices.DeleteFunc(slices.Clone(earlier), func(s search.Secret) bool {
			return slices.ContainsFunc(own, func(o search.Secret) bool { return o.Text == s.Text })
		})
		for i := range earlier {
			earlier[i].Mark = "" // nothing replaces the marks of earlier requests
		}
		if textBytes(earlier) > maxCarried || len(earlier) > 0 && (out.Stream != nil || len(out.Body) > maxCompared) {
			return nil, false
		}
		all := slices.Concat(own, earlier)
		if len(own) != len(e.filters[0].Secrets()) || len(earlier) > 0 {
			e.filters[0] = search.New(slices.Concat(own, out.without(earlier)), search.SignsAlike)
		}
		if textBytes(all) > maxRemembered {
			return tooMuch, true
		}
		return all, true
	}
}

// without returns the texts of those tokens of which the request has none.
func (r *Request) without(secrets []search.Secret) []search.Secret {
	if len(secrets) == 0 {
		return nil
	}
	f, has := search.New(secrets, search.SignsAlike), map[string]bool{}
	texts := []string{string(r.Body), r.URL.RawQuery, r.URL.EscapedPath()}
	for name, values := range r.Header {
		texts = append(append(texts, name), values...)
	}
	for _, text := range texts {
		f.Find(text, func(n int) { has[secrets[n].Instead] = true })
	}
	return slices.DeleteFunc(slices.Clone(secrets), func(s search.Secret) bool { return has[s.Instead] })
}

func textBytes(secrets []search.Secret) (size int) {
	for _, s := range secrets {
		size += len(s.Text)
	}
	return size
}
