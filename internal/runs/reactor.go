package runs

import (
	"context"
	"errors"
	"maps"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/applications"
	"github.com/seed-72ea4aab/vault/internal/audit"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/records"
	"github.com/seed-72ea4aab/vault/storage"
)

// Reactor is a stored reactor. Package vault documents the fields.
type Reactor struct {
	ID            uuid.UUID         `json:"id"`
	TenantID      uuid.UUID         `json:"tenant_id"`
	Name          string            `json:"name,omitempty"`
	Code          string            `json:"code,omitempty"`
	Configuration map[string]string `json:"configuration,omitzero"`
	Application   *Application      `json:"application,omitempty"`
	CreatedBy     uuid.UUID         `json:"created_by,omitzero"`
	CreatedAt     time.Time         `json:"created_at,omitzero"`
	ModifiedBy    uuid.UUID         `json:"modified_by,omitzero"`
	ModifiedAt    time.Time         `json:"modified_at,omitzero"`
	Unreadable    bool              `json:"unreadable,omitempty"`
}

// Application refers to the application that code acts as.
type Application struct {
	ID uuid.UUID `json:"id"`
}

// Named returns the id of the application, or zero.
func (a *Application) Named() uuid.UUID {
	if a == nil {
		return uuid.UUID{}
	}
	return a.ID
}

// Same reports whether a and b name the same application.
func (a *Application) Same(b *Application) bool {
	return a == b || a != nil && b != nil && a.ID == b.ID
}

// Reactors stores reactors as records.
var Reactors = records.Kind[Reactor]{
	Name: audit.Reactor,
	Columns: func(r *Reactor) storage.Record {
		return storage.Record{ID: storage.ID(r.ID), Name: r.Name, CreatedAt: r.CreatedAt}
	},
	Document: func(r *Reactor) any { return r },
	Unreadable: func(rec *storage.Record) Reactor {
		return Reactor{ID: uuid.UUID(rec.ID), TenantID: uuid.UUID(rec.Tenant), CreatedAt: rec.CreatedAt, Unreadable: true}
	},
	Modified:    func(r *Reactor, by uuid.UUID, at time.Time) { r.ModifiedBy, r.ModifiedAt = by, at },
	Application: func(r *Reactor) (uuid.UUID, func()) { return r.Application.Named(), func() { r.Application = nil } },
}

// ReactorCollection is the collection of a vault's reactors.
type ReactorCollection = records.Collection[Reactor, ReactorParams, *ReactorParams]

// ReactorParams are the parameters of a reactor. Package vault documents the
// fields.
type ReactorParams struct {
	Name          string            `json:"name"`
	Code          string            `json:"code"`
	Configuration map[string]string `json:"configuration"`
	Application   *Application      `json:"application,omitempty"`
}

// Read reads the JSON form.
func (p *ReactorParams) Read(r *form.Reader) {
	p.Name, p.Code = r.Text("name"), r.Text("code")
	p.Configuration = r.TextMap("configuration")
	p.Application = ReadApplication(r)
}

// UnmarshalJSON reads the JSON form strictly.
func (p *ReactorParams) UnmarshalJSON(data []byte) error {
	return fault.Of(form.ReadText(data, p.Read))
}

// ReadApplication reads the field application.
func ReadApplication(r *form.Reader) *Application {
	var ref *Application
	r.Object("application", func(r *form.Reader) {
		id, ok := r.ID("id")
		if ok {
			ref = &Application{id}
		} else if r.Value("id").IsZero() {
			r.Problem("id", "is required")
		}
	})
	return ref
}

// Same reports whether p and q describe the same reactor.
func (p *ReactorParams) Same(q *ReactorParams) bool {
	return p.Name == q.Name && p.Code == q.Code && maps.Equal(p.Configuration, q.Configuration) && p.Application.Same(q.Application)
}

// params returns the parameters of the reactor.
func (r *Reactor) params() ReactorParams {
	return ReactorParams{r.Name, r.Code, maps.Clone(r.Configuration), r.Application}
}

// set sets the fields of the reactor from parameters.
func (r *Reactor) set(p *ReactorParams) {
	r.Name, r.Code, r.Configuration, r.Application = p.Name, p.Code, p.Configuration, p.Application
}

// check makes all checks except whether the code can be used.
func (p *ReactorParams) check(ctx context.Context, op *core.Op) error {
	bad := &form.Problems{}
	form.CheckName(bad, "name", p.Name)
	if p.Code == "" {
		bad.Add("code", "is required")
	}
	CheckCode(bad, "code", p.Code)
	if p.Configuration == nil {
		bad.Add("configuration", "is required")
	}
	CheckConfiguration(bad, p.Configuration)
	if err := CheckApplication(ctx, op, bad, p.Application); err != nil {
		return err
	}
	return fault.Of(bad)
}

// newReactors returns the collection of reactors.
func (r *Runs) newReactors() *ReactorCollection {
	return &ReactorCollection{
		Kind: &Reactors, Right: access.ReactorCreate,
		Name: func(p *ReactorParams) string { return p.Name },
		Checks: []func(context.Context, *core.Op, *ReactorParams, *Reactor) error{
			func(ctx context.Context, op *core.Op, p *ReactorParams, _ *Reactor) error { return p.check(ctx, op) },
			func(ctx context.Context, op *core.Op, p *ReactorParams, old *Reactor) error {
				return r.Check(ctx, op, "code", p.Name, p.Code, old.Code)
			},
		},
		New: func(op *core.Op) *Reactor {
			return &Reactor{ID: op.NewID(), TenantID: op.Tenant(), CreatedBy: op.Creator(), CreatedAt: op.Now}
		},
		Params: (*Reactor).params, Set: (*Reactor).set,
		Detach: func(p *ReactorParams) func() {
			kept := p.Application
			p.Application = nil
			return func() { p.Application = kept }
		},
	}
}

// Limits of reactors and proxies.
const (
	maxCode               = 1_000_000 // characters
	maxConfiguration      = 25        // entries
	maxConfigurationKey   = 200       // characters
	maxConfigurationValue = 10_000    // characters
)

// CheckCode checks the size of code.
func CheckCode(bad *form.Problems, path, code string) {
	if utf8.RuneCountInString(code) > maxCode {
		bad.Add(path, "must have at most %d characters", maxCode)
	}
}

// CheckConfiguration checks the size of a configuration.
func CheckConfiguration(bad *form.Problems, configuration map[string]string) {
	form.CheckPairs(bad, "configuration", configuration, maxConfiguration, maxConfigurationKey, maxConfigurationValue)
}

// CheckApplication checks the application that code will act as.
func CheckApplication(ctx context.Context, op *core.Op, bad *form.Problems, ref *Application) error {
	if ref == nil {
		return nil
	}
	app, err := applications.Records.Read(ctx, op, ref.ID)
	switch {
	case errors.Is(err, fault.ErrNotFound):
		bad.Add("application.id", "must be the id of an application of this tenant")
	case err != nil:
		return err
	case app.Type == string(access.Management):
		bad.Add("application.id", "must be a public or private application")
	}
	return nil
}

// ReactorCode returns the code of a reactor for a test run.
func ReactorCode(ctx context.Context, op *core.Op, id uuid.UUID) (Code, error) {
	r, err := Reactors.Read(ctx, op, id)
	if err != nil {
		return Code{}, err
	}
	return Code{Entity: core.Entity{Type: audit.Reactor, ID: r.ID.String()}, Name: r.Name, Source: r.Code, Configuration: r.Configuration}, nil
}
