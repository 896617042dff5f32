package relay

import "slices"

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
	own := e.filters[0].secrets
	return func(before any) (any, bool) {
		earlier, known := before.([]secret)
		if before != nil && !known {
			return nil, false
		}
		earlier = slices.DeleteFunc(slices.Clone(earlier), func(s secret) bool {
			return slices.ContainsFunc(own, func(o secret) bool { return o.Text == s.Text })
		})
		for i := range earlier {
			earlier[i].mark = "" // nothing replaces the marks of earlier requests
		}
		if textBytes(earlier) > maxCarried || len(earlier) > 0 && (out.Stream != nil || len(out.Body) > maxCompared) {
			return nil, false
		}
		all := slices.Concat(own, earlier)
		if len(own) != len(e.filters[0].secrets) || len(earlier) > 0 {
			e.filters[0] = newFilter(slices.Concat(own, out.without(earlier)), signsAlike)
		}
		if textBytes(all) > maxRemembered {
			return tooMuch, true
		}
		return all, true
	}
}

// without returns the texts of those tokens of which the request has none.
func (r *Request) without(secrets []secret) []secret {
	if len(secrets) == 0 {
		return nil
	}
	f, has := newFilter(secrets, signsAlike), map[string]bool{}
	texts := []string{string(r.Body), r.URL.RawQuery, r.URL.EscapedPath()}
	for name, values := range r.Header {
		texts = append(append(texts, name), values...)
	}
	for _, text := range texts {
		s := &stream{f: f}
		note := func() {
			for _, m := range s.marks {
				has[secrets[m.secret].Instead] = true
			}
			s.marks = s.marks[:0]
		}
		for block := range slices.Chunk([]byte(text), blockSize) {
			s.plain.read(s, units{block, ones[:len(block)]})
			note()
		}
		s.plain.finish(s)
		note()
	}
	return slices.DeleteFunc(slices.Clone(secrets), func(s secret) bool { return has[s.Instead] })
}

func textBytes(secrets []secret) (size int) {
	for _, s := range secrets {
		size += len(s.Text)
	}
	return size
}
