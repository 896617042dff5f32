package vaultsql

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/seed-72ea4aab/vault"
)

// Of is a value in memory and a token id in a database. T is any type that
// encoding/json writes and reads back. The zero Of is absent: NULL.
//
// Copies are independent of each other, except that they share what T itself
// refers to. A map or slice that is changed in place has to be Set again.
type Of[T any] struct {
	core
	value *box[T] // in the states fresh and opened
	was   *box[T] // what the token holds, if value replaces it and it is known
}

// Text is a sealed string.
type Text = Of[string]

// Card is a sealed card. Its security code is gone an hour after Seal.
type Card = Of[vault.CardData]

// Bytes is sealed binary data. The token holds it in base64, and its mask shows
// nothing of it.
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

// core is what a field is without its value.
type core struct {
	id    string // of the token; empty for none
	state state
	mask  *box[string] // nil when it is not known
}

// state is how much of a value is in memory.
type state uint8

const (
	absent state = iota // NULL
	sealed              // there is an id alone
	fresh               // set, and not in the vault yet
	opened              // id and value
	masked              // id, and no more than a mask
	gone                // the token of the id does not exist
)

// box hides a value from everything that prints by reflection.
type box[T any] struct{ get func() T }

func boxed[T any](v T) *box[T] { return &box[T]{func() T { return v }} }

// Set gives the field a value, which Seal puts into the vault. If the field has a
// token, Seal changes that token.
func (o *Of[T]) Set(v T) {
	switch o.state {
	case opened:
		o.was = o.value
	case absent, sealed, masked, gone:
		o.was = nil
	case fresh: // the token still holds what it held
	}
	if o.state == gone {
		o.id = ""
	}
	o.value, o.state, o.mask = boxed(v), fresh, nil
}

// Get returns the value: after Set, after [Seal], or after [Open]. An absent value
// is the zero T.
//
// Otherwise it is [ErrSealed], [ErrMasked], or, when the token has expired or was
// deleted, an error that matches [vault.ErrNotFound].
func (o Of[T]) Get() (T, error) {
	var zero T
	switch o.state {
	case fresh, opened:
		return o.value.get(), nil
	case sealed:
		return zero, ErrSealed
	case masked:
		return zero, ErrMasked
	case gone:
		return zero, errGone
	case absent:
	}
	return zero, nil
}

// ID returns the id of the token: what the column holds. It is empty for an absent
// value, and for a new one before Seal.
func (o Of[T]) ID() string { return o.id }

// IsZero reports whether there is no value: the column is NULL, or Open found that
// its token has expired or was deleted.
func (o Of[T]) IsZero() bool { return o.state == absent || o.state == gone }

// Mask returns the value as a caller without the right to see it may show it:
// text, or JSON for anything else than text. It is known after Seal and after
// Open, and empty where the vault shows nothing.
func (o Of[T]) Mask() string {
	if o.mask == nil {
		return ""
	}
	return o.mask.get()
}

// column is a field whatever its type of value. Every *Of is one.
type column interface {
	head() *core
	encode() (vault.JSON, error)                   // the value
	before() (vault.JSON, error)                   // what the token holds; nil if that is not known
	open(data vault.JSON, mask *box[string]) error // takes the value from the vault
	reset()
	tokenType() vault.TokenType
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

func (o *Of[T]) tokenType() vault.TokenType {
	switch any(*new(T)).(type) {
	case vault.CardData:
		return vault.TypeCard
	case vault.BankData:
		return vault.TypeBank
	default:
		return vault.TypeGeneric
	}
}

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

// decode reads a value. The errors of encoding/json may quote it, so they are not
// passed on.
func decode[T any](text []byte) (T, error) {
	var v T
	if err := json.Unmarshal(text, &v); err != nil {
		return v, fmt.Errorf("%w: the JSON does not fit Go type %T", vault.ErrInvalid, v)
	}
	return v, nil
}
