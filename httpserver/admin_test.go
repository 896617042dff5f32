package httpserver

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

const (
	reactorBody = `{"name":"Charge","code":"module.exports = async () => ({})","configuration":{"KEY":"secret"}}`
	proxyBody   = `{"name":"Charge","destination_url":"https://example.com/charges"}`
)

func TestListLogsFilters(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
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

// Entries that a sweep has deleted are in no list and no total.
func TestListLogsEndsWithTheRetention(t *testing.T) {
	t.Parallel()
	v := vaulttest.Open(t, ":memory:", &vault.Config{LogRetention: 30 * 24 * time.Hour})
	w := worldOf(t, v, nil)
	w.create(`{"id":"early","type":"token","data":1}`)
	w.Clock.Advance(24 * time.Hour)
	w.create(`{"id":"late","type":"token","data":1}`)
	w.Clock.Advance(29*24*time.Hour + time.Second)
	seen := func(query string) string {
		t.Helper()
		var page struct {
			Pagination struct {
				Total int `json:"total_items"`
			}
			Data []struct {
				EntityID string `json:"entity_id"`
			}
		}
		res := w.do("GET", "/logs?size=1&entity_type=token"+query, w.ManagementKey, "").want(t, 200)
		must.Do(t, json.Unmarshal([]byte(res.body), &page))
		text := fmt.Sprint(page.Pagination.Total)
		for _, e := range page.Data {
			text += " " + e.EntityID
		}
		return text
	}
	for _, step := range []struct {
		sweep                 bool
		all, early, until2Jan string
	}{
		{false, "2 late", "1 early", "1 early"},
		{true, "1 late", "0", "0"},
	} {
		if step.sweep {
			must.Get(v.Sweep(t.Context()))(t)
		}
		got := []string{seen(""), seen("&entity_id=early"), seen("&end_date=2026-01-02")}
		same(t, fmt.Sprintf("swept: %t", step.sweep), got, []string{step.all, step.early, step.until2Jan})
	}
}

func TestListEntityTypesIsAPlainArray(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	res := w.do("GET", "/logs/entity-types", w.ManagementKey, "").want(t, 200)
	for _, want := range []string{`{"display_name":"Application","value":"application"}`, `"value":"bank"`, `"value":"card"`, `"value":"proxy"`} {
		if !strings.HasPrefix(res.body, "[") || !strings.Contains(res.body, want) {
			t.Errorf("no %s in %s", want, res.body)
		}
	}
}

func TestCreateSessionTakesNoBody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
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

func TestAuthorizeSessionRules(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	nonce := w.do("POST", "/sessions", w.PublicKey, "").want(t, 201).text(t, "nonce")
	for body, status := range map[string]int{
		`{"nonce":"` + nonce + `"}`:                                                                                                  400,
		`{"nonce":"` + nonce + `","permissions":[],"rules":[]}`:                                                                      400,
		`{"permissions":["token:create"]}`:                                                                                           400,
		`{"nonce":"` + nonce + `","permissions":["log:read"]}`:                                                                       400,
		`{"nonce":"` + nonce + `","permissions":["token:create"],"expires_at":"2025-01-01T00:00:00Z"}`:                               400,
		`{"nonce":"` + nonce + `","permissions":["token:create"],"expires_at":"tomorrow"}`:                                           400,
		`{"nonce":"` + nonce + `","rules":[{"priority":1,"container":"/","transform":"reveal","permissions":["token:read"],"x":1}]}`: 400,
		`{"nonce":"doesnotexist","permissions":["token:create"]}`:                                                                    404,
	} {
		w.do("POST", "/sessions/authorize", w.PrivateKey, body).wantError(t, status)
	}
	w.do("POST", "/sessions/authorize", w.PublicKey, `{`).wantError(t, 403)
	w.do("POST", "/sessions", w.PrivateKey, `{`).wantError(t, 403)
	res := w.do("POST", "/sessions/authorize", w.PrivateKey,
		`{"nonce":"`+nonce+`","rules":[{"priority":1,"container":"/","transform":"mask","permissions":["token:read"]}],"expires_at":"2026-01-01T13:00:00Z"}`).want(t, 200)
	same(t, "a body", res.body, "")
}

// A destination that is not a host is a 400. The stored form is in lower case and
// punycode.
func TestDestinationsOfRules(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	body := func(destinations, permissions string) string {
		return `{"name":"Till","type":"private","rules":[{"priority":1,"container":"/","transform":"reveal","permissions":` + permissions + `,"destinations":` + destinations + `}]}`
	}
	refused := func(body, field string) {
		t.Helper()
		fields := w.do("POST", "/applications", w.ManagementKey, body).wantError(t, 400)["errors"].(map[string]any)
		if len(fields) != 1 || fields[field] == nil {
			t.Errorf("%s: %v, want a problem at %s", body, fields, field)
		}
	}
	for _, bad := range []string{`["1.2.3.4"]`, `["127.0.0.1:443"]`, `["[::1]:443"]`, `["a.test/x"]`, `["https://a.test"]`, `["*"]`, `["a.*.test"]`, `["u@a.test"]`, `[""]`} {
		refused(body(bad, `["token:use"]`), "rules[0].destinations[0]")
	}
	refused(body(`[]`, `["token:use"]`), "rules[0].destinations")
	refused(body(`["a.test"]`, `["token:use","token:read"]`), "rules[0].destinations")
	refused(body(`["a.test"`+strings.Repeat(`,"a.test"`, 32)+`]`, `["token:use"]`), "rules[0].destinations")
	till := w.do("POST", "/applications", w.ManagementKey, body(`["api.stripe.com"]`, `["token:use"]`)).want(t, 201).text(t, "key")
	tok := w.do("POST", "/tokens", w.PublicKey, `{"type":"token","data":"a secret text"}`).want(t, 201).text(t, "id")
	for path, text := range map[string]string{"/detokenize": `"{{ ` + tok + ` }}"`, "/proxy": `"{{ ` + tok + ` }}"`} {
		got := w.do("POST", path, till, text, "SVC-PROXY-URL", "https://evil.example", "Content-Type", "application/json").want(t, 403)
		if !strings.Contains(got.body, `"detail":"The use of this token is limited to requests to api.stripe.com."`) {
			t.Errorf("%s: %s", path, got.body)
		}
	}
	id := w.do("POST", "/applications", w.ManagementKey, body(`["API.Stripe.com:443","*.b\u00fccher.example"]`, `["token:use"]`)).want(t, 201).text(t, "id")
	got := w.do("GET", "/applications/"+id, w.ManagementKey, "").want(t, 200)
	if !strings.Contains(got.body, `"destinations":["api.stripe.com","*.xn--bcher-kva.example"]`) {
		t.Errorf("stored as %s", got.body)
	}
	plain := w.do("POST", "/applications", w.ManagementKey, body("null", `["token:use"]`)).want(t, 201)
	if strings.Contains(plain.body, "destinations") {
		t.Errorf("null is a limit: %s", plain.body)
	}
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
			w := newWorld(t, nil)
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
			if res := w.do("PATCH", at, w.ManagementKey, c.patch).want(t, 204); res.body != "" {
				t.Errorf("a body: %s", res.body)
			}
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

func TestListReactorsAndProxiesByNameAndID(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for path, body := range map[string]string{"/reactors": reactorBody, "/proxies": proxyBody} {
		first := w.do("POST", path, w.ManagementKey, strings.Replace(body, "Charge", "First one", 1)).want(t, 201).text(t, "id")
		second := w.do("POST", path, w.ManagementKey, strings.Replace(body, "Charge", "Second_one", 1)).want(t, 201).text(t, "id")
		for query, want := range map[string][]string{
			"":                                  {second, first},
			"id=" + first:                       {first},
			"id=" + first + "&id=" + second:     {second, first},
			"id=" + strings.ToUpper(second):     {second},
			"id=" + uuid.NewString():            {},
			"name=first one":                    {first},
			"name=*ONE":                         {second, first},
			"name=second?one":                   {},
			"name=%":                            {},
			"name=one":                          {},
			"name=s*_*":                         {second},
			"size=1&page=2":                     {first},
			"name=*one&id=" + first + "&size=1": {first},
		} {
			query = strings.NewReplacer(" ", "%20", "%", "%25", "?", "%3F").Replace(query)
			res := w.do("GET", path+"?"+query, w.ManagementKey, "").want(t, 200)
			same(t, path+"?"+query, res.idsOf(t), want)
		}
		w.do("GET", path+"?id=nope", w.ManagementKey, "").wantError(t, 400)
	}
}

func TestApplicationOfReactorsAndProxies(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	app := w.Private.ApplicationID().String()
	with := func(body, id string) string {
		return strings.TrimSuffix(body, "}") + fmt.Sprintf(`,"application":{"id":%q}}`, id)
	}
	reactor := w.do("POST", "/reactors", w.ManagementKey, with(reactorBody, app)).want(t, 201).decode(t)
	if diff := cmp.Diff(map[string]any{"id": app}, reactor["application"]); diff != "" {
		t.Error(diff)
	}
	proxy := w.do("POST", "/proxies", w.ManagementKey, with(proxyBody, app)).want(t, 201)
	same(t, "application_id", proxy.text(t, "application_id"), app)
	for _, bad := range []string{w.Management.ApplicationID().String(), uuid.NewString(), "x"} {
		body := w.do("POST", "/reactors", w.ManagementKey, with(reactorBody, bad)).wantError(t, 400)
		if _, ok := body["errors"].(map[string]any)["application.id"]; !ok {
			t.Errorf("errors: %v", body["errors"])
		}
	}
	at := "/proxies/" + proxy.text(t, "id")
	w.do("PATCH", at, w.ManagementKey, `{"application":null}`).want(t, 204)
	if got := w.do("GET", at, w.ManagementKey, "").decode(t)["application_id"]; got != nil {
		t.Errorf("the application is still %v", got)
	}
}

func TestProxyRequiresAuthByDefaultAndKeepsItsKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	made := w.do("POST", "/proxies", w.ManagementKey, proxyBody).want(t, 201)
	if made.decode(t)["require_auth"] != true {
		t.Errorf("require_auth: %s", made.body)
	}
	replaced := w.do("PUT", "/proxies/"+made.text(t, "id"), w.ManagementKey, proxyBody).want(t, 200)
	same(t, "the key after PUT", replaced.text(t, "key"), made.text(t, "key"))
}

func TestRegenerateUnderAnIdempotencyKeyEndsTheOldKeyAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
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
	w := newWorld(t, nil)
	session := w.do("POST", "/sessions", w.PublicKey, "").want(t, 201).text(t, "session_key")
	for _, key := range []string{w.PublicKey, w.PrivateKey, w.ManagementKey, session} {
		own := w.do("GET", "/applications/key", key, "").want(t, 200)
		if strings.Contains(own.body, `"key"`) {
			t.Errorf("the key is shown again: %s", own.body)
		}
		if res := w.do("GET", "/permissions", key, "").want(t, 200); !strings.HasPrefix(res.body, `[{"type":"token:create"`) {
			t.Errorf("not a plain array: %s", res.body)
		}
	}
	same(t, "a session acts for", w.do("GET", "/applications/key", session, "").text(t, "id"), w.Public.ApplicationID().String())
}

func TestTenantsSelf(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	got := w.do("GET", "/tenants/self", w.ManagementKey, "").want(t, 200).decode(t)
	if diff := cmp.Diff(map[string]any{"deduplicate_tokens": false}, got["settings"]); diff != "" || got["name"] != "Acme" {
		t.Errorf("%v %s", got, diff)
	}
	w.do("PUT", "/tenants/self", w.ManagementKey, `{"name":"Acme 2","settings":{"deduplicate_tokens":true}}`).want(t, 200)
	if a, b := w.create(card), w.create(card); a != b {
		t.Error("the setting has no effect")
	}
	w.do("PUT", "/tenants/self", w.ManagementKey, `{"settings":{}}`).wantError(t, 400)
	w.do("PUT", "/tenants/self", w.PrivateKey, `{`).wantError(t, 403)
}

func TestListApplications(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	id := w.Public.ApplicationID().String()
	res := w.do("GET", "/applications?"+url.Values{"id": {id}}.Encode(), w.ManagementKey, "").want(t, 200)
	if diff := cmp.Diff([]string{id}, res.idsOf(t)); diff != "" || strings.Contains(res.body, `"key"`) {
		t.Errorf("%s\n%s", diff, res.body)
	}
	if res := w.do("GET", "/applications?size=2", w.ManagementKey, "").want(t, 200); len(res.idsOf(t)) != 2 {
		t.Errorf("a page of 2: %s", res.body)
	}
}

// A caller that may change an entity but not read it does not see it in the
// response.
func TestPreferShowsNothingWithoutReadPermission(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	at := w.do("POST", "/proxies", w.ManagementKey,
		`{"name":"x","destination_url":"https://example.com","configuration":{"SECRET":"sk"}}`).want(t, 201).Header.Get("Location")
	for permissions, status := range map[string]int{`["proxy:update"]`: 204, `["proxy:update","proxy:read"]`: 200} {
		key := w.do("POST", "/applications", w.ManagementKey,
			`{"name":"a","type":"management","permissions":`+permissions+`}`).want(t, 201).text(t, "key")
		w.do("PATCH", at, key, `{}`, "Prefer", "return=representation").want(t, status)
		w.do("PATCH", at, key, `{}`, "Prefer", `return=minimal, return=representation`).want(t, 204)
	}
}
