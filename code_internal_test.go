package vault

import (
	"context"
	"testing"
	"time"
)

// slowRuntime takes longer over a piece of code than keys may be used unread.
type slowRuntime struct {
	Runtime
	during func()
}

func (r *slowRuntime) Check(context.Context, Program) error { r.during(); return nil }
func (r *slowRuntime) Close() error                         { return nil }

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
