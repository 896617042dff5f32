package httpserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// create creates a token and returns its id.
func (w *world) create(body string) string {
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

func TestTokenizeReplacesATokenRequestByATokenObject(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	body := w.do("POST", "/tokenize", w.PublicKey,
		`{"type":"token","data":"secret-value","metadata":{"a":"b"},"fingerprint_expression":"{{ data }}"}`).want(t, 200).decode(t)
	for field, want := range map[string]any{"type": "token", "data": "XXXXXXXXalue", "fingerprint_expression": "{{ data }}",
		"tenant_id": w.Acme.ID.String(), "created_by": w.Public.ApplicationID().String(), "created_at": "2026-01-01T12:00:00Z"} {
		if body[field] != want {
			t.Errorf("%s is %v, want %v", field, body[field], want)
		}
	}
	if diff := cmp.Diff(map[string]any{"a": "b"}, body["metadata"]); diff != "" {
		t.Error(diff)
	}
}

func TestCreateTokenReturnsMaskedDataAndLocation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	res := w.do("POST", "/tokens", w.PublicKey, `{"id":"my token","type":"token","data":"secret-value"}`).want(t, 201)
	same(t, "Location", res.Header.Get("Location"), "/tokens/my%20token")
	same(t, "data", res.text(t, "data"), "XXXXXXXXalue")
	same(t, "the Location leads to", w.do("GET", res.Header.Get("Location"), w.PrivateKey, "").want(t, 200).text(t, "id"), "my token")
	w.do("POST", "/tokens", w.PublicKey, `{"id":"my token","type":"token","data":"other"}`).wantError(t, 409)
}

// null is the same as absent; an empty string is not.
func TestOptionalTextMustNotBeEmpty(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
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

func TestCreateTokenKeepsNumbersByteForByte(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	_, key := w.NewApplication(t, w.Owner, vault.ApplicationPrivate, []vault.AccessRule{
		{Priority: 1, Container: "/", Transform: vault.TransformReveal, Permissions: []vault.Permission{"token:create", "token:read"}}})
	const data = `{"b":1.10,"a":12345678901234567890,"c":1e400,"d":"<&>"}`
	id := w.do("POST", "/tokens", key, `{"type":"token","data":`+data+`}`).want(t, 201).text(t, "id")
	if res := w.do("GET", "/tokens/"+id, key, "").want(t, 200); !strings.Contains(res.body, data) {
		t.Errorf("data changed: %s", res.body)
	}
}

func TestListTokensFilters(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
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

func TestPaginationOfLists(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.do("POST", "/tokenize", w.PrivateKey, `[`+strings.Repeat(`1,`, 24)+`1]`).want(t, 200)
	for query, want := range map[string]string{
		"":                  `{"total_items":25,"page_number":1,"page_size":20,"total_pages":2}`,
		"?page=2":           `{"total_items":25,"page_number":2,"page_size":20,"total_pages":2}`,
		"?page=3&size=10":   `{"total_items":25,"page_number":3,"page_size":10,"total_pages":3}`,
		"?size=100":         `{"total_items":25,"page_number":1,"page_size":100,"total_pages":1}`,
		"?page=99&size=100": `{"total_items":25,"page_number":99,"page_size":100,"total_pages":1}`,
	} {
		res := w.do("GET", "/tokens"+query, w.PrivateKey, "").want(t, 200)
		if !strings.HasPrefix(res.body, `{"pagination":`+want+`,"data":[`) {
			t.Errorf("%s: %.200s", query, res.body)
		}
	}
}

func TestGetTokenOfAnotherTenantIsTheSame404(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	_, other := w.NewTenant(t, "Other")
	_, key := w.NewApplication(t, other, vault.ApplicationPrivate, nil)
	id := w.create(card)
	theirs := w.do("GET", "/tokens/"+id, key, "")
	theirs.wantError(t, 404)
	if nobodys := w.do("GET", "/tokens/"+uuid.NewString(), key, ""); nobodys.body != theirs.body {
		t.Errorf("the bodies differ:\n%s\n%s", nobodys.body, theirs.body)
	}
}

func TestPatchNeedsTheMergePatchContentType(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
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

func TestDeleteToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	id := w.create(card)
	if res := w.do("DELETE", "/tokens/"+id, w.PrivateKey, "").want(t, 204); res.body != "" {
		t.Errorf("a body: %s", res.body)
	}
	w.do("DELETE", "/tokens/"+id, w.PrivateKey, "").wantError(t, 404)
	w.do("GET", "/tokens/"+id, w.PrivateKey, "").wantError(t, 404)
}

func TestExpiresAtAcceptsTwoFormatsAndReturnsISO8601(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for sent, want := range map[string]string{
		"8/26/2030 7:23:57 PM -07:00": "2030-08-27T02:23:57Z",
		"8/26/2030 7:23:57 PM":        "2030-08-26T19:23:57Z",
		"8/26/2030":                   "2030-08-26T00:00:00Z",
		"2030-08-26T19:23:57+02:00":   "2030-08-26T17:23:57Z",
	} {
		body := fmt.Sprintf(`{"type":"token","data":1,"expires_at":%q}`, sent)
		same(t, sent, w.do("POST", "/tokens", w.PrivateKey, body).want(t, 201).text(t, "expires_at"), want)
	}
	w.do("POST", "/tokens", w.PrivateKey, `{"type":"token","data":1,"expires_at":"1/1/2020"}`).wantError(t, 400)
}

func TestSearchTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.create(`{"id":"first","type":"social_security_number","data":"123-45-6789"}`)
	w.create(`{"id":"second","type":"token","data":"x","metadata":{"user":"Jane"}}`)
	res := w.do("POST", "/tokens/search", w.PrivateKey, `{"query":"data:6789 OR metadata.user:jane","size":1,"page":2}`).want(t, 200)
	same(t, "ids", res.idsOf(t), []string{"first"})
	w.do("GET", "/tokens/search", w.PrivateKey, "").wantError(t, http.StatusMethodNotAllowed)
}

func TestDetokenizeNamesUnknownTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	body := w.do("POST", "/detokenize", w.PrivateKey, `{"a":"{{ no-such-token }}"}`).wantError(t, 400)
	if text := fmt.Sprint(body["errors"]); !strings.Contains(text, "Failed to detokenize some tokens: no-such-token") {
		t.Errorf("errors: %s", text)
	}
	w.do("POST", "/detokenize", w.PublicKey, `{}`).wantError(t, 403)
}

// A 409 about one value of a batch names the value's path.
func TestTakenIDInABatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.create(`{"id":"taken","type":"token","data":1}`)
	res := w.do("POST", "/tokenize", w.PrivateKey, `{"a":[1,{"id":"taken","type":"token","data":2}]}`).want(t, 409).decode(t)
	want := map[string]any{
		"title": "Conflict", "status": 409.0, "detail": "The request has values that are taken; errors lists them.",
		"errors": map[string]any{"a[1].id": []any{"is the id of another token"}},
	}
	same(t, "res", res, want)
}
