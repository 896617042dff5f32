package destinations_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/given"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// oneIssuer accepts JWTs whose signature is the word good.
type oneIssuer struct{}

func (oneIssuer) Issuers() []string { return []string{"https://issuer.example"} }

func (oneIssuer) Verify(_ context.Context, jwt string) (vault.Claims, error) {
	parts := strings.Split(jwt, ".")
	if parts[2] != "good" {
		return nil, errors.New("the signature is wrong")
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return nil, err
	}
	d, claims := json.NewDecoder(bytes.NewReader(payload)), vault.Claims{}
	d.UseNumber()
	return claims, d.Decode(&claims)
}

// lines are the lines of a log.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// At the forward proxy the user is the application and the password the JWT. A tunnel
// does not outlive the JWT or its identity.
func TestForwardProxyWithAJWT(t *testing.T) {
	t.Parallel()
	g := newGate(t, vault.Config{Identities: oneIssuer{}})
	var text lines
	proxy := httptest.NewServer(g.ForwardProxy(&vault.ForwardOptions{Logger: slog.New(slog.NewJSONHandler(&text, nil))}))
	t.Cleanup(proxy.Close)
	app := must.Get(g.Owner.CreateApplication(t.Context(), vault.ApplicationParams{
		Name: "workload", Type: vault.ApplicationPrivate, Rules: []vault.AccessRule{bound(1, "/", g.to)}, CreateKey: new(false),
		Identities: []vault.Identity{{Issuer: "https://issuer.example", Audience: "vault", Claims: map[string]any{"sub": "ci"}}},
	}))(t)
	id := app.ID.String()
	jwt := func(signature string) string {
		payload := fmt.Sprintf(`{"iss":"https://issuer.example","aud":"vault","sub":"ci","exp":%d}`, g.Clock.Now().Add(time.Hour).Unix())
		return "e30." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + "." + signature
	}
	client := func(user, password string) *http.Client {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(g.ca(t))
		to := must.Get(url.Parse(proxy.URL))(t)
		to.User = url.UserPassword(user, password)
		transport := &http.Transport{Proxy: http.ProxyURL(to), TLSClientConfig: &tls.Config{RootCAs: pool}}
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport}
	}
	send := func(c *http.Client) int {
		req := g.request(t, http.MethodPost, "/", strings.NewReader(cardExpression))
		req.Header.Set("Content-Type", "application/json")
		res, err := c.Do(req)
		if err != nil { // Go's client has no response to CONNECT then
			must.Contain(t, "the error", err.Error(), http.StatusText(http.StatusProxyAuthRequired))
			return http.StatusProxyAuthRequired
		}
		defer res.Body.Close()
		return res.StatusCode
	}
	for name, c := range map[string]struct {
		user, password string
		status         int
	}{
		"a JWT":                          {id, jwt("good"), 200},
		"a key, with any user":           {id, g.pass, 200},
		"a wrong signature":              {id, jwt("bad"), 407},
		"another user":                   {"x", jwt("good"), 407},
		"no user":                        {"", jwt("good"), 407},
		"application and JWT as one":     {"x", id + ":" + jwt("good"), 407},
		"an application without a JWT":   {id, "", 407},
		"an application without the JWT": {g.Private.ApplicationID().String(), jwt("good"), 407},
	} {
		given.Same(t, name, send(client(c.user, c.password)), c.status)
	}
	must.Contain(t, "sent", g.body, given.Visa)
	entries := given.Entries(t, g.Vault, vault.ListLogsParams{Operation: vault.OperationUse, EntityID: "card"})
	given.Same(t, "an entry has the name of the workload", slices.ContainsFunc(entries, func(e vault.LogEntry) bool { return e.ActorID == app.ID && e.ActorName == "ci" }), true)

	open := client(id, jwt("good"))
	given.Same(t, "in the tunnel", send(open), 200)
	must.Get(g.Owner.PatchApplication(t.Context(), app.ID, vault.JSON(`{"identities":null}`)))(t)
	given.Same(t, "in the tunnel, without the identity", send(open), 407)
	must.Get(g.Owner.PatchApplication(t.Context(), app.ID, map[string]any{"identities": app.Identities}))(t)
	open = client(id, jwt("good"))
	given.Same(t, "in another tunnel", send(open), 200)
	g.Clock.Advance(2 * time.Hour)
	given.Same(t, "in the tunnel, after the JWT", send(open), 407)
	must.Contain(t, "the request log", text.String(), `"reason":"the signature is wrong"`)
	must.Lack(t, "the request log", text.String(), "e30.")
}
