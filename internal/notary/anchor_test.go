package notary

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/test/must"
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
		must.Do(t, f.Put(t.Context(), msg))
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
		must.Do(t, os.WriteFile(string(f), whole[:len(whole)-cut], 0o600))
		msg, err := f.Latest(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		must.Fail(evidence.OpenCheckpoint(msg, key))(t, fmt.Sprintf("without the last %d bytes", cut), nil)
		must.Do(t, f.Put(t.Context(), last))
		if msg, err := f.Latest(t.Context()); err != nil || !bytes.Equal(msg, last) {
			t.Errorf("after a cut of %d bytes: %q, %v", cut, msg, err)
		}
	}
	must.Match(t, "a directory", AnchorFile(t.TempDir()).Put(t.Context(), last), must.Text("is a directory"))
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
	must.Do(t, h.Put(t.Context(), []byte("note")))
	must.Same(t, "the note that was fetched", "note", string(must.Get(h.Latest(t.Context()))(t)))
	broken = true
	must.Fail(h.Latest(t.Context()))(t, "Put with a status of 418", must.Text("the anchor responds with status 418"))
	must.Match(t, "Latest with a status of 418", h.Put(t.Context(), []byte("note")), must.Text("the anchor responds with status 418"))
	h.URL = "http://\x00"
	must.Match(t, "a bad URL", h.Put(t.Context(), nil), must.Text("the URL of the anchor is not valid"))
}

func TestAnchorURLFollowsNoRedirect(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	defer other.Close()
	server := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer server.Close()
	h := &AnchorHTTP{URL: server.URL, Client: server.Client()}
	must.Fail(h.Latest(t.Context()))(t, "GET", must.Text("the anchor responds with status 307"))
	must.Match(t, "POST", h.Put(t.Context(), []byte("note")), must.Text("the anchor responds with status 307"))
}
