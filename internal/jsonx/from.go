package jsonx

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// errNotUTF8 means that JSON cannot represent a text unchanged.
var errNotUTF8 = errors.New("must be valid UTF-8")

// errBytes is the error for a []byte, which may be JSON text, other text, or
// neither.
var errBytes = errors.New("must not be a []byte: use vault.JSON for JSON text, or a string for any other text")

// From returns the JSON of a Go value. A Value is returned unchanged, and a
// [json.RawMessage] is parsed as JSON text. Everything else goes through
// encoding/json, so struct tags and marshalers apply. A []byte is rejected,
// because its meaning is ambiguous. Inside other values it is base64, as in
// encoding/json.
func From(x any) (Value, error) {
	switch x := x.(type) {
	case nil:
		return NullValue(), nil
	case Value:
		return x, nil
	case json.RawMessage:
		if x == nil {
			return NullValue(), nil // as in encoding/json
		}
		return Parse(x, Limits{})
	case []byte:
		return Value{}, errBytes
	case string:
		if !utf8.ValidString(x) {
			return Value{}, errNotUTF8
		}
		return StringValue(x), nil
	case bool:
		return BoolValue(x), nil
	case int:
		return IntValue(int64(x)), nil
	case int64:
		return IntValue(x), nil
	case json.Number:
		return NumberValue(x.String())
	}
	return marshaled(x)
}

func marshaled(x any) (Value, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(x); err != nil {
		// The text of err may quote a value, so it is not part of the message.
		return Value{}, &Error{Msg: fmt.Sprintf("cannot be written as JSON (Go type %T)", x)}
	}
	return Parse(buf.Bytes(), Limits{})
}
