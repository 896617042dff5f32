package httpserver

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// TestOpenAPIHasTheRoutesOfTheTable compares both, and fails if one has a
// route, a status or a parameter that the other lacks.
func TestOpenAPIHasTheRoutesOfTheTable(t *testing.T) {
	t.Parallel()
	doc := theDocument(t)
	described := map[string]*openapi3.Operation{}
	for path, item := range doc.Paths.Map() {
		if path == proxyPath || strings.HasPrefix(path, proxyPath+"/") {
			continue // it takes every method and is not in the table
		}
		for method, op := range item.Operations() {
			described[method+" "+path] = op
		}
	}
	for _, rt := range (&handler{}).table() {
		name := rt.method + " " + rt.path
		op := described[name]
		if op == nil {
			t.Errorf("openapi.json lacks %s", name)
			continue
		}
		delete(described, name)
		same(t, name+": statuses", statusesOf(t, op), rt.statuses())
		same(t, name+": parameters", parametersOf(op), rt.parameters())
		same(t, name+": open to all", op.Security != nil && len(*op.Security) == 0, rt.open)
		if p := rt.permission(); strings.Contains(p, ":") && !strings.HasPrefix(p, "session:") && !strings.Contains(op.Description, p) {
			t.Errorf("%s: the description does not name %s", name, rt.permission())
		}
		checkRequestBody(t, name, &rt, op)
	}
	for name := range described {
		t.Errorf("the table lacks %s", name)
	}
}

// statuses returns the statuses that a route can respond with.
func (rt *route) statuses() []int {
	all := map[int]bool{rt.status: true, 500: true}
	add := func(when bool, statuses ...int) {
		for _, s := range statuses {
			all[s] = all[s] || when
		}
	}
	add(!rt.open, 401, 429, 503)
	add(rt.permission() != "", 403)
	add(rt.takes == patchBody, 415)
	add(rt.silent, 200)
	add(rt.takes != noBody, 400, 408, 413)
	add(rt.lists, 400)
	add(rt.evidence, 404)
	add(rt.reads && !rt.open, 413)
	add(rt.once(), 400, 409)
	add(strings.Contains(rt.path, "{id}") || rt.path == "/sessions/authorize" || rt.path == "/permissions/explain", 404)
	code := strings.HasPrefix(rt.path, "/reactors") || strings.HasPrefix(rt.path, "/proxies")
	add(code && rt.takes != noBody, 422)
	add(rt.path == "/readyz", 503)
	add(rt.path == "/reactors/{id}/react", 202, 402, 503)
	var out []int
	for s, is := range all {
		if is {
			out = append(out, s)
		}
	}
	slices.Sort(out)
	return out
}

func statusesOf(t *testing.T, op *openapi3.Operation) []int {
	t.Helper()
	var out []int
	for text := range op.Responses.Map() {
		if text == "default" && op.OperationID == "react" {
			continue // the response that a tenant's code chooses
		}
		n, err := strconv.Atoi(text)
		must.Match(t, op.OperationID+": status "+text, err, nil)
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}

// parameters returns the names of the parameters that a route reads.
func (rt *route) parameters() []string {
	names := []string{"SVC-TRACE-ID"}
	if rt.once() {
		names = append(names, "SVC-IDEMPOTENCY-KEY")
	}
	if rt.silent {
		names = append(names, "Prefer")
	}
	if strings.Contains(rt.path, "{id}") {
		names = append(names, "id")
	}
	if strings.Contains(rt.path, "{keyId}") {
		names = append(names, "keyId")
	}
	one := rt.path == "/tokens/{id}" && rt.method != http.MethodDelete
	if one || slices.Contains([]string{"/detokenize", "/tokens", "/tokens/search", "/v2/tokens", "/v2/tokens/search"}, rt.path) {
		names = append(names, transformParameter)
	}
	if rt.lists {
		names = append(names, map[string][]string{
			"/tokens":           {"id", "type", "metadata", "page", "size"},
			"/v2/tokens":        {"id", "type", "metadata", "start", "size"},
			"/logs":             {"entity_type", "entity_id", "start_date", "end_date", "operation", "actor_id", "actor_type", "page", "size"},
			"/logs/follow":      {"cursor", "wait"},
			"/logs/consistency": {"from"},
			"/tokens/import":    {"on_duplicate", "name", "first_row", "resumed"},
			"/sessions":         {"page", "size"},
			"/applications":     {"id", "name", "type", "page", "size"},
			"/reactors":         {"id", "name", "page", "size"},
			"/proxies":          {"id", "name", "page", "size"},
		}[rt.path]...)
	}
	slices.Sort(names)
	return names
}

func parametersOf(op *openapi3.Operation) []string {
	var names []string
	for _, p := range op.Parameters {
		names = append(names, p.Value.Name)
	}
	slices.Sort(names)
	return names
}

func checkRequestBody(t *testing.T, name string, rt *route, op *openapi3.Operation) {
	t.Helper()
	want := map[bodyKind]string{jsonBody: "application/json", patchBody: mergePatch, noFieldsBody: "application/json", maybeBody: "application/json", linesBody: contentLines}[rt.takes]
	if op.RequestBody == nil || want == "" {
		same(t, name+": no body in the document", op.RequestBody == nil, want == "")
		return
	}
	if op.RequestBody.Value.Content[want] == nil || op.RequestBody.Value.Required == (rt.takes == noFieldsBody || rt.takes == maybeBody) {
		t.Errorf("%s: the body is not described as %s", name, want)
	}
}

// describedTypes are the Go types of the schemas in the document. A patch has
// the fields of its parameters.
var describedTypes = map[string]reflect.Type{
	"Error": reflect.TypeFor[errorBody](), "Health": reflect.TypeFor[health](), "Pagination": reflect.TypeFor[vault.Pagination](),
	"Token": reflect.TypeFor[vault.Token](), "TokenPage": reflect.TypeFor[vault.Page[vault.Token]](),
	"TokenParams": reflect.TypeFor[vault.TokenParams](), "TokenPatch": reflect.TypeFor[vault.TokenParams](),
	"TokenSearch": reflect.TypeFor[vault.SearchTokensParams](), "TokenCursorSearch": reflect.TypeFor[cursorSearch](),
	"EraseParams": reflect.TypeFor[vault.EraseParams](), "Erasure": reflect.TypeFor[vault.Erasure](),
	"TokenCursorPage": reflect.TypeFor[cursorPage](), "CursorPagination": reflect.TypeOf(cursorPage{}.Pagination),
	"ApplicationReplacement": reflect.TypeFor[vault.ApplicationParams](),
	"Enrichments":            reflect.TypeOf(vault.Token{}.Enrichments).Elem(), "CardEnrichment": reflect.TypeOf(vault.Token{}.Enrichments).Elem().Field(0).Type.Elem(),
	"LogEntry": reflect.TypeFor[vault.LogEntry](), "LogEntryPage": reflect.TypeFor[vault.Page[vault.LogEntry]](),
	"LogConsistency": reflect.TypeFor[vault.LogConsistency](),
	"LogBatch":       reflect.TypeFor[vault.LogBatch](), "ImportLine": reflect.TypeFor[importLine](),
	"EntityType": reflect.TypeFor[vault.EntityType](), "Session": reflect.TypeFor[vault.Session](), "SessionInfo": reflect.TypeFor[vault.SessionInfo](),
	"SessionInfoPage": reflect.TypeFor[vault.Page[vault.SessionInfo]](), "Grant": reflect.TypeFor[vault.SessionGrant](),
	"AccessRule": reflect.TypeFor[vault.AccessRule](), "Condition": reflect.TypeFor[vault.Condition](),
	"Application": reflect.TypeFor[vault.Application](), "ApplicationPage": reflect.TypeFor[vault.Page[vault.Application]](),
	"Identity": reflect.TypeFor[vault.Identity](), "ApplicationKey": reflect.TypeFor[vault.ApplicationKey](), "ApplicationKeyParams": reflect.TypeFor[vault.ApplicationKeyParams](),
	"ApplicationParams": reflect.TypeFor[vault.ApplicationParams](), "ApplicationPatch": reflect.TypeFor[vault.ApplicationParams](),
	"ApplicationRef": reflect.TypeFor[struct {
		ID uuid.UUID `json:"id"`
	}](), "Permission": reflect.TypeFor[vault.PermissionInfo](),
	"ExplainParams": reflect.TypeFor[vault.ExplainParams](), "Explanation": reflect.TypeFor[vault.Explanation](),
	"RuleLook": reflect.TypeFor[vault.RuleLook](), "IdentityLook": reflect.TypeFor[vault.IdentityLook](), "AskedRule": reflect.TypeFor[vault.AskedRule](),
	"Tenant": reflect.TypeFor[vault.Tenant](), "TenantSettings": reflect.TypeFor[vault.TenantSettings](), "TenantParams": reflect.TypeFor[vault.TenantParams](),
	"Reactor": reflect.TypeFor[vault.Reactor](), "ReactorPage": reflect.TypeFor[vault.Page[vault.Reactor]](),
	"ReactorParams": reflect.TypeFor[vault.ReactorParams](), "ReactorPatch": reflect.TypeFor[vault.ReactorParams](),
	"Proxy": reflect.TypeFor[vault.Proxy](), "ProxyPage": reflect.TypeFor[vault.Page[vault.Proxy]](),
	"ProxyParams": reflect.TypeFor[vault.ProxyParams](), "ProxyPatch": reflect.TypeFor[vault.ProxyParams](),
	"ReactRequest": reflect.TypeFor[vault.ReactParams](), "ReactResult": reflect.TypeFor[vault.ReactResult](),
	"ProxyTransform": reflect.TypeFor[vault.ProxyTransform](), "ProxyError": reflect.TypeFor[proxyError](),
}

// TestOpenAPIHasTheFieldsOfTheTypes compares the schemas with the Go types,
// in both directions.
func TestOpenAPIHasTheFieldsOfTheTypes(t *testing.T) {
	t.Parallel()
	doc := theDocument(t)
	for name := range describedTypes {
		if doc.Components.Schemas[name] == nil {
			t.Errorf("openapi.json lacks the schema %s", name)
		}
	}
	for name, ref := range doc.Components.Schemas {
		typ := describedTypes[name]
		if typ == nil {
			t.Errorf("the schema %s has no Go type", name)
			continue
		}
		want := jsonFields(typ)
		switch name {
		case "TokenPatch":
			want = slices.DeleteFunc(want, func(f string) bool { return f == "id" || f == "type" })
		case "ApplicationReplacement", "ApplicationPatch":
			want = slices.DeleteFunc(want, func(f string) bool { return f == "create_key" })
		case "Tenant": // only Vault.ListTenants sets it, which has no endpoint
			want = slices.DeleteFunc(want, func(f string) bool { return f == "unreadable" })
		}
		var got []string
		for field := range ref.Value.Properties {
			got = append(got, field)
		}
		slices.Sort(got)
		same(t, name+"", got, want)
	}
}

// jsonFields returns the names of a type's fields in JSON. Types that decode
// themselves have no tags; their fields are named in snake case.
func jsonFields(typ reflect.Type) []string {
	var names []string
	for i := range typ.NumField() {
		f := typ.Field(i)
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case !f.IsExported() || tag == "-":
		case f.Anonymous:
			names = append(names, jsonFields(f.Type)...)
		case tag != "":
			names = append(names, tag)
		default:
			names = append(names, snakeCase(f.Name))
		}
	}
	slices.Sort(names)
	return names
}

func snakeCase(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 && !unicode.IsUpper(rune(name[i-1])) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// TestOpenAPIParametersAreAccepted sends each documented field of each body
// alone, and expects that the vault accepts the name.
func TestOpenAPIParametersAreAccepted(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, nil)
	for path, item := range theDocument(t).Paths.Map() {
		for method, op := range item.Operations() {
			if op.RequestBody == nil || strings.HasPrefix(path, proxyPath) && !strings.HasPrefix(path, "/proxies") {
				continue
			}
			for _, media := range op.RequestBody.Value.Content {
				for field := range media.Schema.Value.Properties {
					at := strings.ReplaceAll(path, "{id}", "3fa85f64-5717-4562-b3fc-2c963f66afa6")
					w.do(method, at, w.keyFor(method, at), fmt.Sprintf(`{%q:null}`, field)).lacks(t, "is not a field")
				}
			}
		}
	}
}

// TestEveryRouteReturnsItsDocumentedStatuses provokes the statuses that depend only on
// the route's row in the table.
func TestEveryRouteReturnsItsDocumentedStatuses(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, &Options{MaxBody: 10})
	closed, store := breakableVault(t)
	var cause any = errBroken
	store.panics.Store(&cause)
	for _, rt := range (&handler{}).table() {
		if rt.open {
			continue
		}
		path := strings.ReplaceAll(rt.path, "{id}", "3fa85f64-5717-4562-b3fc-2c963f66afa6")
		w.do(rt.method, path, "", "").wantError(t, 401)
		if rt.takes != noBody && rt.takes != linesBody { // each line has its own limit: see TestImportIsRefused
			w.do(rt.method, path, w.keyFor(rt.method, path), strings.Repeat(" ", 11)).wantError(t, 413)
			w.do(rt.method, path, w.keyFor(rt.method, path), "[").wantError(t, 400)
		}
		if rt.once() {
			w.do(rt.method, path, w.keyFor(rt.method, path), "", idempotencyKey, "").wantError(t, 400)
		}
		if strings.Contains(rt.path, "{id}") && rt.takes == noBody {
			w.do(rt.method, path, w.keyFor(rt.method, path), "").wantError(t, 404)
		}
		if strings.HasPrefix(rt.path, "/tokens/{id}") {
			closed.do(rt.method, path, closed.PrivateKey, "{}").wantError(t, 500)
		}
	}
}

func TestOpenAPIIsServed(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, nil)
	res := w.do("GET", "/openapi.json", "", "").want(t, http.StatusOK)
	same(t, "the document", res.body, string(openAPIDocument))
}
