package httpserver

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

const (
	reactorBody = `{"name":"Charge","code":"module.exports = async () => ({})","configuration":{"KEY":"secret"}}`
	proxyBody   = `{"name":"Charge","destination_url":"https://example.com/charges"}`
)

func TestListLogsFilters(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, nil)
	w.create(`{"id":"early","type":"token","data":1}`) // at 12:00
	w.Clock.Advance(time.Hour)
	w.create(`{"id":"late","type":"card_number","data":"4242424242424242"}`) // at 13:00
	total := func(query string) string {
		res := w.do("GET", "/logs?operation=create&"+query, w.ManagementKey, "").want(t, 200)
		var page struct {
			Data []struct {
				EntityID string `json:"entity_id"`
			}
		}
		must.Do(t, json.Unmarshal([]byte(res.body), &page))
		var ids []string
		for _, e := range page.Data {
			if e.EntityID == "early" || e.EntityID == "late" {
				ids = append(ids, e.EntityID)
			}
		}
		return strings.Join(ids, " ")
	}
	for query, want := range map[string]string{
		"":                                             "late early",
		"entity_type=token":                            "early",
		"entity_type=card":                             "",
		"entity_id=late":                               "late",
		"start_date=2026-01-01":                        "late early",
		"start_date=2026-01-02":                        "",
		"end_date=2026-01-01":                          "",
		"end_date=0001-01-01":                          "",
		"end_date=2026-01-02":                          "late early",
		"start_date=":                                  "late early",
		"start_date=2026-01-01T13:00:00Z":              "late",
		"start_date=2026-01-01t13:00:00z":              "late",
		"start_date=2026-01-01T14:00:00%2B01":          "late",
		"start_date=20260101T130000Z":                  "late",
		"start_date=20260101&end_date=20260101T123000": "early",
		"end_date=2026-01-01T13:00:00Z":                "early",
		"start_date=2026-01-01T12:00:00.000001Z":       "late",
		"start_date=2026-01-01T14:00:00%2B01:00":       "late",
		"start_date=2026-01-01T14:00:00+01:00":         "late",
		"start_date=2026-01-01T13:00&end_date=2027-01-01T00:00:00": "late",
	} {
		same(t, query, total(query), want)
	}
}

func TestCreateSessionTakesNoBody(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, nil)
	app := "/applications/" + w.Private.ApplicationID().String() + "/regenerate"
	for path, c := range map[string]struct {
		key  string
		good int
	}{"/sessions": {w.PublicKey, 201}, app: {w.ManagementKey, 200}} {
		for _, contentType := range []string{"", "application/json", "text/plain", "application/x-www-form-urlencoded", "!"} {
			w.do("POST", path, c.key, "", "Content-Type", contentType).want(t, c.good)
			w.do("POST", path, c.key, " \n", "Content-Type", contentType).want(t, c.good)
		}
		w.do("POST", path, c.key, `{}`).want(t, c.good)
		w.do("POST", path, c.key, `null`).want(t, c.good)
		body := w.do("POST", path, c.key, `{"name":1}`).wantError(t, 400)
		if _, ok := body["errors"].(map[string]any)["name"]; !ok {
			t.Errorf("errors do not name the field: %v", body)
		}
		w.do("POST", path, c.key, `[]`).wantError(t, 400)
	}
	res := w.do("POST", "/sessions", w.PublicKey, "")
	if got := res.text(t, "expires_at"); got != "2026-01-01T12:03:00Z" || res.Header.Get("Location") == "" {
		t.Errorf("expires_at %s, Location %q", got, res.Header.Get("Location"))
	}
}

// A destination that is not a host is a 400. The stored form is in lower case and
// punycode.
func TestDestinationsOfRules(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, nil)
	body := func(destinations, permissions string) string {
		return `{"name":"Till","type":"private","rules":[{"priority":1,"container":"/","transform":"reveal","permissions":` + permissions + `,"destinations":` + destinations + `}]}`
	}
	refused := func(body, field string) {
		t.Helper()
		w.do("POST", "/applications", w.ManagementKey, body).wantFields(t, field)
	}
	for _, bad := range []string{`["1.2.3.4"]`, `["127.0.0.1:443"]`, `["[::1]:443"]`, `["a.test/x//y"]`, `["get a.test/x"]`, `["https://a.test"]`, `["*"]`, `["a.*.test"]`, `["u@a.test"]`, `[""]`} {
		refused(body(bad, `["token:use"]`), "rules[0].destinations[0]")
	}
	refused(body(`[]`, `["token:use"]`), "rules[0].destinations")
	refused(body(`["a.test"]`, `["token:use","token:read"]`), "rules[0].destinations")
	refused(body(`["a.test"`+strings.Repeat(`,"a.test"`, 32)+`]`, `["token:use"]`), "rules[0].destinations")
	till := w.do("POST", "/applications", w.ManagementKey, body(`["api.stripe.com"]`, `["token:use"]`)).want(t, 201).text(t, "key")
	tok := w.do("POST", "/tokens", w.PublicKey, `{"type":"token","data":"a secret text"}`).want(t, 201).text(t, "id")
	for path, text := range map[string]string{"/detokenize": `"{{ ` + tok + ` }}"`, "/proxy": `"{{ ` + tok + ` }}"`} {
		got := w.do("POST", path, till, text, "SVC-PROXY-URL", "https://evil.example", "Content-Type", "application/json").want(t, 403)
		got.has(t, `"detail":"The use of this token is limited to requests to api.stripe.com."`)
	}
	id := w.do("POST", "/applications", w.ManagementKey, body(`["API.Stripe.com:443","*.b\u00fccher.example"]`, `["token:use"]`)).want(t, 201).text(t, "id")
	got := w.do("GET", "/applications/"+id, w.ManagementKey, "").want(t, 200)
	got.has(t, `"destinations":["api.stripe.com","*.xn--bcher-kva.example"]`)
	w.do("POST", "/applications", w.ManagementKey, body("null", `["token:use"]`)).want(t, 201).lacks(t, "destinations")
	nonce := w.do("POST", "/sessions", w.PublicKey, "").want(t, 201).text(t, "nonce")
	w.do("POST", "/sessions/authorize", w.PrivateKey, `{"nonce":"`+nonce+`","rules":[{"priority":1,"container":"/","transform":"reveal","permissions":["token:use"],"destinations":["a.test"]}]}`).want(t, 200)
}

// TestAdministration creates, reads, changes and deletes a reactor, a proxy
// and an application in the same way.
func TestAdministration(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ path, body, changed, patch, field, patched string }{
		"reactor": {"/reactors", reactorBody, `{"name":"New","code":"module.exports = () => 1","configuration":{}}`,
			`{"code":"exports.default = () => 2"}`, "code", "exports.default = () => 2"},
		"proxy": {"/proxies", proxyBody, `{"name":"New","destination_url":"https://example.com/other","require_auth":false}`,
			`{"destination_url":"https://example.com/patched"}`, "destination_url", "https://example.com/patched"},
		"application": {"/applications", `{"name":"Shop","type":"public","permissions":["token:create"]}`,
			`{"name":"New","type":"public","permissions":["token:update"]}`, `{"name":"Patched"}`, "name", "Patched"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRestVault(t, nil)
			made := w.do("POST", c.path, w.ManagementKey, c.body).want(t, 201)
			at := c.path + "/" + made.text(t, "id")
			same(t, "Location", made.Header.Get("Location"), at)
			read := w.do("GET", at, w.ManagementKey, "").want(t, 200).decode(t)
			created := made.decode(t)
			if name == "application" {
				delete(created, "key") // the key is shown only once
			}
			same(t, "what GET shows", read, created)
			replaced := w.do("PUT", at, w.ManagementKey, c.changed).want(t, 200)
			if replaced.text(t, "name") != "New" || replaced.text(t, "modified_at") == "" {
				t.Errorf("after PUT: %s", replaced.body)
			}
			same(t, "a body", w.do("PATCH", at, w.ManagementKey, c.patch).want(t, 204).body, "")
			same(t, "after PATCH "+c.field, w.do("GET", at, w.ManagementKey, "").text(t, c.field), c.patched)
			shown := w.do("PATCH", at, w.ManagementKey, c.patch, "Prefer", "wait=1, Return=Representation").want(t, 200)
			same(t, "what PATCH shows", shown.decode(t), w.do("GET", at, w.ManagementKey, "").decode(t))
			w.do("PUT", at, w.ManagementKey, `{"name":"x"}`).wantError(t, 400)
			w.do("PATCH", at, w.ManagementKey, `{"nope":1}`).wantError(t, 400)
			w.do("DELETE", at, w.ManagementKey, "").want(t, 204)
			for _, method := range []string{"GET", "DELETE"} {
				w.do(method, at, w.ManagementKey, "").wantError(t, 404)
			}
			w.do("PUT", at, w.ManagementKey, c.changed).wantError(t, 404)
			w.do("PATCH", at, w.ManagementKey, c.patch).wantError(t, 404)
			for _, id := range []string{"nope", "00000000-0000-0000-0000-000000000000", "%00", uuid.NewString(), "urn:uuid:" + uuid.NewString()} {
				w.do("GET", c.path+"/"+id, w.ManagementKey, "").wantError(t, 404)
			}
		})
	}
}

func TestRegenerateUnderAnIdempotencyKeyEndsTheOldKeyAtOnce(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, nil)
	w.do("GET", "/tokens", w.PrivateKey, "").want(t, 200)
	path := "/applications/" + w.Private.ApplicationID().String() + "/regenerate"
	first := w.do("POST", path, w.ManagementKey, "", "SVC-IDEMPOTENCY-KEY", "k").want(t, 200)
	w.do("GET", "/tokens", w.PrivateKey, "").wantError(t, 401)
	again := w.do("POST", path, w.ManagementKey, "", "SVC-IDEMPOTENCY-KEY", "k").want(t, 200)
	same(t, "the replay", again.body, first.body)
	w.do("GET", "/tokens", again.text(t, "key"), "").want(t, 200)
}

func TestOwnApplicationAndPermissionsNeedNoPermission(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, nil)
	session := w.do("POST", "/sessions", w.PublicKey, "").want(t, 201).text(t, "session_key")
	for _, key := range []string{w.PublicKey, w.PrivateKey, w.ManagementKey, session} {
		w.do("GET", "/applications/key", key, "").want(t, 200).lacks(t, `"key"`)
		if res := w.do("GET", "/permissions", key, "").want(t, 200); !strings.HasPrefix(res.body, `[{"type":"token:create"`) {
			t.Errorf("not a plain array: %s", res.body)
		}
	}
	same(t, "a session acts for", w.do("GET", "/applications/key", session, "").text(t, "id"), w.Public.ApplicationID().String())
}

// A caller that may change an entity but not read it does not see it in the
// response.
func TestPreferShowsNothingWithoutReadPermission(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, nil)
	at := w.do("POST", "/proxies", w.ManagementKey,
		`{"name":"x","destination_url":"https://example.com","configuration":{"SECRET":"sk"}}`).want(t, 201).Header.Get("Location")
	for permissions, status := range map[string]int{`["proxy:update"]`: 204, `["proxy:update","proxy:read"]`: 200} {
		key := w.do("POST", "/applications", w.ManagementKey,
			`{"name":"a","type":"management","permissions":`+permissions+`}`).want(t, 201).text(t, "key")
		w.do("PATCH", at, key, `{}`, "Prefer", "return=representation").want(t, status)
		w.do("PATCH", at, key, `{}`, "Prefer", `return=minimal, return=representation`).want(t, 204)
	}
}
