package egress

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	whatwg "github.com/nlnwa/whatwg-url/url"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

func prefixes(texts ...string) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// TestControl checks addresses that no test may dial, as the dialer would.
func TestControl(t *testing.T) {
	t.Parallel()
	strict := newGuard(&Policy{})
	for address, what := range map[string]string{
		"127.0.0.1:443": "loopback", "127.255.0.9:443": "loopback", "[::1]:443": "loopback",
		"0.0.0.0:443": "unspecified", "[::]:443": "unspecified",
		"10.0.0.1:443": "private", "172.16.0.1:443": "private", "172.31.255.255:443": "private",
		"192.168.1.1:443": "private", "[fd00::1]:443": "private", "100.64.0.1:443": "carrier NAT",
		"169.254.1.1:443": "link-local", "[fe80::1]:443": "link-local", "[fe80::1%lo]:443": "link-local with zone",
		"169.254.169.254:80": "metadata", "[fd00:ec2::254]:80": "metadata (AWS)",
		"100.100.100.200:80": "metadata (Alibaba)", "168.63.129.16:80": "metadata (Azure)", "192.0.0.192:80": "metadata (Oracle)",
		"224.0.0.1:443": "multicast", "[ff02::1]:443": "multicast", "255.255.255.255:443": "broadcast", "240.0.0.1:443": "reserved",
		"192.0.2.1:443": "documentation", "[2001:db8::1]:443": "documentation", "198.18.0.1:443": "benchmarking",
		"[::ffff:127.0.0.1]:443": "mapped", "[::ffff:8.8.8.8]:443": "mapped", "[::127.0.0.1]:443": "compatible",
		"[64:ff9b::7f00:1]:443": "NAT64", "[64:ff9b::808:808]:443": "NAT64", "[64:ff9b:1::1]:443": "local NAT64",
		"[2002:7f00:1::]:443": "6to4", "[2001:0:7f00:1::]:443": "Teredo", "[fec0::1]:443": "site-local",
		"example.com:443": "a name", "": "nothing", "/run/socket": "a path",
	} {
		if err := strict.control("tcp", address, nil); !errors.Is(err, ErrForbidden) {
			t.Errorf("%s (%s): %v, want ErrForbidden", address, what, err)
		} else if ip, _, ok := strings.Cut(address, ":"); ok && strings.Contains(err.Error(), ip) {
			t.Errorf("%s (%s): the text contains the address: %v", address, what, err)
		}
	}
	for _, address := range []string{"8.8.8.8:443", "168.63.129.17:8443", "[2606:4700::1111]:443", "[2a00:1450:4001::1]:9000"} {
		must.Match(t, address, strict.control("tcp", address, nil), nil)
	}
}

func TestPolicyPrefixes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		policy  Policy
		address string
		allowed bool
	}{
		"allowed prefix":            {Policy{AllowPrefixes: prefixes("10.1.0.0/16")}, "10.1.2.3:443", true},
		"beside allowed prefix":     {Policy{AllowPrefixes: prefixes("10.1.0.0/16")}, "10.2.2.3:443", false},
		"allowed IPv6 prefix":       {Policy{AllowPrefixes: prefixes("fd12::/16")}, "[fd12::9]:443", true},
		"public beside allowed":     {Policy{AllowPrefixes: prefixes("10.1.0.0/16")}, "8.8.8.8:443", true},
		"private allowed":           {Policy{AllowPrivate: true}, "10.0.0.1:80", true},
		"metadata":                  {Policy{AllowPrivate: true}, "169.254.169.254:80", false},
		"metadata, mapped":          {Policy{AllowPrivate: true}, "[::ffff:169.254.169.254]:80", false},
		"link-local":                {Policy{AllowPrivate: true}, "[fe80::1%lo]:443", false},
		"metadata allowed":          {Policy{AllowPrefixes: prefixes("169.254.169.254/32")}, "169.254.169.254:80", true},
		"denied public":             {Policy{DenyPrefixes: prefixes("8.8.8.0/24")}, "8.8.8.8:443", false},
		"denied beats allowed":      {Policy{AllowPrefixes: prefixes("10.0.0.0/8"), DenyPrefixes: prefixes("10.0.0.0/24")}, "10.0.0.1:443", false},
		"denied beats private":      {Policy{AllowPrivate: true, DenyPrefixes: prefixes("10.0.0.0/16")}, "10.0.0.1:80", false},
		"denied in mapped spelling": {Policy{AllowPrivate: true, DenyPrefixes: prefixes("10.0.0.0/8")}, "[::ffff:10.0.0.1]:443", false},
		"denied with zone":          {Policy{AllowPrivate: true, DenyPrefixes: prefixes("fe80::/10")}, "[fe80::1%lo]:443", false},
	} {
		err := newGuard(&test.policy).control("tcp", test.address, nil)
		if (err == nil) != test.allowed || err != nil && !errors.Is(err, ErrForbidden) {
			t.Errorf("%s: %v, want allowed %v", name, err, test.allowed)
		}
	}
}

func TestCheckURLAccepts(t *testing.T) {
	t.Parallel()
	loopback := Policy{AllowPrefixes: prefixes("127.0.0.0/8")}
	for text, policy := range map[string]Policy{
		"https://example.com":                        {},
		"HTTPS://API.Example.com:8443/v1?a=b&c=%20":  {},
		"https://example.com.:443/":                  {},
		"https://a_b.xn--bcher-kva.example/path":     {},
		"https://8.8.8.8/":                           {},
		"https://[2606:4700::1111]:8443/":            {},
		"https://mylocalhost/":                       {},
		"https://3ds-gateway/":                       {},
		"https://" + strings.Repeat("a", 63) + ".io": {},
		"http://example.com/":                        {AllowHTTP: true},
		"http://localhost:8080/":                     {AllowHTTP: true, AllowPrivate: true},
		"https://[::1]/":                             {AllowPrivate: true},
		"https://localhost/":                         loopback,
		"https://127.0.0.1/":                         loopback,
		"https://example.com:8443/":                  {Ports: []uint16{443, 8443}},
		"http://example.com/?":                       {AllowHTTP: true, Ports: []uint16{80}},
	} {
		u, err := New(policy).CheckURL(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if !strings.EqualFold(u.String(), text) {
			t.Errorf("%s: parsed as %s", text, u)
		}
	}
}

func TestCheckURLRefuses(t *testing.T) {
	t.Parallel()
	open := Policy{AllowHTTP: true, AllowPrivate: true}
	for text, policy := range map[string]Policy{
		// Never allowed, under any policy.
		"": open, "example.com": open, "/path": open, "//example.com/": open, "https:example.com": open, "https://": open,
		"https:///path": open, "https://:443/": open, "ftp://example.com/": open, "file:///etc/passwd": open,
		"gopher://example.com/": open, "https://user@example.com/": open, "https://user:hunter2@example.com/": open, "https://user:hunter2@exa mple.com/": open,
		"https://@example.com/": open, "https://example.com/#part": open, "https://example.com/#": open,
		"https://example.com:0/": open, "https://example.com:65536/": open, "https://example.com:x/": open,
		"https://exa mple.com/": open, "https://example.com\r\n/": open, "https://example.com/?a b": open,
		"https://example..com/": open, "https://.example.com/": open, "https://exam\\ple.com/": open,
		"https://example.com/" + strings.Repeat("a", MaxURLLength): open,
		"https://" + strings.Repeat("a", 64) + ".com/":             open, "https://" + strings.Repeat("a.", 127) + "com/": open,
		// Full-width digits become 127.0.0.1 when a name is converted to
		// ASCII.
		"https://１２７.0.0.1/": open, "https://bücher.example/": open, "https://%31%32%37.0.0.1/": open,
		// Spellings of 127.0.0.1 that some resolvers understand.
		"https://2130706433/": open, "https://017700000001/": open, "https://0x7f000001/": open, "https://0177.0.0.1/": open,
		"https://0x7f.1/": open, "https://127.1/": open, "https://127.0.0.1./": open, "https://0X7F.0.0.0X1/": open, "https://127.0.0.0x/": open,
		"https://1.2.3.4.5/": open, "https://999.0.0.1/": open,
		// Refused by the strict policy.
		"http://example.com/": {}, "https://127.0.0.1/": {}, "https://[::1]/": {}, "https://0.0.0.0/": {},
		"https://[::ffff:127.0.0.1]/": {}, "https://[::ffff:7f00:1]/": {}, "https://[64:ff9b::127.0.0.1]/": {}, "https://[64:ff9b::7f00:1]/": {},
		"https://[2002:7f00:1::]/": {}, "https://[fe80::1%25lo]/": {}, "https://10.0.0.1:8443/": {}, "https://169.254.169.254/latest/": {},
		"https://localhost/": {}, "https://LOCALHOST./": {}, "https://a.b.localhost:444/": {},
		"https://example.com/": {Ports: []uint16{8443}}, "https://example.com:9/": {Ports: []uint16{443}},
		"https://8.8.8.8/": {AllowPrivate: true, DenyPrefixes: prefixes("8.0.0.0/8")},
		// Metadata services of clouds.
		"https://169.254.169.254/": {AllowPrivate: true}, "https://[::ffff:169.254.169.254]/": {AllowPrivate: true},
		"https://[fe80::1]/": {AllowPrivate: true}, "https://[fe80::a9fe:a9fe%25eth0]/": {AllowPrivate: true}, "https://168.63.129.16/": {AllowPrivate: true},
	} {
		u, err := New(policy).CheckURL(text)
		if !errors.Is(err, ErrForbidden) || u != nil {
			t.Errorf("%.60q: %v, %v, want ErrForbidden", text, u, err)
		} else if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "example") {
			t.Errorf("%.60q: the text quotes the URL: %v", text, err)
		}
	}
}

// FuzzCheckURL parses URLs that the strict policy accepts as browsers and
// fetch do. They must see the same host, and no address that the policy
// refuses.
func FuzzCheckURL(f *testing.F) {
	for _, text := range []string{
		"https://example.com/a?b", "https://127.1/", "https://0x7f.1/", "https://[::ffff:127.0.0.1]/", "https://[64:ff9b::1]/",
		"https://8.8.8.8:8443/", "https://localhost./", "https://1.2.3.0x/", "https://a@b\\c/", "https://%31/", "https:\\\\x", "https://[1::%25a]/",
	} {
		f.Add(text)
	}
	client := New(Policy{})
	f.Fuzz(func(t *testing.T, text string) {
		u, err := client.CheckURL(text)
		if err != nil {
			if !errors.Is(err, ErrForbidden) {
				t.Fatalf("%q: %v is not ErrForbidden", text, err)
			}
			return
		}
		if again, err := client.CheckURL(u.String()); len(u.String()) <= MaxURLLength && (err != nil || again.Host != u.Host) {
			t.Fatalf("%q: accepted as %q, then %v, %v", text, u, again, err)
		}
		other, err := whatwg.Parse(u.String())
		if err != nil {
			return
		}
		host := strings.Trim(other.Hostname(), "[]")
		if ip, err := netip.ParseAddr(host); err == nil {
			if err := client.guard.checkAddr(ip); err != nil || netip.MustParseAddr(u.Hostname()) != ip {
				t.Fatalf("%q: accepted, but others read the address %s (%v)", text, ip, err)
			}
		} else if !strings.EqualFold(host, u.Hostname()) {
			t.Fatalf("%q: accepted for %q, but others read %q", text, u.Hostname(), host)
		}
	})
}
