package vaultclient_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/seed-72ea4aab/vault"
)

// scenarios run on both kinds of clients. The key is the method of vault.API
// under test.
var scenarios = map[string]map[string]func(*apiVault){
	"CreateToken":  {"types": createTypes, "options": createOptions, "invalid": createInvalid, "taken": createTaken, "duplicate": createDuplicate, "unavailable": createUnavailable},
	"GetToken":     {"transforms": getTransforms, "ids": getIDs, "expired": getExpired},
	"PatchToken":   {"patches": updatePatches, "refused": updateRefused},
	"DeleteToken":  {"twice": deleteTwice},
	"ListTokens":   {"filters": listFilters, "refused": listRefused},
	"AllTokens":    {"all": allTokens, "deleting": allDeleting, "refused": allRefused, "search": searchAll},
	"SearchTokens": {"queries": searchQueries},
	"EraseTokens":  {"erased": eraseTokens, "refused": eraseRefused},

	"ListTokensAfter": {"pages": listAfter, "refused": listAfterRefused, "search": searchAfter, "search refused": searchAfterRefused},
	"AllApplications": {"all": allApplications},
	"AllReactors":     {"all": allReactors},
	"AllProxies":      {"all": allProxies},
	"AllSessions":     {"all": allSessions},
	"AllLogs":         {"all": allLogs},
	"FollowLogs":      {"entries": followLogs},
	"NextLogs":        {"refused": nextLogsRefused},
	"Import":          {"rows": importRows, "options": importOptions, "ended": importEnded},
	"Tokenize":        {"documents": tokenizeDocuments, "refused": tokenizeRefused},
	"Detokenize":      {"documents": detokenizeDocuments, "refused": detokenizeRefused},

	"CreateSession":    {"lifecycle": sessionLifecycle},
	"AuthorizeSession": {"refused": authorizeRefused},
	"ListSessions":     {"pages": listSessions},
	"DeleteSession":    {"twice": deleteSession},

	"CreateApplication":  {"created": createApplication},
	"GetApplication":     {"read": getApplication},
	"ListApplications":   {"pages": listApplications},
	"ReplaceApplication": {"replaced": replaceApplication},
	"PatchApplication":   {"patched": patchApplication},
	"DeleteApplication":  {"its key dies": deleteApplication},
	"OwnApplication":     {"each type": ownApplication},
	"RegenerateKey":      {"the old key dies": regenerateKey},

	"CreateApplicationKey": {"two keys work": createKeys},
	"ListApplicationKeys":  {"oldest first": listKeys},
	"GetApplicationKey":    {"one": getKey},
	"DeleteApplicationKey": {"one dies": deleteKey},
	"ListPermissions":      {"all": listPermissions},
	"Explain":              {"decisions": explain},
	"Now":                  {"later": tellNow},

	"ApplyApplication": {"applied": applyApplication},
	"ApplyReactor":     {"applied": applyReactor},
	"ApplyProxy":       {"applied": applyProxy},

	"CreateReactor":  {"created": createReactor},
	"GetReactor":     {"read": getReactor},
	"ListReactors":   {"names": listReactors},
	"ReplaceReactor": {"replaced": replaceReactor},
	"PatchReactor":   {"patched": patchReactor},
	"DeleteReactor":  {"twice": deleteReactor},
	"React":          {"results": reactResults, "errors of code": reactErrors, "refused": reactRefused},
	"ReactAsync":     {"later": reactLater},

	"CreateProxy":  {"created": createProxy},
	"GetProxy":     {"read": getProxy},
	"ListProxies":  {"names": listProxies},
	"ReplaceProxy": {"replaced": replaceProxy},
	"PatchProxy":   {"patched": patchProxy},
	"DeleteProxy":  {"twice": deleteProxy},
	"InvokeProxy":  {"requests": invokeRequests, "answers": invokeAnswers, "refused": invokeRefused, "transforms": invokeTransforms},

	"GetTenant":       {"read": getTenant},
	"ReplaceTenant":   {"updated": updateTenant},
	"ListLogs":        {"filters": listLogs},
	"ListEntityTypes": {"all": listEntityTypes},
}

// TestConformance runs every scenario in process and over HTTP, and compares
// the results of the calls: values deeply, and errors as callers can
// distinguish them.
func TestConformance(t *testing.T) {
	t.Parallel()
	for method, named := range scenarios {
		for name, run := range named {
			t.Run(method+"/"+name, func(t *testing.T) {
				t.Parallel()
				var writeWait time.Duration
				if name == "unavailable" {
					writeWait = 50 * time.Millisecond
				}
				near, far := inProcess(t, writeWait), overHTTP(t, writeWait)
				run(near)
				run(far)
				if len(near.records) == 0 || !slices.ContainsFunc(near.records, func(r record) bool { return strings.HasPrefix(r.Call, method) }) {
					t.Fatalf("the scenario does not call %s", method)
				}
				compare(t, near, far)
			})
		}
	}
}

// omitted reports whether a path leads to an optional list or map, which JSON
// omits both if empty and if absent.
func omitted(p cmp.Path) bool {
	field, ok := p.Last().(cmp.StructField)
	return ok && slices.Contains([]string{"Token.SearchIndexes", "Token.Metadata", "Proxy.Configuration", "Application.Rules"},
		p.Index(-2).Type().Name()+"."+field.Name())
}

// compare fails the test if two vaults recorded different results. Times must
// have the same location too.
func compare(t *testing.T, near, far *apiVault) {
	t.Helper()
	a := newNamer(near.dest).of(reflect.ValueOf(near.records)).Interface()
	b := newNamer(far.dest).of(reflect.ValueOf(far.records)).Interface()
	diff := cmp.Diff(a, b, cmpopts.IgnoreUnexported(vault.Application{}, vault.Tenant{}),
		cmp.FilterPath(omitted, cmpopts.EquateEmpty()),
		cmp.Comparer(func(x, y time.Time) bool { return x == y }))
	if diff != "" {
		t.Errorf("in process -, over HTTP +:\n%s", diff)
	}
}

// TestEveryMethodHasAScenario fails if a method of the API has no scenario.
func TestEveryMethodHasAScenario(t *testing.T) {
	t.Parallel()
	api := reflect.TypeFor[vault.API]()
	for i := range api.NumMethod() {
		if name := api.Method(i).Name; len(scenarios[name]) == 0 {
			t.Errorf("%s has no scenario", name)
		}
	}
	for name := range scenarios {
		if _, ok := api.MethodByName(name); !ok {
			t.Errorf("%s is not a method of the API", name)
		}
	}
}
