package console_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/console"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// TestMasksAndSignIn checks that masks are shown without the quotes of JSON, and
// that visitors who are not signed in see how to sign in.
func TestMasksAndSignIn(t *testing.T) {
	t.Parallel()
	w := newConsoleVault(t)
	_, body := w.as("viewer").get(w.inTenant("tokens"))
	must.Contain(t, "the mask of a card", body, `<bdi>XXXXXXXXXXXX5556, 12/2031</bdi>`)
	must.Lack(t, "the mask of a card", body, "&#34;number")
	stranger := &visitor{t: t, w: w, client: &http.Client{}}
	if status, body := stranger.get(w.console("")); status != http.StatusForbidden || !strings.Contains(body, "<code>tokenvault console link</code>") {
		t.Errorf("%d %s", status, body)
	}
}

// A console that is mounted at an address without a slash redirects to the address
// with one, and never to a page of the program.
func TestMountWithoutSlash(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	asOwner := func(*http.Request) (console.User, error) { return console.User{ID: "jane", Role: console.Owner}, nil }
	for _, c := range []struct{ pattern, prefix, address, want string }{
		{"/ops/console", "/ops/console", "/ops/console", "303 /ops/console/"},
		{"/ops/console", "/ops/console", "/ops/console?done=1", "303 /ops/console/"},
		{"/ops/console/", "/ops/console", "/ops/console/", "200 "},
		{"/ops/console/", "/ops/console/", "/ops/console/", "404 "}, // no link of such a page would work
		{"/ops/console/", "/ops/console/", "/ops/console/tenants", "404 "},
	} {
		mux := http.NewServeMux()
		mux.Handle(c.pattern, http.StripPrefix(c.prefix, console.Handler(v.Vault, &console.Options{Authorize: asOwner})))
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, c.address, nil)
		mux.ServeHTTP(w, r)
		location := ""
		if to := w.Header().Get("Location"); to != "" {
			location = r.URL.ResolveReference(must.Get(url.Parse(to))(t)).Path
		}
		must.Same(t, c.pattern+" without "+c.prefix+": "+c.address, c.want, fmt.Sprint(w.Code, " ", location))
	}
}

// TestMasks formats masks as text.
func TestMasks(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]string{
		`"XXXX1234"`: "XXXX1234", `12`: "12", `1e400`: "1e400", `null`: "null", `true`: "true", `{}`: "{}",
		`{"a":"x","b":{"c":[1,"y"]}}`: "a: x, b.c[0]: 1, b.c[1]: y", `["x"]`: "[0]: x", `{"a":`: `{"a":`,
		`"` + strings.Repeat("é", 3000) + `"`:                 strings.Repeat("é", 2000) + "…",
		strings.Repeat("[", 5000) + strings.Repeat("]", 5000): "…",
	} {
		must.Same(t, data, want, console.Mask(vault.JSON(data)))
	}
}

// TestShortIDs checks that ids are never cut in the middle of a character.
func TestShortIDs(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"order-1": "order-1", "019b796d-d600-7000-8000-340127981af4": "019b796d…981af4",
		strings.Repeat("é", 24): strings.Repeat("é", 24), strings.Repeat("é", 25): "éééééééé…éééééé",
	} {
		must.Same(t, id, want, console.Short(id))
	}
}

// TestLatencyHasGaps checks that minutes without calls are drawn as gaps, and a
// single minute as a dot.
func TestLatencyHasGaps(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		values []float64
		want   []string
	}{
		{[]float64{0, 0, 0}, nil},
		{[]float64{2, 2, 2}, []string{"100.0,2.0 300.0,2.0 500.0,2.0"}},
		{[]float64{2, 0, 2, 1}, []string{"75.0,2.0 75.0,2.0", "375.0,2.0 525.0,50.0"}},
	} {
		must.Same(t, fmt.Sprint(c.values), fmt.Sprint(c.want), fmt.Sprint(console.Lines(c.values, 2)))
	}
}
