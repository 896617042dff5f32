package httpserver

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/core"
)

// route is a row of the table below: a method and path, the verb that it calls, the
// status of success, and the operation.
type route struct {
	method string
	path   string
	// verb has the permission that is checked before the body is read. It is nil for a
	// route that needs no key.
	verb   *core.Verb
	status int
	operation
}

// table lists every route of the API.
func (h *handler) table() []route {
	const get, post, put, patch, del = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete
	return append([]route{
		{post, "/tokenize", &core.VerbTokenize, 200, document((*vault.Client).Tokenize)},
		{post, "/detokenize", &core.VerbDetokenize, 200, readOnly(document((*vault.Client).Detokenize))},

		{post, "/tokens", &core.VerbCreateToken, 201, created(query((*vault.Client).CreateToken))},
		{get, "/tokens", &core.VerbListTokens, 200, list(tokenFilter, (*vault.Client).ListTokens)},
		{post, "/tokens/search", &core.VerbSearchTokens, 200, readOnly(query((*vault.Client).SearchTokens))},
		{post, "/tokens/erase", &core.VerbEraseTokens, 200, repeatable(query((*vault.Client).EraseTokens))},
		{post, "/tokens/import", &core.VerbImport, 200, operation{takes: linesBody, lists: true, stream: (*exchange).importTokens}},
		{get, "/tokens/{id}", &core.VerbGetToken, 200, read(tokenID, (*vault.Client).GetToken)},
		{patch, "/tokens/{id}", &core.VerbPatchToken, 200, update(tokenID, (*vault.Client).PatchToken)},
		{del, "/tokens/{id}", &core.VerbDeleteToken, 204, remove(tokenID, (*vault.Client).DeleteToken)},

		{get, "/v2/tokens", &core.VerbListTokensAfter, 200, list(tokenCursor, listTokens)},
		{post, "/v2/tokens/search", &core.VerbSearchTokensAfter, 200, readOnly(query(searchTokens))},

		{post, "/sessions", &core.VerbCreateSession, 201, created(act(noID, withoutID((*vault.Client).CreateSession)))},
		{get, "/sessions", &core.VerbListSessions, 200, list(func(p *params) (vault.PageParams, error) { return p.page(), nil }, (*vault.Client).ListSessions)},
		{post, "/sessions/authorize", &core.VerbAuthorizeSession, 200, perform((*vault.Client).AuthorizeSession)},
		{del, "/sessions/{id}", &core.VerbDeleteSession, 204, remove(entityID, (*vault.Client).DeleteSession)},

		{post, "/applications", &core.ApplicationVerbs.Create, 201, created(query((*vault.Client).CreateApplication))},
		{get, "/applications", &core.ApplicationVerbs.List, 200, list(applicationFilter, (*vault.Client).ListApplications)},
		{get, "/applications/key", &core.VerbOwnApplication, 200, show((*vault.Client).OwnApplication)},
		{get, "/applications/{id}", &core.ApplicationVerbs.Get, 200, read(entityID, (*vault.Client).GetApplication)},
		{put, "/applications/{id}", &core.ApplicationVerbs.Replace, 200, replace(entityID, (*vault.Client).ReplaceApplication)},
		{patch, "/applications/{id}", &core.ApplicationVerbs.Patch, 204, silent(update(entityID, (*vault.Client).PatchApplication))},
		{del, "/applications/{id}", &core.ApplicationVerbs.Delete, 204, remove(entityID, (*vault.Client).DeleteApplication)},
		{post, "/applications/{id}/regenerate", &core.VerbRegenerateKey, 200, act(entityID, (*vault.Client).RegenerateKey)},
		{post, "/applications/{id}/keys", &core.VerbCreateApplicationKey, 201, created(createKey())},
		{get, "/applications/{id}/keys", &core.VerbListApplicationKeys, 200, listBelow(entityID, (*vault.Client).ListApplicationKeys)},
		{get, "/applications/{id}/keys/{keyId}", &core.VerbGetApplicationKey, 200, aboutKey(func(c *vault.Client, ctx context.Context, id, key uuid.UUID) (any, error) {
			return c.GetApplicationKey(ctx, id, key)
		}, true)},
		{del, "/applications/{id}/keys/{keyId}", &core.VerbDeleteApplicationKey, 204, aboutKey(func(c *vault.Client, ctx context.Context, id, key uuid.UUID) (any, error) {
			return nil, c.DeleteApplicationKey(ctx, id, key)
		}, false)},
		{get, "/permissions", &core.VerbListPermissions, 200, plainList((*vault.Client).ListPermissions)},
		{post, "/permissions/explain", &core.VerbExplain, 200, readOnly(query((*vault.Client).Explain))},

		{get, "/tenants/self", &core.VerbGetTenant, 200, show((*vault.Client).GetTenant)},
		{put, "/tenants/self", &core.VerbReplaceTenant, 200, replaceOwn((*vault.Client).ReplaceTenant)},
	}, slices.Concat(codeRoutes(), h.keylessRoutes(), logRoutes())...)
}

// codeRoutes lists the routes of reactors and proxies.
func codeRoutes() []route {
	const get, post, put, patch, del = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete
	return []route{
		{post, "/reactors", &core.ReactorVerbs.Create, 201, created(query((*vault.Client).CreateReactor))},
		{get, "/reactors", &core.ReactorVerbs.List, 200, list(codeFilter, (*vault.Client).ListReactors)},
		{get, "/reactors/{id}", &core.ReactorVerbs.Get, 200, read(entityID, (*vault.Client).GetReactor)},
		{put, "/reactors/{id}", &core.ReactorVerbs.Replace, 200, replace(entityID, (*vault.Client).ReplaceReactor)},
		{patch, "/reactors/{id}", &core.ReactorVerbs.Patch, 204, silent(update(entityID, (*vault.Client).PatchReactor))},
		{del, "/reactors/{id}", &core.ReactorVerbs.Delete, 204, remove(entityID, (*vault.Client).DeleteReactor)},
		{post, "/reactors/{id}/react", &core.VerbReact, 200, react()},

		{post, "/proxies", &core.ProxyVerbs.Create, 201, created(query((*vault.Client).CreateProxy))},
		{get, "/proxies", &core.ProxyVerbs.List, 200, list(codeFilter, (*vault.Client).ListProxies)},
		{get, "/proxies/{id}", &core.ProxyVerbs.Get, 200, read(entityID, (*vault.Client).GetProxy)},
		{put, "/proxies/{id}", &core.ProxyVerbs.Replace, 200, replace(entityID, (*vault.Client).ReplaceProxy)},
		{patch, "/proxies/{id}", &core.ProxyVerbs.Patch, 204, silent(update(entityID, (*vault.Client).PatchProxy))},
		{del, "/proxies/{id}", &core.ProxyVerbs.Delete, 204, remove(entityID, (*vault.Client).DeleteProxy)},
	}
}

// keylessRoutes lists the routes that need no key.
func (h *handler) keylessRoutes() []route {
	return []route{
		{http.MethodGet, "/healthz", nil, 200, keyless(h.alive)},
		{http.MethodGet, "/readyz", nil, 200, keyless(h.ready)},
		{http.MethodGet, "/openapi.json", nil, 200, keyless(h.openAPI)},
	}
}

// logRoutes lists the routes of the audit log and its evidence.
func logRoutes() []route {
	const get = http.MethodGet
	return []route{
		{get, "/logs", &core.VerbListLogs, 200, list(logFilter, (*vault.Client).ListLogs)},
		{get, "/logs/follow", &core.VerbFollowLogs, 200, followLogs()},
		{get, "/logs/checkpoint", &core.VerbLogCheckpoint, 200, plainText(func(x *exchange) ([]byte, error) { return x.client.LogCheckpoint(x.ctx) })},
		{get, "/logs/consistency", &core.VerbLogConsistency, 200, logConsistency()},
		{get, "/logs/evidence", &core.VerbExportEvidence, 200, logEvidence()},
		{get, "/logs/{id}/proof", &core.VerbLogProof, 200, plainText(func(x *exchange) ([]byte, error) { return x.client.LogProof(x.ctx, entityID(x.r.PathValue("id"))) })},
		{get, "/logs/entity-types", &core.VerbListEntityTypes, 200, plainList((*vault.Client).ListEntityTypes)},
	}
}

// permission is the permission that the route needs, or "".
func (rt *route) permission() string {
	if rt.verb == nil {
		return ""
	}
	return rt.verb.Permission
}

// location returns the path of the entity that a POST to the route created, below the
// entity that the path names, if it names one.
func (rt *route) location(below, id string) string {
	path := strings.Replace(rt.path, "{id}", url.PathEscape(below), 1)
	if id == "" {
		return path
	}
	return path + "/" + url.PathEscape(id)
}

// once reports whether the route supports an idempotency key. Reads do not,
// because the response may contain data that must not be stored for a day.
// DELETE and other repeatable operations do not need one. A POST that streams
// does not need one either, because its rows have ids.
func (rt *route) once() bool {
	return !rt.reads && !rt.repeats && rt.stream == nil && rt.method != http.MethodGet && rt.method != http.MethodDelete
}

// endpoint is a path with its routes.
type endpoint struct {
	handler *handler
	name    string // pattern in the mux
	routes  map[string]*route
	allow   string // value of the Allow header
}

// endpoints groups the table by path. A path that has GET has HEAD too.
func (h *handler) endpoints() []*endpoint {
	var all []*endpoint
	byPath := map[string]*endpoint{}
	for _, rt := range h.table() {
		e := byPath[rt.path]
		if e == nil {
			e = &endpoint{handler: h, name: rt.path, routes: map[string]*route{}}
			byPath[rt.path] = e
			all = append(all, e)
		}
		e.routes[rt.method] = &rt
		if rt.method == http.MethodGet {
			e.routes[http.MethodHead] = &rt
		}
	}
	for _, e := range all {
		var methods []string
		for m := range e.routes {
			methods = append(methods, m)
		}
		slices.Sort(methods)
		e.allow = strings.Join(methods, ", ")
	}
	return all
}
