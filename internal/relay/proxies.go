package relay

import (
	"context"
	"maps"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/ids"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/logs/audit"
	"github.com/seed-72ea4aab/vault/internal/records"
	"github.com/seed-72ea4aab/vault/internal/runs"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/storage"
)

// Proxy is a proxy. Package vault documents the fields. A proxy without an ID
// is not stored.
type Proxy struct {
	ID                uuid.UUID         `json:"id"`
	TenantID          uuid.UUID         `json:"tenant_id"`
	Name              string            `json:"name,omitempty"`
	Key               string            `json:"key,omitempty"`
	DestinationURL    string            `json:"destination_url,omitempty"`
	RequireAuth       bool              `json:"require_auth"`
	RequestTransform  *Transform        `json:"request_transform,omitempty"`
	ResponseTransform *Transform        `json:"response_transform,omitempty"`
	ApplicationID     uuid.UUID         `json:"application_id,omitzero"`
	Configuration     map[string]string `json:"configuration,omitempty"`
	CreatedBy         uuid.UUID         `json:"created_by,omitzero"`
	CreatedAt         time.Time         `json:"created_at,omitzero"`
	ModifiedBy        uuid.UUID         `json:"modified_by,omitzero"`
	ModifiedAt        time.Time         `json:"modified_at,omitzero"`
	Hold              core.Hold         `json:"hold,omitempty"`
	Unreadable        bool              `json:"unreadable,omitempty"`
}

// size estimates the memory of the proxy, for a cache, in bytes.
func (x *Proxy) size() int {
	size := 1<<10 + len(x.Name) + len(x.DestinationURL) + len(x.RequestTransform.code()) + len(x.ResponseTransform.code())
	for name, value := range x.Configuration {
		size += 64 + len(name) + len(value)
	}
	return size
}

// Transform is code that changes a request or a response.
type Transform struct {
	Code string `json:"code"`
}

func (t *Transform) code() string {
	if t == nil {
		return ""
	}
	return t.Code
}

// Proxies stores proxies as records.
var Proxies = records.Kind[Proxy]{
	Name: seal.RecordKind(audit.Proxy),
	Columns: func(x *Proxy) storage.Record {
		return storage.Record{ID: storage.ID(x.ID), Name: x.Name, Key: ids.HashKey(x.Key), CreatedAt: x.CreatedAt}
	},
	Document: func(x *Proxy) any { return x },
	Unreadable: func(rec *storage.Record) Proxy {
		return Proxy{ID: uuid.UUID(rec.ID), TenantID: uuid.UUID(rec.Tenant), RequireAuth: true, CreatedAt: rec.CreatedAt, Unreadable: true}
	},
	Modified: func(x *Proxy, by uuid.UUID, at time.Time) { x.ModifiedBy, x.ModifiedAt = by, at },
	Application: func(x *Proxy) (uuid.UUID, func()) {
		return x.ApplicationID, func() { x.ApplicationID = uuid.UUID{} }
	},
}

// ProxyCollection is the collection of a vault's proxies.
type ProxyCollection = records.Collection[Proxy, Params, *Params]

// Params are the parameters of a proxy. Package vault documents the fields.
type Params struct {
	Name              string            `json:"name"`
	DestinationURL    string            `json:"destination_url"`
	RequestTransform  *Transform        `json:"request_transform,omitempty"`
	ResponseTransform *Transform        `json:"response_transform,omitempty"`
	ApplicationID     runs.Application  `json:"application,omitzero"`
	Configuration     map[string]string `json:"configuration,omitempty"`
	RequireAuth       *bool             `json:"require_auth,omitempty"`
}

// Read reads the JSON form.
func (p *Params) Read(r *form.Reader) {
	p.Name, p.DestinationURL = r.Text("name"), r.Text("destination_url")
	p.RequestTransform, p.ResponseTransform = readTransform(r, "request_transform"), readTransform(r, "response_transform")
	p.ApplicationID = runs.ReadApplication(r)
	p.Configuration = r.TextMap("configuration")
	p.RequireAuth = r.OptionalBool("require_auth")
}

// UnmarshalJSON reads the JSON form strictly.
func (p *Params) UnmarshalJSON(data []byte) error { return fault.Of(form.ReadText(data, p.Read)) }

func readTransform(r *form.Reader, name string) *Transform {
	var t *Transform
	r.Object(name, func(r *form.Reader) {
		t = &Transform{r.Text("code")}
		if t.Code == "" {
			r.Problem("code", "is required")
		}
	})
	return t
}

// Shown replaces the field application_id, by which responses show the application of
// a proxy, by application.id.
func Shown(v jsonx.Value, bad *form.Problems) jsonx.Value {
	id := v.Get("application_id")
	if id.IsZero() {
		return v
	}
	v = v.Without("application_id")
	if ref := v.Get("application"); !ref.IsZero() {
		if other := ref.Get("id"); !ref.Equal(id) && !strings.EqualFold(other.Text(), id.Text()) {
			bad.Add("application_id", "must be the same as application.id, or be left out")
		}
		return v
	}
	if !id.IsNull() {
		id = jsonx.ObjectValue(jsonx.Member{Name: "id", Value: id})
	}
	return v.With("application", id)
}

// Same reports whether p and q describe the same proxy.
func (p *Params) Same(q *Params) bool {
	required := func(b *bool) bool { return b == nil || *b }
	return p.Name == q.Name && p.DestinationURL == q.DestinationURL && p.RequestTransform.code() == q.RequestTransform.code() &&
		p.ResponseTransform.code() == q.ResponseTransform.code() && maps.Equal(p.Configuration, q.Configuration) &&
		p.ApplicationID == q.ApplicationID && required(p.RequireAuth) == required(q.RequireAuth)
}

// params returns the parameters of the proxy.
func (x *Proxy) params() Params {
	return Params{Name: x.Name, DestinationURL: x.DestinationURL, Configuration: maps.Clone(x.Configuration),
		RequestTransform: x.RequestTransform, ResponseTransform: x.ResponseTransform, RequireAuth: new(x.RequireAuth),
		ApplicationID: runs.Application(x.ApplicationID)}
}

// set sets the fields of the proxy from parameters.
func (x *Proxy) set(p *Params) {
	x.Name, x.DestinationURL, x.Configuration = p.Name, p.DestinationURL, p.Configuration
	x.RequestTransform, x.ResponseTransform = p.RequestTransform, p.ResponseTransform
	x.RequireAuth = p.RequireAuth == nil || *p.RequireAuth
	x.ApplicationID = uuid.UUID(p.ApplicationID)
}

// checkFields makes all checks except whether the transforms can be used.
func (r *Relay) checkFields(ctx context.Context, op *core.Op, p *Params, old *Proxy) error {
	bad := &form.Problems{}
	form.CheckName(bad, "name", p.Name)
	if p.DestinationURL == "" {
		bad.Add("destination_url", "is required")
	} else {
		r.checkURL(bad, "destination_url", p.DestinationURL)
	}
	runs.CheckCode(bad, "request_transform.code", p.RequestTransform.code())
	runs.CheckCode(bad, "response_transform.code", p.ResponseTransform.code())
	runs.CheckConfiguration(bad, p.Configuration)
	if err := runs.CheckApplication(ctx, op, bad, p.ApplicationID, runs.Application(old.ApplicationID)); err != nil {
		return err
	}
	return fault.Of(bad)
}

// checkURL checks the URL of a destination.
func (r *Relay) checkURL(bad *form.Problems, path, text string) {
	if _, err := r.Egress.CheckURL(text); err != nil {
		bad.Add(path, "must be an absolute URL that the egress policy allows: %s", err.Error())
	}
}

// checkCode lets the runtime check transforms that differ from the old ones.
func (r *Relay) checkCode(ctx context.Context, op *core.Op, p *Params, old *Proxy) error {
	if err := r.Runs.Check(ctx, op, "request_transform.code", p.Name, p.RequestTransform.code(), old.RequestTransform.code()); err != nil {
		return err
	}
	return r.Runs.Check(ctx, op, "response_transform.code", p.Name, p.ResponseTransform.code(), old.ResponseTransform.code())
}

// keyLength is the length of a key, which has 128 random bits.
const keyLength = 22

// ForgetProxies makes this node read every proxy again.
func (r *Relay) ForgetProxies() { r.open.Clear() }

// newProxies returns the collection of proxies.
func (r *Relay) newProxies() *ProxyCollection {
	kind := Proxies
	kind.Changed = func(*core.Op) { r.ForgetProxies() }
	return &ProxyCollection{
		Kind: &kind, Right: access.ProxyCreate, Shown: Shown,
		Name:   func(p *Params) string { return p.Name },
		Checks: []func(context.Context, *core.Op, *Params, *Proxy) error{r.checkFields, r.checkCode},
		New: func(op *core.Op) *Proxy {
			return &Proxy{ID: op.NewID(), TenantID: op.Tenant(), Key: ids.Random58(keyLength), CreatedBy: op.Creator(), CreatedAt: op.Now}
		},
		Params: (*Proxy).params, Set: (*Proxy).set,
		Seen: func(op *core.Op, x *Proxy) *Proxy { return x.seenBy(op) },
	}
}

// seenBy returns a changed proxy as the caller may see it. Only a caller that
// may read proxies sees the configuration.
func (x *Proxy) seenBy(op *core.Op) *Proxy {
	if op.Grant().Has(access.ProxyRead) {
		return x
	}
	seen := *x
	seen.Configuration = nil
	return &seen
}

// TestCode returns the code of a reactor or of a proxy's transform for a test
// run.
func TestCode(ctx context.Context, op *core.Op, reactor, proxy uuid.UUID, response bool) (runs.Code, error) {
	if reactor != (uuid.UUID{}) {
		return runs.ReactorCode(ctx, op, reactor)
	}
	x, err := Proxies.Read(ctx, op, proxy)
	if err != nil {
		return runs.Code{}, err
	}
	transform := x.RequestTransform
	if response {
		transform = x.ResponseTransform
	}
	if transform == nil {
		return runs.Code{}, fault.New(fault.ErrNotFound, "the proxy has no such transform")
	}
	return runs.Code{Entity: core.Entity{Type: audit.Proxy, ID: x.ID.String()}, Name: x.Name, Source: transform.Code, Configuration: x.Configuration}, nil
}
