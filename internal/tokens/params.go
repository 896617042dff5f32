package tokens

import (
	"time"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

// Params are the parameters of a new token. Package vault documents the
// fields.
type Params struct {
	ID                    string
	Type                  string
	Data                  any // in the forms that core.ParseJSON accepts
	Mask                  any
	Containers            []string
	Metadata              map[string]string
	SearchIndexes         []string
	FingerprintExpression string
	DeduplicateToken      *bool
	ExpiresAt             time.Time
}

// Read reads the JSON form.
func (p *Params) Read(r *form.Reader) {
	*p = Params{
		ID: r.OptionalText("id"), Type: r.Text("type"), Containers: r.Texts("containers"),
		Metadata: r.TextMap("metadata"), SearchIndexes: r.Texts("search_indexes"),
		FingerprintExpression: r.OptionalText("fingerprint_expression"),
		DeduplicateToken:      r.OptionalBool("deduplicate_token"), ExpiresAt: r.Expiry("expires_at"),
	}
	if v := r.Value("data"); !v.IsZero() {
		p.Data = v
	}
	if v := r.Value("mask"); !v.IsZero() {
		p.Mask = v
	}
}

// JSON returns the JSON form, which Read accepts.
func (p *Params) JSON() ([]byte, error) {
	data, err := core.ParseJSON("data", p.Data)
	if err != nil {
		return nil, err
	}
	mask, err := core.ParseJSON("mask", p.Mask)
	if err != nil {
		return nil, err
	}
	w := &form.Writer{}
	w.Text("id", p.ID)
	w.Text("type", p.Type)
	w.Value("data", data)
	w.Value("mask", mask)
	w.Texts("containers", p.Containers)
	w.TextMap("metadata", p.Metadata)
	w.Texts("search_indexes", p.SearchIndexes)
	w.Text("fingerprint_expression", p.FingerprintExpression)
	if p.DeduplicateToken != nil {
		w.Value("deduplicate_token", jsonx.BoolValue(*p.DeduplicateToken))
	}
	if !p.ExpiresAt.IsZero() {
		w.Text("expires_at", p.ExpiresAt.Format(time.RFC3339Nano))
	}
	return w.JSON(), nil
}
