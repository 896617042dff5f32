package access

import (
	"fmt"
	"slices"
	"strings"
)

// destination is an entry of [Destinations]: "[METHOD[,METHOD...] ]host[:port][/path]".
type destination struct {
	methods []string // ascending; nil for any
	host    string   // with a port unless it is 443; "*." stands for one label
	path    pathPattern
}

// String returns the stored form.
func (d destination) String() string {
	text := d.host
	if d.path != nil {
		text += "/" + strings.Join(d.path, "/")
	}
	if d.methods != nil {
		text = strings.Join(d.methods, ",") + " " + text
	}
	return text
}

// stored reads a destination in its stored form.
func stored(text string) (d destination) {
	methods, rest, ok := strings.Cut(text, " ")
	if ok {
		d.methods, text = strings.Split(methods, ","), rest
	}
	host, path, ok := strings.Cut(text, "/")
	if d.host = host; ok {
		d.path = strings.Split(path, "/")
	}
	return d
}

// matches reports whether the destination permits a request.
func (d destination) matches(to Target) bool {
	return (d.methods == nil || slices.Contains(d.methods, to.Method)) && hostCovers(d.host, to.Host) && (d.path == nil || d.path.matches(to.Path))
}

// hostCovers reports whether a host equals the pattern or matches its star.
func hostCovers(pattern, host string) bool {
	if pattern == host {
		return true
	}
	_, parent, ok := strings.Cut(host, ".")
	return ok && pattern == "*."+parent
}

// and returns the destination that permits what both permit, if there is one. Two
// hosts with stars have hosts in common only if they are equal, because a star stands
// for exactly one label.
func (d destination) and(o destination) (both destination, ok bool) {
	switch {
	case hostCovers(d.host, o.host):
		both.host = o.host
	case hostCovers(o.host, d.host):
		both.host = d.host
	default:
		return both, false
	}
	switch {
	case d.methods == nil:
		both.methods = o.methods
	case o.methods == nil:
		both.methods = d.methods
	default:
		both.methods = slices.DeleteFunc(slices.Clone(d.methods), func(m string) bool { return !slices.Contains(o.methods, m) })
		if len(both.methods) == 0 {
			return both, false
		}
	}
	both.path, ok = d.path.and(o.path)
	return both, ok
}

// The wildcards of a path: one segment that is not empty, and any rest at the end.
const (
	anySegment = "*"
	anyRest    = "**"
)

// pathPattern is the path of a destination: its segments after the first slash. Nil
// stands for any path.
type pathPattern []string

// matches reports whether a path of a request line fits the pattern. A path that
// servers read differently from each other fits no pattern.
func (p pathPattern) matches(path string) bool {
	clean, ok := cleanPath(path)
	if !ok {
		return false
	}
	segments := strings.Split(clean[1:], "/")
	for i, want := range p {
		switch {
		case want == anyRest:
			return true
		case i >= len(segments):
			return false
		case want == anySegment && segments[i] != "", want == segments[i]:
		default:
			return false
		}
	}
	return len(segments) == len(p)
}

// covers reports whether p fits each path that o fits.
func (p pathPattern) covers(o pathPattern) bool {
	switch {
	case p == nil:
		return true
	case o == nil:
		return false
	}
	for {
		switch {
		case len(p) > 0 && p[0] == anyRest:
			return true
		case len(p) == 0 || len(o) == 0:
			return len(p) == len(o)
		case p[0] == o[0], p[0] == anySegment && o[0] != "" && o[0] != anyRest:
			p, o = p[1:], o[1:]
		default:
			return false
		}
	}
}

// and returns the pattern that fits what both fit, if there is one.
func (p pathPattern) and(o pathPattern) (both pathPattern, ok bool) {
	switch {
	case p == nil:
		return o, true
	case o == nil:
		return p, true
	}
	both = pathPattern{}
	for {
		switch {
		case len(p) > 0 && p[0] == anyRest:
			return append(both, o...), true
		case len(o) > 0 && o[0] == anyRest:
			return append(both, p...), true
		case len(p) == 0 || len(o) == 0:
			return both, len(p) == len(o)
		case p[0] == o[0], p[0] == anySegment && o[0] != "":
			both = append(both, o[0])
		case o[0] == anySegment && p[0] != "":
			both = append(both, p[0])
		default:
			return nil, false
		}
		p, o = p[1:], o[1:]
	}
}

// cleanPath removes the percent-encoding of unreserved characters from a path. It
// reports false for a path that a destination may read as another one: it has empty
// segments, segments of dots, parameters, a backslash, or an encoded slash, backslash,
// semicolon, percent sign or control character.
func cleanPath(path string) (string, bool) {
	if path == "" || path[0] != '/' || strings.Contains(path, "//") {
		return "", false
	}
	var out strings.Builder
	for i := 0; i < len(path); i++ {
		c := path[i]
		switch {
		case c <= ' ' || c >= 0x7f || c == ';' || c == '\\' || c == '?' || c == '#':
			return "", false
		case c != '%':
			out.WriteByte(c)
			continue
		case i+2 >= len(path):
			return "", false
		}
		high, low := hexDigit(path[i+1]), hexDigit(path[i+2])
		if high < 0 || low < 0 {
			return "", false
		}
		switch b := byte(high<<4 | low); {
		case b < ' ' || b == 0x7f || strings.IndexByte(`;%/\`, b) >= 0:
			return "", false
		case strings.IndexByte(unreserved, b) >= 0:
			out.WriteByte(b)
		default:
			out.WriteString(path[i : i+3])
		}
		i += 2
	}
	for segment := range strings.SplitSeq(out.String(), "/") {
		if segment != "" && strings.Trim(segment, ".") == "" {
			return "", false
		}
	}
	return out.String(), true
}

const unreserved = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"

// hexDigit returns the value of a hexadecimal digit, or -1.
func hexDigit(c byte) int {
	if c >= 'A' && c <= 'F' {
		c += 'a' - 'A'
	}
	return strings.IndexByte("0123456789abcdef", c)
}

const (
	destinationForm = "must be [METHOD[,METHOD...] ]host[:port][/path], such as api.example.com or POST api.example.com/v1/charges"
	destinationHost = "must have a host such as api.example.com or *.example.com, with an optional port; not an IP address, and without a scheme, a user name, or a * elsewhere"
)

// parseDestination reads a destination as people write it. The problem is empty, or
// explains what is permitted.
func parseDestination(text string, loopback bool) (d destination, problem string) {
	if len(text) > maxDestination {
		return d, fmt.Sprintf("must have at most %d characters", maxDestination)
	}
	methods, rest, ok := strings.Cut(text, " ")
	if ok {
		if strings.Contains(rest, " ") {
			return d, destinationForm + ", with one space after the methods and none between them"
		}
		for method := range strings.SplitSeq(methods, ",") {
			if method == "" || strings.Trim(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" {
				return d, destinationForm + "; methods are upper case and separated by commas"
			}
			if method == "CONNECT" {
				return d, "must not have the method CONNECT, because no request with it is sent"
			}
			d.methods = append(d.methods, method)
		}
		slices.Sort(d.methods)
		d.methods, text = slices.Compact(d.methods), rest
	}
	if strings.Contains(text, "://") {
		return d, destinationHost
	}
	host, path, hasPath := strings.Cut(text, "/")
	if d.host, ok = cleanTarget(host, loopback); !ok {
		return d, destinationHost
	}
	if hasPath {
		d.path, problem = parsePattern("/" + path)
	}
	return d, problem
}

// parsePattern reads the path of a destination.
func parsePattern(path string) (p pathPattern, problem string) {
	if strings.ContainsAny(path, "?#") {
		return nil, "must not have a query or a fragment: a destination limits only the method, the host and the path"
	}
	clean, ok := cleanPath(path)
	if !ok {
		return nil, "must have a path of printable ASCII without //, segments of dots, ; and \\, and without the encoded forms of /, \\, ;, % and control characters; write other characters with percent-encoding"
	}
	p = strings.Split(clean[1:], "/")
	for i, segment := range p {
		last := i == len(p)-1
		if strings.Contains(segment, "*") && segment != anySegment && !(segment == anyRest && last) {
			return nil, "must have * in the path only as a whole segment, which stands for one segment, or ** as the last one, which stands for any rest"
		}
	}
	return p, ""
}
