package httpserver

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
	"github.com/seed-72ea4aab/vault/storage/postgres"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// malformed is an invalid request.
type malformed struct {
	method, path, body string
	want               int
	field              string // that errors must name, if not empty
}

// malformedBodies are invalid bodies for POST /tokens, by their defect. The tests of
// the root check the rules of each field.
var malformedBodies = map[string]struct{ body, field string }{
	"empty":                       {"", ""},
	"space":                       {" \n ", ""},
	"not JSON":                    {"hello", ""},
	"cut off":                     {`{"type":"token","data":`, ""},
	"cut off in a string":         {`{"type":"tok`, ""},
	"cut off in an escape":        {`{"type":"\u00`, ""},
	"trailing garbage":            {`{"type":"token","data":1} x`, ""},
	"two documents":               {`{"type":"token","data":1}{}`, ""},
	"trailing comma":              {`{"type":"token","data":1,}`, ""},
	"single quotes":               {`{'type':'token'}`, ""},
	"comment":                     {`{"type":"token","data":1 /* x */}`, ""},
	"byte order mark":             {"\ufeff" + `{"type":"token","data":1}`, ""},
	"NaN":                         {`{"type":"token","data":NaN}`, ""},
	"leading zero":                {`{"type":"token","data":01}`, ""},
	"plus sign":                   {`{"type":"token","data":+1}`, ""},
	"bare minus":                  {`{"type":"token","data":-}`, ""},
	"control character in string": {"{\"type\":\"token\",\"data\":\"a\nb\"}", ""},
	"raw NUL":                     {"{\"type\":\"token\",\"data\":\"a\x00b\"}", ""},
	"NUL outside of strings":      {"\x00", ""},
	"invalid UTF-8":               {"{\"type\":\"token\",\"data\":\"\xff\"}", ""},
	"overlong UTF-8":              {"{\"type\":\"token\",\"data\":\"\xc0\xaf\"}", ""},
	"UTF-16":                      {"\xff\xfe{\x00}\x00", ""},
	"bad escape":                  {`{"type":"token","data":"\x"}`, ""},
	"array":                       {`[]`, ""},
	"string":                      {`"token"`, ""},
	"number":                      {`1`, ""},
	"null":                        {`null`, ""},
	"true":                        {`true`, ""},
	"no fields":                   {`{}`, "type"},
	"null data":                   {`{"type":"token","data":null}`, "data"},
	"unknown field":               {`{"type":"token","data":1,"extra":1}`, "extra"},
	"duplicate field":             {`{"type":"token","data":1,"data":2}`, ""},
	"duplicate key in data":       {`{"type":"token","data":{"a":1,"a":2}}`, ""},
	"duplicate key by escape":     {`{"type":"token","data":{"a":1,"\u0061":2}}`, ""},
	"deep nesting":                {`{"type":"token","data":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`, ""},
	"deep nesting, cut off":       {strings.Repeat("[", 1<<20), ""},
	"type of another type":        {`{"type":1,"data":1}`, "type"},
	"unknown type":                {`{"type":"passport","data":1}`, "type"},
	"id of another type":          {`{"id":{},"type":"token","data":1}`, "id"},
	"id with a lone surrogate":    {`{"id":"ab\ud800c","type":"token","data":1}`, "id"},
	"month 1e400":                 {`{"type":"card","data":{"number":"4242424242424242","expiration_month":1e400}}`, "data.expiration_month"},
}

// malformedRequests are all other invalid requests.
var malformedRequests = map[string]malformed{
	"page 0":                    {"GET", "/tokens?page=0", "", 400, "page"},
	"page -1":                   {"GET", "/tokens?page=-1", "", 400, "page"},
	"page x":                    {"GET", "/tokens?page=x", "", 400, "page"},
	"page empty":                {"GET", "/tokens?page=", "", 400, "page"},
	"page 1.5":                  {"GET", "/tokens?page=1.5", "", 400, "page"},
	"page 1e3":                  {"GET", "/tokens?page=1e3", "", 400, "page"},
	"page too large":            {"GET", "/tokens?page=99999999999999999999", "", 400, "page"},
	"page and size":             {"GET", "/tokens?page=x&size=-1", "", 400, "size"},
	"size 0":                    {"GET", "/tokens?size=0", "", 400, "size"},
	"size 101":                  {"GET", "/tokens?size=101", "", 400, "size"},
	"size ٣":                    {"GET", "/tokens?size=%D9%A3", "", 400, "size"},
	"broken escape":             {"GET", "/tokens?type=%zz", "", 400, ""},
	"NUL in id":                 {"GET", "/tokens?id=%00", "", 400, "id"},
	"invalid UTF-8 in id":       {"GET", "/tokens?id=%ff", "", 400, "id"},
	"NUL in type":               {"GET", "/tokens?type=%00", "", 400, "type"},
	"metadata that is no JSON":  {"GET", "/tokens?metadata=x", "", 400, "metadata"},
	"metadata as an array":      {"GET", "/tokens?metadata=[]", "", 400, "metadata"},
	"metadata with a number":    {"GET", "/tokens?metadata=%7B%22a%22:1%7D", "", 400, "metadata"},
	"metadata cut off":          {"GET", "/tokens?metadata=%7B%22a%22:", "", 400, "metadata"},
	"metadata with garbage":     {"GET", "/tokens?metadata=%7B%7Dx", "", 400, "metadata"},
	"too many ids":              {"GET", "/tokens?id=x" + strings.Repeat("&id=x", 1000), "", 400, ""},
	"too many parameters":       {"GET", "/tokens?a" + strings.Repeat("&a", 3000), "", 400, ""},
	"invalid start date":        {"GET", "/logs?start_date=yesterday", "", 400, "start_date"},
	"invalid end date":          {"GET", "/logs?end_date=2026-13-01", "", 400, "end_date"},
	"date as a number":          {"GET", "/logs?end_date=1767225600", "", 400, "end_date"},
	"NUL in entity id":          {"GET", "/logs?entity_id=%00", "", 400, "entity_id"},
	"NUL in entity type":        {"GET", "/logs?entity_type=%00", "", 400, "entity_type"},
	"NUL in name":               {"GET", "/reactors?name=%00", "", 400, "name"},
	"id that is no UUID":        {"GET", "/proxies?id=x", "", 400, "id"},
	"actor that is no UUID":     {"GET", "/logs?actor_id=x", "", 400, "actor_id"},
	"NUL in a path":             {"GET", "/tokens/%00", "", 404, ""},
	"invalid UTF-8 in a path":   {"GET", "/tokens/%ff%fe", "", 404, ""},
	"NUL in a deleted path":     {"DELETE", "/tokens/%00", "", 404, ""},
	"NUL in a patched path":     {"PATCH", "/tokens/%00", "{}", 404, ""},
	"long path":                 {"GET", "/tokens/" + strings.Repeat("x", 1<<16), "", 404, ""},
	"patch that is an array":    {"PATCH", "/tokens/existing", "[]", 400, ""},
	"patch of data to null":     {"PATCH", "/tokens/existing", `{"data":null}`, 400, "data"},
	"patch of the id":           {"PATCH", "/tokens/existing", `{"id":"other"}`, 400, "id"},
	"patch of the type":         {"PATCH", "/tokens/existing", `{"type":"card"}`, 400, "type"},
	"patch of metadata":         {"PATCH", "/tokens/existing", `{"metadata":{"a":1}}`, 400, "metadata.a"},
	"patch with duplicates":     {"PATCH", "/tokens/existing", `{"data":1,"data":2}`, 400, ""},
	"empty patch":               {"PATCH", "/tokens/existing", ``, 400, ""},
	"search without a query":    {"POST", "/tokens/search", `{}`, 400, "query"},
	"search with a bad query":   {"POST", "/tokens/search", `{"query":"type:"}`, 400, "query"},
	"search for a NUL":          {"POST", "/tokens/search", `{"query":"id:\"a\u0000b\""}`, 400, "query"},
	"search with page 0":        {"POST", "/tokens/search", `{"query":"type:card","page":0}`, 400, "page"},
	"search with a huge page":   {"POST", "/tokens/search", `{"query":"type:card","page":1e400}`, 400, "page"},
	"search with unknown":       {"POST", "/tokens/search", `{"query":"type:card","x":1}`, 400, "x"},
	"search deeply nested":      {"POST", "/tokens/search", `{"query":"` + strings.Repeat("(", 10000) + `"}`, 400, "query"},
	"tokenize without JSON":     {"POST", "/tokenize", `{`, 400, ""},
	"tokenize a bad request":    {"POST", "/tokenize", `{"a":{"type":"nope","data":1}}`, 400, "a.type"},
	"tokenize unknown field":    {"POST", "/tokenize", `[{"type":"token","data":1,"x":2}]`, 400, "[0].x"},
	"tokenize deeply":           {"POST", "/tokenize", strings.Repeat("[", 100000), 400, ""},
	"detokenize bad syntax":     {"POST", "/detokenize", `"{{ | }}"`, 400, ""},
	"detokenize unclosed":       {"POST", "/detokenize", `{"a":"{{ x"}`, 400, "a"},
	"detokenize a NUL":          {"POST", "/detokenize", `{"a":"{{ ab\u0000c }}"}`, 400, "a"},
	"reactor without a name":    {"POST", "/reactors", `{"code":"x","configuration":{}}`, 400, "name"},
	"reactor with NUL in name":  {"POST", "/reactors", `{"name":"a\u0000","code":"x","configuration":{}}`, 400, "name"},
	"reactor configuration":     {"POST", "/reactors", `{"name":"a","code":"x","configuration":{"a":{}}}`, 400, "configuration.a"},
	"proxy without a URL":       {"POST", "/proxies", `{"name":"a"}`, 400, "destination_url"},
	"proxy with a bad URL":      {"POST", "/proxies", `{"name":"a","destination_url":"ftp://x"}`, 400, "destination_url"},
	"proxy without code":        {"POST", "/proxies", `{"name":"a","destination_url":"https://example.com","request_transform":{}}`, 400, "request_transform.code"},
	"application without right": {"POST", "/applications", `{"name":"a","type":"private"}`, 400, ""},
	"application of no type":    {"POST", "/applications", `{"name":"a","type":"root","permissions":["token:create"]}`, 400, "type"},
	"application over its type": {"POST", "/applications", `{"name":"a","type":"public","permissions":["token:read"]}`, 400, "permissions[0]"},
	"session with a body":       {"POST", "/sessions", `{"x":1}`, 400, "x"},
	"session with garbage":      {"POST", "/sessions", `garbage`, 400, ""},
	"grant without a nonce":     {"POST", "/sessions/authorize", `{"permissions":["token:create"]}`, 400, "nonce"},
	"tenant settings":           {"PUT", "/tenants/self", `{"name":"a","settings":{"deduplicate_tokens":"yes"}}`, 400, "settings.deduplicate_tokens"},
	"tenant unknown setting":    {"PUT", "/tenants/self", `{"name":"a","settings":{"x":true}}`, 400, "settings.x"},
	"oversized body":            {"POST", "/tokens", `{"type":"token","data":"` + strings.Repeat("x", 5<<20) + `"}`, 413, ""},
	"oversized garbage":         {"POST", "/tokenize", strings.Repeat("[", 5<<20+1), 413, ""},
	"oversized patch":           {"PATCH", "/tokens/existing", strings.Repeat(" ", 5<<20+1), 413, ""},
}

func TestMalformedRequestsGetA4xxAndChangeNothing(t *testing.T) {
	t.Parallel()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		newRestVault(t, nil).sendMalformed(t)
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		store := must.Get(postgres.Open(t.Context(), pgtest.URL(t)))(t)
		restVaultOf(t, vaulttest.OpenStorage(t, store, nil), nil).sendMalformed(t)
	})
}

// sendMalformed sends all malformed requests.
func (w *restVault) sendMalformed(t *testing.T) {
	w.create(`{"id":"existing","type":"token","data":{"a":"b"}}`)
	before := w.state()
	all := map[string]malformed{}
	for name, c := range malformedBodies {
		all["create: "+name] = malformed{"POST", "/tokens", c.body, 400, c.field}
	}
	for name, c := range malformedRequests {
		all[name] = c
	}
	for name, c := range all {
		res := w.do(c.method, c.path, w.keyFor(c.method, c.path), c.body)
		if res.StatusCode != c.want {
			t.Errorf("%s: status %d, want %d: %.300s", name, res.StatusCode, c.want, res.body)
			continue
		}
		fields, _ := res.wantError(t, c.want)["errors"].(map[string]any)
		if _, ok := fields[c.field]; c.want == 400 && c.field != "" && !ok {
			t.Errorf("%s: errors do not name %s: %.300s", name, c.field, res.body)
		}
		if len(res.body) > 3000 {
			t.Errorf("%s: an error of %d bytes", name, len(res.body))
		}
	}
	same(t, "state", w.state(), before)
}

// keyFor returns the key that may call a path.
func (w *restVault) keyFor(method, path string) string {
	r := httptest.NewRequest("GET", "/", nil)
	r.URL.Path = strings.TrimSuffix(strings.SplitN(path, "?", 2)[0], "/")
	_, pattern := patterns().Handler(r)
	for _, rt := range (&handler{}).table() {
		if rt.method != method || rt.path != pattern {
			continue
		}
		switch {
		case strings.HasPrefix(rt.permission(), "token:"), rt.permission() == "session:authorize":
			return w.PrivateKey
		case rt.permission() == "session:create":
			return w.PublicKey
		}
	}
	return w.ManagementKey
}

// state returns a fingerprint of everything that requests could have changed.
// Every change leaves an entry in the log.
func (w *restVault) state() string {
	w.t.Helper()
	var page struct {
		Data []struct{ Operation, Message string } `json:"data"`
	}
	changes := 0
	for number := 1; ; number++ {
		res := w.do("GET", fmt.Sprintf("/logs?size=100&page=%d", number), w.ManagementKey, "").want(w.t, 200)
		page.Data = nil
		must.Do(w.t, json.Unmarshal([]byte(res.body), &page))
		if len(page.Data) == 0 {
			return fmt.Sprintf("%d changes", changes)
		}
		for _, e := range page.Data {
			if e.Operation != "read" && e.Operation != "use" {
				changes++
			}
		}
	}
}

// A null field is the same as an absent field, and in a patch it removes the
// field. But a field that the object cannot have is an error even if it is
// null.
func TestUnknownFieldsAreRefusedEvenIfNull(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, nil)
	card := "/tokens/" + w.create(`{"type":"card","data":{"number":"4242424242424242"}}`)
	own := w.do("GET", "/applications/key", w.PrivateKey, "").text(t, "id")
	at := func(path, body string) string {
		return w.do("POST", path, w.ManagementKey, body).want(t, 201).Header.Get("Location")
	}
	reactor := at("/reactors", `{"name":"r","code":"module.exports = () => 1","configuration":{},"application":{"id":"`+own+`"}}`)
	proxy := at("/proxies", `{"name":"p","destination_url":"https://a.example","application":{"id":"`+own+`"}}`)
	for _, c := range []struct{ method, path, key, body, field string }{
		{"POST", "/tokens", w.PrivateKey, `{"type":"token","data":"x","nope":null}`, "nope"},
		{"POST", "/tokens", w.PrivateKey, `{"type":"card","data":{"number":"4242424242424242","nope":null}}`, "data.nope"},
		{"POST", "/tokenize", w.PrivateKey, `[{"type":"bank","data":{"routing_number":"110000000","account_number":"1","nope":null}}]`, "[0].data.nope"},
		{"PATCH", card, w.PrivateKey, `{"nope":null}`, "nope"},
		{"PATCH", card, w.PrivateKey, `{"data":{"nope":null}}`, "data.nope"},
		{"PATCH", reactor, w.ManagementKey, `{"nope":null}`, "nope"},
		{"PATCH", reactor, w.ManagementKey, `{"application":{"nope":null}}`, "application.nope"},
		{"PATCH", reactor, w.ManagementKey, `{"application_id":null}`, "application_id"},
		{"PATCH", proxy, w.ManagementKey, `{"nope":null,"name":"new"}`, "nope"},
		{"PATCH", "/proxies/" + own, w.ManagementKey, `{"nope":null}`, "nope"},
		{"PATCH", "/applications/" + own, w.ManagementKey, `{"nope":null}`, "nope"},
		{"PUT", "/tenants/self", w.ManagementKey, `{"name":"x","settings":{"nope":null}}`, "settings.nope"},
		{"POST", "/sessions", w.PublicKey, `{"nope":null}`, "nope"},
	} {
		fields := w.do(c.method, c.path, c.key, c.body).wantError(t, 400)["errors"].(map[string]any)
		same(t, c.method+" "+c.path+" "+c.body, fields, map[string]any{c.field: []any{"is not a field of this object"}})
	}
	w.do("PATCH", reactor, w.ManagementKey, `{"configuration":{"unset":null},"application":null}`).want(t, 204)
}

func TestErrorsNeverRepeatAValue(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, nil)
	secret := "s3cr3t-" + uuid.NewString()
	for _, c := range []malformed{
		{"POST", "/tokens", `{"type":"` + secret + `","data":1}`, 400, ""},
		{"POST", "/tokens", `{"type":"card","data":{"number":"` + secret + `","cvc":"` + secret + `"}}`, 400, ""},
		{"POST", "/tokens", `{"type":"token","data":"` + secret + `","mask":"{{ data | ` + secret + ` }}"}`, 400, ""},
		{"POST", "/tokens", `{"type":"token","data":"` + secret + `","id":"` + secret + `"}`, 400, ""},
		{"POST", "/tokens", `{"type":"token","data":1,"expires_at":"` + secret + `"}`, 400, ""},
		{"POST", "/tokens", `{"type":"token","data":1,"containers":["` + secret + `"]}`, 400, ""},
		{"POST", "/tokens", `{"type":"token","data":` + secret + `}`, 400, ""},
		{"POST", "/tokens/search", `{"query":"` + secret + `"}`, 400, ""},
		{"POST", "/proxies", `{"name":"a","destination_url":"` + secret + `"}`, 400, ""},
		{"POST", "/applications", `{"name":"a","type":"private","permissions":["` + secret + `"]}`, 400, ""},
		{"GET", "/logs?start_date=" + secret, "", 400, ""},
		{"GET", "/tokens?page=" + secret, "", 400, ""},
		{"GET", "/tokens/" + secret, "", 404, ""},
	} {
		res := w.do(c.method, c.path, w.keyFor(c.method, c.path), c.body)
		res.wantError(t, c.want)
		res.lacks(t, secret)
	}
}

func TestAnErrorAboutThousandsOfFieldsIsShort(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, nil)
	var b strings.Builder
	b.WriteString(`{"type":"token","data":1`)
	for i := range 50_000 {
		fmt.Fprintf(&b, `,"unknown-%d":1`, i)
	}
	b.WriteString(`,"` + strings.Repeat("long", 100_000) + `":1}`)
	if res := w.do("POST", "/tokens", w.PrivateKey, b.String()); res.StatusCode != 400 || len(res.body) > 20_000 {
		t.Errorf("status %d, %d bytes", res.StatusCode, len(res.body))
	}
}
