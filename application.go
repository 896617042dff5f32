package vault

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/applications"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/records"
)

// ApplicationType limits what an application may do at all.
type ApplicationType string

// The types of applications. A public key may be used in a browser: it creates and
// updates tokens and opens sessions. A private key works with tokens. A management
// key administers everything else. A management key that may create or change
// applications can make a private key, and so can in effect read all data.
const (
	ApplicationPublic     ApplicationType = "public"
	ApplicationPrivate    ApplicationType = "private"
	ApplicationManagement ApplicationType = "management"
)

// Application is the holder of an API key. Printed or logged it hides the key: see
// the package comment.
type Application struct {
	ID       uuid.UUID       `json:"id"`
	TenantID uuid.UUID       `json:"tenant_id"`
	Name     string          `json:"name,omitempty"`
	Type     ApplicationType `json:"type,omitempty"`
	// Key is the API key. It is set only in the result of the call that made it.
	Key         string       `json:"key,omitempty"`
	Permissions []Permission `json:"permissions,omitempty"`
	Rules       []AccessRule `json:"rules,omitempty"`
	CreatedBy   uuid.UUID    `json:"created_by,omitzero"`
	CreatedAt   time.Time    `json:"created_at,omitzero"`
	ModifiedBy  uuid.UUID    `json:"modified_by,omitzero"`
	ModifiedAt  time.Time    `json:"modified_at,omitzero"`
	ExpiresAt   time.Time    `json:"expires_at,omitzero"` // when the application ends with its keys
	// Identities are the workloads that may act as the application with a JWT.
	Identities []Identity `json:"identities,omitempty"`
	// Suspended means that a restore brought back an older state, which has not been
	// confirmed: see [Vault.EraseAgain]. Uses are ErrForbidden.
	Suspended bool `json:"suspended,omitempty"`
	// Unreadable is set in lists for an application whose row was altered or does not
	// open. Only ID, TenantID and CreatedAt are set then; the type is sealed.
	Unreadable bool `json:"unreadable,omitempty"`
}

// ApplicationParams describes an application. At least one of Permissions and Rules
// must not be empty, and the type must be allowed to hold them: see
// [Client.ListPermissions]. The key stops working at ExpiresAt.
type ApplicationParams struct {
	Name        string          `json:"name"`
	Type        ApplicationType `json:"type"`
	Permissions []Permission    `json:"permissions,omitempty"`
	Rules       []AccessRule    `json:"rules,omitempty"`
	ExpiresAt   time.Time       `json:"expires_at,omitzero"`
	// Identities are the workloads that may act as the application with a JWT in place
	// of a key: at most 10, and none for a public application.
	Identities []Identity `json:"identities,omitempty"`
	// CreateKey is false for a new application without an API key. Nil means true.
	// Changes of an application refuse it, except [Client.ApplyApplication], which
	// ignores it for an application that exists.
	CreateKey *bool `json:"create_key,omitempty"`
}

// UnmarshalJSON is strict, as [TokenParams.UnmarshalJSON] is.
func (p *ApplicationParams) UnmarshalJSON(data []byte) error {
	return readObject(data, func(r *form.Reader) {
		var in applications.Params
		in.Read(r)
		*p = ApplicationParams{
			Name: in.Name, Type: ApplicationType(in.Type), Permissions: as[Permission](in.Permissions), Rules: rulesOf(in.Rules),
			ExpiresAt: in.ExpiresAt, Identities: identitiesOf(in.Identities), CreateKey: in.CreateKey,
		}
	})
}

// Params returns the parameters of the application, for a change with
// [Client.ReplaceApplication].
func (a *Application) Params() ApplicationParams {
	return ApplicationParams{Name: a.Name, Type: a.Type, Permissions: slices.Clone(a.Permissions), Rules: slices.Clone(a.Rules), ExpiresAt: a.ExpiresAt, Identities: slices.Clone(a.Identities)}
}

// inside returns the parameters in the type of the internal package.
func (p *ApplicationParams) inside() *applications.Params {
	return &applications.Params{
		Name: p.Name, Type: string(p.Type), Permissions: as[string](p.Permissions), Rules: accessRules(p.Rules), ExpiresAt: p.ExpiresAt,
		Identities: insideIdentities(p.Identities), CreateKey: p.CreateKey,
	}
}

// Same reports whether p and q describe the same application. It ignores the order
// of permissions and rules. An empty type equals any type.
func (p ApplicationParams) Same(q ApplicationParams) bool { return p.inside().Same(q.inside()) }

// applicationOf converts an application of the internal package.
func applicationOf(a *applications.Application) *Application {
	return &Application{
		ID: a.ID, TenantID: a.TenantID, Name: a.Name, Type: ApplicationType(a.Type), Key: a.Key,
		Permissions: as[Permission](a.Permissions), Rules: rulesOf(a.Rules), ExpiresAt: a.ExpiresAt, Identities: identitiesOf(a.Identities),
		CreatedBy: a.CreatedBy, CreatedAt: a.CreatedAt, ModifiedBy: a.ModifiedBy, ModifiedAt: a.ModifiedAt, Unreadable: a.Unreadable, Suspended: a.Hold.Suspended(),
	}
}

// CreateApplication adds an application (permission application:create). The result
// holds its API key, which cannot be read again.
func (c *Client) CreateApplication(ctx context.Context, p ApplicationParams) (*Application, error) {
	return runTo(ctx, c, &core.ApplicationVerbs.Create, applicationOf, func(ctx context.Context, op *core.Op) (*applications.Application, error) {
		return applications.All.Create(ctx, op, p.inside())
	})
}

// EnsureApplication returns the application with the name in p, and creates it if
// it does not exist. It needs the permission application:read, and the permissions
// of [Client.CreateApplication] to create the application. Programs that start
// concurrently get the same application.
//
// An existing application is returned unchanged even if it differs from p;
// [Client.ApplyApplication] changes it. If its type differs from p, the error is
// ErrConflict. Key is set only in the result of the call that created it;
// [Owner.As] needs no key.
func (c *Client) EnsureApplication(ctx context.Context, p ApplicationParams) (*Application, error) {
	app, _, err := c.ensureApplication(ctx, &core.ApplicationVerbs.Ensure, p)
	if err == nil && p.Type != "" && app.Type != p.Type {
		return nil, fault.New(ErrConflict, "an application of another type has this name")
	}
	return app, err
}

func (c *Client) ensureApplication(ctx context.Context, verb *core.Verb, p ApplicationParams) (item *Application, created bool, err error) {
	item, err = runTo(ctx, c, verb, applicationOf, func(ctx context.Context, op *core.Op) (item *applications.Application, err error) {
		item, created, err = applications.All.Ensure(ctx, op, p.inside())
		return item, err
	})
	return item, created, err
}

// ApplyApplication creates or changes the application with the name in p so that it
// matches p. It leaves an application alone that matches already. It needs the
// permission application:read, and to write, the permissions of
// [Client.CreateApplication] or [Client.ReplaceApplication]. Programs that start
// concurrently create one application. The type of an application cannot change.
// Key is set only in the result of the call that created it.
func (c *Client) ApplyApplication(ctx context.Context, p ApplicationParams) (*Applied[Application], error) {
	item, created, err := c.ensureApplication(ctx, &core.ApplicationVerbs.Apply, p)
	if err != nil || created || item.Params().Same(p) {
		return applied(item, created, false, err)
	}
	p.CreateKey = nil
	item, err = c.ReplaceApplication(ctx, item.ID, p)
	return applied(item, false, true, err)
}

// GetApplication returns an application (permission application:read).
func (c *Client) GetApplication(ctx context.Context, id uuid.UUID) (*Application, error) {
	return runTo(ctx, c, &core.ApplicationVerbs.Get, applicationOf, func(ctx context.Context, op *core.Op) (*applications.Application, error) {
		return applications.Records.Get(ctx, op, id)
	})
}

// OwnApplication returns the application that the client acts as. It needs no
// permission. The tenant itself has no application.
func (c *Client) OwnApplication(ctx context.Context) (*Application, error) {
	return runTo(ctx, c, &core.VerbOwnApplication, applicationOf, applications.Own)
}

// ListApplicationsParams filters applications. Zero fields filter nothing.
type ListApplicationsParams struct {
	IDs []uuid.UUID
	// Name matches the whole name without regard to case; * stands for any text.
	Name  string
	Types []ApplicationType
	PageParams
}

func (p *ListApplicationsParams) list() records.List[applications.Application] {
	l := records.List[applications.Application]{IDs: p.IDs, Name: p.Name}
	if len(p.Types) > 0 {
		l.Keep = func(app *applications.Application) bool { return slices.Contains(p.Types, ApplicationType(app.Type)) }
	}
	return l
}

// ListApplications returns a page of applications, newest first (permission
// application:read). A filter by type reads all applications of the tenant,
// because the database does not know their types.
func (c *Client) ListApplications(ctx context.Context, p ListApplicationsParams) (*Page[Application], error) {
	return listRecords(ctx, c, &core.ApplicationVerbs.List, &applications.Records, p.list(), p.PageParams, applicationOf)
}

// AllApplications iterates over all applications that match the filters, newest
// first (permission application:read). See [Client.AllTokens].
func (c *Client) AllApplications(ctx context.Context, p ListApplicationsParams) iter.Seq2[*Application, error] {
	return allRecords(ctx, c, &core.ApplicationVerbs.All, &applications.Records, p.list(), applicationOf)
}

// ReplaceApplication replaces all parameters of an application except its type, and
// keeps its key. It needs the permission application:update, and every permission
// of the application that is not on tokens. The type may be left out; a different
// type is an [InvalidError].
func (c *Client) ReplaceApplication(ctx context.Context, id uuid.UUID, p ApplicationParams) (*Application, error) {
	return runTo(ctx, c, &core.ApplicationVerbs.Replace, applicationOf, func(ctx context.Context, op *core.Op) (*applications.Application, error) {
		return applications.All.Replace(ctx, op, id, p.inside())
	})
}

// PatchApplication applies a JSON merge patch (RFC 7386) to the parameters of an
// application (permission application:update). The patch is read as by
// [EncodeJSON].
func (c *Client) PatchApplication(ctx context.Context, id uuid.UUID, patch any) (*Application, error) {
	return runTo(ctx, c, &core.ApplicationVerbs.Patch, applicationOf, func(ctx context.Context, op *core.Op) (*applications.Application, error) {
		return applications.All.Patch(ctx, op, id, plainJSON(patch))
	})
}

// RegenerateKey gives an application a new API key in place of all its keys. It needs
// the permission application:update, and every permission of the application that is
// not on tokens. The old keys stop working at once. So do the sessions that they
// created or authorized and the jobs that they queued. To change a key without an
// interruption, use [Client.CreateApplicationKey].
func (c *Client) RegenerateKey(ctx context.Context, id uuid.UUID) (*Application, error) {
	return runTo(ctx, c, &core.VerbRegenerateKey, applicationOf, func(ctx context.Context, op *core.Op) (*applications.Application, error) {
		return applications.RegenerateKey(ctx, op, id)
	})
}

// DeleteApplication deletes an application. It needs the permission
// application:delete, and every permission of the application that is not on
// tokens. Its keys stop working at once. So do the sessions that it created or
// authorized and the jobs that it queued.
func (c *Client) DeleteApplication(ctx context.Context, id uuid.UUID) error {
	return runErr(ctx, c, &core.ApplicationVerbs.Delete, func(ctx context.Context, op *core.Op) error {
		return applications.All.Delete(ctx, op, id)
	})
}
