package evident

import (
	"bytes"
	"crypto/rand"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/seed-72ea4aab/vault/evidence"
)

func TestFileAnchor(t *testing.T) {
	t.Parallel()
	private, public, err := note.GenerateKey(rand.Reader, "vault.example")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	key, err := note.NewVerifier(public)
	if err != nil {
		t.Fatal(err)
	}
	f := AnchorFile(filepath.Join(t.TempDir(), "notes"))
	if msg, err := f.Latest(t.Context()); err != nil || msg != nil {
		t.Errorf("no file: %q, %v", msg, err)
	}
	var last []byte
	for i := range 5 {
		c := evidence.Checkpoint{Origin: "vault.example", Size: int64(i + 1)}
		msg, err := c.Sign(signer)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Put(t.Context(), msg); err != nil {
			t.Fatal(err)
		}
		if last, err = f.Latest(t.Context()); err != nil || !bytes.Equal(last, msg) {
			t.Fatalf("note %d: %q, %v", i, last, err)
		}
	}
	whole, err := os.ReadFile(string(f))
	if err != nil {
		t.Fatal(err)
	}
	// A crash may cut off the last note anywhere.
	for cut := range len(last) + 1 {
		if err := os.WriteFile(string(f), whole[:len(whole)-cut], 0o600); err != nil {
			t.Fatal(err)
		}
		msg, err := f.Latest(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := evidence.OpenCheckpoint(msg, key); err != nil {
			t.Errorf("without the last %d bytes: %q", cut, msg)
		}
		if err := f.Put(t.Context(), last); err != nil {
			t.Fatal(err)
		}
		if msg, err := f.Latest(t.Context()); err != nil || !bytes.Equal(msg, last) {
			t.Errorf("after a cut of %d bytes: %q, %v", cut, msg, err)
		}
	}
	if err := AnchorFile(t.TempDir()).Put(t.Context(), last); err == nil {
		t.Error("a directory was accepted")
	}
}

func TestHTTPAnchor(t *testing.T) {
	t.Parallel()
	var stored []byte
	broken := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch {
		case broken:
			w.WriteHeader(http.StatusTeapot)
		case req.Method == http.MethodPost:
			stored, _ = io.ReadAll(req.Body)
		default:
			if stored == nil {
				w.WriteHeader(http.StatusNotFound)
			}
			_, _ = w.Write(stored)
		}
	}))
	defer server.Close()
	h := &AnchorHTTP{URL: server.URL, Client: server.Client()}
	if msg, err := h.Latest(t.Context()); err != nil || msg != nil {
		t.Errorf("no note: %q, %v", msg, err)
	}
	if err := h.Put(t.Context(), []byte("note")); err != nil {
		t.Fatal(err)
	}
	if msg, err := h.Latest(t.Context()); err != nil || string(msg) != "note" {
		t.Errorf("%q, %v", msg, err)
	}
	broken = true
	if _, err := h.Latest(t.Context()); err == nil {
		t.Error("a status of 418 is accepted")
	}
	if err := h.Put(t.Context(), []byte("note")); err == nil {
		t.Error("a status of 418 is accepted")
	}
	h.URL = "http://\x00"
	if err := h.Put(t.Context(), nil); err == nil {
		t.Error("a bad URL was accepted")
	}
}

func TestAnchorURLFollowsNoRedirect(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	defer other.Close()
	server := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer server.Close()
	h := &AnchorHTTP{URL: server.URL, Client: server.Client()}
	if _, err := h.Latest(t.Context()); err == nil {
		t.Error("GET: no error")
	}
	if err := h.Put(t.Context(), []byte("note")); err == nil {
		t.Error("POST: no error")
	}
}
