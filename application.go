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
	"github.com/seed-72ea4aab/vault/internal/verbs"
)

// ApplicationType limits what an application may do at all.
type ApplicationType string

// Types of applications. A public key may stand in a browser: it creates and
// updates tokens and opens sessions. A private key works with tokens. A
// management key administers everything else; one that may create or change
// applications can make a private key, and so in effect read all data.
const (
	ApplicationPublic     ApplicationType = "public"
	ApplicationPrivate    ApplicationType = "private"
	ApplicationManagement ApplicationType = "management"
)

// Application is a holder of an API key. The key is not shown when it is printed
// or logged, except as JSON and in unexported fields: see the package comment.
type Application struct {
	ID       uuid.UUID       `json:"id"`
	TenantID uuid.UUID       `json:"tenant_id"`
	Name     string          `json:"name,omitempty"`
	Type     ApplicationType `json:"type,omitempty"`
	// Key is the API key. It is known only in the answer that made it.
	Key         string       `json:"key,omitempty"`
	Permissions []Permission `json:"permissions,omitempty"`
	Rules       []AccessRule `json:"rules,omitempty"`
	CreatedBy   uuid.UUID    `json:"created_by,omitzero"`
	CreatedAt   time.Time    `json:"created_at,omitzero"`
	ModifiedBy  uuid.UUID    `json:"modified_by,omitzero"`
	ModifiedAt  time.Time    `json:"modified_at,omitzero"`
	ExpiresAt   time.Time    `json:"expires_at,omitzero"` // when the key stops working
	// Unreadable is set in lists for an application whose row was altered or does not
	// open. Only ID, TenantID and CreatedAt are set then; the type is sealed.
	Unreadable bool `json:"unreadable,omitempty"`
}

// ApplicationParams describes an application. At least one of Permissions and
// Rules must not be empty, and the type must be one that may hold them:
// [Client.ListPermissions] says which may. ExpiresAt ends the key.
type ApplicationParams struct {
	Name        string          `json:"name"`
	Type        ApplicationType `json:"type"`
	Permissions []Permission    `json:"permissions,omitempty"`
	Rules       []AccessRule    `json:"rules,omitempty"`
	ExpiresAt   time.Time       `json:"expires_at,omitzero"`
}

// UnmarshalJSON reads the JSON form strictly: an unknown field, a duplicate
// key or a wrong type is an [InvalidError].
func (p *ApplicationParams) UnmarshalJSON(data []byte) error {
	return readObject(data, func(r *form.Reader) {
		var in applications.Params
		in.Read(r)
		*p = ApplicationParams{in.Name, ApplicationType(in.Type), permissionsOf(in.Permissions), rulesOf(in.Rules), in.ExpiresAt}
	})
}

// Params returns what describes the application, to be changed and given to
// [Client.ReplaceApplication].
func (a *Application) Params() ApplicationParams {
	return ApplicationParams{a.Name, a.Type, slices.Clone(a.Permissions), slices.Clone(a.Rules), a.ExpiresAt}
}

// inside returns the parameters as rooms read them.
func (p *ApplicationParams) inside() applications.Params {
	return applications.Params{Name: p.Name, Type: string(p.Type), Permissions: texts(p.Permissions), Rules: accessRules(p.Rules), ExpiresAt: p.ExpiresAt}
}

// Same reports whether p and q describe the same application. The order of
// permissions and rules does not count, and neither does a type that is left out.
func (p ApplicationParams) Same(q ApplicationParams) bool { return p.inside().Same(q.inside()) }

// applicationOf returns an application of a room.
func applicationOf(a *applications.Application) *Application {
	return &Application{
		ID: a.ID, TenantID: a.TenantID, Name: a.Name, Type: ApplicationType(a.Type), Key: a.Key,
		Permissions: permissionsOf(a.Permissions), Rules: rulesOf(a.Rules), ExpiresAt: a.ExpiresAt,
		CreatedBy: a.CreatedBy, CreatedAt: a.CreatedAt, ModifiedBy: a.ModifiedBy, ModifiedAt: a.ModifiedAt, Unreadable: a.Unreadable,
	}
}

// CreateApplication adds an application (permission application:create). The
// answer holds its API key, which cannot be had again.
func (c *Client) CreateApplication(ctx context.Context, p ApplicationParams) (*Application, error) {
	return runTo(ctx, c, &verbs.CreateApplication, applicationOf, func(ctx context.Context, op *core.Op) (*applications.Application, error) {
		return applications.Create(ctx, op, p.inside())
	})
}

// EnsureApplication returns the application that has the name of p, and creates
// it when there is none (permissions application:read, and those of
// [Client.CreateApplication] when it is missing). Programs that start together
// get the same one.
//
// An application that exists is returned as it is, whatever else p says:
// [Client.ApplyApplication] changes it. If it has another type than p, that is
// ErrConflict. Key is set only in the answer that created it; [Owner.As] needs
// none.
func (c *Client) EnsureApplication(ctx context.Context, p ApplicationParams) (*Application, error) {
	return runTo(ctx, c, &verbs.EnsureApplication, applicationOf, func(ctx context.Context, op *core.Op) (*applications.Application, error) {
		app, _, err := applications.Ensure(ctx, op, p.inside())
		if err == nil && p.Type != "" && app.Type != string(p.Type) {
			return nil, fault.New(ErrConflict, "an application of another type has this name")
		}
		return app, err
	})
}

// ApplyApplication makes the application with the name of p what p says: it creates
// the application when no other has the name, changes it when it differs, and
// otherwise leaves it alone (permissions application:read, and those of
// [Client.CreateApplication] or [Client.ReplaceApplication] when something is to be
// done). Programs that start together create one. The type of an application cannot
// change. Key is set only in the result that created it.
func (c *Client) ApplyApplication(ctx context.Context, p ApplicationParams) (*Applied[Application], error) {
	return applied(ctx, c, &verbs.ApplyApplication, applicationOf,
		func(ctx context.Context, op *core.Op) (*applications.Application, bool, error) {
			return applications.Ensure(ctx, op, p.inside())
		},
		func(a *Application) bool { return a.Params().Same(p) },
		func(a *Application) (*Application, error) { return c.ReplaceApplication(ctx, a.ID, p) })
}

// GetApplication returns an application (permission application:read).
func (c *Client) GetApplication(ctx context.Context, id uuid.UUID) (*Application, error) {
	return runTo(ctx, c, &verbs.GetApplication, applicationOf, func(ctx context.Context, op *core.Op) (*applications.Application, error) {
		return applications.Records.Get(ctx, op, id)
	})
}

// OwnApplication returns the application that the client acts as. It needs no
// permission. The tenant itself has none.
func (c *Client) OwnApplication(ctx context.Context) (*Application, error) {
	return runTo(ctx, c, &verbs.OwnApplication, applicationOf, applications.Own)
}

// ListApplicationsParams filters applications. Zero fields filter nothing.
type ListApplicationsParams struct {
	IDs []uuid.UUID
	// Name matches the whole name without regard to case; * stands for any text.
	Name  string
	Types []ApplicationType
	PageParams
}

// ApplicationFilter is [ListApplicationsParams] without a page, for
// [Client.AllApplications].
type ApplicationFilter struct {
	IDs   []uuid.UUID
	Name  string
	Types []ApplicationType
}

func (f *ApplicationFilter) list() records.List[applications.Application] {
	l := records.List[applications.Application]{IDs: f.IDs, Name: f.Name}
	if len(f.Types) > 0 {
		l.Keep = func(app *applications.Application) bool { return slices.Contains(f.Types, ApplicationType(app.Type)) }
	}
	return l
}

// ListApplications returns a page of applications, newest first (permission
// application:read). A filter by type reads all applications of the tenant,
// because the database does not know their types.
func (c *Client) ListApplications(ctx context.Context, p ListApplicationsParams) (*Page[Application], error) {
	return listRecords(ctx, c, &verbs.ListApplications, &applications.Records, applicationOf, (&ApplicationFilter{p.IDs, p.Name, p.Types}).list(), p.PageParams)
}

// AllApplications iterates over all applications that meet the filter, newest
// first (permission application:read): see [Client.AllTokens].
func (c *Client) AllApplications(ctx context.Context, f ApplicationFilter) iter.Seq2[*Application, error] {
	return allRecords(ctx, c, &verbs.AllApplications, &applications.Records, applicationOf, f.list())
}

// ReplaceApplication replaces everything of an application but its type and
// its key (permission application:update, and every permission of the application
// that is not on tokens). The type may be left out; another one is an
// [InvalidError].
func (c *Client) ReplaceApplication(ctx context.Context, id uuid.UUID, p ApplicationParams) (*Application, error) {
	return runTo(ctx, c, &verbs.ReplaceApplication, applicationOf, func(ctx context.Context, op *core.Op) (*applications.Application, error) {
		return applications.Replace(ctx, op, id, p.inside())
	})
}

// PatchApplication changes an application by a JSON merge patch (RFC 7386) of
// its parameters, which [EncodeJSON] reads (permission application:update).
func (c *Client) PatchApplication(ctx context.Context, id uuid.UUID, patch any) (*Application, error) {
	return runTo(ctx, c, &verbs.PatchApplication, applicationOf, func(ctx context.Context, op *core.Op) (*applications.Application, error) {
		return applications.Patch(ctx, op, id, plainJSON(patch))
	})
}

// RegenerateKey gives an application a new API key (permission
// application:update, and every permission of the application that is not on
// tokens). The old key dies at once, and with it the sessions that it made or
// authorized and the jobs that it queued.
func (c *Client) RegenerateKey(ctx context.Context, id uuid.UUID) (*Application, error) {
	return runTo(ctx, c, &verbs.RegenerateKey, applicationOf, func(ctx context.Context, op *core.Op) (*applications.Application, error) {
		return applications.RegenerateKey(ctx, op, id)
	})
}

// DeleteApplication deletes an application (permission application:delete, and
// every permission of the application that is not on tokens). Its key dies at
// once, and with it the sessions that it made or authorized and the jobs that it
// queued.
func (c *Client) DeleteApplication(ctx context.Context, id uuid.UUID) error {
	return runErr(ctx, c, &verbs.DeleteApplication, func(ctx context.Context, op *core.Op) error { return applications.Delete(ctx, op, id) })
}

// ApplyAction says what an Apply method has done.
type ApplyAction string

// The actions of Apply methods.
const (
	ApplyCreated   ApplyAction = "created"
	ApplyChanged   ApplyAction = "changed"
	ApplyUnchanged ApplyAction = "unchanged"
)

// Applied is the result of an Apply method: the entity as it is now, and what was
// done.
type Applied[T any] struct {
	Item   *T
	Action ApplyAction
}

// applied carries out an Apply method: it finds or creates an entity, and replaces
// one that is not the same.
func applied[R, T any](ctx context.Context, c *Client, verb *core.Verb, show func(*R) *T,
	ensure func(context.Context, *core.Op) (*R, bool, error), same func(*T) bool, replace func(*T) (*T, error)) (*Applied[T], error) {
	out := &Applied[T]{Action: ApplyUnchanged}
	var err error
	out.Item, err = runTo(ctx, c, verb, show, func(ctx context.Context, op *core.Op) (*R, error) {
		item, created, err := ensure(ctx, op)
		if created {
			out.Action = ApplyCreated
		}
		return item, err
	})
	if err == nil && out.Action == ApplyUnchanged && !same(out.Item) {
		out.Action = ApplyChanged
		out.Item, err = replace(out.Item)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}
