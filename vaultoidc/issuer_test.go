package vaultoidc

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"encoding/pem"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"go.uber.org/goleak"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The keys of all tests. Making RSA keys takes time.
var (
	rsaKey   = sync.OnceValue(func() *rsa.PrivateKey { return newRSA(2048) })
	otherRSA = sync.OnceValue(func() *rsa.PrivateKey { return newRSA(2048) })
	smallRSA = sync.OnceValue(func() *rsa.PrivateKey { return newRSA(1024) })
	p256     = sync.OnceValue(func() *ecdsa.PrivateKey { return newEC(elliptic.P256()) })
	p384     = sync.OnceValue(func() *ecdsa.PrivateKey { return newEC(elliptic.P384()) })
	p521     = sync.OnceValue(func() *ecdsa.PrivateKey { return newEC(elliptic.P521()) })
	edKey    = sync.OnceValue(func() ed25519.PrivateKey { return ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)) })
)

func newRSA(bits int) *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		panic(err)
	}
	return key
}

func newEC(curve elliptic.Curve) *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		panic(err)
	}
	return key
}

// start is the time at which tests begin.
var start = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// clock is a clock that a test sets.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) time() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// provider is an issuer on this machine.
type provider struct {
	url, ca     string
	certificate []byte
	clock       *clock

	mu       sync.Mutex
	keys     []jose.JSONWebKey
	respond  http.HandlerFunc // replaces the usual responses, if it is set
	requests int
	tokens   []string
}

// newProvider starts an issuer with keys.
func newProvider(t testing.TB, keys ...jose.JSONWebKey) *provider {
	t.Helper()
	p := &provider{keys: keys, clock: &clock{now: start}}
	server := httptest.NewTLSServer(p)
	t.Cleanup(server.Close)
	p.certificate = server.Certificate().Raw
	p.url, p.ca = server.URL, filepath.Join(t.TempDir(), "ca.pem")
	must.Do(t, os.WriteFile(p.ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.certificate}), 0o600))
	return p
}

// verifier returns a verifier of the JWTs of providers.
func verifier(t testing.TB, providers ...*provider) *Verifier {
	t.Helper()
	var issuers []Issuer
	for _, p := range providers {
		issuers = append(issuers, Issuer{URL: p.url, CAFile: p.ca})
	}
	return open(t, providers[0].clock, issuers...)
}

// open is New with a clock. Requests end with the test.
func open(t testing.TB, c *clock, issuers ...Issuer) *Verifier {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	v := must.Get(New(ctx, issuers...))(t)
	v.now = c.time
	t.Cleanup(func() {
		cancel()
		for _, i := range v.issuers {
			i.keys.pending.Wait()
		}
	})
	return v
}

// set changes the provider.
func (p *provider) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// count returns how many requests there were.
func (p *provider) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.requests++
	p.tokens = append(p.tokens, r.Header.Get("Authorization"))
	respond, keys := p.respond, p.keys
	p.mu.Unlock()
	if respond != nil {
		respond(w, r)
		return
	}
	p.usual(w, r, keys)
}

func (p *provider) usual(w http.ResponseWriter, r *http.Request, keys []jose.JSONWebKey) {
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		_ = json.NewEncoder(w).Encode(map[string]string{"issuer": p.url, "jwks_uri": p.url + "/keys"})
	case "/keys":
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: keys})
	default:
		http.NotFound(w, r)
	}
}

// public returns a key as it is published.
func public(kid string, private crypto.Signer) jose.JSONWebKey {
	return jose.JSONWebKey{Key: private.Public(), KeyID: kid, Use: "sig"}
}

// claims returns valid claims of the provider, with changes. A nil value removes a
// claim.
func (p *provider) claims(changes map[string]any) map[string]any {
	now := p.clock.time()
	all := map[string]any{"iss": p.url, "aud": "vault", "sub": "repo:acme/shop", "iat": now.Unix(), "exp": now.Add(time.Hour).Unix()}
	maps.Copy(all, changes)
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == nil })
	return all
}

// sign signs claims, with changes, by RS256 under a name.
func (p *provider) sign(t testing.TB, kid string, private any, changes map[string]any) string {
	t.Helper()
	return signed(t, jose.RS256, private, map[string]any{"kid": kid}, p.claims(changes))
}

// signed signs claims.
func signed(t testing.TB, algorithm jose.SignatureAlgorithm, private any, header map[string]any, claims map[string]any) string {
	t.Helper()
	return signedText(t, algorithm, private, header, string(must.Get(json.Marshal(claims))(t)))
}

func signedText(t testing.TB, algorithm jose.SignatureAlgorithm, private any, header map[string]any, payload string) string {
	t.Helper()
	options := &jose.SignerOptions{ExtraHeaders: map[jose.HeaderKey]any{}}
	for name, value := range header {
		options.ExtraHeaders[jose.HeaderKey(name)] = value
	}
	signer := must.Get(jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: private}, options))(t)
	return must.Get(must.Get(signer.Sign([]byte(payload)))(t).CompactSerialize())(t)
}
