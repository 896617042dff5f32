package access

import (
	"cmp"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/idna"

	"github.com/seed-72ea4aab/vault/internal/form"
)

// Target is a request that carries data: where it goes, and what its request line
// says. The zero Target stands for the caller: the data is shown and not sent
// anywhere.
type Target struct {
	// Host is the host and port, such as "api.example.com" or
	// "api.example.com:8443". Port 443 is left out.
	Host string `json:"host,omitzero"`
	// Method and Path are as they are sent. The query is not part of Path.
	Method string `json:"method,omitzero"`
	Path   string `json:"path,omitzero"`
}

// TargetOf returns the target of a request that net/http sends. Host is the host
// that is dialled, in lower case and punycode, without a trailing dot and without a
// user name. If plain is set, http is permitted besides https. It returns the zero
// Target, which no destination matches, for any other URL, and for a request line that
// is not a path.
func TargetOf(method string, u *url.URL, plain bool) Target {
	port := u.Port()
	switch {
	case u.Opaque != "" || u.Scheme != "https" && !(plain && u.Scheme == "http"):
		return Target{}
	case u.Scheme == "http" && port == "":
		port = "80"
	}
	host, ok := cleanHost(u.Hostname())
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil {
		host, ok = hostOf(ip), ip.Zone() == ""
	}
	if !ok {
		return Target{}
	}
	host, ok = withPort(host, port, port != "")
	if !ok || u.Scheme == "http" && !strings.Contains(host[strings.LastIndexByte(host, ']')+1:], ":") { // without a port, the host means https
		return Target{}
	}
	path, _, _ := strings.Cut(u.RequestURI(), "?")
	if method == "CONNECT" || !strings.HasPrefix(path, "/") && path != "*" { // such a request line names a host
		return Target{}
	}
	return Target{host, cmp.Or(method, "GET"), path}
}

// Destinations limit where the data of a token may be sent. An entry has the stored
// form of a [destination]. Nil means no limit, and an empty list that nothing is
// permitted.
type Destinations []string

// String returns the entries as they appear in messages.
func (d Destinations) String() string { return strings.Join(d, ", ") }

// Match reports whether a request may carry the data.
func (d Destinations) Match(to Target) bool {
	return d == nil || to != Target{} && slices.ContainsFunc(d, func(entry string) bool { return stored(entry).matches(to) })
}

// Within reports whether limit permits every request that d permits. It compares each
// method separately. Otherwise it reports false if only several entries of limit
// together cover an entry of d.
func (d Destinations) Within(limit Destinations) bool {
	return limit == nil || d != nil && !slices.ContainsFunc(d, func(entry string) bool { return !limit.covers(stored(entry)) })
}

// covers reports whether each request that the entry permits is permitted by d.
func (d Destinations) covers(entry destination) bool {
	methods := entry.methods
	if methods == nil {
		methods = []string{""} // any
	}
	return !slices.ContainsFunc(methods, func(method string) bool {
		return !slices.ContainsFunc(d, func(other string) bool {
			o := stored(other)
			return (o.methods == nil || slices.Contains(o.methods, method)) && hostCovers(o.host, entry.host) && o.path.covers(entry.path)
		})
	})
}

// Limits are the destinations of several rules. A request needs the permission of
// each. Nil means no limit.
type Limits []Destinations

// Match reports whether a request may carry the data.
func (l Limits) Match(to Target) bool {
	return !slices.ContainsFunc(l, func(d Destinations) bool { return !d.Match(to) })
}

// Within reports whether l permits no request that limit does not permit: each list
// of limit must cover one of l.
func (l Limits) Within(limit Limits) bool {
	return !slices.ContainsFunc(limit, func(outer Destinations) bool {
		return !slices.ContainsFunc(l, func(d Destinations) bool { return d.Within(outer) })
	})
}

// and returns the limits of both, without repetition.
func (l Limits) and(o Limits) Limits {
	for _, d := range o {
		if !slices.ContainsFunc(l, func(e Destinations) bool { return slices.Equal(d, e) }) {
			l = append(slices.Clip(l), d)
		}
	}
	return l
}

// maxCommon bounds what two lists have in common, which may be as many entries as the
// product of their lengths.
const maxCommon = 4 * maxDestinations

// Common returns the entries that all lists have in common, to be shown. A list that
// would leave more than maxCommon is passed over, because no decision rests on it. It
// is nil without a limit.
func (l Limits) Common() Destinations {
	if l == nil {
		return nil
	}
	common := l[0]
	for _, d := range l[1:] {
		if both := common.and(d); len(both) <= maxCommon {
			common = both
		}
	}
	return common
}

// and returns the entries that permit what an entry of both lists permits.
func (d Destinations) and(o Destinations) Destinations {
	both := Destinations{}
	for _, a := range d {
		for _, b := range o {
			if entry, ok := stored(a).and(stored(b)); ok && !slices.Contains(both, entry.String()) {
				both = append(both, entry.String())
			}
		}
	}
	return both
}

// String returns the common entries.
func (l Limits) String() string { return l.Common().String() }

// Each returns the entries of each list, to be shown if they have none in common. Lists
// after maxCommon entries are passed over.
func (l Limits) Each() string {
	var lists []string
	entries := 0
	for _, d := range l {
		if entries += len(d); entries <= maxCommon {
			lists = append(lists, d.String())
		}
	}
	return strings.Join(lists, "; ")
}

const (
	maxDestinations   = 32
	maxDestination    = 1000 // bytes
	destinationsRule  = "must have 1 to %d destinations; leave it out for no limit"
	destinationsAlone = "must be left out unless the only permission is token:use and the transform is reveal"
)

// checkDestinations returns the destinations of a rule in their stored form,
// without duplicates. Loopback permits addresses of loopback with a port.
func checkDestinations(bad *form.Problems, path string, r *Rule, loopback bool) {
	if r.Destinations == nil {
		return
	}
	if !slices.Equal(r.Permissions, []string{TokenUse}) || r.Transform != Reveal {
		bad.Add(path, destinationsAlone)
	}
	if len(r.Destinations) == 0 || len(r.Destinations) > maxDestinations {
		bad.Add(path, destinationsRule, maxDestinations)
		return
	}
	clean := Destinations{}
	for i, entry := range r.Destinations {
		d, problem := parseDestination(entry, loopback)
		if problem != "" {
			bad.Add(path+"["+strconv.Itoa(i)+"]", "%s", problem)
		} else if !slices.Contains(clean, d.String()) {
			clean = append(clean, d.String())
		}
	}
	r.Destinations = clean
}

// cleanTarget returns the host and port of a destination in their stored form.
func cleanTarget(text string, loopback bool) (string, bool) {
	if at, err := netip.ParseAddrPort(text); err == nil {
		usable := loopback && at.Addr().IsLoopback() && at.Addr().Zone() == "" && at.Port() != 0
		clean, _ := withPort(hostOf(at.Addr()), strconv.Itoa(int(at.Port())), true)
		return clean, usable
	}
	host, port, written := strings.Cut(text, ":")
	name, wild := strings.CutPrefix(host, "*.")
	name, ok := cleanHost(name)
	if !ok {
		return "", false
	}
	if wild {
		name = "*." + name
	}
	return withPort(name, port, written)
}

func hostOf(ip netip.Addr) string {
	if ip.Is6() {
		return "[" + ip.String() + "]"
	}
	return ip.String()
}

// withPort appends a port, unless it is 443.
func withPort(host, port string, written bool) (string, bool) {
	if !written {
		return host, true
	}
	n, err := strconv.ParseUint(port, 10, 16)
	switch {
	case err != nil || n == 0:
		return "", false
	case n == 443:
		return host, true
	}
	return host + ":" + strconv.FormatUint(n, 10), true
}

// cleanHost returns a domain name in lower case and punycode, without a
// trailing dot. It converts names as net/http does before it dials. It rejects
// a name that ends in a number, because some resolvers read it as an address.
func cleanHost(name string) (string, bool) {
	if strings.ContainsFunc(name, func(r rune) bool { return r >= 0x80 }) {
		ascii, err := idna.Lookup.ToASCII(name)
		if err != nil {
			return "", false
		}
		name = ascii
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	labels := strings.Split(name, ".")
	last := labels[len(labels)-1]
	if len(name) > 253 || slices.ContainsFunc(labels, badLabel) || strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x") {
		return "", false
	}
	return name, true
}

func badLabel(label string) bool {
	return label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != ""
}
