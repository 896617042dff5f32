package vault_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/given"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/script"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// echoArgs returns its arguments.
func echoArgs(_ context.Context, in map[string]any, _ script.Host) (any, error) {
	return map[string]any{"raw": in["args"]}, nil
}

// reactWorld is a vault with one reactor.
type reactWorld struct {
	*vaulttest.Vault
	reactor *vault.Reactor
}

func newReactWorld(t *testing.T, run given.Runtime) *reactWorld {
	t.Helper()
	v := vaulttest.Open(t, ":memory:", &vault.Config{Runtime: run, Egress: vault.EgressPolicy{AllowHTTP: true, AllowPrivate: true}})
	private := must.Get(v.Private.OwnApplication(t.Context()))(t)
	r := must.Get(v.Management.CreateReactor(t.Context(), vault.ReactorParams{
		Name: "charge", Code: "code", Configuration: map[string]string{"KEY": "sk"}, ApplicationID: private.ID,
	}))(t)
	return &reactWorld{v, r}
}

func TestReactGivesDetokenizedArgsAndReturnsRawAndTokens(t *testing.T) {
	t.Parallel()
	var got map[string]any
	w := newReactWorld(t, func(_ context.Context, in map[string]any, _ script.Host) (any, error) {
		got = in
		return map[string]any{"raw": map[string]any{"ok": true}, "tokenize": map[string]any{"receipt": "r-1"}}, nil
	})
	card := must.Get(w.Private.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeCard, Data: vault.CardData{Number: "4242424242424242", CVC: "123"}}))(t)
	out := must.Get(w.Private.React(t.Context(), w.reactor.ID, vault.ReactParams{Args: map[string]any{"card": "{{ " + card.ID + " }}", "amount": 5}}))(t)
	want := map[string]any{
		"args":          map[string]any{"card": map[string]any{"number": "4242424242424242", "cvc": "123"}, "amount": 5.0},
		"configuration": map[string]any{"KEY": "sk"}, "application": true,
	}
	given.Same(t, "input", got, want)
	given.Same(t, "raw", string(out.Raw), `{"ok":true}`)
	var tokens struct{ Receipt string }
	must.Do(t, out.Tokens.Decode(&tokens))
	back := must.Get(w.Private.Detokenize(t.Context(), "{{"+tokens.Receipt+"}}"))(t)
	given.Same(t, "tokenized result", string(back), `"r-1"`)
}

func TestReactRefusesBadRequests(t *testing.T) {
	t.Parallel()
	w := newReactWorld(t, func(context.Context, map[string]any, script.Host) (any, error) {
		t.Error("the code ran")
		return nil, nil
	})
	text := must.Get(w.Private.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: "text"}))(t)
	const url = "https://example.com/hook"
	for name, tc := range map[string]struct {
		p    vault.ReactParams
		path string
	}{
		"unknown token":             {vault.ReactParams{Args: map[string]string{"x": "{{ nobody }}"}}, "args.x"},
		"unknown token, later":      {vault.ReactParams{Args: map[string]string{"x": "{{ nobody }}"}, CallbackURL: url}, "args.x"},
		"unknown token alone":       {vault.ReactParams{Args: "{{ nobody }}"}, "args"},
		"alone, later":              {vault.ReactParams{Args: "{{ nobody }}", CallbackURL: url}, "args"},
		"bad expression":            {vault.ReactParams{Args: map[string]string{"x": "{{ a | nope }}"}}, "args.x"},
		"args of text":              {vault.ReactParams{Args: "{{ " + text.ID + " }}"}, "args"},
		"args of text, later":       {vault.ReactParams{Args: "{{ " + text.ID + " }}", CallbackURL: url}, "args"},
		"args of a number":          {vault.ReactParams{Args: 5}, "args"},
		"args of a number, later":   {vault.ReactParams{Args: 5, CallbackURL: url}, "args"},
		"filter that fails, later":  {vault.ReactParams{Args: map[string]string{"x": "{{ " + text.ID + " | json: '$.y' }}"}, CallbackURL: url}, "args.x"},
		"timeout without callback":  {vault.ReactParams{Timeout: 20 * time.Second}, "timeout_ms"},
		"timeout too short":         {vault.ReactParams{Timeout: 10*time.Second - 1, CallbackURL: url}, "timeout_ms"},
		"timeout too long":          {vault.ReactParams{Timeout: 210*time.Second + 1, CallbackURL: url}, "timeout_ms"},
		"callback that is no URL":   {vault.ReactParams{CallbackURL: "nowhere"}, "callback_url"},
		"callback with credentials": {vault.ReactParams{CallbackURL: "https://u:p@example.com/"}, "callback_url"},
	} {
		_, err := w.Private.React(t.Context(), w.reactor.ID, tc.p)
		if tc.p.CallbackURL != "" {
			must.Match(t, name+": React with a callback", err, must.Text("ReactAsync"))
			_, err = w.Private.ReactAsync(t.Context(), w.reactor.ID, tc.p)
		}
		var bad *vault.InvalidError
		if !errors.As(err, &bad) || len(bad.Fields[tc.path]) == 0 {
			t.Errorf("%s: %v, want an error at %s", name, err, tc.path)
		}
	}
	given.Same(t, "log of the token: what was refused for its data has used it", given.Operations(t, w.Vault, text.ID), []string{"create", "use", "use", "use"})
	must.Match(t, "without token:use", must.Err(w.Public.React(t.Context(), w.reactor.ID, vault.ReactParams{})), vault.ErrForbidden)
	_, err := w.Private.ReactAsync(t.Context(), w.reactor.ID, vault.ReactParams{})
	given.WantFields(t, "ReactAsync without a callback", err, "callback_url")
}

func TestReactorClientActsAsItsApplication(t *testing.T) {
	t.Parallel()
	w := newReactWorld(t, func(ctx context.Context, in map[string]any, host script.Host) (any, error) {
		if _, err := host.Call(ctx, "reactors.list", nil); err == nil {
			return nil, errors.New("an unknown operation must fail")
		}
		tok, err := host.Call(ctx, "tokens.create", json.RawMessage(`{"type":"token","data":"made by code"}`))
		return map[string]any{"raw": tok}, err
	})
	out := must.Get(w.Private.React(t.Context(), w.reactor.ID, vault.ReactParams{}))(t)
	var made vault.Token
	must.Do(t, out.Raw.Decode(&made))
	given.Same(t, "created_by", made.CreatedBy, w.reactor.ApplicationID)
}

func TestAsynchronousRunIsDeliveredSigned(t *testing.T) {
	t.Parallel()
	w := newReactWorld(t, func(_ context.Context, in map[string]any, _ script.Host) (any, error) {
		return map[string]any{"raw": in["args"], "tokenize": "t"}, nil
	})
	hook := given.NewReceiver(t)
	tok := must.Get(w.Private.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: "value"}))(t)
	ctx := vault.WithTraceparent(t.Context(), traceparent, "a=1")
	job := must.Get(w.Private.ReactAsync(ctx, w.reactor.ID, vault.ReactParams{Args: map[string]string{"x": "{{ " + tok.ID + " }}"}, CallbackURL: hook.URL}))(t)
	must.Do(t, w.Work(t.Context()))
	given.Same(t, "callbacks", hook.Count(), 1)
	var result struct {
		Raw    map[string]string
		Tokens string
	}
	if err := json.Unmarshal(hook.Bodies[0], &result); err != nil || result.Raw["x"] != "value" || result.Tokens == "" {
		t.Errorf("callback body = %s, %v", hook.Bodies[0], err)
	}
	given.Same(t, "id of the callback", hook.Got[0].Header.Get("webhook-id"), job.ID.String())
	for name, want := range map[string]string{"traceparent": traceparent, "tracestate": "a=1", "SVC-TRACE-ID": traceparent[3:35]} {
		given.Same(t, name, hook.Got[0].Header.Get(name), want)
	}
	must.Match(t, "VerifyWebhook", vault.VerifyWebhook(w.Acme.WebhookSecret, hook.Got[0].Header, hook.Bodies[0]), nil)
	must.Match(t, "another body", vault.VerifyWebhook(w.Acme.WebhookSecret, hook.Got[0].Header, []byte("{}")), vault.ErrWebhook)
	verifier := must.Get(webhooks.NewWebhook(w.Acme.WebhookSecret))(t)
	must.Match(t, "signature", verifier.Verify(hook.Bodies[0], hook.Got[0].Header), nil)
}

// traceparent is a W3C trace context.
const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func TestCallbackIsRetriedWithBackoffAndGivenUp(t *testing.T) {
	t.Parallel()
	w := newReactWorld(t, func(context.Context, map[string]any, script.Host) (any, error) { return nil, nil })
	hook := given.NewReceiver(t)
	hook.Answer(http.StatusInternalServerError)
	must.Get(w.Private.ReactAsync(t.Context(), w.reactor.ID, vault.ReactParams{CallbackURL: hook.URL}))(t)
	work := func() {
		t.Helper()
		must.Do(t, w.Work(t.Context()))
	}
	work()
	for i, delay := range []time.Duration{5 * time.Second, 12 * time.Second, 30 * time.Second, time.Minute,
		3 * time.Minute, 7 * time.Minute, 15 * time.Minute, 40 * time.Minute, 90 * time.Minute} {
		w.Clock.Advance(delay * 89 / 100)
		work()
		given.Same(t, fmt.Sprint(delay), hook.Count(), i+1)
		w.Clock.Advance(delay * 22 / 100)
		work()
		given.Same(t, fmt.Sprint(delay), hook.Count(), i+2)
	}
	w.Clock.Advance(1000 * time.Hour)
	work()
	given.Same(t, "callbacks", hook.Count(), 10)
	first := hook.Got[0].Header.Get("webhook-id")
	for _, req := range hook.Got {
		if id := req.Header.Get("webhook-id"); id != first || id == "" {
			t.Errorf("webhook-id %q, want it to stay %q", id, first)
		}
	}
	logs := must.Get(w.Management.ListLogs(t.Context(), vault.ListLogsParams{EntityType: "reactor"}))(t)
	given.Same(t, "newest entry", logs.Data[0].Message, "Reactor callback abandoned")
}

// An abandoned callback is kept, sealed, for 30 days. A key rotation seals it
// again.
func TestGivenUpCallbackIsKeptAndSwept(t *testing.T) {
	t.Parallel()
	w := newReactWorld(t, func(context.Context, map[string]any, script.Host) (any, error) {
		return map[string]any{"raw": map[string]any{"a": "b"}}, nil
	})
	jobs := func(what string, wantDead, wantLiving bool) {
		t.Helper()
		var dead, living int
		err := w.DB.QueryRow(`SELECT count(*) FILTER (WHERE dead AND payload <> x''), count(*) FILTER (WHERE NOT dead AND payload <> x'') FROM vault_jobs`).Scan(&dead, &living)
		must.Do(t, err)
		given.Same(t, "dead and living jobs "+what, [2]bool{dead == 1, living == 1}, [2]bool{wantDead, wantLiving})
	}
	hook := given.NewReceiver(t)
	hook.Answer(http.StatusInternalServerError)
	must.Get(w.Private.ReactAsync(t.Context(), w.reactor.ID, vault.ReactParams{CallbackURL: hook.URL}))(t)
	for try := range 10 {
		jobs(fmt.Sprintf("before try %d", try+1), false, true)
		must.Do(t, w.Work(t.Context()))
		w.Clock.Advance(2 * time.Hour)
	}
	jobs("when it is given up", true, false)
	given.Sweep(t, w.Vault.Vault)
	jobs("after a sweep", true, false)
	must.Match(t, "rotation", w.RotateDataKeys(t.Context(), w.Owner.TenantID(), nil), nil)
	w.Clock.Advance(30*24*time.Hour - 2*time.Hour - time.Microsecond)
	given.Sweep(t, w.Vault.Vault)
	jobs("a moment before the end", true, false)
	w.Clock.Advance(time.Microsecond)
	given.Sweep(t, w.Vault.Vault)
	jobs("after 30 days", false, false)
}

// A response that the code chose reaches the callback too, as part of the error.
func TestChosenResponseIsDelivered(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{`{"short":true}`: `{"short":true}`, `"text"`: `"text"`, "null": "null", "no JSON": `"no JSON"`} {
		t.Run(body, func(t *testing.T) {
			t.Parallel()
			w := newReactWorld(t, func(context.Context, map[string]any, script.Host) (any, error) {
				return nil, &script.Error{Kind: script.Thrown, Status: 418, Title: "CustomHttpResponseError", Messages: map[string][]string{"error": {"x"}},
					Response: &script.Response{Status: 418, Header: http.Header{"X-Kind": {"teapot"}}, Body: []byte(body)}}
			})
			hook := given.NewReceiver(t)
			must.Get(w.Private.ReactAsync(t.Context(), w.reactor.ID, vault.ReactParams{CallbackURL: hook.URL}))(t)
			must.Do(t, w.Work(t.Context()))
			given.Same(t, "callback", string(hook.Bodies[0]), `{"title":"CustomHttpResponseError","status":418,"detail":"The code failed (thrown).","errors":{"error":["x"]},`+
				`"response":{"status":418,"headers":{"X-Kind":"teapot"},"body":`+want+`}}`)
		})
	}
}

// A job whose run has ended keeps the result to deliver, but not the arguments.
func TestArgumentsAreDeletedAfterTheRun(t *testing.T) {
	t.Parallel()
	w := newReactWorld(t, func(context.Context, map[string]any, script.Host) (any, error) { return nil, nil })
	size := func() (n int) {
		t.Helper()
		must.Do(t, w.DB.QueryRow(`SELECT length(payload) FROM vault_jobs`).Scan(&n))
		return n
	}
	hook := given.NewReceiver(t)
	hook.Answer(http.StatusInternalServerError)
	args := map[string]string{"x": strings.Repeat("x", 100_000)}
	must.Get(w.Private.ReactAsync(t.Context(), w.reactor.ID, vault.ReactParams{Args: args, CallbackURL: hook.URL}))(t)
	if n := size(); n < 100_000 {
		t.Fatalf("a payload of %d bytes holds no arguments", n)
	}
	must.Do(t, w.Work(t.Context()))
	if n := size(); n > 10_000 {
		t.Errorf("the payload has %d bytes when the run is over", n)
	}
}

func TestWebhookSecretRotationKeepsTheOldOneForADay(t *testing.T) {
	t.Parallel()
	w := newReactWorld(t, func(context.Context, map[string]any, script.Host) (any, error) { return nil, nil })
	hook := given.NewReceiver(t)
	fresh := must.Get(w.Owner.RotateWebhookSecret(t.Context()))(t)
	if fresh.WebhookSecret == w.Acme.WebhookSecret {
		t.Fatal("the secret is the same")
	}
	verifies := func(secret string) bool {
		t.Helper()
		must.Get(w.Private.ReactAsync(t.Context(), w.reactor.ID, vault.ReactParams{CallbackURL: hook.URL}))(t)
		must.Do(t, w.Work(t.Context()))
		verifier := must.Get(webhooks.NewWebhook(secret))(t)
		last := hook.Count() - 1
		return verifier.Verify(hook.Bodies[last], hook.Got[last].Header) == nil
	}
	if !verifies(w.Acme.WebhookSecret) || !verifies(fresh.WebhookSecret) {
		t.Error("both secrets must verify within the day")
	}
	w.Clock.Advance(24 * time.Hour)
	if verifies(w.Acme.WebhookSecret) {
		t.Error("the old secret verifies after a day")
	}
	if !verifies(fresh.WebhookSecret) {
		t.Error("the new secret does not verify")
	}
}

func TestAnotherNodeTakesOverAfterTheLease(t *testing.T) {
	t.Parallel()
	stuck := make(chan struct{})
	first := true
	var mu sync.Mutex
	w := newReactWorld(t, func(ctx context.Context, _ map[string]any, _ script.Host) (any, error) {
		mu.Lock()
		mine := first
		first = false
		mu.Unlock()
		if mine { // a node that dies and never returns
			close(stuck)
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return map[string]any{"raw": 1}, nil
	})
	hook := given.NewReceiver(t)
	must.Get(w.Private.ReactAsync(t.Context(), w.reactor.ID, vault.ReactParams{CallbackURL: hook.URL}))(t)
	ctx, kill := context.WithCancel(t.Context())
	gone := make(chan error)
	go func() { gone <- w.Work(ctx) }()
	<-stuck
	kill()
	<-gone
	must.Do(t, w.Work(t.Context()))
	given.Same(t, "the job was taken before its lease had ended", hook.Count(), 0)
	w.Clock.Advance(time.Minute)
	must.Do(t, w.Work(t.Context()))
	given.Same(t, "callbacks", hook.Count(), 1)
	given.Same(t, "the callback", string(hook.Bodies[0]), `{"raw":1}`)
}

// callback is the error in a callback.
type callback struct {
	Title  string
	Status int
	Raw    json.RawMessage
}

func callbackOf(t *testing.T, hook *given.Receiver) (c callback) {
	t.Helper()
	if hook.Count() == 0 {
		t.Fatal("there was no callback")
	}
	must.Do(t, json.Unmarshal(hook.Bodies[hook.Count()-1], &c))
	return c
}

// A queued run whose caller no longer exists reads no token: its callback is a 401.
func TestQueuedRunEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	for name, lose := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newReactWorld(t, func(_ context.Context, in map[string]any, _ script.Host) (any, error) {
				t.Error("the code runs")
				return map[string]any{"raw": in["args"]}, nil
			})
			hook := given.NewReceiver(t)
			tok := given.Create(t, w.Owner.Client, vault.TokenParams{Type: vault.TypeGeneric, Data: "secret"})
			app, c := given.NewApplication(t, w.Vault, vault.ApplicationParams{Name: "prv", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:use"}})
			must.Get(c.ReactAsync(t.Context(), w.reactor.ID, vault.ReactParams{Args: map[string]string{"x": "{{ " + tok.ID + " }}"}, CallbackURL: hook.URL}))(t)
			must.Do(t, lose(t.Context(), w.Vault, app.ID))
			must.Do(t, w.Work(t.Context()))
			if got := callbackOf(t, hook); got.Status != http.StatusUnauthorized || got.Raw != nil {
				t.Errorf("the callback is %+v", got)
			}
			if ops := given.Operations(t, w.Vault, tok.ID); slices.Contains(ops, "use") {
				t.Errorf("the token was used: %v", ops)
			}
		})
	}
}

// A queued run has the current rights of its caller, and never more than when it
// was queued.
func TestQueuedRunLosesRightsWithItsCaller(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		then, now string // containers
		status    int
	}{
		"kept":    {"/a/", "/a/", 0},
		"cut":     {"/a/", "/b/", http.StatusForbidden},
		"widened": {"/b/", "/", http.StatusForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newReactWorld(t, echoArgs)
			hook := given.NewReceiver(t)
			given.Create(t, w.Owner.Client, vault.TokenParams{ID: "tok", Type: vault.TypeGeneric, Data: "secret", Containers: []string{"/a/"}})
			params := func(container string) vault.ApplicationParams {
				return vault.ApplicationParams{Name: "prv", Type: vault.ApplicationPrivate, Rules: []vault.AccessRule{given.Rule(1, container, vault.TransformReveal, "token:use")}}
			}
			// Expressions are checked when the run is queued, so the token is moved
			// after that.
			app, caller := given.NewApplication(t, w.Vault, params("/a/"))
			if c.then != "/a/" {
				given.Update(t, w.Owner.Client, "tok", `{"containers":["/b/"]}`)
				must.Get(w.Owner.ReplaceApplication(t.Context(), app.ID, params(c.then)))(t)
			}
			must.Get(caller.ReactAsync(t.Context(), w.reactor.ID, vault.ReactParams{Args: map[string]string{"x": "{{ tok }}"}, CallbackURL: hook.URL}))(t)
			given.Update(t, w.Owner.Client, "tok", `{"containers":["/a/"]}`)
			must.Get(w.Owner.ReplaceApplication(t.Context(), app.ID, params(c.now)))(t)
			must.Do(t, w.Work(t.Context()))
			if got := callbackOf(t, hook); got.Status != c.status || (got.Raw == nil) != (c.status != 0) {
				t.Errorf("the callback is %+v, want status %d", got, c.status)
			}
		})
	}
}

// A result that is sent again is checked like a replay, also after it was given up.
// If its caller no longer exists, a token in it was deleted or changed, or rights were
// revoked, the callback reports that instead.
func TestResultIsWithdrawn(t *testing.T) {
	t.Parallel()
	type again struct {
		then   func(ctx context.Context, w *reactWorld, app uuid.UUID) error // may be nil
		status int                                                           // of the error; 0 for the result
		cvc    string
		dead   bool
	}
	deleted := func(ctx context.Context, w *reactWorld, _ uuid.UUID) error { return w.Owner.DeleteToken(ctx, "card") }
	rows := map[string]again{
		"nothing happened":                {},
		"the token deleted":               {then: deleted, status: http.StatusConflict},
		"given up, and the token deleted": {then: deleted, status: http.StatusConflict, dead: true},
		"the number replaced": {then: func(ctx context.Context, w *reactWorld, _ uuid.UUID) error {
			return must.Err(w.Owner.PatchToken(ctx, "card", vault.JSON(`{"data":{"number":"`+given.Mastercard+`"}}`)))
		}, status: http.StatusConflict},
		"the cvc's hour is over": {then: func(_ context.Context, w *reactWorld, _ uuid.UUID) error {
			w.Clock.Advance(time.Hour)
			return nil
		}, status: http.StatusConflict, cvc: "987"},
		"given up after the cvc's hour": {status: http.StatusConflict, cvc: "987", dead: true},
		"the caller's rules cut": {then: func(ctx context.Context, w *reactWorld, app uuid.UUID) error {
			return must.Err(w.Owner.PatchApplication(ctx, app, vault.JSON(`{"rules":[{"priority":1,"container":"/","transform":"mask","permissions":["token:use"]}]}`)))
		}, status: http.StatusForbidden},
	}
	for name, lose := range ways {
		then := func(ctx context.Context, w *reactWorld, app uuid.UUID) error { return lose(ctx, w.Vault, app) }
		rows["the caller "+name] = again{then: then, status: http.StatusUnauthorized}
		rows["given up, and the caller "+name] = again{then: then, status: http.StatusUnauthorized, dead: true}
	}
	const withdrawn = "The stored answer was withdrawn."
	titles := map[int]string{http.StatusUnauthorized: "Unauthorized", http.StatusForbidden: withdrawn, http.StatusConflict: withdrawn}
	for name, c := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, hook := newReactWorld(t, echoArgs), given.NewReceiver(t)
			given.Create(t, w.Owner.Client, vault.TokenParams{ID: "card", Type: vault.TypeCard, Data: vault.CardData{Number: given.Visa, CVC: c.cvc}})
			app, caller := given.NewApplication(t, w.Vault, vault.ApplicationParams{Name: "prv", Type: vault.ApplicationPrivate,
				Rules: []vault.AccessRule{given.Rule(1, "/", vault.TransformReveal, "token:use")}})
			dead := failedJob(t, w, hook, caller, map[string]string{"x": "{{ card }}"}, c.dead)
			must.Contain(t, "the first callback", string(hook.Bodies[0]), given.Visa)
			if c.then != nil {
				must.Do(t, c.then(t.Context(), w, app.ID))
			}
			before := hook.Count()
			hook.Answer(http.StatusOK)
			if c.dead {
				must.Do(t, w.Owner.RetryJob(t.Context(), dead.ID))
			}
			for range 2 { // one more, for a withdrawn result
				w.Clock.Advance(10 * time.Second)
				must.Do(t, w.Work(t.Context()))
			}
			got, last := callbackOf(t, hook), string(hook.Bodies[hook.Count()-1])
			given.Same(t, "status, title, data, callbacks", []any{got.Status, got.Title, strings.Contains(last, given.Visa), hook.Count() - before},
				[]any{c.status, titles[c.status], c.status == 0, 1})
		})
	}
}

// The first callback follows the run at once and is not checked, because a run may
// delete the tokens that it used.
func TestFirstCallbackFollowsTheRun(t *testing.T) {
	t.Parallel()
	var w *reactWorld
	w = newReactWorld(t, func(ctx context.Context, in map[string]any, _ script.Host) (any, error) {
		return map[string]any{"raw": in["args"]}, w.Owner.DeleteToken(ctx, "card")
	})
	hook := given.NewReceiver(t)
	given.Create(t, w.Owner.Client, vault.TokenParams{ID: "card", Type: vault.TypeCardNumber, Data: given.Visa})
	must.Get(w.Owner.ReactAsync(t.Context(), w.reactor.ID, vault.ReactParams{Args: map[string]string{"x": "{{ card }}"}, CallbackURL: hook.URL}))(t)
	must.Do(t, w.Work(t.Context()))
	if got := callbackOf(t, hook); hook.Count() != 1 || got.Status != 0 || got.Raw == nil {
		t.Errorf("%d callbacks, the last is %+v", hook.Count(), got)
	}
}

// A queued run ends with the key that queued it, and not with the others.
func TestQueuedRunEndsWithItsKeyAlone(t *testing.T) {
	t.Parallel()
	for _, own := range []bool{true, false} {
		w, hook := newReactWorld(t, echoArgs), given.NewReceiver(t)
		app, c := given.NewApplication(t, w.Vault, vault.ApplicationParams{Name: "prv", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:use"}})
		k := must.Get(w.Owner.CreateApplicationKey(t.Context(), app.ID, vault.ApplicationKeyParams{}))(t)
		keys := must.Get(w.Owner.ListApplicationKeys(t.Context(), app.ID))(t)
		i := slices.IndexFunc(keys, func(one vault.ApplicationKey) bool { return one.ID != k.ID })
		gone := map[bool]uuid.UUID{true: keys[i].ID, false: k.ID}[own]
		must.Get(c.ReactAsync(t.Context(), w.reactor.ID, vault.ReactParams{Args: map[string]string{"x": "y"}, CallbackURL: hook.URL}))(t)
		must.Do(t, w.Owner.DeleteApplicationKey(t.Context(), app.ID, gone))
		must.Do(t, w.Work(t.Context()))
		want := map[bool]int{true: http.StatusUnauthorized, false: 0}[own]
		given.Same(t, "the status of the callback", callbackOf(t, hook).Status, want)
	}
}
