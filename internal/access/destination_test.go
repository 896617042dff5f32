package access

import (
	"fmt"
	"net/url"
	"slices"
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
		{"https://api.stripe.com", ""}, {"api.stripe.com/v1", "api.stripe.com/v1"}, {"POST,GET,POST API.stripe.com:443/v1/%7Echarges/*/**", "GET,POST api.stripe.com/v1/~charges/*/**"}, {"api.stripe.com/", "api.stripe.com/"}, {"*.stripe.com:8443/**", "*.stripe.com:8443/**"},
		{"user@api.stripe.com", ""}, {"user:pw@api.stripe.com", ""},
		{"api.stripe.com?x", ""}, {"api.stripe.com#x", ""}, {"api stripe.com", ""}, {"a\x00b.com", ""},
		{"api.stripe.com:", ""}, {"api.stripe.com:0", ""}, {"api.stripe.com:65536", ""}, {"api.stripe.com:+443", ""}, {"api.stripe.com:https", ""},
		{"93.184.216.34", ""}, {"93.184.216.34:443", ""}, {"[2606:2800::1]", ""}, {"[2606:2800::1]:443", ""}, {"2606:2800::1", ""},
		{"post api.stripe.com", ""}, {"POST  api.stripe.com", ""}, {" api.stripe.com", ""}, {"GET, POST api.stripe.com", ""}, {"GET,,POST api.stripe.com", ""}, {"CONNECT api.stripe.com", ""}, {"POST /v1", ""},
		{"api.stripe.com/v1?x=1", ""}, {"api.stripe.com/v1#x", ""}, {"api.stripe.com//v1", ""}, {"api.stripe.com/../v1", ""}, {"api.stripe.com/%2e%2e/v1", ""}, {"api.stripe.com/.../v1", ""},
		{"api.stripe.com/a;b", ""}, {"api.stripe.com/a%3Bb", ""}, {"api.stripe.com/a%2fb", ""}, {"api.stripe.com/a%5cb", ""}, {"api.stripe.com/a\\b", ""}, {"api.stripe.com/%25", ""}, {"api.stripe.com/%0a", ""}, {"api.stripe.com/%zz", ""}, {"api.stripe.com/%4", ""}, {"api.stripe.com/é", ""},
		{"api.stripe.com/ch_*", ""}, {"api.stripe.com/**/x", ""}, {"api.stripe.com/***", ""}, {"api.stripe.com/" + strings.Repeat("a", 1000), ""},
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
		want  string
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
		} else if got := TargetOf("", u, test.plain).Host; got != test.want {
			t.Errorf("%s: %q, want %q", test.url, got, test.want)
		}
	}
}

// A request line that names a host itself is no target. Servers take it for the host.
func TestTargetsArePaths(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		method string
		url    url.URL
		want   Target
	}{
		{"POST", url.URL{Path: "/v1/~a", RawPath: "/v1/%7Ea", RawQuery: "q"}, Target{"x.test", "POST", "/v1/%7Ea"}},
		{"", url.URL{}, Target{"x.test", "GET", "/"}},
		{"POST", url.URL{Path: "/v1?q", ForceQuery: true}, Target{"x.test", "POST", "/v1%3Fq"}},
		{"OPTIONS", url.URL{Path: "*"}, Target{"x.test", "OPTIONS", "*"}},
		{"POST", url.URL{Path: "https://evil.test/v1"}, Target{}},
		{"POST", url.URL{Path: "evil.test/v1"}, Target{}},
		{"POST", url.URL{Opaque: "//evil.test/v1"}, Target{}},
		{"POST", url.URL{Opaque: "/v1"}, Target{}},
		{"CONNECT", url.URL{}, Target{}},
		{"CONNECT", url.URL{Path: "/v1"}, Target{}},
	} {
		test.url.Scheme, test.url.Host = "https", "x.test"
		must.Same(t, test.method+" "+test.url.String(), test.want, TargetOf(test.method, &test.url, false))
	}
}

func TestDestinationsOfSeveralHolders(t *testing.T) {
	t.Parallel()
	grant := mustNew(t, []Rule{
		bound(1, "/a/", "x.test", "y.test"), bound(2, "/b/", "*.test", "other.example"), bound(3, "/c/", "z.test"), on(4, "/d/", Mask, TokenUse),
	})
	session := mustNew(t, nil, TokenUse, TokenRead)
	xy, wild := Destinations{"x.test", "y.test"}, Destinations{"*.test", "other.example"}
	for _, test := range []struct {
		grant      *Grant
		containers []string
		want       Decision // for x.test
	}{
		{grant, []string{"/a/"}, Decision{Reveal, Limits{xy}}},
		{grant, []string{"/b/"}, Decision{Reveal, Limits{wild}}},
		{grant, []string{"/a/", "/b/"}, Decision{Reveal, Limits{xy, wild}}},
		{grant, []string{"/b/", "/a/"}, Decision{Reveal, Limits{wild, xy}}},
		{grant, []string{"/c/"}, Decision{None, Limits{{"z.test"}}}},
		{grant, []string{"/a/", "/c/"}, Decision{None, Limits{xy, {"z.test"}}}},
		{grant, []string{"/a/", "/d/"}, Decision{Mask, Limits{xy}}},
		{grant, []string{"/a/", "/e/"}, Decision{}},
		{session.DelegatedBy(grant), []string{"/a/"}, Decision{Reveal, Limits{xy}}},
		{session.DelegatedBy(grant), []string{"/e/"}, Decision{}},
		{Unlimited().Under(grant), []string{"/c/"}, Decision{None, Limits{{"z.test"}}}},
		{mustNew(t, []Rule{bound(1, "/", "z.test")}).DelegatedBy(grant), []string{"/a/"}, Decision{None, Limits{{"z.test"}, xy}}},
	} {
		if diff := cmp.Diff(test.want, test.grant.DecideTo(TokenUse, "t", test.containers, Target{Host: "x.test", Method: "GET", Path: "/"})); diff != "" {
			t.Errorf("%v (-want +got):\n%s", test.containers, diff)
		}
		if best := test.grant.Best("t", test.containers); best > Mask {
			t.Errorf("%v: bound use shows %s", test.containers, best)
		}
	}
}

// A pattern covers another one only if it fits each path that the other fits, and what
// two have in common fits exactly the paths that both fit.
func TestPathPatterns(t *testing.T) {
	t.Parallel()
	var all []pathPattern
	var paths []string
	segments := []string{"", "a", "b", "*", "**"}
	for _, a := range segments {
		for _, b := range append(segments, "none") {
			for _, c := range append(segments, "none") {
				text := "/" + strings.TrimSuffix(strings.TrimSuffix(a+"/"+b+"/"+c, "/none"), "/none")
				if strings.Contains(text, "none") {
					continue
				}
				if p, problem := parsePattern(text); problem == "" {
					all = append(all, p)
				}
				paths = append(paths, strings.ReplaceAll(text, "*", "z"), text+"/d")
			}
		}
	}
	for _, p := range all {
		for _, o := range all {
			both, some := p.and(o)
			covers := p.covers(o)
			for _, path := range paths {
				mine, other := p.matches(path), o.matches(path)
				if covers && other && !mine {
					t.Fatalf("%v covers %v, but not %s", p, o, path)
				}
				if got := some && both.matches(path); got != (mine && other) {
					t.Fatalf("%v and %v have %v in common: %s is %v, want %v", p, o, both, path, got, mine && other)
				}
			}
			if equal := cmp.Equal(p, o); equal && !covers || some && cmp.Equal(both, o) != covers {
				t.Fatalf("%v covers %v: %v, but they have %v in common", p, o, covers, both)
			}
		}
	}
	if len(all) < 30 || len(paths) < 200 {
		t.Errorf("%d patterns and %d paths", len(all), len(paths))
	}
}

// Within compares each method separately.
func TestDestinationsWithin(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		d, limit Destinations
		want     bool
	}{
		{Destinations{"GET,POST x.test/a"}, Destinations{"GET x.test", "POST x.test/**"}, true},
		{Destinations{"x.test"}, Destinations{"GET x.test", "POST x.test"}, false},
		{Destinations{"GET x.test"}, Destinations{"x.test"}, true},
		{Destinations{"x.test"}, Destinations{"x.test/**"}, false},
		{Destinations{"x.test/v1/*"}, Destinations{"*.test/v1/**"}, true},
		{Destinations{"x.test/v1/**"}, Destinations{"*.test/v1/*"}, false},
		{Destinations{"GET x.test"}, Destinations{"POST x.test"}, false},
		{Destinations{}, Destinations{"x.test"}, true},
		{nil, Destinations{"x.test"}, false},
		{Destinations{"x.test"}, nil, true},
	} {
		must.Same(t, test.d.String()+" within "+test.limit.String(), test.d.Within(test.limit), test.want)
	}
}

// The intersection of many lists does not grow with the product of their lengths.
func TestCommonDestinationsAreBounded(t *testing.T) {
	t.Parallel()
	var limits Limits
	for list := range maxContainers {
		var d Destinations
		for n := range maxDestinations {
			segments := slices.Repeat([]string{"*"}, 60)
			segments[6*list+n%6] = fmt.Sprint("s", n)
			d = append(d, "x.test/"+strings.Join(segments, "/"))
		}
		limits = append(limits, d)
	}
	if n := len(limits.Common()); n == 0 || n > maxCommon {
		t.Errorf("%d lists have %d entries in common", len(limits), n)
	}
}
