package httpserver

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// entities returns bodies that create one entity of each kind, by path.
func entities(t *testing.T, w *restVault) map[string]string {
	t.Helper()
	own := w.do("GET", "/applications/key", w.PrivateKey, "").text(t, "id")
	at := func(path, body string) string {
		return w.do("POST", path, w.ManagementKey, body).want(t, 201).Header.Get("Location")
	}
	return map[string]string{
		"reactor": at("/reactors", `{"name":"r","code":"module.exports = () => 1","configuration":{"k":"v"},"application":{"id":"`+own+`"}}`),
		"proxy": at("/proxies", `{"name":"p","destination_url":"https://a.example","configuration":{"k":"v"},"require_auth":false,
			"request_transform":{"code":"module.exports = (req) => req.args"},"application":{"id":"`+own+`"}}`),
		"application": at("/applications", `{"name":"a","type":"private","permissions":["token:read"],"expires_at":"2100-01-01T00:00:00Z"}`),
		"tenant":      "/tenants/self",
	}
}

// The body of a GET can be changed and sent back.
func TestGetChangePutBack(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, nil)
	for name, path := range entities(t, w) {
		methods := []string{"PUT", "PATCH"}
		if name == "tenant" {
			methods = methods[:1]
		}
		for _, method := range methods {
			shown := w.do("GET", path, w.ManagementKey, "").want(t, 200).decode(t)
			shown["name"] = "changed by " + method
			body := must.Get(json.Marshal(shown))(t)
			if status := w.do(method, path, w.ManagementKey, string(body)).StatusCode; status != 200 && status != 204 {
				t.Errorf("%s with the body of GET, %s: status %d", method, name, status)
			}
			now := w.do("GET", path, w.ManagementKey, "").want(t, 200).decode(t)
			for _, changing := range []map[string]any{shown, now} {
				delete(changing, "modified_at")
				delete(changing, "modified_by")
			}
			same(t, method+" of a "+name, now, shown)
		}
	}
}

// Values of read-only fields are ignored, whatever they are. Other unknown
// fields are still rejected.
func TestReadOnlyFieldsChangeNothing(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, nil)
	readOnly := map[string]any{
		"id": "00000000-0000-0000-0000-000000000000", "tenant_id": 1, "created_by": nil, "created_at": "never",
		"modified_by": []any{}, "modified_at": true, "key": "mine", "webhook_secret": "mine",
	}
	for name, path := range entities(t, w) {
		shown := w.do("GET", path, w.ManagementKey, "").want(t, 200).decode(t)
		body := maps.Clone(shown)
		maps.Copy(body, readOnly)
		text, err := json.Marshal(body)
		must.Do(t, err)
		w.do("PUT", path, w.ManagementKey, string(text)).want(t, 200)
		now := w.do("GET", path, w.ManagementKey, "").want(t, 200).decode(t)
		for field := range readOnly {
			if field == "modified_at" || field == "modified_by" {
				continue
			}
			same(t, field+" of a "+name, now[field], shown[field])
		}
		body["nope"] = 1
		if text, err = json.Marshal(body); err != nil {
			t.Fatal(err)
		}
		fields := w.do("PUT", path, w.ManagementKey, string(text)).wantError(t, 400)["errors"]
		must.Same(t, name, map[string]any{"nope": []any{"is not a field of this object"}}, fields)
	}
	w.do("POST", "/applications", w.ManagementKey, `{"id":null,"name":"a","type":"private","permissions":["token:read"]}`).wantError(t, 400)
	w.do("PUT", "/tenants/self", w.ManagementKey, `{"name":"a","name":"b","id":1}`).wantError(t, 400)
	w.do("PUT", "/tenants/self", w.ManagementKey, `{"name":"a","id":1,"id":2}`).wantError(t, 400)
	w.do("PUT", "/tenants/self", w.ManagementKey, `[]`).wantError(t, 400)
}

// A proxy shows application_id, and accepts it in a change.
func TestApplicationIDOfProxy(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, nil)
	one := w.do("GET", "/applications/key", w.PrivateKey, "").text(t, "id")
	two := w.do("GET", "/applications/key", w.PublicKey, "").text(t, "id")
	path := entities(t, w)["proxy"]
	const rest = `"name":"p","destination_url":"https://a.example"`
	for _, c := range []struct {
		method, body string
		want         any // the application afterwards, or the status
	}{
		{"PUT", `{` + rest + `,"application_id":"` + two + `"}`, two},
		{"PATCH", `{"application_id":"` + one + `"}`, one},
		{"PATCH", `{"application_id":"` + two + `","application":{"id":"` + two + `"}}`, two},
		{"PATCH", `{"name":"other"}`, two},
		{"PATCH", `{"application_id":null}`, nil},
		{"PUT", `{` + rest + `,"application_id":null,"application":{"id":"` + one + `"}}`, one},
		{"PUT", `{` + rest + `,"application_id":"` + two + `","application":null}`, two},
		{"PUT", `{` + rest + `}`, nil},
		{"PUT", `{` + rest + `,"application_id":"` + one + `","application":{"id":"` + two + `"}}`, 400},
		{"PATCH", `{"application_id":"` + one + `","application":{"id":"` + two + `"}}`, 400},
		{"PATCH", `{"application_id":null,"application":{"id":"` + two + `"}}`, 400},
		{"PATCH", `{"application_id":"` + w.Acme.ID.String() + `"}`, 400},
	} {
		res := w.do(c.method, path, w.ManagementKey, c.body)
		if c.want == 400 {
			res.wantError(t, 400)
			continue
		}
		if res.StatusCode >= 300 {
			t.Errorf("%s %s: %s", c.method, c.body, res.body)
		}
		got := w.do("GET", path, w.ManagementKey, "").want(t, 200).decode(t)["application_id"]
		if got != c.want {
			t.Errorf("%s %s: application_id %v, want %v", c.method, c.body, got, c.want)
		}
	}
	w.do("POST", "/proxies", w.ManagementKey, `{`+rest+`,"application_id":"`+one+`"}`).wantError(t, 400)
}

// TestPutApplicationWithoutType keeps the type, and checks the permissions
// that the type may have.
func TestPutApplicationWithoutType(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, nil)
	path := entities(t, w)["application"]
	res := w.do("PUT", path, w.ManagementKey, `{"name":"b","permissions":["token:use"]}`).want(t, 200).decode(t)
	if res["type"] != "private" || res["name"] != "b" || res["expires_at"] != nil {
		t.Errorf("%v", res)
	}
	for body, field := range map[string]string{
		`{"name":"b","permissions":["log:read"]}`: "permissions[0]",
		`{"name":"","permissions":["token:use"]}`: "name",
		`{"name":"b"}`: "permissions",
		`{"name":"b","type":"public","permissions":["token:create"]}`:   "type",
		`{"name":"b","type":"","permissions":["log:read","token:use"]}`: "permissions[0]",
	} {
		w.do("PUT", path, w.ManagementKey, body).wantFields(t, field)
	}
	w.do("PUT", "/applications/"+w.Acme.ID.String(), w.ManagementKey, `{"name":"","permissions":[]}`).wantError(t, 400)
	w.do("PUT", "/applications/"+w.Acme.ID.String(), w.ManagementKey, `{"name":"b","permissions":["token:use"]}`).wantError(t, 404)
}

// Settings may be strings, as other clients send them.
func TestSettingsAsText(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, nil)
	for _, c := range []struct {
		value string
		want  any
	}{{`"true"`, true}, {`"false"`, false}, {`true`, true}, {`null`, false}} {
		res := w.do("PUT", "/tenants/self", w.ManagementKey, `{"name":"t","settings":{"deduplicate_tokens":`+c.value+`}}`).want(t, 200).decode(t)
		if got := res["settings"].(map[string]any)["deduplicate_tokens"]; got != c.want {
			t.Errorf("%s: %v", c.value, got)
		}
	}
	for _, value := range []string{`"TRUE"`, `"yes"`, `1`, `""`} {
		w.do("PUT", "/tenants/self", w.ManagementKey, `{"name":"t","settings":{"deduplicate_tokens":`+value+`}}`).wantError(t, 400)
	}
}
