package vault

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/storage"
)

// Reactor is code of a tenant that runs with detokenized arguments.
type Reactor struct {
	ID       uuid.UUID `json:"id"`
	TenantID uuid.UUID `json:"tenant_id"`
	Name     string    `json:"name"`
	Code     string    `json:"code"`
	// Configuration holds names and values that the code is given. It is sealed
	// at rest.
	Configuration map[string]string `json:"configuration"`
	// Application is the one that the code's client acts as.
	Application *ApplicationRef `json:"application,omitempty"`
	CreatedBy   uuid.UUID       `json:"created_by"`
	CreatedAt   time.Time       `json:"created_at"`
	ModifiedBy  *uuid.UUID      `json:"modified_by,omitempty"`
	ModifiedAt  *time.Time      `json:"modified_at,omitempty"`
}

// ApplicationRef names an application.
type ApplicationRef struct {
	ID uuid.UUID `json:"id"`
}

// ReactorParams describes a reactor. All but Application is required;
// Configuration may be empty, but not nil.
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

// checkReactor checks parameters, and the code when it is new.
func (op *operation) checkReactor(ctx context.Context, p *ReactorParams, oldCode string) error {
	if err := op.checkReactorFields(ctx, p); err != nil {
		return err
	}
	return op.loadReactor(ctx, p, oldCode)
}

// checkReactorFields checks everything but whether the code can be used.
func (op *operation) checkReactorFields(ctx context.Context, p *ReactorParams) error {
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
	return asInvalid(bad)
}

// loadReactor lets the runtime look at the code when it is new.
func (op *operation) loadReactor(ctx context.Context, p *ReactorParams, oldCode string) error {
	return op.loadCode(ctx, "code", p.Name, p.Code, oldCode)
}

// CreateReactor adds a reactor (permission reactor:create). Code that cannot be
// used is ErrCode, and a [*script.Error] whose Messages say what is wrong with it.
func (c *Client) CreateReactor(ctx context.Context, p ReactorParams) (*Reactor, error) {
	op, err := c.begin(ctx, access.ReactorCreate)
	if err != nil {
		return nil, err
	}
	if err := op.checkReactor(ctx, &p, ""); err != nil {
		return nil, err
	}
	r := &Reactor{ID: op.v.ids.At(op.now), TenantID: op.tenant, CreatedBy: op.creator, CreatedAt: op.now}
	r.set(&p)
	return createRecord(ctx, op, r, op.reactorRecord)
}

func (r *Reactor) set(p *ReactorParams) {
	r.Name, r.Code, r.Configuration, r.Application = p.Name, p.Code, p.Configuration, p.Application
}

func (op *operation) reactorRecord(r *Reactor) (storage.Record, error) {
	rec := storage.Record{Kind: kindReactor, ID: storage.ID(r.ID), Name: r.Name, CreatedAt: r.CreatedAt}
	return rec, op.sealRecord(&rec, r)
}

func (op *operation) openReactor(ctx context.Context, rec *storage.Record) (*Reactor, error) {
	r := &Reactor{}
	return r, op.openRecord(ctx, rec, r)
}

// GetReactor returns a reactor (permission reactor:read).
func (c *Client) GetReactor(ctx context.Context, id uuid.UUID) (*Reactor, error) {
	op, err := c.begin(ctx, access.ReactorRead)
	if err != nil {
		return nil, err
	}
	return getRecord(ctx, op, kindReactor, id, op.openReactor)
}

// ListReactorsParams filters reactors. Zero fields filter nothing.
type ListReactorsParams struct {
	IDs []uuid.UUID
	// Name matches the whole name without regard to case; * stands for any text.
	Name string
	PageParams
}

// ListReactors returns a page of reactors, newest first (permission
// reactor:read).
func (c *Client) ListReactors(ctx context.Context, p ListReactorsParams) (*Page[Reactor], error) {
	op, err := c.begin(ctx, access.ReactorRead)
	if err != nil {
		return nil, err
	}
	return listRecords(ctx, op, kindReactor, recordList(p), op.openReactor)
}

// ReplaceReactor replaces everything of a reactor (permission reactor:update).
func (c *Client) ReplaceReactor(ctx context.Context, id uuid.UUID, p ReactorParams) (*Reactor, error) {
	op, err := c.begin(ctx, access.ReactorUpdate)
	if err != nil {
		return nil, err
	}
	if err := op.checkReactor(ctx, &p, ""); err != nil {
		return nil, err
	}
	return op.updateReactor(ctx, id, func(r *Reactor) error {
		r.set(&p)
		return nil
	})
}

// PatchReactor changes a reactor by a JSON merge patch (RFC 7386) of its
// parameters (permission reactor:update).
func (c *Client) PatchReactor(ctx context.Context, id uuid.UUID, patch JSON) (*Reactor, error) {
	op, err := c.begin(ctx, access.ReactorUpdate)
	if err != nil {
		return nil, err
	}
	r, err := op.updateReactor(ctx, id, func(r *Reactor) error {
		var p ReactorParams
		if err := mergeInto(&p, ReactorParams{r.Name, r.Code, r.Configuration, r.Application}, patch); err != nil {
			return err
		}
		if err := op.checkReactor(ctx, &p, r.Code); err != nil {
			return err
		}
		r.set(&p)
		return nil
	})
	var alone ReactorParams
	return r, patchError(err, patch, &alone,
		func() error { return op.checkReactorFields(ctx, &alone) },
		func() error { return op.loadReactor(ctx, &alone, "") })
}

func (op *operation) updateReactor(ctx context.Context, id uuid.UUID, change func(*Reactor) error) (*Reactor, error) {
	return updateRecord(ctx, op, kindReactor, id, op.openReactor, func(r *Reactor) error {
		r.ModifiedBy, r.ModifiedAt = &op.creator, &op.now
		return change(r)
	}, op.reactorRecord)
}

// DeleteReactor deletes a reactor (permission reactor:delete).
func (c *Client) DeleteReactor(ctx context.Context, id uuid.UUID) error {
	op, err := c.begin(ctx, access.ReactorDelete)
	if err != nil {
		return err
	}
	return op.deleteRecord(ctx, kindReactor, id)
}
