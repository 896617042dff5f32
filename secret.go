package vault

import (
	"fmt"
	"io"
	"log/slog"
	"slices"

	"github.com/seed-72ea4aab/vault/internal/fault"
)

// Secret is a value that does not print: an API key in a configuration, a password
// in a request. With fmt, slog, templates and encoding/json it shows that it is
// hidden, wherever it is in a struct; Reveal returns the value. JSON that is read
// gives it a value.
//
//	type Config struct {
//		Addr   string
//		APIKey vault.Secret[string]
//	}
//
// A copy has the same value. Two secrets are equal only if one is a copy of the
// other.
type Secret[T any] struct {
	// A function behind a pointer: nothing that prints by reflection looks into it,
	// also where fmt calls no methods.
	value *secretValue[T]
}

type secretValue[T any] struct{ reveal func() T }

// NewSecret returns a value as a secret.
func NewSecret[T any](v T) Secret[T] {
	return Secret[T]{&secretValue[T]{func() T { return v }}}
}

// Reveal returns the value; the zero value if there is none.
func (s Secret[T]) Reveal() T {
	if s.value == nil {
		return *new(T)
	}
	return s.value.reveal()
}

// IsZero reports whether there is no value.
func (s Secret[T]) IsZero() bool { return s.value == nil }

// String returns the word hidden, and nothing if there is no value.
func (s Secret[T]) String() string {
	if s.value == nil {
		return ""
	}
	return hidden
}

// Format prints what String returns, whatever the verb.
func (s Secret[T]) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, s.String()) // what printing fails on, it cannot say
}

// LogValue shows what String returns.
func (s Secret[T]) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalJSON writes what String returns, so that a secret that is written and read
// again is another one.
func (s Secret[T]) MarshalJSON() ([]byte, error) { return []byte(`"` + s.String() + `"`), nil }

// UnmarshalJSON reads the value. Null is no value. An error does not quote it.
func (s *Secret[T]) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*s = Secret[T]{}
		return nil
	}
	var v T
	if err := JSON(text).Decode(&v); err != nil {
		return public(fault.Field("", "must be of Go type %T", v))
	}
	*s = NewSecret(v)
	return nil
}

// UnmarshalText reads a string or a []byte, for programs that read a configuration
// from variables or from YAML.
func (s *Secret[T]) UnmarshalText(text []byte) error {
	var v T
	switch v := any(&v).(type) {
	case *string:
		*v = string(text)
	case *[]byte:
		*v = slices.Clone(text)
	default:
		return public(fault.Field("", "must be a string or a []byte to be read from text"))
	}
	*s = NewSecret(v)
	return nil
}
