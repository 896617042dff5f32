package access

import (
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/idna"

	"github.com/seed-72ea4aab/vault/internal/form"
)

// Target is the host and port that a request is sent to, such as
// "api.example.com" or "api.example.com:8443". Port 443 is left out. The zero
// Target stands for the caller: the data is shown and not sent anywhere.
type Target string

// TargetOf returns the target of a URL: the host that is dialled, in lower case
// and punycode, without a trailing dot and without a user name. If plain is
// set, http is permitted besides https. It returns the zero Target for any
// other URL, which no destination matches.
func TargetOf(u *url.URL, plain bool) Target {
	port := u.Port()
	switch {
	case u.Opaque != "" || u.Scheme != "https" && !(plain && u.Scheme == "http"):
		return ""
	case u.Scheme == "http" && port == "":
		port = "80"
	}
	host, ok := cleanHost(u.Hostname())
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil {
		host, ok = hostOf(ip), ip.Zone() == ""
	}
	if !ok {
		return ""
	}
	target, ok := withPort(host, port, port != "")
	if !ok || u.Scheme == "http" && target == host { // without a port, the target means https
		return ""
	}
	return Target(target)
}

// Destinations limit where the data of a token may be sent. Each entry is a
// host or "*." and a host, with a port unless it is 443. The star stands for
// one label. Nil means no limit, and an empty list that nothing is left.
type Destinations []string

// String returns the entries as they appear in messages.
func (d Destinations) String() string { return strings.Join(d, ", ") }

// Match reports whether a request may carry the data to the target.
func (d Destinations) Match(to Target) bool { return d == nil || to != "" && d.covers(string(to)) }

// covers reports whether each host of the entry is in d.
func (d Destinations) covers(entry string) bool {
	if slices.Contains(d, entry) {
		return true
	}
	_, parent, ok := strings.Cut(entry, ".")
	return ok && slices.Contains(d, "*."+parent)
}

// Within reports whether d permits no host that limit does not permit.
func (d Destinations) Within(limit Destinations) bool {
	return limit == nil || d != nil && !slices.ContainsFunc(d, func(entry string) bool { return !limit.covers(entry) })
}

// and returns the hosts that both permit. Two wildcards have hosts in common
// only if they are equal, because a star stands for exactly one label.
func (d Destinations) and(o Destinations) Destinations {
	switch {
	case d == nil:
		return o
	case o == nil:
		return d
	}
	both := Destinations{}
	for _, entry := range d {
		if o.covers(entry) {
			both = append(both, entry)
		}
	}
	for _, entry := range o {
		if d.covers(entry) && !slices.Contains(both, entry) {
			both = append(both, entry)
		}
	}
	return both
}

const (
	maxDestinations   = 32
	destinationsRule  = "must have 1 to %d destinations; leave it out for no limit"
	destinationRule   = "must be a host such as api.example.com or *.example.com, with an optional port; not an IP address, and without a scheme, a path, a user name, or a * elsewhere"
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
		d, ok := cleanDestination(entry, loopback)
		if !ok {
			bad.Add(path+"["+strconv.Itoa(i)+"]", destinationRule)
		}
		if !slices.Contains(clean, d) {
			clean = append(clean, d)
		}
	}
	r.Destinations = clean
}

// cleanDestination returns a destination in its stored form.
func cleanDestination(text string, loopback bool) (string, bool) {
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
