package vault

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-72ea4aab/vault/script"
)

// Running code reads errors that are made for callers, and nothing of others.
func TestHostErrors(t *testing.T) {
	t.Parallel()
	fields := map[string][]string{"data": {"is required"}}
	own := &script.HostError{Code: "EACCES", Message: "no"}
	for name, c := range map[string]struct {
		err  error
		want *script.HostError
	}{
		"the host's own": {fmt.Errorf("fetch: %w", own), own},
		"of code":        {&script.Error{Kind: script.Thrown, Status: 402, Title: "No Money", Messages: fields}, &script.HostError{Status: 402, Message: "No Money", Errors: fields}},
		"of fields":      {&InvalidError{Fields: fields}, &script.HostError{Status: 400, Message: "One or more validation errors occurred.", Errors: fields}},
		"of a sentinel":  {errorf(ErrNotFound, "There is no such token."), &script.HostError{Status: 404, Message: "There is no such token."}},
		"of the runtime": {script.ErrBusy, &script.HostError{Status: 429, Message: "too many requests"}},
		"of the machine": {errors.New("secret of the database"), &script.HostError{Status: 500, Message: "the operation failed"}},
	} {
		if diff := cmp.Diff(c.want, hostError(c.err)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}
