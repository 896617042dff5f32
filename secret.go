package vault

import (
	"fmt"
	"io"
	"log/slog"
	"slices"

	"github.com/seed-72ea4aab/vault/internal/fault"
)

// Secret is a value that does not print, such as an API key in a configuration or a
// password in a request. With fmt, slog, templates and encoding/json it shows the
// word hidden. Reveal returns the value. Decoding JSON sets the value.
//
//	type Config struct {
//		Addr   string
//		APIKey vault.Secret[string]
//	}
//
// Copies have the same value. The operator == reports whether two secrets are copies
// of each other, and does not compare values.
type Secret[T any] struct {
	// Printing by reflection does not look behind a pointer to a function. This
	// covers unexported fields, where fmt calls no methods.
	value *secretValue[T]
}

type secretValue[T any] struct{ reveal func() T }

// NewSecret returns a value as a secret.
func NewSecret[T any](v T) Secret[T] {
	return Secret[T]{&secretValue[T]{func() T { return v }}}
}

// Reveal returns the value. The zero Secret returns the zero T.
func (s Secret[T]) Reveal() T {
	if s.value == nil {
		return *new(T)
	}
	return s.value.reveal()
}

// IsZero reports whether the secret has no value.
func (s Secret[T]) IsZero() bool { return s.value == nil }

// String returns the word hidden, or "" for the zero Secret.
func (s Secret[T]) String() string {
	if s.value == nil {
		return ""
	}
	return hidden
}

// Format prints the result of String for every verb.
func (s Secret[T]) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, s.String()) // Format cannot return an error
}

// LogValue returns the result of String.
func (s Secret[T]) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalJSON writes the result of String. The value is lost.
func (s Secret[T]) MarshalJSON() ([]byte, error) { return []byte(`"` + s.String() + `"`), nil }

// UnmarshalJSON sets the value; null removes it. Errors do not quote the value.
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

// UnmarshalText sets the value of a Secret[string] or Secret[[]byte], for
// configuration in environment variables or YAML.
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
