package jsonx

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// errNotUTF8 is about text that JSON cannot carry as it is.
var errNotUTF8 = errors.New("must be valid UTF-8")

// errBytes is about a []byte, which may be JSON text, other text, or neither.
var errBytes = errors.New("must not be a []byte: use vault.JSON for JSON text, or a string for any other text")

// From returns the JSON of a Go value. A Value is taken as it is, a
// [json.RawMessage] is parsed as JSON text, and everything else goes through
// encoding/json, so struct tags and marshalers count. A []byte is refused,
// because it does not say what it holds; inside other values it is base64, as in
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
		// The text of err may quote a value, so it stays out of the message.
		return Value{}, &Error{Msg: fmt.Sprintf("cannot be written as JSON (Go type %T)", x)}
	}
	return Parse(buf.Bytes(), Limits{})
}
