package vault_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/script"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// hostError returns what running code learns of an error of its host; nothing,
// when it would learn nothing.
func hostError(err error) *script.HostError {
	if known, ok := errors.AsType[*script.HostError](err); ok {
		return known
	}
	return &script.HostError{}
}

// hosted runs a Go function in place of code, with what code can reach, on a
// spied database.
func hosted(t *testing.T, run func(ctx context.Context, v *vaulttest.Vault, s *spy, host script.Host)) {
	t.Helper()
	var v *vaulttest.Vault
	var s *spy
	v, s = spiedWith(t, &vault.Config{
		Egress: vault.EgressPolicy{AllowHTTP: true, AllowPrivate: true},
		Runtime: goRuntime(func(ctx context.Context, _ map[string]any, host script.Host) (any, error) {
			run(context.WithoutCancel(ctx), v, s, host) // however long it takes here
			return nil, nil
		}),
	})
	own, err := v.Private.OwnApplication(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r, err := v.Management.CreateReactor(t.Context(), vault.ReactorParams{Name: "r", Code: "code", Configuration: map[string]string{}, Application: &vault.ApplicationRef{ID: own.ID}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Private.React(t.Context(), r.ID, vault.ReactParams{}); err != nil {
		t.Fatal(err)
	}
}

func mustJSON(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // what these tests encode can be
	}
	return text
}

// The arguments of calls that are under way hold 32 MiB at most; one more is
// refused until another has ended.
func TestArgumentsOfCallsAreBoundedTogether(t *testing.T) {
	t.Parallel()
	begun, end := make(chan struct{}, 10), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		begun <- struct{}{}
		<-end
	}))
	defer server.Close()
	hosted(t, func(ctx context.Context, _ *vaulttest.Vault, _ *spy, host script.Host) {
		request := mustJSON(map[string]any{
			"method": "POST", "url": server.URL, "headers": []any{}, "body": strings.Repeat("AAAA", 1<<20),
		})
		var calls sync.WaitGroup
		for range 7 {
			calls.Go(func() {
				if _, err := host.Call(ctx, "fetch", request); err != nil {
					t.Error(err)
				}
			})
			<-begun
		}
		for range 3 {
			_, err := host.Call(ctx, "fetch", request)
			if known := hostError(err); known.Status != http.StatusRequestEntityTooLarge || known.Code != "ERR_BODY_TOO_LARGE" {
				t.Errorf("the eighth: %v", err)
			}
		}
		close(end)
		calls.Wait()
		if _, err := host.Call(ctx, "fetch", request); err != nil {
			t.Errorf("when all have ended: %v", err)
		}
	})
}

// The answers of fetches that are under way count too, as they come in.
func TestFetchedBytesAreBoundedTogether(t *testing.T) {
	t.Parallel()
	refused, end := make(chan struct{}, 10), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Write(make([]byte, 4<<20))
		w.(http.Flusher).Flush()
		select {
		case <-end:
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	hosted(t, func(ctx context.Context, _ *vaulttest.Vault, _ *spy, host script.Host) {
		request := mustJSON(map[string]any{"method": "GET", "url": server.URL, "headers": []any{}})
		var calls sync.WaitGroup
		var mu sync.Mutex
		good := 0
		for range 10 {
			calls.Go(func() {
				out, err := host.Call(ctx, "fetch", request)
				if err != nil {
					if hostError(err).Code != "ERR_BODY_TOO_LARGE" {
						t.Error(err)
					}
					refused <- struct{}{}
					return
				}
				var answer struct{ Body string }
				if err := json.Unmarshal(out, &answer); err != nil {
					t.Error(err)
				}
				if body, err := base64.StdEncoding.DecodeString(answer.Body); err != nil || len(body) != 4<<20 {
					t.Errorf("%d bytes, %v", len(body), err)
				}
				mu.Lock()
				good++
				mu.Unlock()
			})
		}
		<-refused
		<-refused
		close(end)
		calls.Wait()
		if good == 0 || good > 8 {
			t.Errorf("%d of 10 answers came through, want at most 8", good)
		}
		if _, err := host.Call(ctx, "fetch", request); err != nil {
			t.Errorf("when all have ended: %v", err)
		}
	})
}

// So do the answers that come through proxies.
func TestProxiedBytesAreBoundedTogether(t *testing.T) {
	t.Parallel()
	const size = 4 << 20
	begun, end := make(chan struct{}, 10), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Write(make([]byte, size))
		w.(http.Flusher).Flush()
		begun <- struct{}{}
		select {
		case <-end:
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	hosted(t, func(ctx context.Context, _ *vaulttest.Vault, _ *spy, host script.Host) {
		request := mustJSON(map[string]any{"proxyUrl": server.URL})
		refused := make(chan struct{}, 10)
		var calls sync.WaitGroup
		for range 10 {
			calls.Go(func() {
				_, err := host.Call(ctx, "proxy.get", request)
				if err != nil && hostError(err).Code != "ERR_BODY_TOO_LARGE" {
					t.Error(err)
				}
				if err != nil {
					refused <- struct{}{}
				}
			})
		}
		for range 10 {
			<-begun
		}
		<-refused
		<-refused
		close(end)
		calls.Wait()
		if _, err := host.Call(ctx, "proxy.get", request); err != nil {
			t.Errorf("when all have ended: %v", err)
		}
	})
}

// What comes through a proxy is a value where it is the JSON that it says it is.
func TestProxiedBodies(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", r.Header.Get("X-Type"))
		w.Header().Set("X-Seen", "1")
		_, _ = io.WriteString(w, r.Header.Get("X-Body"))
	}))
	defer server.Close()
	hosted(t, func(ctx context.Context, _ *vaulttest.Vault, _ *spy, host script.Host) {
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

// A run leaves 100 runs for later, those counted that runs it waits for leave.
func TestRunsLeaveFewOthers(t *testing.T) {
	t.Parallel()
	var reactor *vault.Reactor
	depth := 0
	w := newReactWorld(t, func(ctx context.Context, _ map[string]any, host script.Host) (any, error) {
		depth++
		defer func() { depth-- }()
		react := func(body map[string]any) error {
			_, err := host.Call(ctx, "reactors.react", mustJSON(map[string]any{"id": reactor.ID, "body": body}))
			return err
		}
		later := map[string]any{"callback_url": "http://localhost/"}
		for range 50 {
			if err := react(later); err != nil {
				t.Error(err)
			}
		}
		if depth == 1 {
			if err := react(map[string]any{}); err != nil {
				t.Error(err)
			}
			same(t, "the status of one more", hostError(react(later)).Status, http.StatusTooManyRequests)
		}
		return nil, nil
	})
	reactor = w.reactor
	for range 2 {
		if _, err := w.Private.React(t.Context(), reactor.ID, vault.ReactParams{}); err != nil {
			t.Fatal(err)
		}
	}
}

// A program whose ScriptLog panics hears of it once in a run, and without the
// line. The run goes on.
func TestScriptLogPanics(t *testing.T) {
	t.Parallel()
	var lines bytes.Buffer
	v := vaulttest.Open(t, ":memory:", &vault.Config{
		ScriptLog: func(l vault.ScriptLine) { panic(l.Text) },
		Logger:    slog.New(slog.NewTextHandler(&lines, nil)),
		Runtime: goRuntime(func(_ context.Context, _ map[string]any, host script.Host) (any, error) {
			host.Log(script.Line{Level: "log", Text: "4242424242424242"})
			host.Log(script.Line{Level: "log", Text: "4242424242424242"})
			return map[string]any{"raw": 1}, nil
		}),
	})
	r, err := v.Management.CreateReactor(t.Context(), vault.ReactorParams{Name: "r", Code: "code", Configuration: map[string]string{}})
	if err != nil {
		t.Fatal(err)
	}
	out, err := v.Private.React(t.Context(), r.ID, vault.ReactParams{})
	if err != nil || string(out.Raw) != "1" {
		t.Errorf("got %v, %v", out, err)
	}
	if got := lines.String(); strings.Count(got, "ScriptLog panicked") != 1 || strings.Contains(got, "4242") || !strings.Contains(got, "panic=string") {
		t.Errorf("logged %s", got)
	}
}

// Operations on the database have a few turns, for all runs of a tenant
// together. Who waits for one leaves when the run ends.
func TestHostOperationsTakeTurns(t *testing.T) {
	t.Parallel()
	turns := max(8, 4*runtime.GOMAXPROCS(0)) / 2
	hosted(t, func(ctx context.Context, v *vaulttest.Vault, s *spy, host script.Host) {
		tok := create(t, v.Private, vault.TokenParams{Type: vault.Generic, Data: "x"})
		begun, end := make(chan struct{}, 100), make(chan struct{})
		s.before = func(call string, _ *storage.Change) error {
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
				if _, err := host.Call(ctx, "tokens.retrieve", retrieve); err != nil {
					t.Error(err)
				}
			})
		}
		for range turns {
			<-begun
		}
		late, cancel := context.WithCancel(ctx)
		cancel()
		_, err := host.Call(late, "tokens.retrieve", retrieve)
		same(t, "the status of a call that gives up its turn", hostError(err).Status, http.StatusInternalServerError)
		if len(begun) > 0 {
			t.Errorf("more than %d calls are under way", turns)
		}
		close(end)
		calls.Wait()
	})
}

// What one call of running code reads is bounded more tightly than what a
// request may.
func TestPagesOfRunningCodeAreSmaller(t *testing.T) {
	t.Parallel()
	hosted(t, func(ctx context.Context, v *vaulttest.Vault, _ *spy, host script.Host) {
		var ids []string
		for range 3 {
			ids = append(ids, create(t, v.Private, vault.TokenParams{Type: vault.Generic, Data: strings.Repeat("x", 3<<20)}).ID)
		}
		for _, call := range []struct {
			op   string
			args any
		}{
			{"tokens.list", map[string]any{}},
			{"detokenize", []string{"{{ " + ids[0] + " }}", "{{ " + ids[1] + " }}", "{{ " + ids[2] + " }}"}},
		} {
			_, err := host.Call(ctx, call.op, mustJSON(call.args))
			same(t, "the status of "+call.op, hostError(err).Status, http.StatusBadRequest)
		}
		if _, err := host.Call(ctx, "tokens.list", mustJSON(map[string]any{"size": 2})); err != nil {
			t.Errorf("a smaller page: %v", err)
		}
		if _, err := v.Private.ListTokens(ctx, vault.ListTokensParams{}); err != nil {
			t.Errorf("a page of a request: %v", err)
		}
	})
}
