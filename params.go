package vault

import (
	"time"

	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

// EncodeJSON returns a value as JSON, as the methods of [Client] read it: a
// [JSON], a json.RawMessage and a []byte are JSON text, and everything else is
// encoded as encoding/json does, but without escapes for HTML. Text that is not
// JSON, and a value that cannot be written as JSON, is an [InvalidError].
func EncodeJSON(x any) (JSON, error) {
	v, err := parseJSON("", x)
	if err != nil {
		return nil, err
	}
	if v.IsZero() {
		v = jsonx.NullValue()
	}
	return v.JSON(), nil
}

// MarshalJSON writes the JSON form, which UnmarshalJSON reads.
func (p TokenParams) MarshalJSON() ([]byte, error) {
	data, err := parseJSON("data", p.Data)
	if err != nil {
		return nil, err
	}
	mask, err := parseJSON("mask", p.Mask)
	if err != nil {
		return nil, err
	}
	w := &form.Writer{}
	w.Text("id", p.ID)
	w.Text("type", string(p.Type))
	w.Value("data", data)
	w.Value("mask", mask)
	w.Texts("containers", p.Containers)
	w.TextMap("metadata", p.Metadata)
	w.Texts("search_indexes", p.SearchIndexes)
	w.Text("fingerprint_expression", p.FingerprintExpression)
	if p.DeduplicateToken != nil {
		w.Value("deduplicate_token", jsonx.BoolValue(*p.DeduplicateToken))
	}
	if p.ExpiresAt != nil && !p.ExpiresAt.IsZero() { // a zero time means none
		w.Text("expires_at", p.ExpiresAt.Format(time.RFC3339Nano))
	}
	return w.JSON(), nil
}

// MarshalJSON writes the JSON form, which UnmarshalJSON reads.
func (p SearchTokensParams) MarshalJSON() ([]byte, error) {
	w := &form.Writer{}
	w.Text("query", p.Query)
	w.Int("page", p.Page)
	w.Int("size", p.Size)
	return w.JSON(), nil
}

// MarshalJSON writes the JSON form, which UnmarshalJSON reads. TraceHeader and
// TraceID are no part of it.
func (p ReactParams) MarshalJSON() ([]byte, error) {
	args, err := parseJSON("args", p.Args)
	if err != nil {
		return nil, err
	}
	w := &form.Writer{}
	w.Value("args", args)
	w.Text("callback_url", p.CallbackURL)
	w.Int("timeout_ms", p.TimeoutMS)
	return w.JSON(), nil
}
