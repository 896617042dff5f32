package vaultkms

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// helper is the first argument of this test binary as the program of a key. The
// second is a file with its behaviour.
const helper = "helper"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == helper {
		help(os.Args[2])
		return
	}
	os.Exit(m.Run())
}

// help is a program of a key. Its key is the byte 0x55.
func help(mode string) {
	fmt.Fprintf(os.Stderr, "started with %d variables\n", len(os.Environ()))
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var r request
		if json.Unmarshal(lines.Bytes(), &r) != nil {
			os.Exit(3)
		}
		for i := range r.Data {
			r.Data[i] ^= 0x55
		}
		text, _ := os.ReadFile(mode)
		switch string(text) {
		case "denied":
			fmt.Printf(`{"id": %d, "error": "the key is gone", "denied": true}`+"\n", r.ID)
		case "down":
			fmt.Printf(`{"id": %d, "error": "no session"}`+"\n", r.ID)
		case "long":
			fmt.Println(strings.Repeat("x", maxLine+1))
		case "garbage":
			fmt.Println("hello")
		case "unknown id":
			fmt.Printf(`{"id": %d, "data": ""}`+"\n", r.ID+100)
		case "ended":
			os.Exit(1)
		case "silent":
		default:
			fmt.Printf(`{"id": %d, "data": "%s"}`+"\n", r.ID, base64.StdEncoding.EncodeToString(r.Data))
		}
	}
}

// lines is a log whose lines can be counted.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(p))
	return len(p), nil
}

func (l *lines) has(part string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(strings.Join(l.all, ""), part)
}

// ask encrypts, and decrypts with a question to the holder.
func ask(t *testing.T, key vault.AEAD, sealed []byte) error {
	t.Helper()
	plain, err := seal.Decrypt(seal.Fresh(t.Context()), key, sealed, []byte("place"))
	if err == nil && string(plain) != "ring" {
		t.Errorf("got %q", plain)
	}
	return err
}

// A program can deny, fail, write nonsense and end. Calls in flight fail, and the
// next program serves.
func TestProgram(t *testing.T) {
	t.Parallel()
	for mode, denied := range map[string]bool{
		"denied": true, "down": false, "long": false, "garbage": false, "unknown id": false, "ended": false, "silent": false,
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			var log lines
			file := filepath.Join(t.TempDir(), "mode")
			set := func(mode string) {
				must.Do(t, os.WriteFile(file, []byte(mode), 0o600))
			}
			set("ok")
			ctx := WithLogger(t.Context(), slog.New(slog.NewTextHandler(&log, nil)))
			key := must.Get(Open(ctx, "exec:"+os.Args[0]+" "+helper+" "+file))(t)
			sealed := must.Get(seal.Encrypt(ctx, key, []byte("ring"), []byte("place")))(t)
			must.Do(t, ask(t, key, sealed))
			set(mode)
			if err := ask(t, key, sealed); err == nil || errors.Is(err, vault.ErrKeyDenied) != denied {
				t.Errorf("got %v, denied: %v", err, denied)
			}
			_, err := seal.Decrypt(ctx, key, sealed, []byte("place"))
			if dropped := err != nil; dropped != denied {
				t.Errorf("the data key was dropped: %v (%v), want %v", dropped, err, denied)
			}
			set("ok")
			for ask(t, key, sealed) != nil { // at most once a second it is started
				if t.Context().Err() != nil {
					t.Fatal("it does not come back")
				}
			}
			if !log.has("started with 1 variables") {
				t.Errorf("the log: %q", log.all)
			}
		})
	}
}

// counted is a keeper that counts calls.
type counted struct{ calls atomic.Int64 }

func (c *counted) call(_ context.Context, op string, b []byte) ([]byte, error) {
	c.calls.Add(1)
	if op == opEncrypt {
		return append([]byte("wrapped"), b...), nil
	}
	return append([]byte(nil), b[len("wrapped"):]...), nil
}

// All rings share a data key, so a node calls the service once for any number of
// tenants, and once for each question.
func TestOneDataKeyForAllRings(t *testing.T) {
	t.Parallel()
	var service counted
	first := newEnvelope(service.call)
	var rings [][]byte
	for i := range 10_000 {
		ring := must.Get(first.Encrypt([]byte("ring"), fmt.Append(nil, i)))(t)
		rings = append(rings, ring)
	}
	other := newEnvelope(service.call)
	for i, ring := range rings {
		if plain, err := other.Decrypt(ring, fmt.Append(nil, i)); err != nil || string(plain) != "ring" {
			t.Fatal(err)
		}
	}
	must.Get(other.Encrypt([]byte("new ring"), nil))(t)
	if service.calls.Load() != 2 {
		t.Errorf("%d calls, want one for each node", service.calls.Load())
	}
	must.Fail(other.Decrypt(rings[1], fmt.Append(nil, 2)))(t, "a ring opens at the place of another", must.Text(""))
	if _, err := seal.Decrypt(seal.Fresh(t.Context()), other, rings[0], fmt.Append(nil, 0)); err != nil || service.calls.Load() != 3 {
		t.Errorf("a question: %v after %d calls", err, service.calls.Load())
	}
	for _, bad := range []string{"", "\x01", "\x02\x00\x00", "\x01\xff\xff"} {
		if _, err := other.Decrypt([]byte(bad), nil); !errors.Is(err, errFormat) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestURIs(t *testing.T) {
	t.Parallel()
	for _, uri := range []string{"", "exec:", "exec: ", "file:///key", "awskms", "hashivault://user:hunter2@key", "://hunter2",
		"awskms:///alias/vault?region=x&Token=hunter2", "awskms:///alias/vault?region=x&pin=hunter2", "azurekeyvault://acme.vault.azure.net/keys/k?pin=hunter2"} {
		_, err := Open(t.Context(), uri)
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", uri, err)
		}
	}
}

// fakeCloud responds like the KMS of AWS, the transit engine of HashiCorp Vault, and
// Azure Key Vault, which requires a token with a challenge, as the documentation of its
// REST API says.
type fakeCloud struct {
	mu     sync.Mutex
	status int // 0: it works
	body   string
}

func (f *fakeCloud) fail(status int, body string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status, f.body = status, body
}

func (f *fakeCloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if strings.HasPrefix(r.URL.Path, "/keys/") && r.Header.Get("Authorization") != "Bearer token" {
		w.Header().Set("WWW-Authenticate", `Bearer authorization="https://login.example/tenant", resource="https://vault.azure.net"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if f.status != 0 {
		w.WriteHeader(f.status)
		_, _ = io.WriteString(w, f.body)
		return
	}
	var in map[string]string
	_ = json.NewDecoder(r.Body).Decode(&in)
	switch {
	case strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".Encrypt"):
		_ = json.NewEncoder(w).Encode(map[string]string{"CiphertextBlob": in["Plaintext"], "KeyId": in["KeyId"]})
	case strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".Decrypt"):
		_ = json.NewEncoder(w).Encode(map[string]string{"Plaintext": in["CiphertextBlob"]})
	case strings.HasPrefix(r.URL.Path, "/v1/transit/encrypt/"):
		_ = json.NewEncoder(w).Encode(map[string]any{"data": map[string]string{"ciphertext": "vault:v1:" + in["plaintext"]}})
	case strings.HasPrefix(r.URL.Path, "/v1/transit/decrypt/"):
		_ = json.NewEncoder(w).Encode(map[string]any{"data": map[string]string{"plaintext": strings.TrimPrefix(in["ciphertext"], "vault:v1:")}})
	case strings.HasPrefix(r.URL.Path, "/keys/k/") && r.URL.Query().Get("api-version") != "" && in["alg"] == "RSA-OAEP-256":
		// The ciphertext is the plaintext.
		_ = json.NewEncoder(w).Encode(map[string]any{"kid": "https://acme.vault.azure.net/keys/k/1", "value": in["value"]})
	default:
		w.WriteHeader(http.StatusTeapot)
	}
}

// The errors of services are denials, or temporary.
func TestServices(t *testing.T) {
	cloud := &fakeCloud{}
	server := httptest.NewServer(cloud)
	t.Cleanup(server.Close)
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": server.URL, "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_MAX_ATTEMPTS": "1",
		"VAULT_ADDR": server.URL, "VAULT_TOKEN": "x", "VAULT_MAX_RETRIES": "0",
	} {
		t.Setenv(name, value)
	}
	aws := func(code string) string { return `{"__type": "` + code + `", "message": "no"}` }
	for uri, answers := range map[string][]struct {
		status int
		body   string
		denied bool
	}{
		"awskms:///alias/vault?region=eu-central-1": {
			{400, aws("DisabledException"), true}, {400, aws("KMSInvalidStateException"), true}, {400, aws("NotFoundException"), true},
			{400, aws("AccessDeniedException"), true}, {400, aws("ThrottlingException"), false}, {500, aws("KMSInternalException"), false},
		},
		"hashivault://vault": {
			{403, `{"errors": ["permission denied"]}`, true}, {404, `{"errors": []}`, true}, {400, `{"errors": ["encryption key not found"]}`, true},
			{400, `{"errors": ["ciphertext or signature version is disallowed by policy (too old)"]}`, true},
			{503, `{"errors": ["Vault is sealed"]}`, false}, {400, `{"errors": ["invalid ciphertext"]}`, false},
		},
	} {
		cloud.fail(0, "")
		key := must.Get(Open(t.Context(), uri))(t)
		sealed := must.Get(key.Encrypt([]byte("ring"), []byte("place")))(t)
		for _, a := range answers {
			cloud.fail(0, "")
			must.Match(t, uri, ask(t, key, sealed), nil)
			cloud.fail(a.status, a.body)
			if err := ask(t, key, sealed); err == nil || errors.Is(err, vault.ErrKeyDenied) != a.denied {
				t.Errorf("%s, %s: %v, denied: %v", uri, a.body, err, a.denied)
			}
		}
	}
}
