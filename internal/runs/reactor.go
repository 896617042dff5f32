package runs

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/applications"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/logs/audit"
	"github.com/seed-72ea4aab/vault/internal/records"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/storage"
)

// Reactor is a stored reactor. Package vault documents the fields.
type Reactor struct {
	ID            uuid.UUID         `json:"id"`
	TenantID      uuid.UUID         `json:"tenant_id"`
	Name          string            `json:"name,omitempty"`
	Code          string            `json:"code,omitempty"`
	Configuration map[string]string `json:"configuration,omitzero"`
	ApplicationID Application       `json:"application,omitzero"`
	CreatedBy     uuid.UUID         `json:"created_by,omitzero"`
	CreatedAt     time.Time         `json:"created_at,omitzero"`
	ModifiedBy    uuid.UUID         `json:"modified_by,omitzero"`
	ModifiedAt    time.Time         `json:"modified_at,omitzero"`
	Hold          core.Hold         `json:"hold,omitempty"`      // only stored
	Suspended     bool              `json:"suspended,omitempty"` // only shown
	Unreadable    bool              `json:"unreadable,omitempty"`
}

// Application is the id of the application that code acts as. In JSON it is the
// field id of an object.
type Application uuid.UUID

// reference is the JSON form of an Application.
type reference struct {
	ID uuid.UUID `json:"id"`
}

// MarshalJSON returns the JSON form.
func (a Application) MarshalJSON() ([]byte, error) { return json.Marshal(reference{uuid.UUID(a)}) }

// UnmarshalJSON reads the JSON form.
func (a *Application) UnmarshalJSON(data []byte) error {
	var ref reference
	err := json.Unmarshal(data, &ref)
	*a = Application(ref.ID)
	return err
}

// Reactors stores reactors as records.
var Reactors = records.Kind[Reactor]{
	Name: seal.RecordKind(audit.Reactor),
	Columns: func(r *Reactor) storage.Record {
		return storage.Record{ID: storage.ID(r.ID), Name: r.Name, CreatedAt: r.CreatedAt}
	},
	Document: func(r *Reactor) any { return r },
	Unreadable: func(rec *storage.Record) Reactor {
		return Reactor{ID: uuid.UUID(rec.ID), TenantID: uuid.UUID(rec.Tenant), CreatedAt: rec.CreatedAt, Unreadable: true}
	},
	Modified: func(r *Reactor, by uuid.UUID, at time.Time) { r.ModifiedBy, r.ModifiedAt = by, at },
	Application: func(r *Reactor) (uuid.UUID, func()) {
		return uuid.UUID(r.ApplicationID), func() { r.ApplicationID = Application{} }
	},
}

// ReactorCollection is the collection of a vault's reactors.
type ReactorCollection = records.Collection[Reactor, ReactorParams, *ReactorParams]

// ReactorParams are the parameters of a reactor. Package vault documents the
// fields.
type ReactorParams struct {
	Name          string            `json:"name"`
	Code          string            `json:"code"`
	Configuration map[string]string `json:"configuration"`
	ApplicationID Application       `json:"application,omitzero"`
}

// Read reads the JSON form.
func (p *ReactorParams) Read(r *form.Reader) {
	p.Name, p.Code = r.Text("name"), r.Text("code")
	p.Configuration = r.TextMap("configuration")
	p.ApplicationID = ReadApplication(r)
}

// UnmarshalJSON reads the JSON form strictly.
func (p *ReactorParams) UnmarshalJSON(data []byte) error {
	return fault.Of(form.ReadText(data, p.Read))
}

// ReadApplication reads the field application.
func ReadApplication(r *form.Reader) Application {
	var app Application
	r.Object("application", func(r *form.Reader) {
		id, ok := r.ID("id")
		if app = Application(id); ok && app == (Application{}) {
			r.Problem("id", unusable)
		} else if !ok && r.Value("id").IsZero() {
			r.Problem("id", "is required")
		}
	})
	return app
}

// Same reports whether p and q describe the same reactor.
func (p *ReactorParams) Same(q *ReactorParams) bool {
	return p.Name == q.Name && p.Code == q.Code && maps.Equal(p.Configuration, q.Configuration) && p.ApplicationID == q.ApplicationID
}

// params returns the parameters of the reactor.
func (r *Reactor) params() ReactorParams {
	return ReactorParams{r.Name, r.Code, maps.Clone(r.Configuration), r.ApplicationID}
}

// set sets the fields of the reactor from parameters.
func (r *Reactor) set(p *ReactorParams) {
	r.Name, r.Code, r.Configuration, r.ApplicationID = p.Name, p.Code, p.Configuration, p.ApplicationID
}

// checkFields makes all checks except whether the code can be used.
func checkFields(ctx context.Context, op *core.Op, p *ReactorParams, old *Reactor) error {
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
	if err := CheckApplication(ctx, op, bad, p.ApplicationID, old.ApplicationID); err != nil {
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
			checkFields,
			func(ctx context.Context, op *core.Op, p *ReactorParams, old *Reactor) error {
				return r.Check(ctx, op, "code", p.Name, p.Code, old.Code)
			},
		},
		New: func(op *core.Op) *Reactor {
			return &Reactor{ID: op.NewID(), TenantID: op.Tenant(), CreatedBy: op.Creator(), CreatedAt: op.Now}
		},
		Params: (*Reactor).params, Set: (*Reactor).set,
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

// unusable is the problem with an id that names no application.
const unusable = "must be the id of an application of this tenant"

// CheckApplication checks the application that code will act as, unless it is the same
// as before.
func CheckApplication(ctx context.Context, op *core.Op, bad *form.Problems, id, old Application) error {
	if id == (Application{}) || id == old {
		return nil
	}
	app, err := applications.Records.Read(ctx, op, uuid.UUID(id))
	switch {
	case errors.Is(err, fault.ErrNotFound):
		bad.Add("application.id", unusable)
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
