package vault_test

import (
	"context"
	"errors"
	"iter"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/script"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// arguments are what methods are called with that would refuse a zero value
// before they get to work.
func arguments(v *vaulttest.Vault) map[string][]any {
	return map[string][]any{
		"Authenticate":       {v.PrivateKey},
		"AuthorizeSession":   {vault.Grant{Nonce: "x", Permissions: []string{"token:read"}}},
		"CreateApplication":  {vault.ApplicationParams{Name: "x", Type: vault.Private, Permissions: everything}},
		"CreateProxy":        {vault.ProxyParams{Name: "x", DestinationURL: "https://example.com/"}},
		"CreateReactor":      {vault.ReactorParams{Name: "x", Code: "x", Configuration: map[string]string{}}},
		"CreateTenant":       {"x"},
		"CreateToken":        {generic},
		"InvokeProxy":        {vault.ProxyCall{Key: "x"}},
		"Once":               {vault.OnceKey{Key: "x"}, func(context.Context, *vault.Client) (vault.Answer, error) { return vault.Answer{Status: 200}, nil }},
		"PatchApplication":   {uuid.UUID{}, vault.JSON(`{"name":"y"}`)},
		"PatchProxy":         {uuid.UUID{}, vault.JSON(`{"name":"y"}`)},
		"PatchReactor":       {uuid.UUID{}, vault.JSON(`{"name":"y"}`)},
		"ReplaceApplication": {uuid.UUID{}, vault.ApplicationParams{Name: "x", Type: vault.Private, Permissions: everything}},
		"ReplaceProxy":       {uuid.UUID{}, vault.ProxyParams{Name: "x", DestinationURL: "https://example.com/"}},
		"ReplaceReactor":     {uuid.UUID{}, vault.ReactorParams{Name: "x", Code: "x", Configuration: map[string]string{}}},
		"SearchTokens":       {vault.SearchTokensParams{Query: "type:token"}},
		"Tokenize":           {"x"},
		"UpdateTenant":       {vault.TenantParams{Name: "x"}},
		"UpdateToken":        {"x", vault.JSON(`{"data":"y"}`)},
	}
}

// callEach calls every method of a Vault or Client that takes a context, with
// these arguments or else with zero values, and hands over what it returned.
func callEach(ctx context.Context, of any, arguments map[string][]any, result func(method string, err error)) {
	receiver := reflect.ValueOf(of)
	for i := range receiver.NumMethod() {
		method := receiver.Type().Method(i)
		if method.Type.NumIn() < 2 || method.Type.In(1) != reflect.TypeFor[context.Context]() {
			continue // does nothing, or is Close
		}
		in := []reflect.Value{reflect.ValueOf(ctx)}
		for j := 2; j < method.Type.NumIn(); j++ {
			value := reflect.Zero(method.Type.In(j))
			if given := arguments[method.Name]; given != nil {
				value = reflect.ValueOf(given[j-2])
			}
			in = append(in, value)
		}
		out := receiver.Method(i).Call(in)
		switch last := out[len(out)-1].Interface().(type) {
		case nil:
			result(method.Name, nil)
		case error:
			result(method.Name, last)
		case iter.Seq2[*vault.Token, error]:
			for _, err := range last {
				result(method.Name, err)
			}
		}
	}
}

// After Close every operation fails with ErrClosed, though some of them would
// find what they need in the memory of the process.
func TestEveryOperationAfterClose(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	for _, c := range []*vault.Client{v.Public, v.Private, v.Management} {
		get(t, v.Tenant, create(t, v.Tenant, generic).ID)
		if err := c.Check(t.Context(), ""); err != nil {
			t.Fatal(err) // it is known now whose key this is
		}
	}
	if err := v.Close(); err != nil {
		t.Fatal(err)
	}
	if err := v.Close(); err != nil {
		t.Errorf("closing again: %v", err)
	}
	called := 0
	closed := func(method string, err error) {
		called++
		wantError(t, method, err, vault.ErrClosed)
	}
	for _, of := range []any{v.Vault, v.Tenant, v.Private} {
		callEach(t.Context(), of, arguments(v), closed)
	}
	if called < 80 {
		t.Errorf("only %d calls: the test does not find the methods", called)
	}
}

// An operation whose caller has gone changes nothing.
func TestEveryOperationOfACancelledContext(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	// What they answer is in memory, so nobody waits for it.
	fromMemory := map[string]bool{"Check": true, "Detokenize": true, "ListEntityTypes": true, "ListPermissions": true, "Authenticate": true}
	before := entries(t, v, vault.ListLogsParams{})
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, of := range []any{v.Vault, v.Tenant} {
		callEach(cancelled, of, arguments(v), func(method string, err error) {
			switch {
			case method == "CreateSession": // is the public application's
			case method == "OwnApplication": // the tenant has none
			case !fromMemory[method]:
				wantError(t, method, err, context.Canceled)
			case err != nil && !errors.Is(err, context.Canceled):
				t.Errorf("%s: %v", method, err)
			}
		})
	}
	_, err := v.Public.CreateSession(cancelled)
	wantError(t, "CreateSession", err, context.Canceled)
	same(t, "entries of the log", len(entries(t, v, vault.ListLogsParams{})), len(before))
}

// Zero values are refused or mean something; they never crash, and what they
// give as an error is one that callers know.
func TestEveryOperationOnZeroValues(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	for _, of := range []any{v.Vault, v.Tenant, v.Public, v.Private, v.Management} {
		callEach(t.Context(), of, nil, func(method string, err error) {
			for _, known := range []error{nil, vault.ErrInvalid, vault.ErrNotFound, vault.ErrForbidden, vault.ErrUnauthenticated} {
				if errors.Is(err, known) {
					return
				}
			}
			t.Errorf("%s: %v", method, err)
		})
	}
}

// closable is a runtime that knows whether it was closed.
type closable struct {
	vault.Runtime
	closed int
}

func (r *closable) Close() error { r.closed++; return nil }

// An Open that fails says why, and closes what it was given: a store has
// connections, and a runtime processes.
func TestOpenThatFailsClosesWhatItOwns(t *testing.T) {
	t.Parallel()
	var undeclared *vault.Key
	for name, test := range map[string]struct {
		key    vault.AEAD
		keyAge time.Duration
		want   string
	}{
		"no key":       {nil, 0, "master key"},
		"a nil key":    {undeclared, 0, "master key"},
		"an empty key": {&vault.Key{}, 0, "master key"},
		"a bad config": {vault.NewKey(), -1, "Config.KeyAge"},
	} {
		store, err := sqlite.Open(t.Context(), ":memory:")
		if err != nil {
			t.Fatal(err)
		}
		runtime := &closable{}
		_, err = vault.Open(t.Context(), store, test.key, &vault.Config{Runtime: runtime, KeyAge: test.keyAge})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
		wantError(t, name+": the store", store.Ping(t.Context()), vault.ErrClosed)
		same(t, name+": the runtime was closed", runtime.closed, 1)
	}
	if _, err := vault.Open(t.Context(), nil, vault.NewKey(), nil); err == nil {
		t.Error("opened without a store")
	}
}

// A run that is cut short because the vault closes its runtime fails as every
// operation of a closed vault does, and so does a check of code.
func TestClosedRuntimeIsAClosedVault(t *testing.T) {
	t.Parallel()
	w := newReactWorld(t, func(context.Context, map[string]any, script.Host) (any, error) { return nil, script.ErrClosed })
	_, err := w.Private.React(t.Context(), w.reactor.ID, vault.ReactParams{})
	wantError(t, "run", err, vault.ErrClosed)
	v := vaulttest.Open(t, ":memory:", &vault.Config{Runtime: refusing{err: script.ErrClosed}})
	_, err = v.Tenant.CreateReactor(t.Context(), reactorParams("r"))
	wantError(t, "check", err, vault.ErrClosed)
}
