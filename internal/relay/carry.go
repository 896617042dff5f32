package relay

import "slices"

// Limits on the texts, in bytes, that later requests on a connection have to find.
const (
	maxCarried    = 2 << 10  // texts of earlier requests
	maxRemembered = 64 << 10 // all texts
)

// tooMuch is carried in place of texts that are not remembered.
const tooMuch = "too much"

// carry returns the function of egress.Keep with which the search also finds what
// earlier requests have sent on the same connection. A destination may repeat such data
// after its response, when the next request has been sent. A request for which that is
// too much needs another connection.
func (e *Echo) carry() func(before any) (after any, ok bool) {
	own := e.filters[0].secrets
	return func(before any) (any, bool) {
		earlier, known := before.([]secret)
		if before != nil && !known {
			return nil, false
		}
		earlier = slices.DeleteFunc(slices.Clone(earlier), func(s secret) bool {
			return slices.ContainsFunc(own, func(o secret) bool { return o.Text == s.Text })
		})
		if textBytes(earlier) > maxCarried {
			return nil, false
		}
		all := slices.Concat(own, earlier)
		if len(all) != len(e.filters[0].secrets) || len(earlier) > 0 {
			e.filters[0] = newFilter(all, signsAlike)
		}
		if textBytes(all) > maxRemembered {
			return tooMuch, true
		}
		return all, true
	}
}

func textBytes(secrets []secret) (size int) {
	for _, s := range secrets {
		size += len(s.Text)
	}
	return size
}
