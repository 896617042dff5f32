package vaultoidc

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

var _ vault.IdentityVerifier = (*Verifier)(nil)

// settle waits for requests in the background.
func (v *Verifier) settle() {
	for _, i := range v.issuers {
		i.keys.pending.Wait()
	}
}

func TestNewMakesNoRequest(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	v := verifier(t, p)
	must.Same(t, "issuers", []string{p.url}, v.Issuers())
	_, err := v.Verify(t.Context(), p.sign(t, "a", rsaKey(), map[string]any{"exp": 1}))
	must.Match(t, "a JWT without valid times", err, errTimes)
	must.Same(t, "requests", 0, p.count())
}

// Unknown keys cause one request in ten seconds, no matter who asks.
func TestUnknownKeys(t *testing.T) {
	t.Parallel()
	p := newProvider(t, public("a", rsaKey()))
	v := verifier(t, p)
	flood := func() {
		var work sync.WaitGroup
		for n := range 100 {
			work.Go(func() {
				_, err := v.Verify(t.Context(), p.sign(t, fmt.Sprint("unknown", n), rsaKey(), nil))
				must.Match(t, "an unknown key", err, errKey)
			})
		}
		work.Wait()
	}
	flood()
	must.Same(t, "requests for 100 unknown keys: the discovery and the keys", 2, p.count())
	p.clock.advance(10 * time.Second)
	flood()
	must.Same(t, "requests after ten seconds", 3, p.count())
	must.Match(t, "a known key", must.Err(v.Verify(t.Context(), p.sign(t, "a", rsaKey(), nil))), nil)
	must.Same(t, "requests after a known key", 3, p.count())
}

// A new key works at its first use, if the last request was ten seconds ago.
func TestRotation(t *testing.T) {
	t.Parallel()
	p := newProvider(t, public("a", rsaKey()))
	v := verifier(t, p)
	old := p.sign(t, "a", rsaKey(), nil)
	must.Match(t, "the old key", must.Err(v.Verify(t.Context(), old)), nil)
	p.set(func() { p.keys = []jose.JSONWebKey{public("a", rsaKey()), public("b", otherRSA())} })
	p.clock.advance(10 * time.Second)
	must.Match(t, "the new key", must.Err(v.Verify(t.Context(), p.sign(t, "b", otherRSA(), nil))), nil)
	must.Match(t, "the old key beside the new one", must.Err(v.Verify(t.Context(), old)), nil)

	// The same name with another key is another key.
	p.set(func() { p.keys = []jose.JSONWebKey{public("a", otherRSA())} })
	p.clock.advance(10 * time.Second)
	must.Match(t, "an unknown name", must.Err(v.Verify(t.Context(), p.sign(t, "c", otherRSA(), nil))), errKey)
	must.Match(t, "a JWT with a key that was replaced", must.Err(v.Verify(t.Context(), old)), errSignature)
}

// A key that the issuer has removed is refused five minutes later, with and without
// requests in between. The vault remembers a JWT for five minutes more.
func TestRemovedKeys(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]time.Duration{"busy": time.Second, "idle": 5*time.Minute - time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProvider(t, public("a", edKey()), public("b", otherRSA()))
			v := verifier(t, p)
			jwt, other := signed(t, jose.EdDSA, edKey(), map[string]any{"kid": "a"}, p.claims(nil)), p.sign(t, "b", otherRSA(), nil)
			must.Match(t, "before", must.Err(v.Verify(t.Context(), jwt)), nil)
			must.Match(t, "the other before", must.Err(v.Verify(t.Context(), other)), nil)
			p.set(func() { p.keys = []jose.JSONWebKey{public("b", otherRSA())} })
			for passed := step; passed < 5*time.Minute; passed += step {
				p.clock.advance(step)
				_, _ = v.Verify(t.Context(), jwt)
			}
			p.clock.advance(time.Second)
			must.Match(t, "after five minutes", must.Err(v.Verify(t.Context(), jwt)), errKey)
			must.Match(t, "the other key", must.Err(v.Verify(t.Context(), other)), nil)
			if p.count() > 100 {
				t.Errorf("%d requests", p.count())
			}
		})
	}
}

// A stranger whose JWTs name unknown keys does not keep a verifier from learning that
// the keys of the issuer have another address.
func TestRemovedKeysAtAnotherAddress(t *testing.T) {
	t.Parallel()
	p := newProvider(t, public("a", rsaKey()))
	v := verifier(t, p)
	jwt, unknown := p.sign(t, "a", rsaKey(), nil), p.sign(t, "unknown", rsaKey(), nil)
	must.Match(t, "before", must.Err(v.Verify(t.Context(), jwt)), nil)
	p.set(func() {
		p.respond = func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/.well-known/openid-configuration":
				_ = json.NewEncoder(w).Encode(map[string]string{"issuer": p.url, "jwks_uri": p.url + "/moved"})
			case "/moved":
				_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{public("b", otherRSA())}})
			default:
				p.usual(w, r, p.keys)
			}
		}
	})
	for range 30 {
		p.clock.advance(10 * time.Second)
		must.Match(t, "an unknown key", must.Err(v.Verify(t.Context(), unknown)), errKey)
	}
	must.Match(t, "after five minutes", must.Err(v.Verify(t.Context(), jwt)), errKey)
}

// The last keys serve for an hour while the issuer fails in any way. Then, and if it
// never responded, a JWT is refused as unavailable. JWTs of another issuer work.
func TestIssuerFails(t *testing.T) {
	t.Parallel()
	for name, respond := range map[string]func(p *provider) http.HandlerFunc{
		"status 500": func(*provider) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }
		},
		"a redirect to the right keys": func(p *provider) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/keys" || r.URL.Path == "/.well-known/openid-configuration" {
					http.Redirect(w, r, p.url+"/moved"+r.URL.Path, http.StatusFound)
					return
				}
				r.URL.Path = strings.TrimPrefix(r.URL.Path, "/moved")
				p.usual(w, r, []jose.JSONWebKey{public("a", rsaKey())})
			}
		},
		"huge": func(*provider) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write([]byte(`{"keys":[` + strings.Repeat(" ", 1<<20)))
			}
		},
		"not JSON": func(*provider) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }
		},
		"another issuer": func(p *provider) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				_ = json.NewEncoder(w).Encode(map[string]string{"issuer": p.url + "/", "jwks_uri": p.url + "/keys"})
			}
		},
		"keys without TLS": func(p *provider) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				_ = json.NewEncoder(w).Encode(map[string]string{"issuer": p.url, "jwks_uri": strings.Replace(p.url, "https", "http", 1) + "/keys"})
			}
		},
		"no connection": func(*provider) http.HandlerFunc {
			return func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, other := newProvider(t, public("a", rsaKey())), newProvider(t, public("a", rsaKey()))
			other.clock = p.clock
			v := verifier(t, p, other)
			once := p.sign(t, "a", rsaKey(), nil)
			works := func(what string, want error) {
				t.Helper()
				_, err := v.Verify(t.Context(), p.sign(t, "a", rsaKey(), map[string]any{"jti": what}))
				must.Match(t, what, err, want)
				must.Match(t, what+", the other issuer", must.Err(v.Verify(t.Context(), other.sign(t, "a", rsaKey(), nil))), nil)
				v.settle()
			}
			p.set(func() { p.respond = respond(p) })
			works("before the first response", vault.ErrUnavailable)
			must.Match(t, "without a request", must.Err(v.Verify(t.Context(), once)), vault.ErrUnavailable)
			p.set(func() { p.respond = nil })
			p.clock.advance(10 * time.Second)
			works("the issuer is back", nil)
			p.set(func() { p.respond = respond(p) })
			for range 59 {
				p.clock.advance(time.Minute)
				works("during the hour", nil)
			}
			p.clock.advance(time.Minute)
			works("after the hour", vault.ErrUnavailable)
			p.set(func() { p.respond = nil })
			p.clock.advance(10 * time.Second)
			works("the issuer is back again", nil)
		})
	}
}

// An issuer that does not respond delays one of its JWTs, and no JWT of
// another issuer.
func TestSlowIssuer(t *testing.T) {
	t.Parallel()
	p, other := newProvider(t, public("a", rsaKey())), newProvider(t, public("a", rsaKey()))
	other.clock = p.clock
	v := verifier(t, p, other)
	jwt := p.sign(t, "a", rsaKey(), nil)
	must.Match(t, "before", must.Err(v.Verify(t.Context(), jwt)), nil)
	release := make(chan struct{})
	p.set(func() {
		p.respond = func(w http.ResponseWriter, r *http.Request) {
			<-release
			p.usual(w, r, p.keys)
		}
	})
	p.clock.advance(waitAfter - time.Second)
	for range 10 { // none of these calls waits for the issuer
		must.Match(t, "while the issuer hangs", must.Err(v.Verify(t.Context(), p.sign(t, "a", rsaKey(), nil))), nil)
		must.Match(t, "the other issuer", must.Err(v.Verify(t.Context(), other.sign(t, "a", rsaKey(), nil))), nil)
	}
	close(release)
	v.settle()
}

// A file of keys takes the place of the issuer, and is read again.
func TestKeysInAFile(t *testing.T) {
	t.Parallel()
	p := &provider{url: "https://ci.example.com", clock: &clock{now: start}}
	file := filepath.Join(t.TempDir(), "keys.json")
	write := func(keys ...jose.JSONWebKey) {
		must.Do(t, os.WriteFile(file, must.Get(json.Marshal(jose.JSONWebKeySet{Keys: keys}))(t), 0o600))
	}
	write(public("a", rsaKey()))
	v := open(t, p.clock, Issuer{URL: p.url, JWKS: file})
	must.Match(t, "a key of the file", must.Err(v.Verify(t.Context(), p.sign(t, "a", rsaKey(), nil))), nil)
	write(public("b", otherRSA()))
	p.clock.advance(10 * time.Second)
	must.Match(t, "a new key", must.Err(v.Verify(t.Context(), p.sign(t, "b", otherRSA(), nil))), nil)
	must.Match(t, "a removed key", must.Err(v.Verify(t.Context(), p.sign(t, "a", rsaKey(), nil))), errKey)
}

// Kubernetes requires a token, and names another host for its keys.
func TestTokenFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	must.Do(t, os.WriteFile(file, []byte("first\n"), 0o600))
	p := newProvider(t, public("a", rsaKey()))
	v := open(t, p.clock, Issuer{URL: p.url, CAFile: p.ca, TokenFile: file})
	must.Match(t, "with a token", must.Err(v.Verify(t.Context(), p.sign(t, "a", rsaKey(), nil))), nil)
	must.Do(t, os.WriteFile(file, []byte("second\n"), 0o600))
	p.clock.advance(9 * time.Minute)
	must.Match(t, "with a new token", must.Err(v.Verify(t.Context(), p.sign(t, "a", rsaKey(), nil))), nil)
	must.Same(t, "tokens", []string{"Bearer first", "Bearer first", "Bearer second", "Bearer second"}, p.tokens)

	other := &remote{config: Issuer{URL: "https://ci.example.com", TokenFile: file}}
	for address, want := range map[string]bool{
		"https://ci.example.com/keys": true, "https://ci.example.com:444/keys": false, "https://evil.example.com/keys": false,
	} {
		req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil))(t)
		must.Same(t, "the token to "+address, want, other.mayGetToken(req.URL))
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(folder, name)
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	const url = "https://ci.example.com"
	for name, c := range map[string]struct {
		issuers []Issuer
		want    string
	}{
		"http":             {[]Issuer{{URL: "http://ci.example.com"}}, "must be an https URL"},
		"a password":       {[]Issuer{{URL: "https://a:b@ci.example.com"}}, "must be an https URL"},
		"a query":          {[]Issuer{{URL: url + "?a"}}, "must be an https URL"},
		"nothing":          {[]Issuer{{}}, "must be an https URL"},
		"twice":            {[]Issuer{{URL: url}, {URL: url}}, "is given twice"},
		"a claim":          {[]Issuer{{URL: url, Must: []string{"aud"}}}, `cannot require the claim "aud"`},
		"an empty claim":   {[]Issuer{{URL: url, Must: []string{""}}}, `cannot require the claim ""`},
		"no file of keys":  {[]Issuer{{URL: url, JWKS: filepath.Join(folder, "none")}}, "no such file"},
		"no keys":          {[]Issuer{{URL: url, JWKS: file("empty", "{}")}}, "has no set of keys"},
		"keys and a token": {[]Issuer{{URL: url, JWKS: "a", TokenFile: "b"}}, "needs no CA and no token"},
		"a large file":     {[]Issuer{{URL: url, JWKS: file("large", strings.Repeat(" ", 1<<20+1))}}, "has more than 1048576 bytes"},
		"no CA":            {[]Issuer{{URL: url, CAFile: file("ca", "x")}}, "has no certificates in PEM"},
		"an empty token":   {[]Issuer{{URL: url, TokenFile: file("token", "\n")}}, "must have one line"},
	} {
		must.Match(t, name, must.Err(New(t.Context(), c.issuers...)), must.Text(c.want))
	}
	v := must.Get(New(t.Context(), Issuer{URL: url, Must: []string{"/k/uid", "repository_id"}}, Issuer{URL: url + "/"}))(t)
	must.Same(t, "must", []string{"/k/uid", "repository_id"}, v.Must(url))
	must.Same(t, "must of another issuer", []string(nil), v.Must(url+"/"))
}

// TestRotationUnderLoad replaces the key of an issuer again and again, as an issuer
// does it: the new key is published before it signs, and the old one is removed when
// its JWTs have expired. No call fails.
func TestRotationUnderLoad(t *testing.T) {
	t.Parallel()
	p := newProvider(t, public("0", edKey()))
	v := verifier(t, p)
	sign := func(kid, subject string) string {
		claims := p.claims(map[string]any{"sub": subject, "exp": p.clock.time().Add(10 * time.Minute).Unix()})
		return signed(t, jose.EdDSA, edKey(), map[string]any{"kid": kid}, claims)
	}
	calls := 0
	for round := range 10 {
		old, next := fmt.Sprint(round), fmt.Sprint(round+1)
		load := func(kid string) { // 20 workloads at once, each twice
			var work sync.WaitGroup
			for n := range 20 {
				work.Go(func() {
					jwt := sign(kid, fmt.Sprint(n))
					for range 2 {
						_, err := v.Verify(t.Context(), jwt)
						must.Match(t, "round "+old+", key "+kid, err, nil)
					}
				})
				calls += 2
			}
			work.Wait()
		}
		load(old)
		p.set(func() { p.keys = []jose.JSONWebKey{public(old, edKey()), public(next, edKey())} })
		load(old)
		p.clock.advance(10 * time.Second) // the new key may sign from now on
		load(next)
		load(old)
		p.clock.advance(11 * time.Minute) // all JWTs of the old key have expired
		p.set(func() { p.keys = []jose.JSONWebKey{public(next, edKey())} })
		load(next)
		v.settle()
	}
	t.Logf("%d calls during 10 rotations, %d requests to the issuer", calls, p.count())
}

func BenchmarkVerify(b *testing.B) {
	p := newProvider(b, public("rsa", rsaKey()), public("p256", p256()), public("ed", edKey()))
	v := verifier(b, p)
	for name, key := range map[string]struct {
		algorithm jose.SignatureAlgorithm
		private   any
	}{"rsa": {jose.RS256, rsaKey()}, "p256": {jose.ES256, p256()}, "ed": {jose.EdDSA, edKey()}} {
		jwt := signed(b, key.algorithm, key.private, map[string]any{"kid": name}, p.claims(nil))
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				must.Get(v.Verify(b.Context(), jwt))(b)
			}
		})
	}
}
