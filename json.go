package vault

import (
	"encoding/json"
	"errors"

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

// String returns the text. It prints values in clear: do not log it.
func (j JSON) String() string { return string(j) }

// document reads a whole document that a caller gave, within the limit of
// size.
func (op *call) document(x any) (jsonx.Value, error) {
	if n := rawSize(x); n > op.v.cfg.MaxBytes {
		return jsonx.Value{}, errorf(ErrTooLarge, "The JSON must have at most %d bytes.", op.v.cfg.MaxBytes)
	}
	return parseJSON("", x)
}

// rawSize returns the size of JSON text, and 0 for other values.
func rawSize(x any) int {
	switch x := x.(type) {
	case JSON:
		return len(x)
	case json.RawMessage:
		return len(x)
	}
	return 0
}

// parseJSON reads a Go value or JSON text that a caller gave for a field.
// Raw JSON (JSON, json.RawMessage) is taken as text, everything else is
// encoded first.
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
		bad := &InvalidError{}
		bad.addErr(path, err)
		return v, bad
	}
	return v, nil
}
