package vault

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/records"
	"github.com/seed-72ea4aab/vault/storage"
)

// Reactor is code of a tenant that runs with detokenized arguments. Code and
// configuration are not shown when it is printed or logged, except as JSON and
// in unexported fields: see the package comment.
type Reactor struct {
	ID       uuid.UUID `json:"id"`
	TenantID uuid.UUID `json:"tenant_id"`
	Name     string    `json:"name,omitempty"`
	Code     string    `json:"code,omitempty"`
	// Configuration holds names and values that the code is given. It is sealed
	// at rest.
	Configuration map[string]string `json:"configuration,omitzero"`
	// Application is the one that the code's client acts as.
	Application *ApplicationRef `json:"application,omitempty"`
	CreatedBy   uuid.UUID       `json:"created_by,omitzero"`
	CreatedAt   time.Time       `json:"created_at,omitzero"`
	ModifiedBy  uuid.UUID       `json:"modified_by,omitzero"`
	ModifiedAt  time.Time       `json:"modified_at,omitzero"`
	// Unreadable is set in lists for a reactor whose row was altered or does not
	// open. Only ID, TenantID and CreatedAt are set then.
	Unreadable bool `json:"unreadable,omitempty"`
}

// ApplicationRef names an application.
type ApplicationRef struct {
	ID uuid.UUID `json:"id"`
}

// ReactorParams describes a reactor. All but Application is required;
// Configuration may be empty, but not nil. Printed or logged it shows its name
// alone, except as JSON and in unexported fields: see the package comment.
type ReactorParams struct {
	Name          string            `json:"name"`
	Code          string            `json:"code"`
	Configuration map[string]string `json:"configuration"`
	Application   *ApplicationRef   `json:"application,omitempty"`
}

// UnmarshalJSON reads the JSON form strictly: an unknown field, a duplicate
// key or a wrong type is an [InvalidError].
func (p *ReactorParams) UnmarshalJSON(data []byte) error {
	return readObject(data, func(r *form.Reader) {
		p.Name, p.Code = r.Text("name"), r.Text("code")
		p.Configuration = r.TextMap("configuration")
		p.Application = readApplicationRef(r)
	})
}

// Params returns what describes the reactor, to be changed and given to
// [Client.ReplaceReactor].
func (r *Reactor) Params() ReactorParams {
	p := ReactorParams{Name: r.Name, Code: r.Code, Configuration: maps.Clone(r.Configuration)}
	if r.Application != nil {
		p.Application = &ApplicationRef{r.Application.ID}
	}
	return p
}

func readApplicationRef(r *form.Reader) *ApplicationRef {
	var ref *ApplicationRef
	r.Object("application", func(r *form.Reader) {
		id, ok := r.ID("id")
		if ok {
			ref = &ApplicationRef{id}
		} else if r.Value("id").IsZero() {
			r.Problem("id", "is required")
		}
	})
	return ref
}

// check checks the parameters, and the code when it is new.
func (p *ReactorParams) check(ctx context.Context, op *operation, oldCode string) error {
	if err := p.checkFields(ctx, op); err != nil {
		return err
	}
	return p.load(ctx, op, oldCode)
}

// checkFields checks everything but whether the code can be used.
func (p *ReactorParams) checkFields(ctx context.Context, op *operation) error {
	bad := &form.Problems{}
	form.CheckName(bad, "name", p.Name)
	if p.Code == "" {
		bad.Add("code", "is required")
	}
	checkCode(bad, "code", p.Code)
	if p.Configuration == nil {
		bad.Add("configuration", "is required")
	}
	checkConfiguration(bad, p.Configuration)
	if err := op.checkScriptApplication(ctx, bad, p.Application); err != nil {
		return err
	}
	return fault.Of(bad)
}

// load lets the runtime look at the code when it is new.
func (p *ReactorParams) load(ctx context.Context, op *operation, oldCode string) error {
	return op.v.runs.Check(ctx, op.Op, "code", p.Name, p.Code, oldCode)
}

// CreateReactor adds a reactor (permission reactor:create). Code that cannot be
// used is ErrCode, and a [*script.Error] whose Messages say what is wrong with it.
func (c *Client) CreateReactor(ctx context.Context, p ReactorParams) (*Reactor, error) {
	return run(ctx, c, &verbCreateReactor, func(ctx context.Context, op *operation) (*Reactor, error) {
		r, err := op.newReactor(ctx, &p)
		if err != nil {
			return nil, err
		}
		return reactors.Create(ctx, op.Op, r)
	})
}

// newReactor returns a reactor that is still to be stored.
func (op *operation) newReactor(ctx context.Context, p *ReactorParams) (*Reactor, error) {
	if err := p.check(ctx, op, ""); err != nil {
		return nil, err
	}
	r := &Reactor{ID: op.NewID(), TenantID: op.Tenant(), CreatedBy: op.Creator(), CreatedAt: op.Now}
	r.set(p)
	return r, nil
}

// set changes what parameters describe.
func (r *Reactor) set(p *ReactorParams) {
	r.Name, r.Code, r.Configuration, r.Application = p.Name, p.Code, p.Configuration, p.Application
}

var reactors = records.Kind[Reactor]{
	Name: kindReactor,
	Columns: func(r *Reactor) storage.Record {
		return storage.Record{ID: storage.ID(r.ID), Name: r.Name, CreatedAt: r.CreatedAt}
	},
	Document: func(r *Reactor) any { return r },
	Unreadable: func(rec *storage.Record) Reactor {
		return Reactor{ID: uuid.UUID(rec.ID), TenantID: uuid.UUID(rec.Tenant), CreatedAt: rec.CreatedAt, Unreadable: true}
	},
	Modified: func(r *Reactor, by uuid.UUID, at time.Time) { r.ModifiedBy, r.ModifiedAt = by, at },
	Application: func(r *Reactor) (uuid.UUID, func()) {
		if r.Application == nil {
			return uuid.UUID{}, nil
		}
		return r.Application.ID, func() { r.Application = nil }
	},
}

// EnsureReactor returns the reactor that has the name of p, and creates it when
// there is none (permissions reactor:read, and reactor:create when it is
// missing). Programs that start together get the same one. A reactor that exists
// is returned as it is, whatever else p says: [Client.ApplyReactor] changes it.
func (c *Client) EnsureReactor(ctx context.Context, p ReactorParams) (*Reactor, error) {
	return run(ctx, c, &verbEnsureReactor, func(ctx context.Context, op *operation) (*Reactor, error) {
		return reactors.Ensure(ctx, op.Op, p.Name, func() (*Reactor, error) {
			if err := op.Require(access.ReactorCreate); err != nil {
				return nil, err
			}
			return op.newReactor(ctx, &p)
		})
	})
}

// GetReactor returns a reactor (permission reactor:read).
func (c *Client) GetReactor(ctx context.Context, id uuid.UUID) (*Reactor, error) {
	return run(ctx, c, &verbGetReactor, func(ctx context.Context, op *operation) (*Reactor, error) {
		return reactors.Get(ctx, op.Op, id)
	})
}

// ListReactorsParams filters reactors. Zero fields filter nothing.
type ListReactorsParams struct {
	IDs []uuid.UUID
	// Name matches the whole name without regard to case; * stands for any text.
	Name string
	PageParams
}

// ReactorFilter is [ListReactorsParams] without a page, for [Client.AllReactors].
type ReactorFilter struct {
	IDs  []uuid.UUID
	Name string
}

// ListReactors returns a page of reactors, newest first (permission
// reactor:read).
func (c *Client) ListReactors(ctx context.Context, p ListReactorsParams) (*Page[Reactor], error) {
	return listRecords(ctx, c, &verbListReactors, &reactors, records.List[Reactor]{IDs: p.IDs, Name: p.Name}, p.PageParams)
}

// AllReactors iterates over all reactors that meet the filter, newest first
// (permission reactor:read): see [Client.AllTokens].
func (c *Client) AllReactors(ctx context.Context, f ReactorFilter) iter.Seq2[*Reactor, error] {
	return allRecords(ctx, c, &verbAllReactors, &reactors, records.List[Reactor]{IDs: f.IDs, Name: f.Name})
}

// ReplaceReactor replaces everything of a reactor (permission reactor:update).
func (c *Client) ReplaceReactor(ctx context.Context, id uuid.UUID, p ReactorParams) (*Reactor, error) {
	return run(ctx, c, &verbReplaceReactor, func(ctx context.Context, op *operation) (*Reactor, error) {
		if err := p.check(ctx, op, ""); err != nil {
			return nil, err
		}
		return reactors.Update(ctx, op.Op, id, func(r *Reactor) error {
			r.set(&p)
			return nil
		})
	})
}

// PatchReactor changes a reactor by a JSON merge patch (RFC 7386) of its
// parameters, which [EncodeJSON] reads (permission reactor:update).
func (c *Client) PatchReactor(ctx context.Context, id uuid.UUID, patch any) (*Reactor, error) {
	return run(ctx, c, &verbPatchReactor, func(ctx context.Context, op *operation) (*Reactor, error) { return op.patchReactor(ctx, id, patch) })
}

func (op *operation) patchReactor(ctx context.Context, id uuid.UUID, patch any) (*Reactor, error) {
	text, err := EncodeJSON(patch)
	if err != nil {
		return nil, err
	}
	r, err := reactors.Update(ctx, op.Op, id, func(r *Reactor) error {
		var p ReactorParams
		if err := paramsForm.Merge(&p, r.Params(), text); err != nil {
			return err
		}
		kept := p.Application
		if !records.Names(text, "application") {
			p.Application = nil // it was checked when it was set, and may be gone
		}
		if err := p.check(ctx, op, r.Code); err != nil {
			return err
		}
		p.Application = kept
		r.set(&p)
		return nil
	})
	if errors.Is(err, ErrNotFound) {
		var alone ReactorParams
		err = cmp.Or(paramsForm.Fault(text, &alone,
			func() error { return alone.checkFields(ctx, op) },
			func() error { return alone.load(ctx, op, "") }), err)
	}
	return r, err
}

// DeleteReactor deletes a reactor (permission reactor:delete).
func (c *Client) DeleteReactor(ctx context.Context, id uuid.UUID) error {
	return runErr(ctx, c, &verbDeleteReactor, func(ctx context.Context, op *operation) error {
		return reactors.Delete(ctx, op.Op, id, nil)
	})
}

// Bounds on what reactors and proxies carry.
const (
	maxCode               = 1_000_000 // characters
	maxConfiguration      = 25        // entries
	maxConfigurationKey   = 200       // characters
	maxConfigurationValue = 10_000    // characters
)

func checkCode(bad *form.Problems, path, code string) {
	if utf8.RuneCountInString(code) > maxCode {
		bad.Add(path, "must have at most %d characters", maxCode)
	}
}

func checkConfiguration(bad *form.Problems, configuration map[string]string) {
	form.CheckPairs(bad, "configuration", configuration, maxConfiguration, maxConfigurationKey, maxConfigurationValue)
}

// checkScriptApplication checks the application that code is to act as.
func (op *operation) checkScriptApplication(ctx context.Context, bad *form.Problems, ref *ApplicationRef) error {
	if ref == nil {
		return nil
	}
	app, err := applications.Read(ctx, op.Op, ref.ID)
	switch {
	case errors.Is(err, ErrNotFound):
		bad.Add("application.id", "must be the id of an application of this tenant")
	case err != nil:
		return err
	case app.Type == ApplicationManagement:
		bad.Add("application.id", "must be a public or private application")
	}
	return nil
}
