package vaultclient

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/core"
)

// applications sends the calls of applications.
var applications = collection[vault.Application, vault.ApplicationParams]{
	verbs: &core.ApplicationVerbs, path: "/applications",
	id:    func(x *vault.Application) uuid.UUID { return x.ID },
	name:  func(x *vault.Application) string { return x.Name },
	same:  func(x *vault.Application, p vault.ApplicationParams) bool { return x.Params().Same(p) },
	again: func(p *vault.ApplicationParams) { p.CreateKey = nil },
}

// CreateApplication creates an application. The result has its API key. See
// [vault.Client.CreateApplication].
func (c *Client) CreateApplication(ctx context.Context, p vault.ApplicationParams) (*vault.Application, error) {
	return applications.create(ctx, c, p)
}

// GetApplication returns an application. See [vault.Client.GetApplication].
func (c *Client) GetApplication(ctx context.Context, id uuid.UUID) (*vault.Application, error) {
	return applications.get(ctx, c, id)
}

// OwnApplication returns the application of the key. See
// [vault.Client.OwnApplication].
func (c *Client) OwnApplication(ctx context.Context) (*vault.Application, error) {
	return get[vault.Application](ctx, c, &core.VerbOwnApplication, applications.path+"/key", "")
}

// ListApplications returns a page of applications, newest first. See
// [vault.Client.ListApplications].
func (c *Client) ListApplications(ctx context.Context, p vault.ListApplicationsParams) (*vault.Page[vault.Application], error) {
	return applications.list(ctx, c, applicationQuery(p, p.PageParams))
}

// applicationQuery returns the query parameters for applications.
func applicationQuery(p vault.ListApplicationsParams, page vault.PageParams) url.Values {
	query := entityQuery(p.IDs, p.Name, page)
	for _, t := range p.Types {
		query.Add("type", string(t))
	}
	return query
}

// ReplaceApplication replaces everything of an application except its type
// and key. See [vault.Client.ReplaceApplication].
func (c *Client) ReplaceApplication(ctx context.Context, id uuid.UUID, p vault.ApplicationParams) (*vault.Application, error) {
	return applications.replace(ctx, c, id, p)
}

// PatchApplication changes an application by a JSON merge patch. See
// [vault.Client.PatchApplication]. A key that may not read applications gets
// [ErrUnseen].
func (c *Client) PatchApplication(ctx context.Context, id uuid.UUID, patch any) (*vault.Application, error) {
	return applications.patch(ctx, c, id, patch)
}

// RegenerateKey gives an application a new API key in place of all its keys. See
// [vault.Client.RegenerateKey].
//
// If it is the application of c, c stops working; create a new client with
// the new key. If the response is lost in that case, the new key is lost too,
// because the old key cannot repeat the call.
func (c *Client) RegenerateKey(ctx context.Context, id uuid.UUID) (*vault.Application, error) {
	return call[vault.Application](ctx, c, &request{
		verb: &core.VerbRegenerateKey, method: http.MethodPost, path: below(applications.path, id) + "/regenerate", once: true})
}

// CreateApplicationKey gives an application one more API key. See
// [vault.Client.CreateApplicationKey].
func (c *Client) CreateApplicationKey(ctx context.Context, application uuid.UUID, p vault.ApplicationKeyParams) (*vault.ApplicationKey, error) {
	return write[vault.ApplicationKey](ctx, c, &core.VerbCreateApplicationKey, http.MethodPost, keysOf(application), p)
}

// ListApplicationKeys returns the keys of an application that have not expired,
// oldest first. See [vault.Client.ListApplicationKeys].
func (c *Client) ListApplicationKeys(ctx context.Context, application uuid.UUID) ([]vault.ApplicationKey, error) {
	return plainList[vault.ApplicationKey](ctx, c, &core.VerbListApplicationKeys, keysOf(application))
}

// GetApplicationKey returns a key of an application. See
// [vault.Client.GetApplicationKey].
func (c *Client) GetApplicationKey(ctx context.Context, application, key uuid.UUID) (*vault.ApplicationKey, error) {
	return get[vault.ApplicationKey](ctx, c, &core.VerbGetApplicationKey, below(keysOf(application), key), "")
}

// DeleteApplicationKey deletes a key of an application. See
// [vault.Client.DeleteApplicationKey].
func (c *Client) DeleteApplicationKey(ctx context.Context, application, key uuid.UUID) error {
	return c.remove(ctx, &core.VerbDeleteApplicationKey, below(keysOf(application), key))
}

func keysOf(application uuid.UUID) string { return below(applications.path, application) + "/keys" }

// AllApplications iterates over all applications that match the filters,
// newest first. See [vault.Client.AllApplications].
//
// Pages overlap, so the audit log may have several entries for one read. The
// same holds for AllReactors, AllProxies, AllSessions and AllLogs.
func (c *Client) AllApplications(ctx context.Context, p vault.ListApplicationsParams) iter.Seq2[*vault.Application, error] {
	return applications.all(ctx, c, func(page vault.PageParams) url.Values { return applicationQuery(p, page) })
}

// ApplyApplication creates or updates the application with the name of p, so
// that it matches p. See [vault.Client.ApplyApplication].
//
// It sends several requests. If two programs apply the same new name at the
// same time, they may create two applications; later calls then use the older
// one.
func (c *Client) ApplyApplication(ctx context.Context, p vault.ApplicationParams) (*vault.Applied[vault.Application], error) {
	return applications.apply(ctx, c, p.Name, p)
}

// DeleteApplication deletes an application with its key and sessions. See
// [vault.Client.DeleteApplication].
func (c *Client) DeleteApplication(ctx context.Context, id uuid.UUID) error {
	return applications.delete(ctx, c, id)
}

// ListPermissions returns all permissions. See [vault.Client.ListPermissions].
func (c *Client) ListPermissions(ctx context.Context) ([]vault.PermissionInfo, error) {
	return plainList[vault.PermissionInfo](ctx, c, &core.VerbListPermissions, "/permissions")
}

// Now returns the time of the vault's clock, which is exact to a second. See
// [vault.Client.Now].
func (c *Client) Now(ctx context.Context) (time.Time, error) {
	r := &request{verb: &core.VerbNow, method: http.MethodGet, path: "/permissions"} // any response has the time
	a, err := c.send(ctx, r)
	if err != nil {
		return time.Time{}, err
	}
	now, err := http.ParseTime(a.header.Get("Date"))
	if err != nil {
		return now, notAVault(r, a, "it has no date")
	}
	return now, nil
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
func (c *Client) ListSessions(ctx context.Context, p vault.PageParams) (*vault.Page[vault.SessionInfo], error) {
	return get[vault.Page[vault.SessionInfo]](ctx, c, &core.VerbListSessions, "/sessions", pageQuery(p).Encode())
}

// DeleteSession ends a session. See [vault.Client.DeleteSession].
func (c *Client) DeleteSession(ctx context.Context, id uuid.UUID) error {
	return c.remove(ctx, &core.VerbDeleteSession, below("/sessions", id))
}

// plainList returns a list without pages.
func plainList[T any](ctx context.Context, c *Client, verb *core.Verb, path string) ([]T, error) {
	all, err := get[[]T](ctx, c, verb, path, "")
	if err != nil {
		return nil, err
	}
	return *all, nil
}
