package vault

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/apikey"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/records"
	"github.com/seed-72ea4aab/vault/storage"
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

	hash storage.Key
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
		p.Name = r.Text("name")
		p.Type = ApplicationType(r.Text("type"))
		p.Permissions = permissionsOf(r.Texts("permissions"))
		p.Rules = readRules(r)
		p.ExpiresAt = r.Moment("expires_at")
	})
}

// Params returns what describes the application, to be changed and given to
// [Client.ReplaceApplication].
func (a *Application) Params() ApplicationParams {
	return ApplicationParams{a.Name, a.Type, slices.Clone(a.Permissions), slices.Clone(a.Rules), a.ExpiresAt}
}

// checked returns the parameters as they are stored.
func (p ApplicationParams) checked(now time.Time) (ApplicationParams, error) {
	bad := &form.Problems{}
	p.checkPlain(now, bad)
	switch p.Type {
	case ApplicationPublic, ApplicationPrivate, ApplicationManagement:
		rules, permissions, problems := access.Check(access.Holder(p.Type), accessRules(p.Rules), texts(p.Permissions))
		bad.AddAll("", problems)
		p.Rules, p.Permissions = rulesOf(rules), permissionsOf(permissions)
	default:
		bad.Add("type", "must be public, private or management")
	}
	return p, fault.Of(bad)
}

// checkPlain checks what does not depend on the type.
func (p *ApplicationParams) checkPlain(now time.Time, bad *form.Problems) {
	form.CheckName(bad, "name", p.Name)
	if !p.ExpiresAt.IsZero() {
		form.CheckExpiry(p.ExpiresAt, now, bad)
	}
}

// mayGrant asks whether the caller may give permissions to an application, or
// change one that holds them: otherwise it could take over an application that
// has more rights than itself, or end it. Permissions on tokens go with the
// right to administer applications; every other permission can be granted only
// by a caller that holds it.
func (op *operation) mayGrant(permissions []Permission) error {
	for _, p := range permissions {
		if !op.Grant().MayGrant(string(p)) {
			return fault.New(ErrForbidden, "permission %s required to grant it, or to change an application that holds it", p)
		}
	}
	return nil
}

// CreateApplication adds an application (permission application:create). The
// answer holds its API key, which cannot be had again.
func (c *Client) CreateApplication(ctx context.Context, p ApplicationParams) (*Application, error) {
	return run(ctx, c, &verbCreateApplication, func(ctx context.Context, op *operation) (*Application, error) {
		app, err := op.newApplication(p)
		if err != nil {
			return nil, err
		}
		return applications.Create(ctx, op.Op, app)
	})
}

// newApplication returns an application that is still to be stored.
func (op *operation) newApplication(p ApplicationParams) (*Application, error) {
	p, err := p.checked(op.Now)
	if err != nil {
		return nil, err
	}
	if err := op.mayGrant(p.Permissions); err != nil {
		return nil, err
	}
	app := &Application{
		ID: op.NewID(), TenantID: op.Tenant(), Name: p.Name, Type: p.Type, Key: apikey.New(keyKind(p.Type)),
		Permissions: p.Permissions, Rules: p.Rules, ExpiresAt: p.ExpiresAt, CreatedBy: op.Creator(), CreatedAt: op.Now,
	}
	app.hash = apikey.Hash(app.Key)
	return app, nil
}

func keyKind(t ApplicationType) string {
	return map[ApplicationType]string{ApplicationPublic: apikey.Public, ApplicationPrivate: apikey.Private, ApplicationManagement: apikey.Management}[t]
}

var applications = records.Kind[Application]{
	Name: kindApplication,
	Columns: func(app *Application) storage.Record {
		return storage.Record{ID: storage.ID(app.ID), Name: app.Name, Key: app.hash, CreatedAt: app.CreatedAt}
	},
	Document: func(app *Application) any {
		doc := *app
		doc.Key = "" // only its hash is kept
		return &doc
	},
	Opened: func(app *Application, rec *storage.Record) { app.hash = rec.Key },
	Unreadable: func(rec *storage.Record) Application {
		return Application{ID: uuid.UUID(rec.ID), TenantID: uuid.UUID(rec.Tenant), CreatedAt: rec.CreatedAt, Unreadable: true}
	},
	Modified: func(app *Application, by uuid.UUID, at time.Time) { app.ModifiedBy, app.ModifiedAt = by, at },
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
	return run(ctx, c, &verbEnsureApplication, func(ctx context.Context, op *operation) (*Application, error) {
		app, err := applications.Ensure(ctx, op.Op, p.Name, func() (*Application, error) {
			if err := op.Require(access.ApplicationCreate); err != nil {
				return nil, err
			}
			return op.newApplication(p)
		})
		if err == nil && p.Type != "" && app.Type != p.Type {
			return nil, fault.New(ErrConflict, "an application of another type has this name")
		}
		return app, err
	})
}

// GetApplication returns an application (permission application:read).
func (c *Client) GetApplication(ctx context.Context, id uuid.UUID) (*Application, error) {
	return run(ctx, c, &verbGetApplication, func(ctx context.Context, op *operation) (*Application, error) {
		return applications.Get(ctx, op.Op, id)
	})
}

// OwnApplication returns the application that the client acts as. It needs no
// permission. The tenant itself has none.
func (c *Client) OwnApplication(ctx context.Context) (*Application, error) {
	return run(ctx, c, &verbOwnApplication, func(ctx context.Context, op *operation) (*Application, error) {
		if op.Application() == nil {
			return nil, fault.New(ErrNotFound, "the tenant itself is not an application")
		}
		return applications.Get(ctx, op.Op, op.Application().ID)
	})
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

func (f *ApplicationFilter) list() records.List[Application] {
	l := records.List[Application]{IDs: f.IDs, Name: f.Name}
	if len(f.Types) > 0 {
		l.Keep = func(app *Application) bool { return slices.Contains(f.Types, app.Type) }
	}
	return l
}

// ListApplications returns a page of applications, newest first (permission
// application:read). A filter by type reads all applications of the tenant,
// because the database does not know their types.
func (c *Client) ListApplications(ctx context.Context, p ListApplicationsParams) (*Page[Application], error) {
	return listRecords(ctx, c, &verbListApplications, &applications, (&ApplicationFilter{p.IDs, p.Name, p.Types}).list(), p.PageParams)
}

// AllApplications iterates over all applications that meet the filter, newest
// first (permission application:read): see [Client.AllTokens].
func (c *Client) AllApplications(ctx context.Context, f ApplicationFilter) iter.Seq2[*Application, error] {
	return allRecords(ctx, c, &verbAllApplications, &applications, f.list())
}

// ReplaceApplication replaces everything of an application but its type and
// its key (permission application:update, and every permission of the application
// that is not on tokens). The type may be left out; another one is an
// [InvalidError].
func (c *Client) ReplaceApplication(ctx context.Context, id uuid.UUID, p ApplicationParams) (*Application, error) {
	return run(ctx, c, &verbReplaceApplication, func(ctx context.Context, op *operation) (*Application, error) {
		return op.replaceApplication(ctx, id, p)
	})
}

func (op *operation) replaceApplication(ctx context.Context, id uuid.UUID, p ApplicationParams) (*Application, error) {
	var err error
	if p.Type == "" { // what it may hold depends on the type that it has
		bad := &form.Problems{}
		p.checkPlain(op.Now, bad)
		err = fault.Of(bad)
	} else {
		p, err = p.checked(op.Now)
	}
	if err != nil {
		return nil, err
	}
	return op.updateApplication(ctx, id, func(old ApplicationParams) (ApplicationParams, error) {
		if p.Type != "" {
			return p, nil
		}
		whole := p
		whole.Type = old.Type
		return whole.checked(op.Now)
	})
}

// PatchApplication changes an application by a JSON merge patch (RFC 7386) of
// its parameters, which [EncodeJSON] reads (permission application:update).
func (c *Client) PatchApplication(ctx context.Context, id uuid.UUID, patch any) (*Application, error) {
	return run(ctx, c, &verbPatchApplication, func(ctx context.Context, op *operation) (*Application, error) {
		return op.patchApplication(ctx, id, patch)
	})
}

func (op *operation) patchApplication(ctx context.Context, id uuid.UUID, patch any) (*Application, error) {
	text, err := EncodeJSON(patch)
	if err != nil {
		return nil, err
	}
	app, err := op.updateApplication(ctx, id, func(p ApplicationParams) (ApplicationParams, error) {
		var patched ApplicationParams
		if err := paramsForm.Merge(&patched, p, text); err != nil {
			return p, err
		}
		if patched.Type != p.Type {
			return p, errTypeIsFixed() // what another type may hold is beside the point
		}
		return patched.checked(op.Now)
	})
	if errors.Is(err, ErrNotFound) {
		var alone ApplicationParams
		err = cmp.Or(paramsForm.Fault(text, &alone, func() error {
			_, err := alone.checked(op.Now)
			return err
		}), err)
	}
	return app, err
}

func errTypeIsFixed() error { return fault.Field("type", "cannot be changed") }

func (op *operation) updateApplication(ctx context.Context, id uuid.UUID, change func(ApplicationParams) (ApplicationParams, error)) (*Application, error) {
	return op.saveApplication(ctx, id, func(app *Application) error {
		p, err := change(app.Params())
		if err != nil {
			return err
		}
		if p.Type != app.Type {
			return errTypeIsFixed()
		}
		if err := op.mayGrant(p.Permissions); err != nil {
			return err
		}
		app.Name, app.Permissions, app.Rules, app.ExpiresAt = p.Name, p.Permissions, p.Rules, p.ExpiresAt
		return nil
	})
}

// saveApplication changes an application and forgets what this node believes
// of its key.
func (op *operation) saveApplication(ctx context.Context, id uuid.UUID, change func(*Application) error) (*Application, error) {
	defer op.Afterwards(op.v.core.ForgetIdentities)
	return applications.Update(ctx, op.Op, id, func(app *Application) error {
		if err := op.mayGrant(app.Permissions); err != nil {
			return err
		}
		return change(app)
	})
}

// RegenerateKey gives an application a new API key (permission
// application:update, and every permission of the application that is not on
// tokens). The old key dies at once, and with it the sessions that it made or
// authorized and the jobs that it queued.
func (c *Client) RegenerateKey(ctx context.Context, id uuid.UUID) (*Application, error) {
	return run(ctx, c, &verbRegenerateKey, func(ctx context.Context, op *operation) (*Application, error) {
		return op.saveApplication(ctx, id, func(app *Application) error {
			app.Key = apikey.New(keyKind(app.Type))
			app.hash = apikey.Hash(app.Key)
			return nil
		})
	})
}

// DeleteApplication deletes an application (permission application:delete, and
// every permission of the application that is not on tokens). Its key dies at
// once, and with it the sessions that it made or authorized and the jobs that it
// queued.
func (c *Client) DeleteApplication(ctx context.Context, id uuid.UUID) error {
	return runErr(ctx, c, &verbDeleteApplication, func(ctx context.Context, op *operation) error {
		defer op.Afterwards(op.v.core.ForgetIdentities)
		return applications.Delete(ctx, op.Op, id, func(app *Application) error { return op.mayGrant(app.Permissions) })
	})
}
