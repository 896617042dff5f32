package vaultoidc

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// Limits of a request to an issuer.
const (
	fetchTimeout = 5 * time.Second
	maxResponse  = 1 << 20
	maxSecret    = 64 << 10 // bytes of a file with a token or a secret
)

// issuer is an issuer with its keys.
type issuer struct {
	config Issuer
	now    func() time.Time
	keys   *keys
	remote remote
}

// forbiddenMust are the claims that no identity may name.
var forbiddenMust = []string{"iss", "aud", "exp", "nbf", "iat", "jti"}

func newIssuer(ctx context.Context, config Issuer, v *Verifier) (*issuer, error) {
	if err := checkURL(config.URL); err != nil {
		return nil, err
	}
	for _, claim := range config.Must {
		first, _, _ := strings.Cut(strings.TrimPrefix(claim, "/"), "/")
		if first == "" || slices.Contains(forbiddenMust, first) {
			return nil, fmt.Errorf("vaultoidc: the issuer %s cannot require the claim %q", config.URL, claim)
		}
	}
	if config.JWKS != "" && (config.CAFile != "" || config.TokenFile != "") {
		return nil, fmt.Errorf("vaultoidc: the issuer %s has a file of keys, so it needs no CA and no token", config.URL)
	}
	config.Must = slices.Clone(config.Must)
	i := &issuer{config: config, remote: remote{config: config}}
	i.now = func() time.Time { return v.now() }
	i.remote.now = i.now
	i.keys = &keys{life: ctx, now: i.now, fetch: i.fetch, failed: func(err error) {
		if v.Logger != nil {
			v.Logger.Warn("vaultoidc: the keys of an issuer cannot be fetched", slog.String("issuer", config.URL), slog.Any("error", err))
		}
	}}
	return i, i.check()
}

// check reads the files of the issuer.
func (i *issuer) check() error {
	var err error
	if i.config.JWKS != "" {
		_, err = i.fromFile()
	}
	if i.config.TokenFile != "" {
		_, err = readSecret(i.config.TokenFile)
	}
	if i.config.CAFile != "" && err == nil {
		_, err = i.remote.client()
	}
	if err != nil {
		return fmt.Errorf("vaultoidc: the issuer %s: %w", i.config.URL, err)
	}
	return nil
}

// fetch returns the keys of the issuer. With discover it first asks where they are.
func (i *issuer) fetch(ctx context.Context, discover bool) (keySet, error) {
	if i.config.JWKS != "" {
		return i.fromFile()
	}
	doc, err := i.remote.document(ctx, discover)
	if err != nil {
		return nil, err
	}
	text, err := i.remote.get(ctx, doc.JWKS)
	if err != nil {
		return nil, err
	}
	return readKeys(text)
}

// fromFile reads the keys of an issuer from a file.
func (i *issuer) fromFile() (keySet, error) {
	text, err := readFile(i.config.JWKS, maxResponse)
	if err != nil {
		return nil, err
	}
	set, err := readKeys(text)
	if err != nil {
		return nil, fmt.Errorf("%s has no set of keys", i.config.JWKS)
	}
	return set, nil
}

// readFile reads a file of limited length.
func readFile(path string, most int64) ([]byte, error) {
	f, err := os.Open(path) //nolint:gosec // a file that the operator names
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s has more than %d bytes", path, most)
	}
	return text, err
}

// readSecret reads a file with a token.
func readSecret(path string) (string, error) {
	text, err := readFile(path, maxSecret)
	secret := strings.TrimSpace(string(text))
	if err == nil && (secret == "" || strings.ContainsAny(secret, "\r\n")) {
		err = fmt.Errorf("%s must have one line", path)
	}
	return secret, err
}

// document is what an issuer says about itself.
type document struct {
	Issuer        string   `json:"issuer"`
	JWKS          string   `json:"jwks_uri"`
	Authorization string   `json:"authorization_endpoint"`
	Token         string   `json:"token_endpoint"`
	AuthMethods   []string `json:"token_endpoint_auth_methods_supported"`
}

// remote sends requests to an issuer.
type remote struct {
	config Issuer
	now    func() time.Time

	mu    sync.Mutex
	ca    []byte // from which https was made
	https *http.Client

	doc   *document
	read  time.Time     // when doc was requested
	tried time.Time     // when the last request for it began
	err   error         // of that request
	busy  chan struct{} // closed when that request ends; nil without a request
}

// documentPause is the least time between a failed request for a discovery document and
// the next one. Anybody who opens a page of the console causes such requests.
const documentPause = time.Second

// document returns the discovery document of the issuer, which is fetched again with
// discover, and after fetchAfter. Its callers share one request, which ends with the
// context of the first one.
func (r *remote) document(ctx context.Context, discover bool) (*document, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		now := r.now()
		age, pause := now.Sub(r.read), now.Sub(r.tried)
		switch {
		case r.doc != nil && !discover && age >= 0 && age < fetchAfter:
			return r.doc, nil
		case r.busy == nil && r.err != nil && pause >= 0 && pause < documentPause:
			return nil, r.err
		case r.busy == nil:
			return r.discover(ctx, now)
		}
		if err := r.wait(ctx); err != nil {
			return nil, err
		}
		discover = false // the document is new
	}
}

// wait waits for the running request for a document. The caller holds mu.
func (r *remote) wait(ctx context.Context) error {
	busy := r.busy
	r.mu.Unlock()
	defer r.mu.Lock()
	select {
	case <-busy:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// discover fetches the discovery document. The caller holds mu.
func (r *remote) discover(ctx context.Context, now time.Time) (*document, error) {
	r.tried, r.busy = now, make(chan struct{})
	r.mu.Unlock()
	doc, err := r.fetchDocument(ctx)
	r.mu.Lock()
	if r.err = err; err == nil {
		r.doc, r.read = doc, now
	}
	close(r.busy)
	r.busy = nil
	return doc, err
}

func (r *remote) fetchDocument(ctx context.Context) (*document, error) {
	text, err := r.get(ctx, strings.TrimSuffix(r.config.URL, "/")+"/.well-known/openid-configuration")
	if err != nil {
		return nil, err
	}
	doc := &document{}
	if err := json.Unmarshal(text, doc); err != nil {
		return nil, errors.New("the response is not a discovery document")
	}
	if doc.Issuer != r.config.URL {
		return nil, errors.New("the discovery document is that of another issuer")
	}
	return doc, nil
}

// get fetches a document of the issuer.
func (r *remote) get(ctx context.Context, address string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, errors.New("the issuer names an address that is not a URL")
	}
	if r.config.TokenFile != "" && r.mayGetToken(req.URL) {
		secret, err := readSecret(r.config.TokenFile)
		if err != nil {
			return nil, err
		}
		req.Header.Set("Authorization", "Bearer "+secret)
	}
	return r.do(req)
}

// mayGetToken reports whether a request may carry the token. With a CA file, only the
// hosts that these authorities know can be reached.
func (r *remote) mayGetToken(to *url.URL) bool {
	own, err := url.Parse(r.config.URL)
	return r.config.CAFile != "" || err == nil && to.Host == own.Host
}

// do sends a request and returns the body of a response with status 200.
func (r *remote) do(req *http.Request) ([]byte, error) {
	if req.URL.Scheme != "https" || req.URL.Host == "" {
		return nil, errors.New("the issuer names an address that is not https")
	}
	client, err := r.client()
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		if bad, ok := errors.AsType[*url.Error](err); ok {
			err = bad.Err // without the address, which may have parameters
		}
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse+1))
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("the issuer responds with status %d", resp.StatusCode)
	case len(body) > maxResponse:
		return nil, errors.New("the response of the issuer has more than 1 MiB")
	}
	return body, nil
}

// client returns an HTTP client for the issuer.
func (r *remote) client() (*http.Client, error) {
	var pem []byte
	if r.config.CAFile != "" {
		var err error
		if pem, err = readFile(r.config.CAFile, maxResponse); err != nil {
			return nil, err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.https != nil && bytes.Equal(pem, r.ca) {
		return r.https, nil
	}
	settings := &tls.Config{MinVersion: tls.VersionTLS12}
	if pem != nil {
		settings.RootCAs = x509.NewCertPool()
		if !settings.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s has no certificates in PEM", r.config.CAFile)
		}
	}
	r.ca, r.https = pem, &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSClientConfig: settings, ForceAttemptHTTP2: true,
			DisableKeepAlives:      true, // requests are minutes apart
			MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       fetchTimeout,
	}
	return r.https, nil
}
