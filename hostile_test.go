package vault_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/script"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// TestExpiryCanBeWritten: a time that JSON cannot write would make every list
// with its token fail.
func TestExpiryCanBeWritten(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	for _, at := range []string{"9999-12-31T23:30:00-01:00", "12/31/9999 11:30:00 PM -01:00", "0001-01-01T00:00:00Z", "1/1/0001"} {
		_, err := createJSON(t, v.Private, `{"type":"token","data":"x","expires_at":"`+at+`"}`)
		wantFields(t, at, err, "expires_at")
	}
	_, err := v.Private.CreateToken(t.Context(), vault.TokenParams{Type: vault.Generic, Data: "x", ExpiresAt: ptr(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC))})
	wantFields(t, "a Go time", err, "expires_at")
	tok, err := createJSON(t, v.Private, `{"type":"token","data":"x","expires_at":"9999-12-31T23:59:59Z"}`)
	if err != nil {
		t.Fatal(err)
	}
	_, err = v.Private.UpdateToken(t.Context(), tok.ID, vault.JSON(`{"expires_at":"9999-12-31T23:30:00-01:00"}`))
	wantFields(t, "update", err, "expires_at")
	page, err := v.Private.ListTokens(t.Context(), vault.ListTokensParams{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := json.Marshal(page); err != nil {
		t.Errorf("the list cannot be written: %v", err)
	}
}

// TestTokenizeBoundsItsExpressions: the masks of a document are evaluated and
// kept until its answer is written, so a small document must not blow up.
func TestTokenizeBoundsItsExpressions(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	const request = `{"type":"token","data":"x","mask":"{{ data | pad_left: 1000000 }}"},`
	_, err := v.Private.Tokenize(t.Context(), vault.JSON(`[`+strings.Repeat(request, 200)+`1]`))
	wantError(t, "200 megabytes of masks", err, vault.ErrInvalid)
	if _, err := v.Private.Tokenize(t.Context(), vault.JSON(`[`+strings.Repeat(request, 3)+`1]`)); err != nil {
		t.Errorf("three of them: %v", err)
	}
}

// TestErrorsAreFew: a document can be wrong in a million places.
func TestErrorsAreFew(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	var doc strings.Builder
	doc.WriteString(`{"type":"token","data":"x"`)
	for i := range 5000 {
		fmt.Fprintf(&doc, `,"f%d":1`, i)
	}
	doc.WriteString(`}`)
	for what, body := range map[string]string{
		"fields":   doc.String(),
		"requests": `[` + strings.Repeat(`{"type":"nothing","data":1},`, 5000) + `1]`,
	} {
		_, err := v.Private.Tokenize(t.Context(), vault.JSON(body))
		var bad *vault.InvalidError
		if !errors.As(err, &bad) || len(bad.Fields) == 0 || len(bad.Fields) > 1000 {
			t.Errorf("%s: %d fields", what, len(bad.Fields))
		}
	}
}

// TestOnceTokenizeWithOneIDTwice: what can never be written is not tried again
// and again.
func TestOnceTokenizeWithOneIDTwice(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	tokenize := func(runs *atomic.Int32, doc string) func(context.Context, *vault.Client) (vault.Answer, error) {
		return func(ctx context.Context, c *vault.Client) (vault.Answer, error) {
			runs.Add(1)
			out, err := c.Tokenize(ctx, vault.JSON(doc))
			return vault.Answer{Status: 200, Body: out}, err
		}
	}
	var runs atomic.Int32
	_, _, err := v.Private.Once(t.Context(), vault.OnceKey{Key: "fixed"},
		tokenize(&runs, `[{"id":"same","type":"token","data":"a"},{"id":"same","type":"token","data":"b"}]`))
	wantError(t, "one id twice", err, vault.ErrConflict)
	same(t, "runs", runs.Load(), 1)
	runs.Store(0)
	const alias = `{"id":"{{ data | slice: 0, 5 }}","type":"token","data":"alike and different"}`
	a, _, err := v.Private.Once(t.Context(), vault.OnceKey{Key: "alias"}, tokenize(&runs, `[`+alias+`,`+alias+`]`))
	if err != nil {
		t.Fatalf("one alias twice: %v", err)
	}
	same(t, "runs", runs.Load(), 1)
	var made []vault.Token
	if err := json.Unmarshal(a.Body, &made); err != nil || len(made) != 2 {
		t.Fatalf("%d tokens, %v", len(made), err)
	}
	if made[0].ID != "alike" || uuid.Validate(made[1].ID) != nil {
		t.Errorf("the ids are %q and %q; the second falls back to a UUID", made[0].ID, made[1].ID)
	}
}

// TestOnceMakesRoom: a duplicate that has expired but is still there is in
// nobody's way.
func TestOnceMakesRoom(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	p := vault.TokenParams{Type: vault.Generic, Data: "x", DeduplicateToken: ptr(true), ExpiresAt: ptr(vaulttest.Start.Add(time.Minute))}
	create(t, v.Private, p)
	v.Clock.Advance(2 * time.Minute)
	p.ExpiresAt = nil
	var runs atomic.Int32
	if _, _, err := v.Private.Once(t.Context(), vault.OnceKey{Key: "abc"}, creating(&runs, p)); err != nil {
		t.Errorf("after %d runs: %v", runs.Load(), err)
	}
	_, total := list(t, v.Tenant, vault.ListTokensParams{})
	same(t, "tokens", total, 1)
}

// TestOnceScopeIncludesTheUser: two applications that act for one user are two,
// and so are two users of one session.
func TestOnceScopeIncludesTheUser(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	user, other := uuid.New(), uuid.New()
	s := session(t, v, vault.Grant{Permissions: []string{"token:create"}})
	var runs atomic.Int32
	for _, c := range []*vault.Client{
		v.Private.AsUser(user), revealing(t, v).AsUser(user), v.Tenant.AsUser(user), s.AsUser(user), s.AsUser(other), s,
	} {
		_, replayed, err := c.Once(t.Context(), vault.OnceKey{Key: "abc"}, creating(&runs, generic))
		if err != nil || replayed {
			t.Errorf("replayed %v, %v", replayed, err)
		}
	}
	same(t, "runs", runs.Load(), 6)
}

// TestIDsDoNotHoldNumbers of people, however they are written.
func TestIDsDoNotHoldNumbers(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	for id, data := range map[string]string{"536-22-8726": "536228726", "536228726": "536-22-8726", "user 536-22-8726": "536-22-8726"} {
		for _, typ := range []vault.TokenType{vault.SocialSecurityNumber, vault.EmployerIDNumber} {
			_, err := v.Private.CreateToken(t.Context(), vault.TokenParams{ID: id, Type: typ, Data: data})
			wantFields(t, id, err, "id")
			wantSilent(t, err, data, id)
		}
	}
}

// TestMovingATokenDoesNotRevealIt: who may not see a token in clear must not be
// able to move it to where he may.
func TestMovingATokenDoesNotRevealIt(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	c := private(t, v, rule(1, "/open/", vault.Reveal, "token:read", "token:update"), rule(2, "/used/", vault.Reveal, "token:use", "token:update"),
		rule(3, "/half/", vault.Mask, "token:read", "token:update"), rule(4, "/shut/", vault.Redact, "token:update"), rule(5, "/blind/", vault.Mask, "token:update"))
	for _, tt := range []struct {
		from, patch string
		allowed     bool
	}{
		{"/half/", `{"containers":["/open/"]}`, false},
		{"/half/", `{"containers":["/used/"]}`, false},
		{"/blind/", `{"containers":["/open/"]}`, false},
		{"/shut/", `{"containers":["/half/"]}`, true},
		{"/half/", `{"containers":["/open/"],"data":{"b":"new"}}`, false},
		{"/half/", `{"containers":["/open/"],"data":"new"}`, true},
		{"/half/", `{"containers":["/open/","/shut/"]}`, true},
		{"/blind/", `{"containers":["/half/"]}`, true},
		{"/half/", `{"containers":["/shut/"]}`, true},
		{"/used/", `{"containers":["/open/"]}`, true},
		{"/open/", `{"containers":["/used/"]}`, true},
	} {
		tok := create(t, v.Tenant, vault.TokenParams{Type: vault.Generic, Data: map[string]string{"a": "secret"}, Containers: []string{tt.from}})
		_, err := c.UpdateToken(t.Context(), tok.ID, vault.JSON(tt.patch))
		if tt.allowed && err != nil || !tt.allowed && !errors.Is(err, vault.ErrForbidden) {
			t.Errorf("%s %s: %v", tt.from, tt.patch, err)
		}
	}
}

// TestDeletedTenantStaysEmpty: a node that has not heard of the deletion may
// write once more.
func TestDeletedTenantStaysEmpty(t *testing.T) {
	t.Parallel()
	v, store := spied(t)
	create(t, v.Tenant, vault.TokenParams{ID: "tok", Type: vault.Generic, Data: "x"})
	late := store.rows(t, v.Acme.ID, "tok")
	if err := v.DeleteTenant(t.Context(), v.Acme.ID); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := store.Write(t.Context(), &storage.Change{Tenant: storage.ID(v.Acme.ID), Now: v.Clock.Now(), InsertTokens: late}); err != nil {
			t.Fatal(err)
		}
		sweep(t, v.Vault)
		same(t, "rows", len(store.rows(t, v.Acme.ID, "tok")), 0)
	}
	v.Clock.Advance(time.Minute) // by now everybody knows
	sweep(t, v.Vault)
	recs, _, err := store.ListRecords(t.Context(), storage.RecordFilter{Kind: "tombstone", Limit: 10})
	if err != nil || len(recs) != 0 {
		t.Errorf("%d tombstones are left (%v)", len(recs), err)
	}
}

// TestRunsDoNotBreed: code that starts its own reactor again asynchronously
// would go on for ever, and survive the process.
func TestRunsDoNotBreed(t *testing.T) {
	t.Parallel()
	var runs atomic.Int32
	refused := make(chan error, 1)
	hook := newReceiver(t)
	w := newReactWorld(t, func(ctx context.Context, in map[string]any, host script.Host) (any, error) {
		if runs.Add(1) > 10 {
			return nil, errors.New("enough")
		}
		id := in["args"].(map[string]any)["id"]
		body, err := json.Marshal(map[string]any{"id": id, "body": map[string]any{"args": map[string]any{"id": id}, "callback_url": hook.URL}})
		if err != nil {
			return nil, err
		}
		if _, err = host.Call(ctx, "reactors.react", body); err != nil {
			refused <- err
		}
		return map[string]any{}, nil
	})
	args := map[string]any{"id": w.reactor.ID}
	if _, err := w.Private.React(t.Context(), w.reactor.ID, vault.ReactParams{Args: args, CallbackURL: hook.URL}); err != nil {
		t.Fatal(err)
	}
	if err := w.Work(t.Context()); err != nil {
		t.Fatal(err)
	}
	same(t, "runs", runs.Load(), 3)
	select {
	case err := <-refused:
		same(t, "the fourth", err, error(&script.HostError{Status: 500, Message: script.DefaultTitle,
			Errors: map[string][]string{"error": {"reactors and proxies call each other more than 3 deep"}}}))
	default:
		t.Error("none was refused")
	}
	same(t, "callbacks", hook.count(), 3)
}
