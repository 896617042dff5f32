package awskms

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// fake is AWS KMS. A ciphertext is the id of the key and the plaintext. As AWS KMS does, it
// decrypts a ciphertext of any key if the request names no key.
type fake struct {
	mu   sync.Mutex
	fail string // code of an error
	ids  []string
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != "" {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"__type": "`+f.fail+`", "message": "no"}`)
		return
	}
	var in struct {
		KeyID, EncryptionAlgorithm string
		Plaintext, CiphertextBlob  []byte
		EncryptionContext          map[string]string
	}
	_ = json.NewDecoder(r.Body).Decode(&in)
	f.ids = append(f.ids, in.KeyID)
	prefix := in.EncryptionContext["app"] + "|" + in.KeyID + "|"
	switch {
	case strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".Encrypt"):
		_ = json.NewEncoder(w).Encode(map[string]any{"CiphertextBlob": append([]byte(prefix), in.Plaintext...), "KeyId": in.KeyID})
	case in.KeyID != "" && !strings.HasPrefix(string(in.CiphertextBlob), prefix):
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"__type": "IncorrectKeyException"}`)
	default:
		parts := strings.SplitN(string(in.CiphertextBlob), "|", 3)
		_ = json.NewEncoder(w).Encode(map[string]any{"Plaintext": []byte(parts[2]), "KeyId": parts[1]})
	}
}

func (f *fake) set(code string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = code
}

func newFake(t *testing.T) (*fake, string) {
	t.Helper()
	f := &fake{}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_MAX_ATTEMPTS": "1", "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
	} {
		t.Setenv(name, value)
	}
	return f, "&endpoint=" + server.URL
}

// Every call names the key, so a ciphertext of another key is not decrypted.
func TestCallsNameTheKey(t *testing.T) {
	f, endpoint := newFake(t)
	key := must.Get(Open(t.Context(), "awskms:///alias/vault?region=eu-central-1&context_app=vault"+endpoint, nil))(t)
	other := must.Get(Open(t.Context(), "awskms://other?region=eu-central-1&context_app=vault"+endpoint, nil))(t)
	sealed, foreign := must.Get(key.Encrypt([]byte("root"), nil))(t), must.Get(other.Encrypt([]byte("root"), nil))(t)
	must.Same(t, "opened", "root", string(must.Get(key.Decrypt(sealed, nil))(t)))
	_, err := key.Decrypt(foreign, nil)
	must.Match(t, "a ciphertext of another key", err, must.Text("IncorrectKeyException"))
	if errors.Is(err, vault.ErrKeyDenied) {
		t.Error("it is a denial")
	}
	must.Same(t, "ids", "alias/vault other alias/vault alias/vault", strings.Join(f.ids, " "))
	must.Same(t, "ciphertext", "vault|alias/vault|", string(sealed[:18]))
}

func TestDenials(t *testing.T) {
	f, endpoint := newFake(t)
	key := must.Get(Open(t.Context(), "awskms:///alias/vault?region=eu-central-1&root=abc"+endpoint, nil))(t)
	must.Same(t, "the pin", "abc", key.Root())
	sealed := must.Get(key.Encrypt([]byte("root"), nil))(t)
	for code, denied := range map[string]bool{
		"DisabledException": true, "KMSInvalidStateException": true, "NotFoundException": true, "AccessDeniedException": true,
		"ThrottlingException": false, "KMSInternalException": false, "IncorrectKeyException": false,
	} {
		f.set(code)
		if _, err := key.Decrypt(sealed, nil); err == nil || errors.Is(err, vault.ErrKeyDenied) != denied {
			t.Errorf("%s: %v, want a denial: %v", code, err, denied)
		}
		f.set("")
		must.Get(key.Decrypt(sealed, nil))(t)
	}
}
