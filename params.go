package vault

import (
	"time"

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
	w := &fieldWriter{}
	w.text("id", p.ID)
	w.text("type", string(p.Type))
	w.any("data", p.Data)
	w.any("mask", p.Mask)
	w.texts("containers", p.Containers)
	w.textMap("metadata", p.Metadata)
	w.texts("search_indexes", p.SearchIndexes)
	w.text("fingerprint_expression", p.FingerprintExpression)
	if p.DeduplicateToken != nil {
		w.add("deduplicate_token", jsonx.BoolValue(*p.DeduplicateToken))
	}
	if p.ExpiresAt != nil && !p.ExpiresAt.IsZero() { // a zero time means none
		w.text("expires_at", p.ExpiresAt.Format(time.RFC3339Nano))
	}
	return w.object()
}

// MarshalJSON writes the JSON form, which UnmarshalJSON reads.
func (p SearchTokensParams) MarshalJSON() ([]byte, error) {
	w := &fieldWriter{}
	w.text("query", p.Query)
	w.number("page", p.Page)
	w.number("size", p.Size)
	return w.object()
}

// MarshalJSON writes the JSON form, which UnmarshalJSON reads. TraceHeader and
// TraceID are no part of it.
func (p ReactParams) MarshalJSON() ([]byte, error) {
	w := &fieldWriter{}
	w.any("args", p.Args)
	w.text("callback_url", p.CallbackURL)
	w.number("timeout_ms", p.TimeoutMS)
	return w.object()
}

// fieldWriter is the counterpart of fieldReader: it builds an object and leaves
// out fields that are absent.
type fieldWriter struct {
	members []jsonx.Member
	bad     InvalidError
}

func (w *fieldWriter) add(name string, v jsonx.Value) {
	w.members = append(w.members, jsonx.Member{Name: name, Value: v})
}

func (w *fieldWriter) text(name, s string) {
	if s != "" {
		w.add(name, jsonx.StringValue(s))
	}
}

func (w *fieldWriter) number(name string, n int) {
	if n != 0 {
		w.add(name, jsonx.IntValue(int64(n)))
	}
}

// any writes what a caller gave for a field that takes any JSON.
func (w *fieldWriter) any(name string, x any) {
	v, err := parseJSON(name, x)
	if err != nil {
		w.bad.addErr("", err)
	} else if !v.IsZero() {
		w.add(name, v)
	}
}

// texts writes an array; an empty one is not the same as none.
func (w *fieldWriter) texts(name string, texts []string) {
	if texts != nil {
		w.add(name, textsValue(texts))
	}
}

func (w *fieldWriter) textMap(name string, pairs map[string]string) {
	if pairs != nil {
		w.add(name, metadataValue(pairs))
	}
}

// object returns what was written, or what was wrong with it.
func (w *fieldWriter) object() ([]byte, error) {
	if err := w.bad.err(); err != nil {
		return nil, err
	}
	return jsonx.ObjectValue(w.members...).JSON(), nil
}
