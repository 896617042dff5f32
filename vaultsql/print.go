package vaultsql

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
)

// String returns the token id, or "unsealed" for a new value before Seal.
func (o Of[T]) String() string {
	if o.id == "" && o.state == fresh {
		return "unsealed"
	}
	return o.id
}

// Format prints the result of String for every verb, in quotes for %q and %#v.
func (o Of[T]) Format(f fmt.State, verb rune) {
	if verb == 'q' || verb == 'v' && f.Flag('#') {
		_, _ = fmt.Fprintf(f, "%q", o.String()) // Format cannot return an error
		return
	}
	_, _ = fmt.Fprintf(f, widthOf(f), o.String())
}

// widthOf returns the verb %s with the width and alignment of f. It drops a
// precision, which would cut the id.
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

// LogValue returns the result of String.
func (o Of[T]) LogValue() slog.Value { return slog.StringValue(o.String()) }

// Value returns the token id for a database, or nil for NULL. It returns
// [ErrUnsealed] for a new or changed value before Seal.
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

// Scan reads a token id or NULL from a database.
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
