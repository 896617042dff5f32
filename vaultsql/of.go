package vaultsql

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/seed-72ea4aab/vault"
)

// Of holds a value in memory and its token id in a database. T is any type that
// encoding/json can write and read back. The zero Of is absent, which is NULL in
// the database.
//
// Copies of an Of are independent, but share the maps and slices inside T. After
// changing a map or a slice in place, call Set again.
type Of[T any] struct {
	core
	value *box[T] // nil unless the state is fresh or opened
	was   *box[T] // the value in the vault that value replaces; nil if unknown
}

// Text is a sealed string.
type Text = Of[string]

// Card is a sealed card. The vault deletes its security code an hour after Seal.
type Card = Of[vault.CardData]

// Bytes is sealed binary data. The token holds it in base64, and its mask hides
// all of it.
type Bytes = Of[[]byte]

// New returns a value that is not sealed yet.
func New[T any](v T) Of[T] {
	var o Of[T]
	o.Set(v)
	return o
}

// NewText returns a string that is not sealed yet.
func NewText(s string) Text { return New(s) }

// NewCard returns a card that is not sealed yet.
func NewCard(d vault.CardData) Card { return New(d) }

// core is the part of a field that does not depend on the type of its value.
type core struct {
	id    string // of the token; empty if there is no token
	state state
	mask  *box[string] // of the value in the vault; nil if unknown
	field string       // its name, in the states masked and gone
}

// state is how much of a field is in memory.
type state uint8

const (
	absent state = iota // NULL
	sealed              // only the id
	fresh               // a value that is not in the vault yet
	opened              // id and value
	masked              // id and mask
	gone                // an id whose token does not exist
)

// box hides a value from everything that prints by reflection.
type box[T any] struct{ get func() T }

func boxed[T any](v T) *box[T] { return &box[T]{func() T { return v }} }

// Set gives the field a new value. Seal stores it, in the field's token if it has
// one.
func (o *Of[T]) Set(v T) {
	switch o.state {
	case opened:
		o.was = o.value
	case absent, sealed, masked, gone:
		o.was = nil
	case fresh: // was is still the value in the vault
	}
	if o.state == gone {
		o.id = ""
	}
	o.value, o.state = boxed(v), fresh
}

// Get returns the value after Set, [Seal] or [Open]. An absent field returns the
// zero T and no error.
//
// Before Open, Get returns [ErrSealed]. After Open, the error is a [FieldError].
// It matches [ErrMasked] if the caller may not see the value, and
// [vault.ErrNotFound] if the token has expired or was deleted.
func (o Of[T]) Get() (T, error) {
	var zero T
	switch o.state {
	case fresh, opened:
		return o.value.get(), nil
	case sealed:
		return zero, ErrSealed
	case masked:
		return zero, &FieldError{o.field, ErrMasked}
	case gone:
		return zero, &FieldError{o.field, errGone}
	case absent:
	}
	return zero, nil
}

// ID returns the token id, which is the content of the column. It is empty
// for an absent field, and for a new value before Seal.
func (o Of[T]) ID() string { return o.id }

// IsZero reports whether the field is absent: the column is NULL, or Open found that
// the token has expired or was deleted.
func (o Of[T]) IsZero() bool { return o.state == absent || o.state == gone }

// Mask returns the masked value as text, for people. A masked string is returned as
// it is, and anything else as JSON: the mask of a [Card] is an object such as
// {"number":"XXXXXXXXXXXX4242","expiration_month":12,"expiration_year":2030}. Mask is
// known after Seal and Open. It is empty for an absent field, for a new value before
// Seal, and if the vault shows nothing of the value.
func (o Of[T]) Mask() string {
	if o.mask == nil || o.state == fresh {
		return ""
	}
	return o.mask.get()
}

// View returns what the caller of Open may see, as text for people: the value if it
// is in memory, otherwise the mask. A string is returned as it is, and anything else
// as JSON. View is empty for an absent field.
func (o Of[T]) View() string {
	if text, err := o.encode(); err == nil && !o.IsZero() {
		return maskText(text)
	}
	return o.Mask()
}

// column is a field with any type of value. Every *Of implements it.
type column interface {
	head() *core
	encode() (vault.JSON, error)                   // the value
	before() (vault.JSON, error)                   // the value in the vault; nil if unknown
	open(data vault.JSON, mask *box[string]) error // sets the value that the vault returned
	reset()
	valueType() reflect.Type
}

func (o *Of[T]) head() *core { return &o.core }
func (o *Of[T]) reset()      { *o = Of[T]{} }

func (o Of[T]) encode() (vault.JSON, error) {
	v, err := o.Get()
	if err != nil {
		return nil, err
	}
	return encode(v)
}

func (o *Of[T]) before() (vault.JSON, error) {
	if o.was == nil {
		return nil, nil
	}
	return encode(o.was.get())
}

func (o *Of[T]) open(data vault.JSON, mask *box[string]) error {
	v, err := decode[T](data)
	if err != nil {
		return err
	}
	o.value, o.was, o.state, o.mask = boxed(v), nil, opened, mask
	return nil
}

func (o *Of[T]) valueType() reflect.Type { return reflect.TypeFor[T]() }

// Types of values that need special treatment.
var (
	bytesType = reflect.TypeFor[[]byte]()
	cardType  = reflect.TypeFor[vault.CardData]()
	bankType  = reflect.TypeFor[vault.BankData]()
)

// encode returns a value as JSON.
func encode(v any) (vault.JSON, error) {
	if b, ok := v.([]byte); ok {
		v = &b // in base64, and null for nil
	}
	text, err := vault.EncodeJSON(v)
	if err == nil && bytes.Equal(text, []byte("null")) {
		err = fmt.Errorf("%w: a token cannot hold null; use the zero value of the field for NULL", vault.ErrInvalid)
	}
	return text, err
}

// decode reads a value. It does not return the errors of encoding/json, which may
// quote the value.
func decode[T any](text []byte) (T, error) {
	var v T
	if err := json.Unmarshal(text, &v); err != nil {
		return v, fmt.Errorf("%w: the JSON does not fit Go type %T", vault.ErrInvalid, v)
	}
	return v, nil
}
