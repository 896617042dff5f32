package serve

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/console"
	"github.com/seed-72ea4aab/vault/internal/terminal"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

// TestSealedLinksSignInOnce opens links that were made with the key of the vault.
func TestSealedLinksSignInOnce(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	key := must.Get(LinkKey(t.Context(), v))(t)
	c := newConsole(&Config{consoleFlags: consoleFlags{addr: freePort}})
	srv := httptest.NewServer(nil)
	t.Cleanup(srv.Close)
	srv.Config.Handler = c.server(v, key, srv.URL, slog.New(slog.DiscardHandler)).Handler
	open := func(link string) (int, string) {
		jar, _ := cookiejar.New(nil)
		return get(t, &http.Client{Jar: jar}, link)
	}
	link := must.Get(SealLink(key, srv.URL, "jane@example.com", console.Viewer))(t)
	if status, body := open(link); status != http.StatusOK || !strings.Contains(body, "jane@example.com") || !strings.Contains(body, "viewer") {
		t.Errorf("the link: %d %s", status, body)
	}
	if status, _ := open(link); status != http.StatusForbidden {
		t.Errorf("the link again: %d", status)
	}
	foreign := must.Get(SealLink(vault.NewKey(), srv.URL, "jane@example.com", console.Owner))(t)
	for name, bad := range map[string]string{"another key": foreign, "no base64": srv.URL + "/?link=!!", "too long": srv.URL + "/?link=" + strings.Repeat("a", maxLink+1)} {
		if status, _ := open(bad); status != http.StatusForbidden {
			t.Errorf("%s: %d", name, status)
		}
	}
}

// rsaKey is a master key in a KMS that anybody can encrypt for. It counts its calls, and
// denies its use.
type rsaKey struct {
	private *rsa.PrivateKey
	calls   atomic.Int64
	denies  atomic.Bool
}

func (k *rsaKey) Encrypt(plaintext, _ []byte) ([]byte, error) {
	return rsa.EncryptOAEP(sha256.New(), rand.Reader, &k.private.PublicKey, plaintext, nil)
}

func (k *rsaKey) Decrypt(ciphertext, _ []byte) ([]byte, error) {
	if k.calls.Add(1); k.denies.Load() {
		return nil, vault.ErrKeyDenied
	}
	return rsa.DecryptOAEP(sha256.New(), nil, k.private, ciphertext, nil)
}

// TestStrangersLinksCallNoKey opens links that strangers made, some with the public key
// of the master key. None signs in, calls the holder of the key, or stops the vault.
func TestStrangersLinksCallNoKey(t *testing.T) {
	t.Parallel()
	key := &rsaKey{private: must.Get(rsa.GenerateKey(rand.Reader, 2048))(t)}
	store := must.Get(sqlite.Open(t.Context(), ":memory:"))(t)
	v := must.Get(vault.Open(t.Context(), store, key, &vault.Config{KeyAge: time.Hour}))(t)
	t.Cleanup(func() { must.Do(t, v.Close()) })
	c := newConsole(&Config{consoleFlags: consoleFlags{addr: freePort}})
	srv := httptest.NewServer(nil)
	t.Cleanup(srv.Close)
	srv.Config.Handler = c.server(v, must.Get(LinkKey(t.Context(), v))(t), srv.URL, slog.New(slog.DiscardHandler)).Handler
	key.calls.Store(0)
	key.denies.Store(true)
	made := must.Get(SealLink(&rsaKey{private: key.private}, srv.URL, "mallory", console.Owner))(t)
	wrapped := must.Get(store.Records(t.Context(), storage.ID{}, "ring", []storage.ID{{}}))(t)[0].Body
	for _, link := range []string{made, srv.URL + "/?link=" + base64.RawURLEncoding.EncodeToString(wrapped), srv.URL + "/?link=" + rand.Text()} {
		for range 20 {
			if status, _ := get(t, http.DefaultClient, link); status != http.StatusForbidden {
				t.Errorf("%.60s: %d", link, status)
			}
		}
	}
	must.Same(t, "calls of the key", int64(0), key.calls.Load())
	must.Get(v.CreateTenant(t.Context(), "Acme"))(t)
}

// TestSealedLinksExpire advances the clock of a server.
func TestSealedLinksExpire(t *testing.T) {
	t.Parallel()
	key := vault.NewKey()
	for name, c := range map[string]struct {
		begun, now time.Duration // relative to when the link was made
		want       bool
	}{
		"at once": {-time.Hour, 0, true}, "after a while": {-time.Hour, linkLife - time.Minute, true}, "too late": {-time.Hour, linkLife + time.Minute, false},
		"before the server began": {time.Second, 2 * time.Second, false}, "from the future": {-time.Hour, -2 * clockSkew, false},
	} {
		link := must.Get(SealLink(key, "http://127.0.0.1:1", "jane", console.Owner))(t)
		at, _ := url.Parse(link)
		made := time.Now()
		r := newLinkReader(key)
		r.begun, r.now = made.Add(c.begun), func() time.Time { return made.Add(c.now) }
		if _, ok := r.accept(at.Query().Get("link")); ok != c.want {
			t.Errorf("%s: %t, want %t", name, ok, c.want)
		}
	}
}

// TestLinkIsPrintedOnlyOnATerminal checks that a server without a terminal
// explains how to sign in, and that the file with the link is private.
func TestLinkIsPrintedOnlyOnATerminal(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "link")
	for name, flags := range map[string]consoleFlags{"nothing asked": {addr: freePort}, "a file": {addr: freePort, linkFile: file}, "a header": {addr: freePort, header: "X-User"}} {
		var printed strings.Builder
		c := newConsole(&Config{consoleFlags: flags})
		logger := slog.New(slog.DiscardHandler)
		c.server(newVault(t), vault.NewKey(), "http://127.0.0.1:8081", logger)
		c.banner(&printed, terminal.Palette{}, false, logger)
		if strings.Contains(printed.String(), "?link=") || !strings.Contains(printed.String(), "http://127.0.0.1:8081/") {
			t.Errorf("%s: %s", name, printed.String())
		}
	}
	text, err := os.ReadFile(file)
	if err != nil || !strings.HasPrefix(string(text), "http://127.0.0.1:8081/") {
		t.Errorf("%q %v", text, err)
	}
	must.Same(t, "info.Mode().Perm", fs.FileMode(private), must.Get(os.Stat(file))(t).Mode().Perm())
}

// TestOnlyTrustedProxiesNameTheUser checks that only the header of a trusted proxy
// counts.
func TestOnlyTrustedProxiesNameTheUser(t *testing.T) {
	t.Parallel()
	flags := consoleFlags{addr: freePort, header: "X-User", role: "operator", proxies: networks{netip.MustParsePrefix("10.0.0.0/24"), netip.MustParsePrefix("192.0.2.7/32")}}
	must.Do(t, flags.check())
	for name, c := range map[string]struct {
		from  string
		users []string
		want  console.User
	}{
		"a proxy":        {"10.0.0.9:1234", []string{"jane"}, console.User{ID: "jane", Role: console.Operator}},
		"one address":    {"[::ffff:192.0.2.7]:1", []string{"jane"}, console.User{ID: "jane", Role: console.Operator}},
		"somebody else":  {"10.0.1.9:1234", []string{"jane"}, console.User{}},
		"this machine":   {"127.0.0.1:1234", []string{"jane"}, console.User{}},
		"without a name": {"10.0.0.9:1234", nil, console.User{}},
		"two names":      {"10.0.0.9:1234", []string{"jane", "joe"}, console.User{}},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = c.from
		r.Header["X-User"] = c.users
		got, err := flags.byHeader()(r)
		if diff := cmp.Diff(c.want, got); diff != "" || (err == nil) != (c.want.ID != "") {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}
