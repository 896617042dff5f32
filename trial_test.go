package vault_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/jsruntime"
	"github.com/seed-72ea4aab/vault/script"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// TestTry runs real code that wants everything, and finds that it gets nothing of
// the vault's.
func TestTry(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var logged []vault.ScriptLine
	v := vaulttest.Open(t, ":memory:", &vault.Config{Runtime: jsruntime.New(nil), ScriptLog: func(l vault.ScriptLine) {
		mu.Lock()
		defer mu.Unlock()
		logged = append(logged, l)
	}})
	ctx := t.Context()
	r, err := v.Owner.CreateReactor(ctx, vault.ReactorParams{
		Name: "wants all", Configuration: map[string]string{"api_key": "canary-1", "url": "canary-2"},
		Application: &vault.ApplicationRef{ID: v.Private.ApplicationID()},
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
	})
	if err != nil {
		t.Fatal(err)
	}
	user := v.Owner.AsUser("ops")
	trial, err := user.Try(ctx, vault.TrialParams{ReactorID: r.ID, Args: map[string]any{"amount": 12}})
	if err != nil || trial.Err != nil {
		t.Fatal(err, trial)
	}
	var got map[string]any
	if err := json.Unmarshal(trial.Result, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"tokenize": "secret", "raw": map[string]any{
		"configuration": map[string]any{"api_key": "<api_key>", "url": "<url>"},
		"fetched":       "a test run sends no requests and has no client",
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	lines := []script.Line{{Level: "log", Text: "args { amount: 12 } null null"}, {Level: "warn", Text: "<api_key>"}}
	if diff := cmp.Diff(lines, trial.Lines); diff != "" || trial.Took <= 0 {
		t.Errorf("took %s, lines (-want +got):\n%s", trial.Took, diff)
	}
	trial, err = user.Try(ctx, vault.TrialParams{ReactorID: r.ID, Args: map[string]any{"fail": true}})
	if err != nil || trial.Err == nil || trial.Err.Status != 400 {
		t.Fatalf("%+v, %v", trial, err)
	}
	if line, ok := vault.ErrorLine(trial.Err); !ok || line != 7 {
		t.Errorf("line %d, want 7", line)
	}
	create(t, v.Owner, vault.TokenParams{ID: "tok", Type: vault.TypeGeneric, Data: "x"})
	for _, args := range []any{"{{ tok }}", map[string]any{"a": []any{"{{ tok | last4 }}"}}, map[string]any{"a": "{{"}} {
		_, err := user.Try(ctx, vault.TrialParams{ReactorID: r.ID, Args: args})
		wantError(t, "expressions", err, vault.ErrInvalid)
	}
	_, err = v.Management.Try(ctx, vault.TrialParams{ReactorID: r.ID})
	wantError(t, "a management key", err, vault.ErrForbidden)
	tokens, err := v.Owner.ListTokens(ctx, vault.ListTokensParams{})
	if err != nil || tokens.Pagination.TotalItems != 1 {
		t.Errorf("%d tokens, %v: a trial tokenized", tokens.Pagination.TotalItems, err)
	}
	logs := entries(t, v, vault.ListLogsParams{EntityType: "reactor", Operation: "react"})
	if len(logs) != 2 || logs[0].ActorName != "ops" || !strings.Contains(logs[0].Message, "Test run") {
		t.Errorf("entries: %+v", logs)
	}
	if len(logged) > 0 {
		t.Errorf("Config.ScriptLog got lines of a trial: %v", logged)
	}
}

// TestTryTransform tries the code of a proxy.
func TestTryTransform(t *testing.T) {
	t.Parallel()
	v := vaulttest.Open(t, ":memory:", &vault.Config{Runtime: jsruntime.New(nil)})
	x, err := v.Owner.CreateProxy(t.Context(), vault.ProxyParams{Name: "p", DestinationURL: "https://example.com",
		RequestTransform: &vault.ProxyTransform{Code: `module.exports = req => ({body: req.args.body + 1, headers: {}})`}})
	if err != nil {
		t.Fatal(err)
	}
	trial, err := v.Owner.Try(t.Context(), vault.TrialParams{ProxyID: x.ID, Args: map[string]any{"body": 1}})
	if err != nil || string(trial.Result) != `{"body":2,"headers":{}}` {
		t.Errorf("%s, %v", trial.Result, err)
	}
	_, err = v.Owner.Try(t.Context(), vault.TrialParams{ProxyID: x.ID, Response: true})
	wantError(t, "no such transform", err, vault.ErrNotFound)
}

// told is an observer that keeps what it is told.
type told struct {
	mu   sync.Mutex
	work []string
}

func (o *told) Start(ctx context.Context, w vault.Work) (context.Context, func(error)) {
	return ctx, func(err error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		line := strings.TrimSpace(string(w.Kind) + " " + w.Name + " " + w.Method)
		if err != nil {
			line += " failed"
		}
		if w.Kind == vault.WorkCall || w.Kind == vault.WorkRun {
			o.work = append(o.work, line)
		}
	}
}

// TestObserverOfCalls finds that every operation of a client is told once, with its
// outcome, also inside of Once, and that two observers are told the same.
func TestObserverOfCalls(t *testing.T) {
	t.Parallel()
	first, second := &told{}, &told{}
	v := vaulttest.Open(t, ":memory:", &vault.Config{Observer: vault.Observers(first, nil, second), Runtime: jsruntime.New(nil)})
	ctx := t.Context()
	first.work, second.work = nil, nil // what setting up took
	create(t, v.Owner, vault.TokenParams{ID: "tok", Type: vault.TypeGeneric, Data: "x"})
	_, err := v.Owner.GetToken(ctx, "gone")
	wantError(t, "GetToken", err, vault.ErrNotFound)
	_, _, err = v.Owner.Once(ctx, vault.OnceKey{Key: "k"}, func(ctx context.Context, c *vault.Client) (vault.Answer, error) {
		_, err := c.CreateToken(ctx, vault.TokenParams{Type: vault.TypeGeneric, Data: "y"})
		return vault.Answer{Status: 201}, err
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := v.Owner.CreateReactor(ctx, vault.ReactorParams{Name: "r", Configuration: map[string]string{}, Code: "module.exports = () => { throw 1 }"})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = v.Owner.React(ctx, r.ID, vault.ReactParams{})
	_, _ = v.Owner.SearchTokens(ctx, vault.SearchTokensParams{Query: "type:token"})
	_ = v.Owner.DeleteToken(ctx, "tok")
	want := []string{"call create CreateToken", "call read GetToken failed", "call create CreateToken", "call admin CreateReactor",
		"run reactor failed", "call react React failed", "call read SearchTokens", "call delete DeleteToken"}
	for _, o := range []*told{first, second} {
		if diff := cmp.Diff(want, o.work); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}
