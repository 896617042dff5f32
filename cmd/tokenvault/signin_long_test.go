//go:build long

package main

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/browser"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
	"github.com/seed-72ea4aab/vault/vaultoidc"
)

// oidcProvider is the npm package of the provider.
const oidcProvider = "oidc-provider@9.13.3"

// realProvider is an oidc-provider in Node.
type realProvider struct {
	t       *testing.T
	url, ca string
	client  *http.Client
	in      io.Writer
	out     *bufio.Scanner
}

// startProvider starts a provider that permits the redirect to an address.
func startProvider(t *testing.T, redirect string) *realProvider {
	t.Helper()
	folder := t.TempDir()
	script := must.Get(os.ReadFile(filepath.Join("testdata", "provider.mjs")))(t)
	must.Do(t, os.WriteFile(filepath.Join(folder, "provider.mjs"), script, 0o600))
	must.Do(t, os.WriteFile(filepath.Join(folder, "package.json"), []byte(`{"private":true}`), 0o600))
	install := exec.CommandContext(t.Context(), "npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--no-package-lock", "--prefer-offline", oidcProvider)
	install.Dir = folder
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("npm: %v\n%s", err, out)
	}
	p := &realProvider{t: t, ca: filepath.Join(folder, "ca.pem")}
	cert, key, pool := certificate(t)
	must.Do(t, os.WriteFile(p.ca, cert, 0o600))
	p.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}
	config := must.Get(json.Marshal(map[string]string{"cert": string(cert), "key": string(key), "redirect": redirect}))(t)
	must.Do(t, os.WriteFile(filepath.Join(folder, "config.json"), config, 0o600))
	cmd := exec.CommandContext(t.Context(), "node", "provider.mjs", "config.json")
	cmd.Dir, cmd.Stderr = folder, t.Output()
	in := must.Get(cmd.StdinPipe())(t)
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	p.in, p.out = in, bufio.NewScanner(out)
	p.url = p.await("url ")
	return p
}

// await returns the rest of the next line that begins with a word.
func (p *realProvider) await(word string) string {
	p.t.Helper()
	for p.out.Scan() {
		if rest, ok := strings.CutPrefix(p.out.Text(), word); ok {
			return rest
		}
	}
	p.t.Fatalf("the provider has ended before %q", word)
	return ""
}

// do gives the provider a command.
func (p *realProvider) do(command string) {
	p.t.Helper()
	must.Get(io.WriteString(p.in, command+"\n"))(p.t)
	p.await("done " + command)
}

// workload returns a JWT of the workload ci.
func (p *realProvider) workload() string {
	p.t.Helper()
	form := url.Values{"grant_type": {"client_credentials"}}
	req := must.Get(http.NewRequestWithContext(p.t.Context(), http.MethodPost, p.url+"/token", strings.NewReader(form.Encode())))(p.t)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.SetBasicAuth("ci", "the+secret+of+ci")
	resp := must.Get(p.client.Do(req))(p.t)
	defer resp.Body.Close()
	var token struct {
		AccessToken string `json:"access_token"`
		Error       string `json:"error_description"`
	}
	must.Do(p.t, json.NewDecoder(resp.Body).Decode(&token))
	if token.AccessToken == "" {
		p.t.Fatalf("the provider has refused: %d %s", resp.StatusCode, token.Error)
	}
	return token.AccessToken
}

// certificate returns a certificate of this machine, its key, and a pool with it.
func certificate(t *testing.T) (cert, key []byte, pool *x509.CertPool) {
	t.Helper()
	private := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "127.0.0.1"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, template, private.Public(), private))(t)
	cert = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	key = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: must.Get(x509.MarshalPKCS8PrivateKey(private))(t)})
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(cert)
	return cert, key, pool
}

// freeAddress returns a local address that no program listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l := must.Get((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	return l.Addr().String()
}

// keyOf returns the name of the key of a JWT.
func keyOf(t *testing.T, jwt string) string {
	t.Helper()
	head, _, _ := strings.Cut(jwt, ".")
	var header struct {
		KID string `json:"kid"`
	}
	must.Do(t, json.Unmarshal(must.Get(base64.RawURLEncoding.DecodeString(head))(t), &header))
	return header.KID
}

// TestRealIssuerRotates verifies the JWTs of a real issuer across rotations of its
// keys.
func TestRealIssuerRotates(t *testing.T) {
	p := startProvider(t, "https://console.example.com/oidc/callback")
	v := must.Get(vaultoidc.New(t.Context(), vaultoidc.Issuer{URL: p.url, CAFile: p.ca}))(t)
	first := p.workload()
	claims := must.Get(v.Verify(t.Context(), first))(t)
	must.Same(t, "sub", any("ci"), claims["sub"])
	must.Same(t, "aud", any("vault"), claims["aud"])

	// A key that was published before its use works at once, because the verifier that
	// started after it was published has both.
	p.do("publish")
	fresh := must.Get(vaultoidc.New(t.Context(), vaultoidc.Issuer{URL: p.url, CAFile: p.ca}))(t)
	must.Match(t, "the old key", must.Err(fresh.Verify(t.Context(), p.workload())), nil)
	p.do("rotate")
	rotated := p.workload()
	if keyOf(t, rotated) == keyOf(t, first) {
		t.Fatal("the provider signs with the old key")
	}
	other := must.Get(vaultoidc.New(t.Context(), vaultoidc.Issuer{URL: p.url, CAFile: p.ca}))(t)
	must.Match(t, "the new key", must.Err(other.Verify(t.Context(), rotated)), nil)
	must.Match(t, "a JWT from before", must.Err(other.Verify(t.Context(), first)), nil)
	p.do("forget")
	last := must.Get(vaultoidc.New(t.Context(), vaultoidc.Issuer{URL: p.url, CAFile: p.ca}))(t)
	must.Match(t, "a key that was removed", must.Err(last.Verify(t.Context(), rotated)), must.Text("no such key"))
	must.Match(t, "the newest key", must.Err(last.Verify(t.Context(), p.workload())), nil)
}

// TestSignInWithChromium signs a person in at the console of the shipped server, at a
// real provider, whose keys change.
func TestSignInWithChromium(t *testing.T) {
	folder, key := t.TempDir(), vault.NewKey()
	at := freeAddress(t)
	console := "http://" + at + "/"
	p := startProvider(t, console+"oidc/callback")
	secret := filepath.Join(folder, "secret")
	must.Do(t, os.WriteFile(secret, []byte("the secret of the console\n"), 0o600))
	store := must.Get(sqlite.Open(t.Context(), filepath.Join(folder, "vault.db")))(t)
	v := must.Get(vault.Open(t.Context(), store, key, nil))(t)
	acme := must.Get(v.CreateTenant(t.Context(), "Acme"))(t)
	must.Do(t, v.Close())
	env := []string{"TOKENVAULT_DB=vault.db", "TOKENVAULT_MASTER_KEY=" + key.Text(), "TOKENVAULT_ADDR=127.0.0.1:0", "TOKENVAULT_DRAIN_DELAY=0s", "SSL_CERT_FILE=" + p.ca}
	startServer(t, command(t, folder, env, "serve", "--console", at, "--console-url", console, "--console-oidc", p.url, "--console-oidc-client", "console",
		"--console-oidc-secret-file", secret, "--console-oidc-role", "groups=admins:owner", "--issuer", p.url))

	tab := browser.Open(t, browser.Screen{Width: 1280, Height: 900})
	tab.Provoked = true // the provider's own pages, and the 403
	tab.AcceptCertificates()
	heading := func(text string) { tab.Await(`document.querySelector('h1')?.textContent.includes('` + text + `')`) }
	login := func(name string) {
		tab.Await(`document.querySelector('input[name=login]')`)
		tab.Run(`document.querySelector('input[name=login]').value = '` + name + `'; document.querySelector('input[name=password]').value = 'x'; document.querySelector('form').submit()`)
		tab.Await(`document.querySelector('input[name=prompt][value=consent]') || location.origin === '` + strings.TrimSuffix(console, "/") + `'`)
		tab.Run(`document.querySelector('input[name=prompt][value=consent]')?.form.submit()`)
	}
	tab.Navigate(console + "tenants/" + acme.ID.String())
	login("ann")
	heading("Acme")
	must.Contain(t, "the address after signing in", tab.Value(`location.href`), console+"tenants/"+acme.ID.String())
	if cookie := tab.Value(`document.cookie`); cookie != "" {
		t.Errorf("a page can read the cookie %q", cookie)
	}

	p.do("rotate") // the session goes on, and the next sign-in has the new key
	tab.Navigate(console + "system")
	heading("System")
	tab.Run(`document.querySelector('form[action$="signout"]').submit()`)
	heading("You have signed out")
	tab.Navigate(console)
	heading("You have signed out")

	tab.Run(`document.querySelector('a').click()`) // the provider prompts for the password
	login("bob")
	// The console may have fetched the keys less than ten seconds ago. It then refuses
	// the new key, until the person tries again.
	for {
		tab.Await(`document.querySelector('h1')?.textContent.startsWith('You are')`)
		if tab.Value(`document.querySelector('h1')?.textContent`) != "You are not signed in" {
			break
		}
		tab.Navigate(console + "oidc/sign-in")
		login("bob")
	}
	heading("You are signed in, but have no role here")
	tab.Navigate(console + "system")
	heading("You have signed out") // a person without a role has no session
	tab.Run(`document.querySelector('a').click()`)
	login("ann")
	heading("Overview")

	log := succeed(t, folder, env, "log", "list", "--tenant", acme.ID.String(), "--json")
	must.Contain(t, "the log of the tenant", log, `"actor_name":"ann@example.com"`)
}
