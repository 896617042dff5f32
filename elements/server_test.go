package elements_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaultclient"
)

// The two functions below are the server's side in docs/elements.md.

func authorize(c *vaultclient.Client, container func(*http.Request) string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		nonce, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 100))
		if err == nil {
			err = c.AuthorizeSession(r.Context(), vault.SessionGrant{Nonce: string(nonce), Rules: []vault.AccessRule{{
				Priority: 1, Container: container(r), Transform: vault.TransformMask, Permissions: []vault.Permission{"token:create"},
			}}})
		}
		if err != nil {
			http.Error(w, "not allowed", http.StatusForbidden)
		}
	})
}

func authorizeReads(c *vaultclient.Client, elements string, mayRead func(*http.Request, string) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", elements)
		w.Header().Set("Access-Control-Allow-Credentials", "true")
		w.Header().Set("Access-Control-Allow-Headers", "Content-Type")
		var in struct{ Nonce, Token string }
		switch {
		case r.Header.Get("Origin") != elements:
			http.Error(w, "only the elements may ask", http.StatusForbidden)
		case r.Method == http.MethodOptions: // the browser asks first
		case json.NewDecoder(http.MaxBytesReader(w, r.Body, 4096)).Decode(&in) != nil || !mayRead(r, in.Token):
			http.Error(w, "not allowed", http.StatusForbidden)
		default:
			err := c.AuthorizeSession(r.Context(), vault.SessionGrant{Nonce: in.Nonce, Rules: []vault.AccessRule{{
				Priority: 1, Transform: vault.TransformReveal, Permissions: []vault.Permission{"token:read"},
				Conditions: []vault.Condition{{Attribute: "id", Operator: "equals", Value: in.Token}},
			}}})
			if err != nil {
				http.Error(w, "not allowed", http.StatusForbidden)
			}
		}
	})
}

// TestDocumentHasTheHandlers checks that the document shows the functions that the tests run.
func TestDocumentHasTheHandlers(t *testing.T) {
	t.Parallel()
	doc := string(must.Get(os.ReadFile("../docs/elements.md"))(t))
	source := string(must.Get(os.ReadFile("server_test.go"))(t))
	for _, name := range []string{"func authorize(", "func authorizeReads("} {
		_, rest, _ := strings.Cut(source, name)
		body, _, ok := strings.Cut(rest, "\n}\n")
		if !ok || !strings.Contains(doc, name+body+"\n}\n") {
			t.Errorf("docs/elements.md lacks %s", name)
		}
	}
}
