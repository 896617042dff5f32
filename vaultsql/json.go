package vaultsql

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/token"
)

// referenceName is the only member of the JSON object that refers to a token. A
// plain value of any type is never an object with this member.
const referenceName = "$vault"

// MarshalJSON writes a reference to the token, {"$vault": "<id>"}, or null for an
// absent field. It never writes the value. It returns [ErrUnsealed] for a new or
// changed value before Seal, because null or the reference would lose the value.
func (o Of[T]) MarshalJSON() ([]byte, error) {
	switch {
	case o.state == fresh:
		return nil, ErrUnsealed
	case o.id == "":
		return []byte("null"), nil
	default:
		return json.Marshal(map[string]string{referenceName: o.id})
	}
}

// UnmarshalJSON reads what MarshalJSON wrote, or a plain value. A reference gives a
// field with the same id, sealed. A plain value is a new value, as in Set. Null makes
// the field absent. Everything else is a [json.UnmarshalTypeError], in which
// encoding/json names the field.
//
// A field that already has a token keeps its state if the reference has the same id.
// It rejects a reference with another id, which a caller could have taken from
// elsewhere. A field without a token accepts every reference, so decode the body of a
// request with [DecodeJSON]. To decode several rows, use a new variable for each.
func (o *Of[T]) UnmarshalJSON(text []byte) error {
	text = bytes.TrimSpace(text)
	id, found, valid := reference(text)
	switch {
	case string(text) == "null":
		o.reset()
		return nil
	case found && !valid:
		return wrongJSON[T]("an object with " + referenceName + " that is not a reference to a token")
	case found && !o.refer(id):
		return wrongJSON[T]("a reference to another token")
	case found:
		return nil
	}
	v, err := decode[T](text)
	if err != nil {
		return wrongJSON[T](kindOfJSON(text))
	}
	o.Set(v)
	return nil
}

// MarshalText writes a reference as MarshalJSON does, for encoding/xml and other
// formats. The text of an absent field is empty.
func (o Of[T]) MarshalText() ([]byte, error) {
	if o.IsZero() {
		return nil, nil
	}
	return o.MarshalJSON()
}

// UnmarshalText reads what MarshalText wrote. It rejects all other text, because a
// text that looks like a reference could be a value.
func (o *Of[T]) UnmarshalText(text []byte) error {
	id, _, valid := reference(bytes.TrimSpace(text))
	switch {
	case len(text) == 0:
		o.reset()
		return nil
	case !valid:
		return errors.New("vaultsql: the text is not a reference to a token; set a value with Set")
	case !o.refer(id):
		return errors.New("vaultsql: the text is a reference to another token than that of the field")
	default:
		return nil
	}
}

// refer makes the field a sealed field with an id. It reports whether the field
// may have the id.
func (o *Of[T]) refer(id string) bool {
	switch {
	case o.id != "" && o.id != id:
		return false
	case o.id == "" || o.state == fresh:
		*o = Of[T]{core: core{id: id, state: sealed}}
	}
	return true
}

// reference reads the reference in a JSON text. Found means that the text is an
// object with the member of a reference.
func reference(text []byte) (id string, found, valid bool) {
	if !bytes.HasPrefix(text, []byte("{")) {
		return "", false, false
	}
	d := json.NewDecoder(bytes.NewReader(text))
	_, _ = d.Token() // the brace
	members := 0
	for ; d.More(); members++ {
		name, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			return "", false, false // not JSON, which decode rejects
		}
		if name == referenceName {
			found, valid = true, json.Unmarshal(value, &id) == nil && token.CanBeID(id)
		}
	}
	return id, found, valid && members == 1
}

// wrongJSON is the error about JSON that is neither a reference nor a value. It has
// this type because encoding/json adds the names of the fields to it alone.
func wrongJSON[T any](what string) error {
	return &json.UnmarshalTypeError{Value: what, Type: reflect.TypeFor[Of[T]]()}
}

// kindOfJSON names the kind of a JSON text, without showing the text.
func kindOfJSON(text []byte) string {
	switch {
	case len(text) == 0:
		return "nothing"
	case text[0] == '{':
		return "an object"
	case text[0] == '[':
		return "an array"
	case text[0] == '"':
		return "a string"
	case text[0] == 't' || text[0] == 'f':
		return "a boolean"
	default:
		return "a number"
	}
}

// DecodeJSON decodes the body of a request into a row, as [json.Unmarshal] does, and
// returns a [FieldError] if a field then has a token that it did not have before. The
// elements of a list or a map are one field, and may exchange their tokens. Dst is a
// pointer to a new row, or to the row from the table that the request changes. A request
// that names another token could make the value of another person part of the row, or
// move a value to a field that more people see. Errors about the text match
// [vault.ErrInvalid]. After an error, do not use the row.
func DecodeJSON(text []byte, dst any) error {
	before, err := collect([]any{dst})
	if err != nil {
		return err
	}
	type place struct{ field, id string }
	own := map[place]bool{}
	for _, f := range before {
		own[place{f.place(), f.head().id}] = true
	}
	if err := json.Unmarshal(text, dst); err != nil {
		return fmt.Errorf("%w: %w", vault.ErrInvalid, err)
	}
	after, err := collect([]any{dst})
	if err != nil {
		return err
	}
	for _, f := range after {
		if id := f.head().id; id != "" && !own[place{f.place(), id}] {
			return f.notOwn("must not refer to a token that the field does not have")
		}
	}
	return nil
}

// notOwn is the error about a token of another row. It is an InvalidError, so that the
// caller of an API gets its text.
func (f *field) notOwn(text string) error {
	return f.wrap(&vault.InvalidError{Fields: map[string][]string{f.name: {text}}})
}

// CheckNew returns a [FieldError] if a field of dst has a token already. Call it for
// a new row that was decoded from a request in another way than with [DecodeJSON].
func CheckNew(dst ...any) error {
	fields, err := collect(dst)
	if err != nil {
		return err
	}
	for _, f := range fields {
		if f.head().id != "" {
			return f.notOwn("must not refer to a token: a new row has values")
		}
	}
	return nil
}
