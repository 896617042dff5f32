package httpserver

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
)

// route is a row of the table below: a method and path, the permission it
// needs, the status of success, and the operation.
type route struct {
	method string
	path   string
	// permission is checked before the body is read; session:* checks the
	// kind of key. It is empty for a route that any key may call.
	permission vault.Permission
	status     int
	operation
}

// table lists every route of the API.
func (h *handler) table() []route {
	const get, post, put, patch, del = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete
	return append([]route{
		{post, "/tokenize", "token:create", 200, document((*vault.Client).Tokenize)},
		{post, "/detokenize", "token:use", 200, readOnly(document((*vault.Client).Detokenize))},

		{post, "/tokens", "token:create", 201, created(query((*vault.Client).CreateToken))},
		{get, "/tokens", "token:read", 200, list(tokenFilter, (*vault.Client).ListTokens)},
		{post, "/tokens/search", "token:search", 200, readOnly(query((*vault.Client).SearchTokens))},
		{post, "/tokens/erase", "token:delete", 200, repeatable(query((*vault.Client).EraseTokens))},
		{post, "/tokens/import", "token:create", 200, operation{takes: linesBody, lists: true, stream: (*exchange).importTokens}},
		{get, "/tokens/{id}", "token:read", 200, read(tokenID, (*vault.Client).GetToken)},
		{patch, "/tokens/{id}", "token:update", 200, update(tokenID, (*vault.Client).PatchToken)},
		{del, "/tokens/{id}", "token:delete", 204, remove(tokenID, (*vault.Client).DeleteToken)},

		{get, "/v2/tokens", "token:read", 200, list(tokenCursor, listTokens)},
		{post, "/v2/tokens/search", "token:search", 200, readOnly(query(searchTokens))},

		{post, "/sessions", vault.PermissionSessionCreate, 201, created(act(noID, withoutID((*vault.Client).CreateSession)))},
		{get, "/sessions", "session:read", 200, list(func(p *params) (vault.PageParams, error) { return p.page(), nil }, (*vault.Client).ListSessions)},
		{post, "/sessions/authorize", vault.PermissionSessionAuthorize, 200, perform((*vault.Client).AuthorizeSession)},
		{del, "/sessions/{id}", "session:delete", 204, remove(entityID, (*vault.Client).DeleteSession)},

		{post, "/applications", "application:create", 201, created(query((*vault.Client).CreateApplication))},
		{get, "/applications", "application:read", 200, list(applicationFilter, (*vault.Client).ListApplications)},
		{get, "/applications/key", "", 200, show((*vault.Client).OwnApplication)},
		{get, "/applications/{id}", "application:read", 200, read(entityID, (*vault.Client).GetApplication)},
		{put, "/applications/{id}", "application:update", 200, replace(entityID, (*vault.Client).ReplaceApplication)},
		{patch, "/applications/{id}", "application:update", 204, silent(update(entityID, (*vault.Client).PatchApplication))},
		{del, "/applications/{id}", "application:delete", 204, remove(entityID, (*vault.Client).DeleteApplication)},
		{post, "/applications/{id}/regenerate", "application:update", 200, act(entityID, (*vault.Client).RegenerateKey)},
		{post, "/applications/{id}/keys", "application:update", 201, created(createKey())},
		{get, "/applications/{id}/keys", "application:read", 200, read(entityID, (*vault.Client).ListApplicationKeys)},
		{get, "/applications/{id}/keys/{keyId}", "application:read", 200, aboutKey(func(c *vault.Client, ctx context.Context, id, key uuid.UUID) (any, error) {
			return c.GetApplicationKey(ctx, id, key)
		}, true)},
		{del, "/applications/{id}/keys/{keyId}", "application:update", 204, aboutKey(func(c *vault.Client, ctx context.Context, id, key uuid.UUID) (any, error) {
			return nil, c.DeleteApplicationKey(ctx, id, key)
		}, false)},
		{get, "/permissions", "", 200, plainList((*vault.Client).ListPermissions)},
		{post, "/permissions/explain", "application:read", 200, readOnly(query((*vault.Client).Explain))},

		{get, "/tenants/self", "tenant:read", 200, show((*vault.Client).GetTenant)},
		{put, "/tenants/self", "tenant:update", 200, replaceOwn((*vault.Client).ReplaceTenant)},
	}, slices.Concat(codeRoutes(), h.keylessRoutes(), logRoutes())...)
}

// codeRoutes lists the routes of reactors and proxies.
func codeRoutes() []route {
	const get, post, put, patch, del = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete
	return []route{
		{post, "/reactors", "reactor:create", 201, created(query((*vault.Client).CreateReactor))},
		{get, "/reactors", "reactor:read", 200, list(codeFilter, (*vault.Client).ListReactors)},
		{get, "/reactors/{id}", "reactor:read", 200, read(entityID, (*vault.Client).GetReactor)},
		{put, "/reactors/{id}", "reactor:update", 200, replace(entityID, (*vault.Client).ReplaceReactor)},
		{patch, "/reactors/{id}", "reactor:update", 204, silent(update(entityID, (*vault.Client).PatchReactor))},
		{del, "/reactors/{id}", "reactor:delete", 204, remove(entityID, (*vault.Client).DeleteReactor)},
		{post, "/reactors/{id}/react", "token:use", 200, react()},

		{post, "/proxies", "proxy:create", 201, created(query((*vault.Client).CreateProxy))},
		{get, "/proxies", "proxy:read", 200, list(codeFilter, (*vault.Client).ListProxies)},
		{get, "/proxies/{id}", "proxy:read", 200, read(entityID, (*vault.Client).GetProxy)},
		{put, "/proxies/{id}", "proxy:update", 200, replace(entityID, (*vault.Client).ReplaceProxy)},
		{patch, "/proxies/{id}", "proxy:update", 204, silent(update(entityID, (*vault.Client).PatchProxy))},
		{del, "/proxies/{id}", "proxy:delete", 204, remove(entityID, (*vault.Client).DeleteProxy)},
	}
}

// keylessRoutes lists the routes that need no key.
func (h *handler) keylessRoutes() []route {
	return []route{
		{http.MethodGet, "/healthz", "", 200, keyless(h.alive)},
		{http.MethodGet, "/readyz", "", 200, keyless(h.ready)},
		{http.MethodGet, "/openapi.json", "", 200, keyless(h.openAPI)},
	}
}

// logRoutes lists the routes of the audit log and its evidence.
func logRoutes() []route {
	const get = http.MethodGet
	return []route{
		{get, "/logs", "log:read", 200, list(logFilter, (*vault.Client).ListLogs)},
		{get, "/logs/follow", "log:read", 200, followLogs()},
		{get, "/logs/checkpoint", "log:read", 200, plainText(func(x *exchange) ([]byte, error) { return x.client.LogCheckpoint(x.ctx) })},
		{get, "/logs/consistency", "log:read", 200, logConsistency()},
		{get, "/logs/evidence", "log:read", 200, logEvidence()},
		{get, "/logs/{id}/proof", "log:read", 200, plainText(func(x *exchange) ([]byte, error) { return x.client.LogProof(x.ctx, entityID(x.r.PathValue("id"))) })},
		{get, "/logs/entity-types", "log:read", 200, plainList((*vault.Client).ListEntityTypes)},
	}
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
