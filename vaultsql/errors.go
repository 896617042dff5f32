package vaultsql

import (
	"errors"
	"fmt"
	"strings"

	"github.com/seed-72ea4aab/vault"
)

// Errors of a field; use errors.Is.
var (
	// ErrSealed is returned by Get before Open.
	ErrSealed = errors.New("vaultsql: the value is sealed: call Open first")
	// ErrMasked means that the caller of Open may see at most a mask.
	ErrMasked = errors.New("vaultsql: the caller of Open may not see the value: Mask returns what it may see")
	// ErrUnsealed is returned when a value is written to a database before Seal.
	ErrUnsealed = errors.New("vaultsql: the value is not in the vault yet: call Seal first")
)

// errGone means that the token of a field was deleted or has expired.
var errGone = fmt.Errorf("vaultsql: the token of the value has expired or was deleted: %w", vault.ErrNotFound)

// prefix begins every error of this package.
const prefix = "vaultsql: "

// FieldError is an error about one field.
type FieldError struct {
	Field string // such as Customer.Name, or Customer[3].Address.Street
	Err   error
}

// Error names the field.
func (e *FieldError) Error() string {
	return prefix + e.Field + ": " + strings.TrimPrefix(e.Err.Error(), prefix)
}

// Unwrap returns the error without the name of the field.
func (e *FieldError) Unwrap() error { return e.Err }

// fieldErrorf returns an error about a field.
func fieldErrorf(field, format string, args ...any) error {
	return &FieldError{Field: field, Err: fmt.Errorf(format, args...)}
}
