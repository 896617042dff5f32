package console_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestMasksAndSignIn finds masks without the quotes of JSON, and a page that tells
// people who are not signed in how to sign in.
func TestMasksAndSignIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, body := w.as("viewer").get(w.inTenant("tokens"))
	if !strings.Contains(body, `<code class="mask"><bdi>XXXX`) || strings.Contains(body, `<bdi>&#34;XXXX`) {
		t.Error("the mask of a string has quotes, or there is none")
	}
	stranger := &visitor{t: t, w: w, client: &http.Client{}}
	if status, body := stranger.get(w.console("")); status != http.StatusForbidden || !strings.Contains(body, "tokenvault console link") {
		t.Errorf("%d %s", status, body)
	}
}
