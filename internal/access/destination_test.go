package access

import (
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// bound returns a rule that lets token:use send data to destinations.
func bound(priority int, container string, destinations ...string) Rule {
	r := on(priority, container, Reveal, TokenUse)
	r.Destinations = destinations
	return r
}

func TestCheckDestinations(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		in   string
		want string // empty if it is refused
	}{
		{"api.stripe.com", "api.stripe.com"},
		{"API.Stripe.COM", "api.stripe.com"},
		{"api.stripe.com.", "api.stripe.com"},
		{"api.stripe.com:443", "api.stripe.com"},
		{"api.stripe.com:8443", "api.stripe.com:8443"},
		{"*.stripe.com", "*.stripe.com"},
		{"*.Stripe.com:8443", "*.stripe.com:8443"},
		{"bücher.example", "xn--bcher-kva.example"},
		{"*.BÜCHER.example", "*.xn--bcher-kva.example"},
		{"xn--bcher-kva.example", "xn--bcher-kva.example"},
		{"localhost:8443", "localhost:8443"},
		{"*", ""}, {"*.", ""}, {"", ""}, {".", ""}, {"a..b", ""},
		{"api.*.com", ""}, {"api*.stripe.com", ""}, {"*api.stripe.com", ""}, {"*.*.stripe.com", ""},
		{"https://api.stripe.com", ""}, {"api.stripe.com/v1", ""}, {"user@api.stripe.com", ""}, {"user:pw@api.stripe.com", ""},
		{"api.stripe.com?x", ""}, {"api.stripe.com#x", ""}, {"api stripe.com", ""}, {"a\x00b.com", ""},
		{"api.stripe.com:", ""}, {"api.stripe.com:0", ""}, {"api.stripe.com:65536", ""}, {"api.stripe.com:+443", ""}, {"api.stripe.com:https", ""},
		{"93.184.216.34", ""}, {"93.184.216.34:443", ""}, {"[2606:2800::1]", ""}, {"[2606:2800::1]:443", ""}, {"2606:2800::1", ""},
		{"127.0.0.1:8443", ""}, {"[::1]:8443", ""}, {"127.1", ""}, {"0x7f.1", ""}, {"2130706433", ""}, {"*.0.0.1", ""},
		{strings.Repeat("a", 64) + ".com", ""}, {strings.Repeat("a.", 127) + "com", ""},
	} {
		rules, _, problems := Check(Private, []Rule{bound(1, "/", test.in)}, nil, false)
		field := "rules[0].destinations[0]"
		if test.want != "" {
			field = ""
		}
		if !only(problems, field) {
			t.Errorf("%q: %v", test.in, problems)
		} else if test.want != "" && rules[0].Destinations[0] != test.want {
			t.Errorf("%q is stored as %q", test.in, rules[0].Destinations[0])
		}
	}
}

func TestCheckDestinationsOfARule(t *testing.T) {
	t.Parallel()
	with := func(transform Transform, permissions ...string) Rule {
		r := on(1, "/", transform, permissions...)
		r.Destinations = Destinations{"a.test"}
		return r
	}
	many := make([]string, maxDestinations+1)
	for i := range many {
		many[i] = strings.Repeat("a", i+1) + ".test"
	}
	for name, test := range map[string]struct {
		rule     Rule
		loopback bool
		field    string
	}{
		"none":                      {on(1, "/", Reveal, TokenUse), false, ""},
		"an empty list":             {bound(1, "/", []string{}...), false, "rules[0].destinations"},
		"as many as can be":         {bound(1, "/", many[1:]...), false, ""},
		"too many":                  {bound(1, "/", many...), false, "rules[0].destinations"},
		"another permission":        {with(Reveal, TokenRead), false, "rules[0].destinations"},
		"another permission beside": {with(Reveal, TokenUse, TokenRead), false, "rules[0].destinations"},
		"another transform":         {with(Mask, TokenUse), false, "rules[0].destinations"},
		"loopback":                  {bound(1, "/", "127.0.0.1:8443"), true, ""},
		"loopback, IPv6":            {bound(1, "/", "[::1]:8443"), true, ""},
		"loopback without a port":   {bound(1, "/", "127.0.0.1"), true, "rules[0].destinations[0]"},
		"another address":           {bound(1, "/", "10.0.0.1:443"), true, "rules[0].destinations[0]"},
	} {
		if _, _, problems := Check(Private, []Rule{test.rule}, nil, test.loopback); !only(problems, test.field) {
			t.Errorf("%s: %v, want a problem at %q", name, problems, test.field)
		}
	}
	rules, _, _ := Check(Private, []Rule{bound(1, "/", "b.test", "A.test", "a.test:443")}, nil, false)
	must.Same(t, "duplicates", Destinations{"b.test", "a.test"}, rules[0].Destinations)
}

// The target of a URL is the host that is dialled.
func TestTargetOf(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		url   string
		plain bool
		want  Target
	}{
		{"https://api.stripe.com/v1", false, "api.stripe.com"},
		{"https://API.STRIPE.COM./v1", false, "api.stripe.com"},
		{"https://api.stripe.com:443", false, "api.stripe.com"},
		{"https://api.stripe.com:0443", false, "api.stripe.com"},
		{"https://api.stripe.com:444", false, "api.stripe.com:444"},
		{"https://user:pw@api.stripe.com/", false, "api.stripe.com"},
		{"https://api.stripe.com@evil.example/", false, "evil.example"},
		{"https://api.stripe.com.evil.example", false, "api.stripe.com.evil.example"},
		{"https://bücher.example", false, "xn--bcher-kva.example"},
		{"https://xn--bcher-kva.example", false, "xn--bcher-kva.example"},
		{"https://аpi.stripe.com", false, "xn--pi-6kc.stripe.com"}, // a Cyrillic letter
		{"https://api。stripe。com", false, "api.stripe.com"},
		{"https://[::1]/", false, "[::1]"},
		{"https://[::1%25lo]/", false, ""},
		{"https://127.0.0.1:8443", false, "127.0.0.1:8443"},
		{"https://2130706433", false, ""},
		{"https://0x7f.0x1", false, ""},
		{"http://api.stripe.com", false, ""},
		{"http://api.stripe.com", true, "api.stripe.com:80"},
		{"http://api.stripe.com:443", true, ""},
		{"ftp://api.stripe.com", true, ""},
		{"https:api.stripe.com", false, ""},
		{"https://api.stripe.com:", false, "api.stripe.com"},
		{"https:///path", false, ""},
	} {
		u, err := url.Parse(test.url)
		if err != nil {
			t.Errorf("%s: %v", test.url, err)
		} else if got := TargetOf(u, test.plain); got != test.want {
			t.Errorf("%s: %q, want %q", test.url, got, test.want)
		}
	}
}

func TestDestinationsOfSeveralHolders(t *testing.T) {
	t.Parallel()
	grant := mustNew(t, []Rule{
		bound(1, "/a/", "x.test", "y.test"), bound(2, "/b/", "*.test", "other.example"), bound(3, "/c/", "z.test"), on(4, "/d/", Mask, TokenUse),
	})
	session := mustNew(t, nil, TokenUse, TokenRead)
	for _, test := range []struct {
		grant      *Grant
		containers []string
		want       Decision // for x.test
	}{
		{grant, []string{"/a/"}, Decision{Reveal, Destinations{"x.test", "y.test"}}},
		{grant, []string{"/b/"}, Decision{Reveal, Destinations{"*.test", "other.example"}}},
		{grant, []string{"/a/", "/b/"}, Decision{Reveal, Destinations{"x.test", "y.test"}}},
		{grant, []string{"/b/", "/a/"}, Decision{Reveal, Destinations{"x.test", "y.test"}}},
		{grant, []string{"/c/"}, Decision{None, Destinations{"z.test"}}},
		{grant, []string{"/a/", "/c/"}, Decision{None, Destinations{}}},
		{grant, []string{"/a/", "/d/"}, Decision{Mask, Destinations{"x.test", "y.test"}}},
		{grant, []string{"/a/", "/e/"}, Decision{}},
		{session.DelegatedBy(grant), []string{"/a/"}, Decision{Reveal, Destinations{"x.test", "y.test"}}},
		{session.DelegatedBy(grant), []string{"/e/"}, Decision{}},
		{Unlimited().Under(grant), []string{"/c/"}, Decision{None, Destinations{"z.test"}}},
		{mustNew(t, []Rule{bound(1, "/", "z.test")}).DelegatedBy(grant), []string{"/a/"}, Decision{None, Destinations{}}},
	} {
		if diff := cmp.Diff(test.want, test.grant.DecideTo(TokenUse, "t", test.containers, "x.test")); diff != "" {
			t.Errorf("%v (-want +got):\n%s", test.containers, diff)
		}
		if best := test.grant.Best("t", test.containers); best > Mask {
			t.Errorf("%v: bound use shows %s", test.containers, best)
		}
	}
}
