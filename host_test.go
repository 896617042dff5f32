package vault_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/test/given"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/jsruntime"
	"github.com/seed-72ea4aab/vault/script"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// hostError returns the error that running code sees, or nil if it sees none.
func hostError(err error) *script.HostError {
	if known, ok := errors.AsType[*script.HostError](err); ok {
		return known
	}
	return &script.HostError{}
}

// hosted runs a Go function in place of tenant code, with the same access, on a
// spied database.
func hosted(t *testing.T, run func(ctx context.Context, v *vaulttest.Vault, s *given.Spy, host script.Host)) {
	t.Helper()
	var v *vaulttest.Vault
	var s *given.Spy
	v, s = given.SpiedWith(t, &vault.Config{
		Egress: vault.EgressPolicy{AllowHTTP: true, AllowPrivate: true},
		Runtime: given.Runtime(func(ctx context.Context, _ map[string]any, host script.Host) (any, error) {
			run(ctx, v, s, host)
			return nil, nil
		}),
	})
	own := must.Get(v.Private.OwnApplication(t.Context()))(t)
	r := must.Get(v.Management.CreateReactor(t.Context(), vault.ReactorParams{Name: "r", Code: "code", Configuration: map[string]string{}, ApplicationID: own.ID}))(t)
	must.Get(v.Private.React(t.Context(), r.ID, vault.ReactParams{}))(t)
}

func mustJSON(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // these values always encode
	}
	return text
}

// Concurrent calls hold at most 32 MiB: their arguments, and the bytes that fetches
// and proxies have read so far. A call over the limit is refused until another has
// ended.
func TestBytesOfCallsAreBoundedTogether(t *testing.T) {
	t.Parallel()
	const size = 100 << 10
	begun, end := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/held" {
			close(begun)
			<-end
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = w.Write(make([]byte, size))
	}))
	defer server.Close()
	hosted(t, func(ctx context.Context, _ *vaulttest.Vault, _ *given.Spy, host script.Host) {
		large := map[string]struct {
			op   string
			args map[string]any
		}{
			"arguments":                 {"fetch", map[string]any{"method": "POST", "url": server.URL, "headers": []any{}, "body": strings.Repeat("A", size)}},
			"the answer to a fetch":     {"fetch", map[string]any{"method": "GET", "url": server.URL, "headers": []any{}}},
			"an answer through a proxy": {"proxy.get", map[string]any{"proxyUrl": server.URL}},
		}
		// The first call leaves little room. White space is cheap to read.
		held := mustJSON(map[string]any{"method": "GET", "url": server.URL + "/held", "headers": []any{}})
		held = append(held, bytes.Repeat([]byte(" "), core.MaxRunBytes-size/2-len(held))...)
		ended := make(chan error)
		go func() {
			_, err := host.Call(ctx, "fetch", held)
			ended <- err
		}()
		<-begun
		for name, c := range large {
			_, err := host.Call(ctx, c.op, mustJSON(c.args))
			if known := hostError(err); known.Status != http.StatusRequestEntityTooLarge || known.Code != "ERR_BODY_TOO_LARGE" {
				t.Errorf("%s: %v", name, err)
			}
		}
		close(end)
		if err := <-ended; err != nil {
			t.Errorf("the running call: %v", err)
		}
		for name, c := range large {
			must.Match(t, name+", when no other is running", must.Err(host.Call(ctx, c.op, mustJSON(c.args))), nil)
		}
	})
}

// The response body of a proxy becomes a JSON value only if it is valid JSON and
// declares itself as JSON.
func TestProxiedBodies(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", r.Header.Get("X-Type"))
		w.Header().Set("X-Seen", "1")
		_, _ = io.WriteString(w, r.Header.Get("X-Body"))
	}))
	defer server.Close()
	hosted(t, func(ctx context.Context, _ *vaulttest.Vault, _ *given.Spy, host script.Host) {
		for _, c := range []struct{ typ, body, want string }{
			{"application/json", `{"a": [1.10, "<>"]}`, `{"a": [1.10, "<>"]}`},
			{"application/json; charset=utf-8", ` 1`, ` 1`},
			{"application/json", ``, `null`},
			{"application/json", `{"a":`, `"{\"a\":"`},
			{"application/json", `1,"body":2`, `"1,\"body\":2"`},
			{"text/plain", `{"a":1}`, `"{\"a\":1}"`},
		} {
			out, err := host.Call(ctx, "proxy.get", mustJSON(map[string]any{
				"proxyUrl": server.URL, "headers": map[string]string{"X-Type": c.typ, "X-Body": c.body},
			}))
			var answer struct {
				Status  int
				Headers map[string]string
				Body    json.RawMessage
			}
			if err == nil {
				err = json.Unmarshal(out, &answer)
			}
			if want := strings.TrimSpace(c.want); err != nil || string(answer.Body) != want || answer.Status != 200 || answer.Headers["X-Seen"] != "1" {
				t.Errorf("%s %s: %s, %v, want the body %s", c.typ, c.body, out, err, want)
			}
		}
	})
}

// A run may queue 100 runs, including the runs queued by runs that it waits for.
func TestRunsQueueAtMost100Runs(t *testing.T) {
	t.Parallel()
	var reactor *vault.Reactor
	depth := 0
	w := newReactWorld(t, func(ctx context.Context, _ map[string]any, host script.Host) (any, error) {
		depth++
		defer func() { depth-- }()
		react := func(body map[string]any) error {
			return must.Err(host.Call(ctx, "reactors.react", mustJSON(map[string]any{"id": reactor.ID, "body": body})))
		}
		later := map[string]any{"callback_url": "http://localhost/"}
		for range 50 {
			must.Match(t, "react", react(later), nil)
		}
		if depth == 1 {
			must.Match(t, "react", react(map[string]any{}), nil)
			given.Same(t, "the status of one more", hostError(react(later)).Status, http.StatusTooManyRequests)
		}
		return nil, nil
	})
	reactor = w.reactor
	for range 2 {
		must.Get(w.Private.React(t.Context(), reactor.ID, vault.ReactParams{}))(t)
	}
}

// A panic in ScriptLog is logged once per run, without the line, and the run
// continues.
func TestScriptLogPanics(t *testing.T) {
	t.Parallel()
	var lines bytes.Buffer
	v := vaulttest.Open(t, ":memory:", &vault.Config{
		ScriptLog: func(l vault.ScriptLine) { panic(l.Text) },
		Logger:    slog.New(slog.NewTextHandler(&lines, nil)),
		Runtime: given.Runtime(func(_ context.Context, _ map[string]any, host script.Host) (any, error) {
			host.Log(script.Line{Level: "log", Text: "4242424242424242"})
			host.Log(script.Line{Level: "log", Text: "4242424242424242"})
			return map[string]any{"raw": 1}, nil
		}),
	})
	r := must.Get(v.Management.CreateReactor(t.Context(), vault.ReactorParams{Name: "r", Code: "code", Configuration: map[string]string{}}))(t)
	out := must.Get(v.Private.React(t.Context(), r.ID, vault.ReactParams{}))(t)
	given.Same(t, "got", string(out.Raw), "1")
	if got := lines.String(); strings.Count(got, "ScriptLog panicked") != 1 || strings.Contains(got, "42424242") || !strings.Contains(got, "panic=string") {
		t.Errorf("logged %s", got)
	}
}

// All runs of a tenant share a few slots for database operations. A run that ends
// stops waiting for a slot.
func TestHostOperationsTakeTurns(t *testing.T) {
	t.Parallel()
	turns := max(8, 4*runtime.GOMAXPROCS(0)) / 2
	hosted(t, func(ctx context.Context, v *vaulttest.Vault, s *given.Spy, host script.Host) {
		tok := given.Create(t, v.Private, vault.TokenParams{Type: vault.TypeGeneric, Data: "x"})
		begun, end := make(chan struct{}, 100), make(chan struct{})
		s.Before = func(call string, _ *storage.Change) error {
			if call == "Tokens" {
				begun <- struct{}{}
				<-end
			}
			return nil
		}
		retrieve := mustJSON(map[string]string{"id": tok.ID})
		var calls sync.WaitGroup
		for range turns + 5 {
			calls.Go(func() {
				must.Match(t, "Call", must.Err(host.Call(ctx, "tokens.retrieve", retrieve)), nil)
			})
		}
		for range turns {
			<-begun
		}
		late, cancel := context.WithCancel(ctx)
		cancel()
		_, err := host.Call(late, "tokens.retrieve", retrieve)
		given.Same(t, "the status of a call that gives up its turn", hostError(err).Status, http.StatusInternalServerError)
		given.Same(t, fmt.Sprint("more than ", turns, " calls are running"), len(begun), 0)
		close(end)
		calls.Wait()
	})
}

// A call of running code may read less than a request.
func TestPagesOfRunningCodeAreSmaller(t *testing.T) {
	t.Parallel()
	hosted(t, func(ctx context.Context, v *vaulttest.Vault, _ *given.Spy, host script.Host) {
		var ids []string
		for range 3 {
			ids = append(ids, given.Create(t, v.Private, vault.TokenParams{Type: vault.TypeGeneric, Data: strings.Repeat("x", 3<<20)}).ID)
		}
		for _, call := range []struct {
			op   string
			args any
		}{
			{"tokens.list", map[string]any{}},
			{"detokenize", []string{"{{ " + ids[0] + " }}", "{{ " + ids[1] + " }}", "{{ " + ids[2] + " }}"}},
		} {
			_, err := host.Call(ctx, call.op, mustJSON(call.args))
			given.Same(t, "the status of "+call.op, hostError(err).Status, http.StatusBadRequest)
		}
		must.Match(t, "a smaller page", must.Err(host.Call(ctx, "tokens.list", mustJSON(map[string]any{"size": 2}))), nil)
		must.Match(t, "a page of a request", must.Err(v.Private.ListTokens(ctx, vault.ListTokensParams{})), nil)
	})
}

// An expiry that JSON cannot express is refused, because it would break every list
// with its token.
func TestExpiryCanBeWritten(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	for _, at := range []string{"9999-12-31T23:30:00-01:00", "12/31/9999 11:30:00 PM -01:00", "0001-01-01T00:00:00Z", "1/1/0001"} {
		given.WantFields(t, at, must.Err(given.CreateJSON(t, v.Private, `{"type":"token","data":"x","expires_at":"`+at+`"}`)), "expires_at")
	}
	_, err := v.Private.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: "x", ExpiresAt: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)})
	given.WantFields(t, "a Go time", err, "expires_at")
	tok := must.Get(given.CreateJSON(t, v.Private, `{"type":"token","data":"x","expires_at":"9999-12-31T23:59:59Z"}`))(t)
	_, err = v.Private.PatchToken(t.Context(), tok.ID, vault.JSON(`{"expires_at":"9999-12-31T23:30:00-01:00"}`))
	given.WantFields(t, "update", err, "expires_at")
	page := must.Get(v.Private.ListTokens(t.Context(), vault.ListTokensParams{}))(t)
	must.Match(t, "writing the list", must.Err(json.Marshal(page)), nil)
}

// The masks of a document are evaluated and kept until its response is written, so
// a small document must not take much memory.
func TestTokenizeBoundsItsExpressions(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	const request = `{"type":"token","data":"x","mask":"{{ data | pad_left: 200000 }}"},`
	_, err := v.Private.Tokenize(t.Context(), vault.JSON(`[`+strings.Repeat(request, 1000)+`1]`))
	must.Match(t, "200 megabytes of masks", err, vault.ErrInvalid)
	must.Match(t, "three of them", must.Err(v.Private.Tokenize(t.Context(), vault.JSON(`[`+strings.Repeat(request, 3)+`1]`))), nil)
}

// A document can have a million mistakes, but its error lists only a few.
func TestErrorsAreLimited(t *testing.T) {
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

// A write that can never succeed is not retried forever.
func TestOnceTokenizeWithOneIDTwice(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	tokenize := func(runs *atomic.Int32, doc string) func(context.Context, *vault.Client) (vault.StoredResponse, error) {
		return func(ctx context.Context, c *vault.Client) (vault.StoredResponse, error) {
			runs.Add(1)
			out, err := c.Tokenize(ctx, vault.JSON(doc))
			return vault.StoredResponse{Status: 200, Body: out}, err
		}
	}
	var runs atomic.Int32
	_, _, err := v.Private.Once(t.Context(), vault.IdempotencyKey{Key: "fixed"},
		tokenize(&runs, `[{"id":"same","type":"token","data":"a"},{"id":"same","type":"token","data":"b"}]`))
	must.Match(t, "one id twice", err, vault.ErrConflict)
	given.Same(t, "runs", runs.Load(), 1)
	runs.Store(0)
	const alias = `{"id":"{{ data | slice: 0, 5 }}","type":"token","data":"alike and different"}`
	a, _, err := v.Private.Once(t.Context(), vault.IdempotencyKey{Key: "alias"}, tokenize(&runs, `[`+alias+`,`+alias+`]`))
	must.Do(t, err)
	given.Same(t, "runs", runs.Load(), 1)
	var made []vault.Token
	if err := json.Unmarshal(a.Body, &made); err != nil || len(made) != 2 {
		t.Fatalf("%d tokens, %v", len(made), err)
	}
	if made[0].ID != "alike" || uuid.Validate(made[1].ID) != nil {
		t.Errorf("the ids are %q and %q; the second falls back to a UUID", made[0].ID, made[1].ID)
	}
}

// A caller must not be able to move a token to a container where it sees more of
// the token, and needs token:update on the old and the new containers.
func TestMovingATokenDoesNotRevealIt(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	c := given.Private(t, v, given.Rule(1, "/open/", vault.TransformReveal, "token:read", "token:update"), given.Rule(2, "/used/", vault.TransformReveal, "token:use", "token:update"),
		given.Rule(3, "/half/", vault.TransformMask, "token:read", "token:update"), given.Rule(4, "/shut/", vault.TransformRedact, "token:update"), given.Rule(5, "/blind/", vault.TransformMask, "token:update"),
		given.Rule(6, "/found/", vault.TransformMask, "token:search", "token:update"),
		given.Rule(7, "/theirs/", vault.TransformReveal, "token:read", "token:create"))
	for _, tt := range []struct {
		from, patch string
		allowed     bool
	}{
		{"/half/", `{"containers":["/open/"]}`, false},
		{"/half/", `{"containers":["/used/"]}`, false},
		{"/blind/", `{"containers":["/open/"]}`, false},
		{"/shut/", `{"containers":["/half/"]}`, false},
		{"/shut/", `{"containers":["/found/"]}`, false},
		{"/half/", `{"containers":["/found/"]}`, true},
		{"/half/", `{"containers":["/open/"],"data":{"b":"new"}}`, false},
		{"/half/", `{"containers":["/open/"],"data":"new"}`, true},
		{"/half/", `{"containers":["/open/","/shut/"]}`, true},
		{"/blind/", `{"containers":["/half/"]}`, false},
		{"/blind/", `{"containers":["/shut/"]}`, true},
		{"/half/", `{"containers":["/shut/"]}`, true},
		{"/used/", `{"containers":["/open/"]}`, true},
		{"/open/", `{"containers":["/used/"]}`, true},
		{"/open/", `{"containers":["/theirs/"]}`, false},
		{"/theirs/", `{"containers":["/open/"]}`, false},
		{"/open/", `{"containers":["/open/","/theirs/"]}`, false},
		{"/open/", `{"containers":null}`, false}, // to the default container
		{"/open/", `{"containers":["/open/deep/"]}`, true},
	} {
		tok := given.Create(t, v.Owner.Client, vault.TokenParams{Type: vault.TypeGeneric, Data: map[string]string{"a": "secret"}, Containers: []string{tt.from}})
		_, err := c.PatchToken(t.Context(), tok.ID, vault.JSON(tt.patch))
		given.WantAllowed(t, fmt.Sprint(tt.from, " ", tt.patch), err, tt.allowed)
		given.Same(t, "it stays in "+tt.from, slices.Equal(given.Get(t, v.Owner.Client, tok.ID).Containers, []string{tt.from}), !tt.allowed)
	}
}

// A node that has not noticed the deletion may write once more; that row is deleted
// too.
func TestDeletedTenantStaysEmpty(t *testing.T) {
	t.Parallel()
	v, store := given.Spied(t)
	given.Create(t, v.Owner.Client, vault.TokenParams{ID: "tok", Type: vault.TypeGeneric, Data: "x"})
	late := store.Rows(t, v.Acme.ID, "tok")
	must.Do(t, v.DeleteTenant(t.Context(), v.Acme.ID))
	for range 2 {
		must.Do(t, store.Write(t.Context(), &storage.Change{Tenant: storage.ID(v.Acme.ID), Now: v.Clock.Now(), InsertTokens: late}))
		given.Sweep(t, v.Vault)
		given.Same(t, "rows", len(store.Rows(t, v.Acme.ID, "tok")), 0)
	}
	v.Clock.Advance(time.Minute) // every node has noticed the deletion
	given.Sweep(t, v.Vault)
	recs, _, err := store.ListRecords(t.Context(), storage.RecordFilter{Kind: "tombstone", Limit: 10})
	if err != nil || len(recs) != 0 {
		t.Errorf("%d tombstones are left (%v)", len(recs), err)
	}
}

// Code that starts its own reactor asynchronously would run forever, and survive
// the process.
func TestRunsCannotMultiply(t *testing.T) {
	t.Parallel()
	var runs atomic.Int32
	refused := make(chan error, 1)
	hook := given.NewReceiver(t)
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
	must.Get(w.Private.ReactAsync(t.Context(), w.reactor.ID, vault.ReactParams{Args: args, CallbackURL: hook.URL}))(t)
	must.Do(t, w.Work(t.Context()))
	given.Same(t, "runs", runs.Load(), 3)
	select {
	case err := <-refused:
		given.Same(t, "the fourth", err, error(&script.HostError{Status: 500, Message: script.DefaultTitle,
			Errors: map[string][]string{"error": {"reactors and proxies call each other more than 3 levels deep"}}}))
	default:
		t.Error("none was refused")
	}
	given.Same(t, "callbacks", hook.Count(), 3)
}

// TestTestRun runs real code that tries to reach everything, and checks that it gets no
// data of the vault.
func TestTestRun(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var logged []vault.ScriptLine
	v := vaulttest.Open(t, ":memory:", &vault.Config{Runtime: jsruntime.New(nil), ScriptLog: func(l vault.ScriptLine) {
		mu.Lock()
		defer mu.Unlock()
		logged = append(logged, l)
	}})
	ctx := t.Context()
	r := must.Get(v.Owner.CreateReactor(ctx, vault.ReactorParams{
		Name: "wants all", Configuration: map[string]string{"api_key": "canary-1", "url": "canary-2"},
		ApplicationID: v.Private.ApplicationID(),
		Code: `module.exports = async function (req) {
			console.log('args', req.args, req.bt, req.client)
			console.warn(req.configuration.api_key)
			let fetched
			try { await fetch('https://example.com') } catch (e) { fetched = e.cause?.message ?? e.message }
			if (req.args.fail) {
				throw new BadRequestError('no')
			}
			return {raw: {configuration: req.configuration, fetched}, tokenize: 'secret'}
		}`,
	}))(t)
	user := v.Owner.AsUser("ops")
	trial, err := user.TestRun(ctx, vault.TestRunParams{ReactorID: r.ID, Args: map[string]any{"amount": 12}})
	if err != nil || trial.Err != nil {
		t.Fatal(err, trial)
	}
	var got map[string]any
	must.Do(t, json.Unmarshal(trial.Result, &got))
	want := map[string]any{"tokenize": "secret", "raw": map[string]any{
		"configuration": map[string]any{"api_key": "<api_key>", "url": "<url>"},
		"fetched":       "a test run sends no requests and has no client",
	}}
	given.Same(t, "result", got, want)
	lines := []script.Line{{Level: "log", Text: "args { amount: 12 } null null"}, {Level: "warn", Text: "<api_key>"}}
	given.Same(t, fmt.Sprintf("took %s, lines", trial.Took), trial.Lines, lines)
	trial, err = user.TestRun(ctx, vault.TestRunParams{ReactorID: r.ID, Args: map[string]any{"fail": true}})
	if err != nil || trial.Err == nil || trial.Err.Status != 400 {
		t.Fatalf("%+v, %v", trial, err)
	}
	given.Same(t, "line", trial.Err.Line(), 7)
	given.Create(t, v.Owner.Client, vault.TokenParams{ID: "tok", Type: vault.TypeGeneric, Data: "x"})
	for _, args := range []any{"{{ tok }}", map[string]any{"a": []any{"{{ tok | last4 }}"}}, map[string]any{"a": "{{"}} {
		must.Match(t, "expressions", must.Err(user.TestRun(ctx, vault.TestRunParams{ReactorID: r.ID, Args: args})), vault.ErrInvalid)
	}
	tokens := must.Get(v.Owner.ListTokens(ctx, vault.ListTokensParams{}))(t)
	given.Same(t, "tokens.Pagination.TotalItems", tokens.Pagination.TotalItems, 1)
	logs := given.Entries(t, v, vault.ListLogsParams{EntityType: "reactor", Operation: "react"})
	if len(logs) != 2 || logs[0].ActorName != "ops" || !strings.Contains(logs[0].Message, "Test run") {
		t.Errorf("entries: %+v", logs)
	}
	given.Same(t, "Config.ScriptLog got lines of a test run", len(logged), 0)
}

// TestTestRunOfATransform tries the code of a proxy.
func TestTestRunOfATransform(t *testing.T) {
	t.Parallel()
	v := vaulttest.Open(t, ":memory:", &vault.Config{Runtime: jsruntime.New(nil)})
	x := must.Get(v.Owner.CreateProxy(t.Context(), vault.ProxyParams{Name: "p", DestinationURL: "https://example.com",
		RequestTransform: &vault.ProxyTransform{Code: `module.exports = req => ({body: req.args.body + 1, headers: {}})`}}))(t)
	trial := must.Get(v.Owner.TestRun(t.Context(), vault.TestRunParams{ProxyID: x.ID, Args: map[string]any{"body": 1}}))(t)
	given.Same(t, "trial.Result", string(trial.Result), `{"body":2,"headers":{}}`)
	_, err := v.Owner.TestRun(t.Context(), vault.TestRunParams{ProxyID: x.ID, Response: true})
	must.Match(t, "no such transform", err, vault.ErrNotFound)
}

// told is an observer that records its events.
type told struct {
	mu   sync.Mutex
	work []string
}

func (o *told) Start(ctx context.Context, w vault.Event) (context.Context, func(error)) {
	return ctx, func(err error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		line := strings.TrimSpace(string(w.Kind) + " " + w.Name + " " + w.Method)
		if err != nil {
			line += " failed"
		}
		if w.Kind == vault.EventCall || w.Kind == vault.EventRun {
			o.work = append(o.work, line)
		}
	}
}

// TestObserverOfCalls checks that every operation of a client is reported once with
// its outcome, also inside Once, and that two observers get the same events.
func TestObserverOfCalls(t *testing.T) {
	t.Parallel()
	first, second := &told{}, &told{}
	v := vaulttest.Open(t, ":memory:", &vault.Config{Observer: vault.Observers(first, nil, second), Runtime: jsruntime.New(nil)})
	ctx := t.Context()
	first.work, second.work = nil, nil // what setting up took
	given.Create(t, v.Owner.Client, vault.TokenParams{ID: "tok", Type: vault.TypeGeneric, Data: "x"})
	must.Match(t, "GetToken", must.Err(v.Owner.GetToken(ctx, "gone")), vault.ErrNotFound)
	_, _, err := v.Owner.Once(ctx, vault.IdempotencyKey{Key: "k"}, func(ctx context.Context, c *vault.Owner) (vault.StoredResponse, error) {
		_, err := c.CreateToken(ctx, vault.TokenParams{Type: vault.TypeGeneric, Data: "y"})
		return vault.StoredResponse{Status: 201}, err
	})
	must.Do(t, err)
	r := must.Get(v.Owner.CreateReactor(ctx, vault.ReactorParams{Name: "r", Configuration: map[string]string{}, Code: "module.exports = () => { throw 1 }"}))(t)
	_, _ = v.Owner.React(ctx, r.ID, vault.ReactParams{})
	_, _ = v.Owner.SearchTokens(ctx, vault.SearchTokensParams{Query: "type:token"})
	_ = v.Owner.DeleteToken(ctx, "tok")
	want := []string{"call create CreateToken", "call read GetToken failed", "call create CreateToken", "call admin CreateReactor",
		"run reactor failed", "call react React failed", "call read SearchTokens", "call delete DeleteToken"}
	for _, o := range []*told{first, second} {
		given.Same(t, "o.work", o.work, want)
	}
}
