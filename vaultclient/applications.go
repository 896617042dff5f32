package vaultclient

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/core"
)

const applications = "/applications"

// CreateApplication creates an application. The result has its API key. See
// [vault.Client.CreateApplication].
func (c *Client) CreateApplication(ctx context.Context, p vault.ApplicationParams) (*vault.Application, error) {
	return write[vault.Application](ctx, c, &core.VerbCreateApplication, http.MethodPost, applications, p)
}

// GetApplication returns an application. See [vault.Client.GetApplication].
func (c *Client) GetApplication(ctx context.Context, id uuid.UUID) (*vault.Application, error) {
	return get[vault.Application](ctx, c, &core.VerbGetApplication, below(applications, id), "")
}

// OwnApplication returns the application of the key. See
// [vault.Client.OwnApplication].
func (c *Client) OwnApplication(ctx context.Context) (*vault.Application, error) {
	return get[vault.Application](ctx, c, &core.VerbOwnApplication, applications+"/key", "")
}

// ListApplications returns a page of applications, newest first. See
// [vault.Client.ListApplications].
func (c *Client) ListApplications(ctx context.Context, p vault.ListApplicationsParams) (*vault.Page[vault.Application], error) {
	return c.listApplications(ctx, &core.VerbListApplications, p)
}

func (c *Client) listApplications(ctx context.Context, verb *core.Verb, p vault.ListApplicationsParams) (*vault.Page[vault.Application], error) {
	query := entityQuery(p.IDs, p.Name, p.PageParams)
	for _, t := range p.Types {
		query.Add("type", string(t))
	}
	return get[vault.Page[vault.Application]](ctx, c, verb, applications, query.Encode())
}

// ReplaceApplication replaces everything of an application except its type
// and key. See [vault.Client.ReplaceApplication].
func (c *Client) ReplaceApplication(ctx context.Context, id uuid.UUID, p vault.ApplicationParams) (*vault.Application, error) {
	return write[vault.Application](ctx, c, &core.VerbReplaceApplication, http.MethodPut, below(applications, id), p)
}

// PatchApplication changes an application by a JSON merge patch. See
// [vault.Client.PatchApplication]. A key that may not read applications gets
// [ErrUnseen].
func (c *Client) PatchApplication(ctx context.Context, id uuid.UUID, patch any) (*vault.Application, error) {
	return patchEntity[vault.Application](ctx, c, &core.VerbPatchApplication, below(applications, id), patch)
}

// RegenerateKey gives an application a new API key. See
// [vault.Client.RegenerateKey].
//
// If it is the application of c, c stops working; create a new client with
// the new key. If the response is lost in that case, the new key is lost too,
// because the old key cannot repeat the call.
func (c *Client) RegenerateKey(ctx context.Context, id uuid.UUID) (*vault.Application, error) {
	return call[vault.Application](ctx, c, &request{
		verb: &core.VerbRegenerateKey, method: http.MethodPost, path: below(applications, id) + "/regenerate", once: true})
}

// DeleteApplication deletes an application with its key and sessions. See
// [vault.Client.DeleteApplication].
func (c *Client) DeleteApplication(ctx context.Context, id uuid.UUID) error {
	return c.remove(ctx, &core.VerbDeleteApplication, below(applications, id))
}

// ListPermissions returns all permissions. See [vault.Client.ListPermissions].
func (c *Client) ListPermissions(ctx context.Context) ([]vault.PermissionInfo, error) {
	return plainList[vault.PermissionInfo](ctx, c, &core.VerbListPermissions, "/permissions")
}

// Explain reports whether an application or a session may do something in
// containers, and why. See [vault.Client.Explain]. Over HTTP it does not
// accept a token id.
func (c *Client) Explain(ctx context.Context, p vault.ExplainParams) (*vault.Explanation, error) {
	if p.TokenID != "" {
		return nil, fmt.Errorf("vaultclient: Explain: only the tenant itself may ask about a token; ask about containers: %w", vault.ErrForbidden)
	}
	return post[vault.Explanation](ctx, c, &core.VerbExplain, "/permissions/explain", "", p)
}

// CreateSession opens a session of the key's application. See
// [vault.Client.CreateSession].
func (c *Client) CreateSession(ctx context.Context) (*vault.Session, error) {
	return call[vault.Session](ctx, c, &request{verb: &core.VerbCreateSession, method: http.MethodPost, path: "/sessions", once: true})
}

// AuthorizeSession grants a session its permissions, once. See
// [vault.Client.AuthorizeSession].
func (c *Client) AuthorizeSession(ctx context.Context, g vault.SessionGrant) error {
	body, err := encode(g)
	if err != nil {
		return err
	}
	_, err = c.send(ctx, &request{
		verb: &core.VerbAuthorizeSession, method: http.MethodPost, path: "/sessions/authorize", typ: contentJSON, body: body, once: true,
		done: http.StatusOK})
	return err
}

// ListSessions returns a page of the active sessions, newest first. See
// [vault.Client.ListSessions].
func (c *Client) ListSessions(ctx context.Context, p vault.ListSessionsParams) (*vault.Page[vault.SessionInfo], error) {
	return list[vault.SessionInfo](ctx, c, &core.VerbListSessions, "/sessions", nil, "", p.PageParams)
}

// DeleteSession ends a session. See [vault.Client.DeleteSession].
func (c *Client) DeleteSession(ctx context.Context, id uuid.UUID) error {
	return c.remove(ctx, &core.VerbDeleteSession, below("/sessions", id))
}

// below returns the path of an entity in a collection.
func below(collection string, id uuid.UUID) string { return collection + "/" + id.String() }

// list returns a page of a collection, filtered by ids and name.
func list[T any](ctx context.Context, c *Client, verb *core.Verb, path string, ids []uuid.UUID, name string, p vault.PageParams) (*vault.Page[T], error) {
	return get[vault.Page[T]](ctx, c, verb, path, entityQuery(ids, name, p).Encode())
}

// entityQuery returns the query parameters for entities by ids and name.
func entityQuery(ids []uuid.UUID, name string, p vault.PageParams) url.Values {
	query := pageQuery(p)
	for _, id := range ids {
		query.Add("id", id.String())
	}
	if name != "" {
		query.Set("name", name)
	}
	return query
}

// plainList returns a list without pages.
func plainList[T any](ctx context.Context, c *Client, verb *core.Verb, path string) ([]T, error) {
	all, err := get[[]T](ctx, c, verb, path, "")
	if err != nil {
		return nil, err
	}
	return *all, nil
}
