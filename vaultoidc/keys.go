package vaultoidc

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/seed-72ea4aab/vault"
)

// Times of a set of keys.
const (
	// fetchAfter is the age at which a set is fetched again, while it still serves.
	fetchAfter = 4 * time.Minute
	// waitAfter is the age from which a JWT waits for the new set. The vault remembers a
	// JWT for at most five minutes more, so a key that the issuer has removed works for
	// at most ten.
	waitAfter = 5 * time.Minute
	// failsFor is the time after a failed request during which no JWT waits for another
	// one, as long as there are keys.
	failsFor = time.Minute
	// serveFor is the age up to which a set serves while the issuer does not respond.
	serveFor = time.Hour
	// fetchPause is the least time between two requests.
	fetchPause = 10 * time.Second
)

// maxPerKID is how many keys of a set may have the same name.
const maxPerKID = 4

// key is a key that may verify JWTs.
type key struct {
	kid        string
	public     crypto.PublicKey
	algorithms []jose.SignatureAlgorithm
}

// keySet has the keys of an issuer by their name.
type keySet map[string][]key

// readKeys reads a set of keys. It leaves out keys that may not verify JWTs.
func readKeys(text []byte) (keySet, error) {
	var doc struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &doc); err != nil || doc.Keys == nil {
		return nil, errors.New("the response is not a set of keys")
	}
	set := keySet{}
	for _, raw := range doc.Keys {
		if k, ok := readKey(raw); ok && len(set[k.kid]) < maxPerKID {
			set[k.kid] = append(set[k.kid], k)
		}
	}
	return set, nil
}

// readKey reads a public key that has a name.
func readKey(raw []byte) (key, bool) {
	var jwk jose.JSONWebKey
	if err := jwk.UnmarshalJSON(raw); err != nil || jwk.KeyID == "" || jwk.Use != "" && jwk.Use != "sig" && jwk.Use != "jwt-svid" {
		return key{}, false
	}
	algorithms := algorithmsOf(jwk.Key)
	if jwk.Algorithm != "" {
		algorithms = slices.DeleteFunc(algorithms, func(a jose.SignatureAlgorithm) bool { return string(a) != jwk.Algorithm })
	}
	return key{kid: jwk.KeyID, public: jwk.Key, algorithms: algorithms}, len(algorithms) > 0
}

// Sizes of an RSA key in bits.
const (
	minRSA = 2048
	maxRSA = 8192
)

// algorithmsOf returns the algorithms of a public key. Private and symmetric keys
// have none.
func algorithmsOf(public any) []jose.SignatureAlgorithm {
	switch public := public.(type) {
	case *rsa.PublicKey:
		if bits := public.N.BitLen(); bits < minRSA || bits > maxRSA {
			return nil
		}
		return []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512}
	case *ecdsa.PublicKey:
		algorithm, ok := map[string]jose.SignatureAlgorithm{"P-256": jose.ES256, "P-384": jose.ES384, "P-521": jose.ES512}[public.Curve.Params().Name]
		if !ok {
			return nil
		}
		return []jose.SignatureAlgorithm{algorithm}
	case ed25519.PublicKey:
		return []jose.SignatureAlgorithm{jose.EdDSA}
	default:
		return nil
	}
}

// verify checks the signature of a JWT.
func (s keySet) verify(t *token) error {
	err := errKey
	for _, k := range s[t.kid] {
		if !slices.Contains(k.algorithms, jose.SignatureAlgorithm(t.algorithm)) {
			err = errAlgorithm
			continue
		}
		if t.signedBy(k.public) {
			return nil
		}
		err = errSignature
	}
	return err
}

// keys fetches the keys of an issuer and keeps them up to date.
type keys struct {
	life    context.Context //nolint:containedctx // of requests, which several callers share
	now     func() time.Time
	fetch   func(ctx context.Context, discover bool) (keySet, error)
	failed  func(error)
	pending sync.WaitGroup

	mu      sync.Mutex
	set     keySet
	fetched time.Time     // when set was requested; zero without a set
	tried   time.Time     // when the last request began
	err     error         // of the last request
	busy    chan struct{} // closed when the request ends; nil without a request
}

// current returns the keys. It waits for the issuer only if the keys are missing, or
// too old to be served without asking.
func (k *keys) current(ctx context.Context) (keySet, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	if age := now.Sub(k.fetched); k.fetched.IsZero() || age >= fetchAfter || age < 0 {
		fails := k.err != nil && now.Sub(k.tried) < failsFor
		k.start(true)
		if k.fetched.IsZero() || age >= serveFor || (age >= waitAfter || age < 0) && !fails {
			k.wait(ctx)
		}
	}
	return k.usable()
}

// usable returns the keys unless they are missing or too old. The caller holds mu.
func (k *keys) usable() (keySet, error) {
	if !k.fetched.IsZero() && k.now().Sub(k.fetched) < serveFor {
		return k.set, nil
	}
	if k.err != nil {
		return nil, fmt.Errorf("%w: vaultoidc: the issuer does not respond: %w", vault.ErrUnavailable, k.err)
	}
	return nil, fmt.Errorf("%w: vaultoidc: the issuer has not responded yet", vault.ErrUnavailable)
}

// verify checks the signature of a JWT. It asks the issuer for a key that is not
// known.
func (k *keys) verify(ctx context.Context, t *token) error {
	set, err := k.current(ctx)
	if err != nil {
		return err
	}
	if len(set[t.kid]) == 0 {
		k.mu.Lock()
		k.start(false)
		k.wait(ctx)
		set, err = k.usable()
		k.mu.Unlock()
	}
	if err != nil {
		return err
	}
	return set.verify(t)
}

// start begins a request, unless one is running or has just been made. The caller
// holds mu.
func (k *keys) start(discover bool) {
	now := k.now()
	if since := now.Sub(k.tried); k.busy != nil || !k.tried.IsZero() && since >= 0 && since < fetchPause || k.life.Err() != nil {
		return
	}
	k.tried, k.busy = now, make(chan struct{})
	k.pending.Go(func() {
		ctx, cancel := context.WithTimeout(k.life, fetchTimeout)
		defer cancel()
		set, err := k.fetch(ctx, discover)
		if err != nil {
			k.failed(err)
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.err = err; err == nil {
			k.set, k.fetched = set, now
		}
		close(k.busy)
		k.busy = nil
	})
}

// wait waits for the running request. The caller holds mu.
func (k *keys) wait(ctx context.Context) {
	busy := k.busy
	if busy == nil {
		return
	}
	k.mu.Unlock()
	defer k.mu.Lock()
	select {
	case <-busy:
	case <-ctx.Done():
	}
}
