package vault

import (
	"encoding/json"
	"errors"

	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

// JSON is a JSON value as text. Key order and the text of numbers are those
// that were stored: 1.10 stays 1.10, and 1e400 is kept though no Go number
// holds it. A nil JSON is an absent value; JSON null is the text null.
type JSON json.RawMessage

// Decode stores the value in what dst points to, as json.Unmarshal does.
func (j JSON) Decode(dst any) error {
	if j == nil {
		return errors.New("vault: no value to decode")
	}
	return json.Unmarshal(j, dst)
}

// MarshalJSON returns the text, and null for an absent value.
func (j JSON) MarshalJSON() ([]byte, error) { return json.RawMessage(j).MarshalJSON() }

// UnmarshalJSON keeps a copy of the text.
func (j *JSON) UnmarshalJSON(data []byte) error {
	*j = append((*j)[:0], data...)
	return nil
}

// String returns the text. A JSON is the value itself, as a string would be, so
// fmt and slog show it in clear: log the [Token] that it belongs to, which does
// not show it.
func (j JSON) String() string { return string(j) }

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

// document reads a whole document that a caller gave, within the limit of
// size. Text is not read at all when it is too long.
func (op *operation) document(x any) (jsonx.Value, error) {
	most := op.v.cfg.MaxBytes
	tooLarge := errorf(ErrTooLarge, "The JSON must have at most %d bytes.", most)
	size, isText := textSize(x)
	if size > most {
		return jsonx.Value{}, tooLarge
	}
	v, err := parseJSON("", x)
	// The size of a value is an estimate, so what is found too large is measured.
	if err == nil && !isText && v.Size() > most && len(v.JSON()) > most {
		return jsonx.Value{}, tooLarge
	}
	return v, err
}

// textSize returns the size of JSON text. It reports whether x is one.
func textSize(x any) (size int, isText bool) {
	switch x := x.(type) {
	case JSON:
		return len(x), true
	case json.RawMessage:
		return len(x), true
	case []byte:
		return len(x), true
	}
	return 0, false
}

// parseJSON reads a Go value or JSON text that a caller gave for a field. A
// JSON, a json.RawMessage and a []byte are text; everything else is encoded
// first.
func parseJSON(path string, x any) (jsonx.Value, error) {
	var v jsonx.Value
	var err error
	switch x := x.(type) {
	case nil:
		return v, nil
	case JSON:
		v, err = jsonx.Parse(x, jsonx.Limits{})
	case CardData:
		v = x.value()
	default:
		v, err = jsonx.From(x)
	}
	if err != nil {
		bad := &form.Problems{}
		bad.AddErr(path, err)
		return v, asInvalid(bad)
	}
	return v, nil
}

// jsonOf returns a value as JSON; nil for an absent one.
func jsonOf(v jsonx.Value) JSON {
	if v.IsZero() {
		return nil
	}
	return v.JSON()
}

// stored lets pass whatever was accepted once, also through a merge.
var stored = jsonx.Limits{Depth: 1000}

// readObject reads a JSON object strictly: an unknown field, a duplicate key or
// a wrong type is an InvalidError about all bad fields.
func readObject(text []byte, read func(*form.Reader)) error {
	return asInvalid(form.ReadText(text, read))
}
