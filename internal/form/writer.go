package form

import (
	"slices"

	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

// Writer is the counterpart of Reader. It builds an object and omits absent
// fields.
type Writer struct {
	members []jsonx.Member
}

// Value writes a field if it is not zero.
func (w *Writer) Value(name string, v jsonx.Value) {
	if !v.IsZero() {
		w.members = append(w.members, jsonx.Member{Name: name, Value: v})
	}
}

// Text writes a string if it is not empty.
func (w *Writer) Text(name, s string) {
	if s != "" {
		w.Value(name, jsonx.StringValue(s))
	}
}

// Int writes a number if it is not zero.
func (w *Writer) Int(name string, n int) {
	if n != 0 {
		w.Value(name, jsonx.IntValue(int64(n)))
	}
}

// Texts writes an array if it is not nil. An empty array differs from an
// absent one.
func (w *Writer) Texts(name string, texts []string) {
	if texts != nil {
		w.Value(name, TextsValue(texts))
	}
}

// TextMap writes an object of strings if it is not nil.
func (w *Writer) TextMap(name string, pairs map[string]string) {
	if pairs != nil {
		w.Value(name, TextMapValue(pairs))
	}
}

// JSON returns the text of the object.
func (w *Writer) JSON() []byte { return jsonx.ObjectValue(w.members...).JSON() }

// TextsValue returns an array of strings.
func TextsValue(texts []string) jsonx.Value {
	elems := make([]jsonx.Value, len(texts))
	for i, s := range texts {
		elems[i] = jsonx.StringValue(s)
	}
	return jsonx.ArrayValue(elems...)
}

// TextMapValue returns an object of strings, sorted by key.
func TextMapValue(pairs map[string]string) jsonx.Value {
	keys := SortedKeys(pairs, nil)
	members := make([]jsonx.Member, len(keys))
	for i, k := range keys {
		members[i] = jsonx.Member{Name: k, Value: jsonx.StringValue(pairs[k])}
	}
	return jsonx.ObjectValue(members...)
}

// SortedKeys returns the sorted keys, in spare if they fit.
func SortedKeys(pairs map[string]string, spare []string) []string {
	keys := slices.Grow(spare, len(pairs))
	for k := range pairs {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
