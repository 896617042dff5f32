package httpserver

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// create creates a token and returns its id.
func (w *restVault) create(body string) string {
	w.t.Helper()
	return w.do("POST", "/tokens", w.PrivateKey, body).want(w.t, 201).text(w.t, "id")
}

// idsOf returns the ids on a page.
func (r *response) idsOf(t testing.TB) []string {
	t.Helper()
	var page struct{ Data []struct{ ID string } }
	must.Do(t, json.Unmarshal([]byte(r.body), &page))
	ids := []string{}
	for _, item := range page.Data {
		ids = append(ids, item.ID)
	}
	return ids
}

func TestCreateTokenReturnsMaskedDataAndLocation(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, nil)
	res := w.do("POST", "/tokens", w.PublicKey, `{"id":"my token","type":"token","data":"secret-value"}`).want(t, 201)
	same(t, "Location", res.Header.Get("Location"), "/tokens/my%20token")
	same(t, "data", res.text(t, "data"), "XXXXXXXXalue")
	same(t, "the Location leads to", w.do("GET", res.Header.Get("Location"), w.PrivateKey, "").want(t, 200).text(t, "id"), "my token")
	w.do("POST", "/tokens", w.PublicKey, `{"id":"my token","type":"token","data":"other"}`).wantError(t, 409)
}

// null is the same as absent; an empty string is not.
func TestOptionalTextMustNotBeEmpty(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, nil)
	w.do("POST", "/tokens", w.PrivateKey, `{"id":null,"fingerprint_expression":null,"type":"token","data":1}`).want(t, 201)
	w.create(`{"id":"mine","type":"token","data":1}`)
	for body, at := range map[string]string{
		`{"id":"","type":"token","data":1}`:                     "POST /tokens",
		`{"fingerprint_expression":"","type":"token","data":1}`: "POST /tokens",
		`{"fingerprint_expression":""}`:                         "PATCH /tokens/mine",
		`{"callback_url":""}`:                                   "POST /reactors/" + uuid.NewString() + "/react",
	} {
		method, path, _ := strings.Cut(at, " ")
		w.do(method, path, w.PrivateKey, body).wantError(t, 400)
	}
}

func TestListTokensFilters(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, nil)
	w.create(`{"id":"one","type":"token","data":1,"metadata":{"user":"Jane","city":"Bern"}}`)
	w.create(`{"id":"two","type":"token","data":2,"metadata":{"user":"jane"}}`)
	w.create(`{"id":"three","type":"card_number","data":"4242424242424242","metadata":{"user":"Joe","a.b":"c"}}`)
	for query, want := range map[string][]string{
		"":                                    {"three", "two", "one"},
		"id=one":                              {"one"},
		"id=one&id=three&id=absent":           {"three", "one"},
		"type=token":                          {"two", "one"},
		"type=token&type=card_number":         {"three", "two", "one"},
		"type=bank":                           {},
		"metadata.user=JANE":                  {"two", "one"},
		"metadata[user]=jane":                 {"two", "one"},
		"metadata%5Buser%5D=jane":             {"two", "one"},
		`metadata={"user":"jane"}`:            {"two", "one"},
		"metadata.user=jane&metadata.city=x":  {},
		"metadata.user=jane&metadata.user=x":  {"two", "one"},
		"metadata[user]=x&metadata.user=jane": {},
		"metadata.User=jane":                  {},
		"metadata.a.b=c":                      {"three"},
		"metadata.user=jane&type=token&id=one&page=1&size=5": {"one"},
		"size=1":        {"three"},
		"size=1&page=2": {"two"},
		"page=9":        {},
		"=":             {"three", "two", "one"},
	} {
		res := w.do("GET", "/tokens?"+strings.NewReplacer(`"`, "%22", "{", "%7B", "}", "%7D").Replace(query), w.PrivateKey, "").want(t, 200)
		same(t, query, res.idsOf(t), want)
	}
}

func TestPatchNeedsTheMergePatchContentType(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, nil)
	w.create(`{"id":"doc","type":"token","data":1}`)
	reactor := w.do("POST", "/reactors", w.ManagementKey, reactorBody).want(t, 201).text(t, "id")
	proxy := w.do("POST", "/proxies", w.ManagementKey, proxyBody).want(t, 201).text(t, "id")
	for path, c := range map[string]struct {
		key  string
		good int
	}{
		"/tokens/doc":          {w.PrivateKey, 200},
		"/reactors/" + reactor: {w.ManagementKey, 204},
		"/proxies/" + proxy:    {w.ManagementKey, 204},
		"/applications/" + w.Public.ApplicationID().String(): {w.ManagementKey, 204},
	} {
		for _, bad := range []string{"", "application/json", "text/plain", "merge-patch+json", "application/merge-patch+jsonx", ";", "application/merge-patch+json/x"} {
			res := w.do("PATCH", path, c.key, `not json`, "Content-Type", bad)
			res.wantError(t, 415)
			same(t, path+": Accept-Patch", res.Header.Get("Accept-Patch"), mergePatch)
		}
		for _, good := range []string{mergePatch, mergePatch + "; charset=utf-8", "Application/Merge-Patch+JSON", mergePatch + ";charset=UTF-8"} {
			w.do("PATCH", path, c.key, `{}`, "Content-Type", good).want(t, c.good)
		}
	}
}
