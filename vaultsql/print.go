package vaultsql

import (
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
)

// String returns the id of the token, and "unsealed" for a value that has none
// yet.
func (o Of[T]) String() string {
	if o.id == "" && o.state == fresh {
		return "unsealed"
	}
	return o.id
}

// Format prints what String returns, whatever the verb. The verb %q and the flag
// of %#v put it in quotes.
func (o Of[T]) Format(f fmt.State, verb rune) {
	if verb == 'q' || verb == 'v' && f.Flag('#') {
		_, _ = fmt.Fprintf(f, "%q", o.String()) // what printing fails on, it cannot say
		return
	}
	_, _ = fmt.Fprintf(f, widthOf(f), o.String())
}

// widthOf returns the verb %s with the width and the alignment that f asks for.
// A precision would cut the id, and is left out.
func widthOf(f fmt.State) string {
	width, ok := f.Width()
	switch {
	case !ok:
		return "%s"
	case f.Flag('-'):
		return fmt.Sprintf("%%-%ds", width)
	default:
		return fmt.Sprintf("%%%ds", width)
	}
}

// LogValue shows what String returns.
func (o Of[T]) LogValue() slog.Value { return slog.StringValue(o.String()) }

// MarshalJSON writes the id of the token, and null where there is none.
func (o Of[T]) MarshalJSON() ([]byte, error) {
	if o.id == "" {
		return []byte("null"), nil
	}
	return json.Marshal(o.id)
}

// UnmarshalJSON sets the value, as Set does: a request body has values, not ids.
// Null makes the field absent.
func (o *Of[T]) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		o.reset()
		return nil
	}
	v, err := decode[T](text)
	if err != nil {
		return fmt.Errorf("vaultsql: %w", err)
	}
	o.Set(v)
	return nil
}

// Value returns the id of the token for a database, or nil for NULL. A value that
// is not in the vault, or not as it is now, is [ErrUnsealed].
func (o Of[T]) Value() (driver.Value, error) {
	switch {
	case o.state == fresh:
		return nil, ErrUnsealed
	case o.id == "":
		return nil, nil
	default:
		return o.id, nil
	}
}

// Scan reads the id of a token, or NULL, from a database.
func (o *Of[T]) Scan(src any) error {
	var id string
	switch src := src.(type) {
	case nil:
		o.reset()
		return nil
	case string:
		id = src
	case []byte:
		id = string(src)
	default:
		return fmt.Errorf("vaultsql: cannot scan a %T: the column of a sealed field holds a token id as text, or NULL", src)
	}
	if id == "" {
		return errors.New("vaultsql: cannot scan an empty text: the column of a sealed field holds a token id, or NULL")
	}
	*o = Of[T]{core: core{id: id, state: sealed}}
	return nil
}
