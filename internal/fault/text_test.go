package fault_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// A Go error and the detail of a response are one text in two forms.
func TestDetail(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err          error
		text, detail string
	}{
		{fault.ErrNoToken, "vault: token not found", "Token not found."},
		{fault.New(fault.ErrTooLarge, "JSON of %d bytes is too large", 7), "vault: JSON of 7 bytes is too large", "JSON of 7 bytes is too large."},
		{fault.ErrTokenExists, "vault: a token with this id already exists", "A token with this id already exists."},
		{fault.ErrBusy, "vault: too many requests", "Too many requests."},
		{fmt.Errorf("charge: %w", fault.ErrNoToken), "charge: vault: token not found", "Charge: token not found."},
		{fault.Wrap(fault.ErrAltered, "tenant %d", 7), "vault: tenant 7: the database was altered", "Tenant 7: the database was altered."},
	} {
		must.Same(t, "the text", c.text, c.err.Error())
		must.Same(t, fmt.Sprintf("the detail of %q", c.text), c.detail, fault.Detail(c.err))
	}
}

// The client of the REST API returns the error that the vault returned.
func TestFromDetail(t *testing.T) {
	t.Parallel()
	for _, err := range []error{fault.ErrNoToken, fault.ErrTokenExists, fault.New(fault.ErrTooLarge, "JSON is too large")} {
		kind := errors.Unwrap(err)
		got := fault.FromDetail(kind, fault.Detail(err))
		if got.Error() != err.Error() || !errors.Is(got, kind) {
			t.Errorf("got %q, want %q", got, err)
		}
	}
	must.Same(t, "the text of an empty detail", "vault: not found", fault.FromDetail(fault.ErrNotFound, "").Error())
}
