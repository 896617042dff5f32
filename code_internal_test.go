package vault

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-72ea4aab/vault/script"
)

// slowRuntime takes longer over a piece of code than keys may be used unread.
type slowRuntime struct {
	Runtime
	during func()
}

func (r *slowRuntime) Check(context.Context, script.Program) error { r.during(); return nil }
func (r *slowRuntime) Close() error                                { return nil }

// Code that takes long to check is stored all the same.
func TestSlowCheckOfCodeIsNotTooLate(t *testing.T) {
	t.Parallel()
	runtime := &slowRuntime{}
	v, _, tenant := counted(t, Config{Runtime: runtime})
	c := v.Tenant(tenant)
	runtime.during = func() {
		v.tenants.mu.Lock()
		defer v.tenants.mu.Unlock()
		v.tenants.states[tenant].readAt = time.Now().Add(-maxKeyAge - time.Second)
	}
	configuration := map[string]string{}
	r, err := c.CreateReactor(t.Context(), ReactorParams{Name: "r", Code: "x", Configuration: configuration})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.ReplaceReactor(t.Context(), r.ID, ReactorParams{Name: "r", Code: "y", Configuration: configuration}); err != nil {
		t.Errorf("replace: %v", err)
	}
	code := &ProxyTransform{Code: "x"}
	if _, err := c.CreateProxy(t.Context(), ProxyParams{Name: "p", DestinationURL: "https://example.com/", RequestTransform: code, ResponseTransform: code}); err != nil {
		t.Errorf("proxy: %v", err)
	}
}

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
