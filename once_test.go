package vault_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/given"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/script"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// creating returns work that creates a token and counts its runs.
func creating(runs *atomic.Int32, p vault.TokenParams) func(context.Context, *vault.Client) (vault.StoredResponse, error) {
	return func(ctx context.Context, c *vault.Client) (vault.StoredResponse, error) {
		runs.Add(1)
		tok, err := c.CreateToken(ctx, p)
		if err != nil {
			return vault.StoredResponse{}, err
		}
		return vault.StoredResponse{Status: 201, Header: http.Header{"Location": {tok.ID}}, Body: []byte(`{"n":1}`)}, nil
	}
}

var generic = vault.TokenParams{Type: vault.TypeGeneric, Data: "x"}

// replays returns a function that checks a result of Once, which must not be an
// error: a stored response, or the response of work that ran.
func replays(t testing.TB, what string, want bool) func(vault.StoredResponse, bool, error) vault.StoredResponse {
	return func(got vault.StoredResponse, replayed bool, err error) vault.StoredResponse {
		t.Helper()
		if err != nil || replayed != want {
			t.Errorf("%s: replayed %v, want %v, %v", what, replayed, want, err)
		}
		return got
	}
}

// leases are the two modes of Once.
var leases = map[string]time.Duration{"held": 0, "leased": time.Minute}

func TestOnceReplays(t *testing.T) {
	t.Parallel()
	for name, lease := range leases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := vaulttest.New(t)
			var runs atomic.Int32
			key := vault.IdempotencyKey{Scope: "POST /tokens", Key: "abc", Lease: lease}
			first := replays(t, "the first", false)(v.Private.Once(t.Context(), key, creating(&runs, generic)))
			v.Clock.Advance(24*time.Hour - time.Microsecond)
			second := replays(t, "the second", true)(v.Private.Once(t.Context(), key, creating(&runs, generic)))
			given.Same(t, "answer", second, first)
			given.Same(t, "runs", runs.Load(), 1)
			_, total := given.List(t, v.Owner.Client, vault.ListTokensParams{})
			given.Same(t, "tokens", total, 1)
			v.Clock.Advance(time.Microsecond)
			replays(t, "after 24 hours", false)(v.Private.Once(t.Context(), key, creating(&runs, generic)))
			given.Same(t, "runs after 24 hours", runs.Load(), 2)
		})
	}
}

func TestOnceStoresAnyResponse(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	for i, want := range []vault.StoredResponse{{}, {Status: 204}, {Status: 200, Body: []byte{0, 255, '"'}}, {Status: 201, Header: http.Header{"A": {"b", "c"}}, Body: []byte("x")}} {
		for range 2 {
			got, _, err := v.Private.Once(t.Context(), vault.IdempotencyKey{Key: fmt.Sprint(i)}, func(context.Context, *vault.Client) (vault.StoredResponse, error) { return want, nil })
			must.Do(t, err)
			must.Same(t, "response", want, got, cmpopts.EquateEmpty())
		}
	}
}

// TestOnceStoresACopyOfTheToken changes the token that the work received, which is
// the work's own copy.
func TestOnceStoresACopyOfTheToken(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	var id string
	_, _, err := v.Private.Once(t.Context(), vault.IdempotencyKey{Scope: "s", Key: "k"}, func(ctx context.Context, c *vault.Client) (vault.StoredResponse, error) {
		p := generic
		p.Containers = []string{"/general/", "/general/high/"}
		tok, err := c.CreateToken(ctx, p)
		if err != nil {
			return vault.StoredResponse{}, err
		}
		id, tok.Containers[0] = tok.ID, "/elsewhere/"
		return vault.StoredResponse{Status: 201}, nil
	})
	must.Do(t, err)
	tok := must.Get(v.Private.GetToken(t.Context(), id))(t)
	given.Same(t, "containers", tok.Containers, []string{"/general/", "/general/high/"})
}

// The same key under another scope, actor, user or tenant is a different request.
func TestOnceScope(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	_, other := v.NewTenant(t, "Other")
	session1, session2 := given.Session(t, v, vault.SessionGrant{Permissions: given.Everything}), given.Session(t, v, vault.SessionGrant{Permissions: given.Everything})
	user := uuid.NewString()
	var runs atomic.Int32
	for name, tt := range map[string]struct {
		c          *vault.Client
		scope, key string
	}{
		"first": {v.Private, "POST /tokens", "abc"}, "another method": {v.Private, "PUT /tokens", "abc"}, "another path": {v.Private, "POST /tokenize", "abc"},
		"another key": {v.Private, "POST /tokens", "ABC"}, "another application": {v.Public, "POST /tokens", "abc"}, "another tenant": {other.Client, "POST /tokens", "abc"},
		"the tenant itself": {v.Owner.Client, "POST /tokens", "abc"}, "a session": {session1, "POST /tokens", "abc"}, "another session": {session2, "POST /tokens", "abc"},
		"a user of the application":   {v.Private.AsUser(user), "POST /tokens", "abc"},
		"of another application":      {given.Revealing(t, v).AsUser(user), "POST /tokens", "abc"},
		"of the tenant":               {v.Owner.AsUser(user).Client, "POST /tokens", "abc"},
		"of a session":                {session1.AsUser(user), "POST /tokens", "abc"},
		"another user of the session": {session1.AsUser(uuid.NewString()), "POST /tokens", "abc"},
	} {
		before := runs.Load()
		for want := range 2 {
			replays(t, name, want == 1)(tt.c.Once(t.Context(), vault.IdempotencyKey{Scope: tt.scope, Key: tt.key}, creating(&runs, generic)))
		}
		given.Same(t, name+": runs", runs.Load()-before, 1)
	}
}

func TestOnceKeyIsPrintable(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	var runs atomic.Int32
	for _, key := range []string{"", strings.Repeat("x", 256), "a\nb", "a\x00", "\x7f", "a\tb", "\xff"} {
		_, _, err := v.Private.Once(t.Context(), vault.IdempotencyKey{Key: key}, creating(&runs, generic))
		given.WantFields(t, key, err, "idempotency_key")
	}
	given.Same(t, "runs", runs.Load(), 0)
	for _, key := range []string{"x", strings.Repeat("x", 255), " !~", `"'{}`} {
		replays(t, key, false)(v.Private.Once(t.Context(), vault.IdempotencyKey{Key: key}, creating(&runs, generic)))
	}
}

// A failure leaves nothing, including its claim, and the next attempt starts from
// scratch.
func TestOnceFailureStoresNothing(t *testing.T) {
	t.Parallel()
	for name, lease := range leases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := vaulttest.New(t)
			var runs atomic.Int32
			key := vault.IdempotencyKey{Key: "abc", Lease: lease}
			failure := errors.New("failed late")
			_, replayed, err := v.Private.Once(t.Context(), key, func(ctx context.Context, c *vault.Client) (vault.StoredResponse, error) {
				answer, err := creating(&runs, generic)(ctx, c)
				if err != nil {
					t.Error(err)
				}
				return answer, failure
			})
			if !errors.Is(err, failure) || replayed {
				t.Fatalf("replayed %v, %v", replayed, err)
			}
			found, total := given.List(t, v.Owner.Client, vault.ListTokensParams{})
			given.Same(t, fmt.Sprintf("the failure left tokens: %v", found), total, 0)
			given.Same(t, "log entries of tokens", len(given.Entries(t, v, vault.ListLogsParams{EntityType: "token"})), 0)
			replays(t, "the next try", false)(v.Private.Once(t.Context(), key, creating(&runs, generic)))
			given.Same(t, "runs", runs.Load(), 2)
		})
	}
}

// While a request is running, others with its key get ErrInProgress.
func TestOnceInProgress(t *testing.T) {
	t.Parallel()
	for name, lease := range leases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := vaulttest.New(t)
			var runs atomic.Int32
			key := vault.IdempotencyKey{Key: "abc", Lease: lease}
			_, _, err := v.Private.Once(t.Context(), key, func(ctx context.Context, c *vault.Client) (vault.StoredResponse, error) {
				_, _, err := v.Private.Once(ctx, key, creating(&runs, generic))
				must.Match(t, "within", err, vault.ErrConflict)
				replays(t, "another key within", false)(v.Private.Once(ctx, vault.IdempotencyKey{Key: "other"}, creating(&runs, generic)))
				return vault.StoredResponse{}, nil
			})
			must.Do(t, err)
			given.Same(t, "runs", runs.Load(), 1)
		})
	}
}

// The response of another node is replayed, even if the discarded work finds its
// own token in the way.
func TestOnceReplaysOnAnotherNode(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]vault.TokenParams{
		"drawn id": generic, "given id": {ID: "own", Type: vault.TypeGeneric, Data: "x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			vaults, _ := given.Nodes(t)
			tenant := given.TenantOf(t, vaults[0])
			var runs atomic.Int32
			answers := make([]vault.StoredResponse, 2)
			for i := range answers {
				c := vaults[i].Tenant(tenant.TenantID()).Client
				answers[i] = replays(t, fmt.Sprint("node ", i), i == 1)(c.Once(t.Context(), vault.IdempotencyKey{Key: "abc"}, creating(&runs, p)))
			}
			given.Same(t, "answer", answers[1], answers[0])
			_, total := given.List(t, tenant, vault.ListTokensParams{})
			given.Same(t, "tokens", total, 1)
		})
	}
}

// The claim of a node that died is released when its lease ends, and a late finish
// of that node has no effect.
func TestOnceLeaseExpires(t *testing.T) {
	t.Parallel()
	vaults, clock := given.Nodes(t)
	tenant := given.TenantOf(t, vaults[0])
	there := vaults[1].Tenant(tenant.TenantID())
	key := vault.IdempotencyKey{Key: "abc", Lease: time.Minute}
	var runs atomic.Int32
	_, _, err := tenant.Once(t.Context(), key, func(ctx context.Context, c *vault.Client) (vault.StoredResponse, error) {
		clock.Advance(time.Minute - time.Microsecond)
		_, _, err := there.Client.Once(ctx, key, creating(&runs, generic))
		must.Match(t, "while the lease runs", err, vault.ErrConflict)
		clock.Advance(time.Microsecond)
		replays(t, "after the lease", false)(there.Client.Once(ctx, key, creating(&runs, generic)))
		return creating(&runs, vault.TokenParams{ID: "late", Type: vault.TypeGeneric, Data: "x"})(ctx, c)
	})
	must.Match(t, "the node that was too slow", err, vault.ErrConflict)
	must.Match(t, "what it wanted to write", must.Err(tenant.GetToken(t.Context(), "late")), vault.ErrNotFound)
	replays(t, "later", true)(tenant.Once(t.Context(), key, creating(&runs, generic)))
	given.Same(t, "runs", runs.Load(), 2)
}

// Changes, log entries, claim and response are committed together.
func TestOnceIsAtomic(t *testing.T) {
	t.Parallel()
	for name, lease := range leases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, store := given.Spied(t)
			var changes []*storage.Change
			store.Before = func(call string, ch *storage.Change) error {
				if call == "Write" {
					changes = append(changes, ch)
				}
				return nil
			}
			_, _, err := v.Private.Once(t.Context(), vault.IdempotencyKey{Key: "abc", Lease: lease}, func(ctx context.Context, c *vault.Client) (vault.StoredResponse, error) {
				given.Create(t, c, vault.TokenParams{ID: "one", Type: vault.TypeGeneric, Data: "x"})
				given.Create(t, c, vault.TokenParams{ID: "two", Type: vault.TypeGeneric, Data: "x"})
				must.Match(t, "a held write", must.Err(c.GetToken(ctx, "one")), vault.ErrNotFound)
				return vault.StoredResponse{Body: []byte("s3cr3t")}, nil
			})
			must.Do(t, err)
			last := changes[len(changes)-1]
			if len(last.InsertTokens) != 2 || len(last.Logs) != 2 || last.Claim == nil || last.Claim.Answer == nil {
				t.Errorf("the change holds %d tokens and %d entries, and a claim: %v", len(last.InsertTokens), len(last.Logs), last.Claim != nil)
			}
			must.Lack(t, "the stored response", string(last.Claim.Answer), "s3cr3t")
			given.Same(t, "changes", len(changes), map[string]int{"held": 1, "leased": 2}[name])

			store.Before = func(call string, ch *storage.Change) error {
				if call == "Write" && len(ch.InsertTokens) > 0 {
					return given.ErrDown
				}
				return nil
			}
			var runs atomic.Int32
			key := vault.IdempotencyKey{Key: "xyz", Lease: lease}
			_, _, err = v.Private.Once(t.Context(), key, creating(&runs, generic))
			must.Match(t, "when the database fails", err, given.ErrDown)
			store.Before = nil
			replays(t, "when the database is back", false)(v.Private.Once(t.Context(), key, creating(&runs, generic)))
		})
	}
}

// If work with effects outside the database reads values, the log has them at once,
// even if the work fails afterwards.
func TestOnceLogsUsesOfFailedWork(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	given.Create(t, v.Owner.Client, vault.TokenParams{ID: "tok", Type: vault.TypeGeneric, Data: "x"})
	_, _, err := v.Private.Once(t.Context(), vault.IdempotencyKey{Key: "abc", Lease: time.Minute}, func(ctx context.Context, c *vault.Client) (vault.StoredResponse, error) {
		given.Detokenize(t, c, `"{{ tok }}"`)
		given.Same(t, "log during the work", given.Operations(t, v, "tok"), []string{"create", "use"})
		return vault.StoredResponse{}, given.ErrDown
	})
	must.Match(t, "the work", err, given.ErrDown)
	given.Same(t, "log after the work", given.Operations(t, v, "tok"), []string{"create", "use"})
}

// When others change what the work has read, it runs again.
func TestOnceRunsAgainAfterAConflict(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	given.Create(t, v.Owner.Client, vault.TokenParams{ID: "tok", Type: vault.TypeGeneric, Data: map[string]int{"a": 1}})
	runs := 0
	_, _, err := v.Private.Once(t.Context(), vault.IdempotencyKey{Key: "abc"}, func(ctx context.Context, c *vault.Client) (vault.StoredResponse, error) {
		_, err := c.PatchToken(ctx, "tok", vault.JSON(`{"data":{"c":3}}`))
		if runs++; runs == 1 {
			given.Update(t, v.Owner.Client, "tok", `{"data":{"b":2}}`)
		}
		return vault.StoredResponse{}, err
	})
	must.Do(t, err)
	given.Same(t, "runs", runs, 2)
	given.WantData(t, "data", given.Get(t, v.Owner.Client, "tok").Data, `{"a":1,"b":2,"c":3}`)
	_, _, err = v.Private.Once(t.Context(), vault.IdempotencyKey{Key: "taken"}, func(ctx context.Context, c *vault.Client) (vault.StoredResponse, error) {
		return vault.StoredResponse{}, must.Err(c.CreateToken(ctx, vault.TokenParams{ID: "tok", Type: vault.TypeGeneric, Data: "x"}))
	})
	must.Match(t, "a taken id", err, vault.ErrConflict)
}

// A revoked key gets no stored response.
func TestOnceAuthenticatesBeforeItReplays(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	var runs atomic.Int32
	key := vault.IdempotencyKey{Key: "abc"}
	replays(t, "the first", false)(v.Private.Once(t.Context(), key, creating(&runs, generic)))
	must.Do(t, v.Owner.DeleteApplication(t.Context(), v.Private.ApplicationID()))
	_, replayed, err := v.Private.Once(t.Context(), key, creating(&runs, generic))
	must.Match(t, "a revoked key", err, vault.ErrUnauthenticated)
	if replayed {
		t.Error("the answer was replayed")
	}
}

// replayWorld is a reactor that returns its arguments, and reads a token itself if
// args name one.
type replayWorld struct {
	*reactWorld
	app    *vault.Application
	caller *vault.Client
	runs   int
}

func newReplayWorld(t *testing.T) *replayWorld {
	t.Helper()
	w := &replayWorld{}
	w.reactWorld = newReactWorld(t, func(ctx context.Context, in map[string]any, host script.Host) (any, error) {
		w.runs++
		args := in["args"].(map[string]any)
		if id, ok := args["read"].(string); ok {
			out, err := host.Call(ctx, "tokens.retrieve", json.RawMessage(fmt.Sprintf(`{"id":%q}`, id)))
			if err != nil {
				return nil, err
			}
			args["read"] = out
		}
		if patch := args["patch"]; patch != nil {
			out, err := host.Call(ctx, "tokens.update", mustJSON(map[string]any{"id": "card", "patch": patch}))
			if err != nil {
				return nil, err
			}
			args["patched"] = out
		}
		if number, ok := args["like"].(string); ok {
			out, err := host.Call(ctx, "tokens.create", json.RawMessage(fmt.Sprintf(`{"type":"card","data":{"number":%q},"deduplicate_token":true}`, number)))
			if err != nil {
				return nil, err
			}
			args["like"] = out
		}
		if n, ok := args["many"].(float64); ok {
			var all []string
			for i := range int(n) {
				all = append(all, fmt.Sprintf("{{ many-%d }}", i))
			}
			for piece := range slices.Chunk(all, 100) { // as many as one call may name
				if _, err := host.Call(ctx, "detokenize", mustJSON(piece)); err != nil {
					return nil, err
				}
			}
		}
		return map[string]any{"raw": args}, nil
	})
	w.app, w.caller = given.NewApplication(t, w.Vault, vault.ApplicationParams{Name: "caller", Type: vault.ApplicationPrivate,
		Rules: []vault.AccessRule{given.Rule(1, "/", vault.TransformReveal, "token:use")}})
	given.Create(t, w.Owner.Client, vault.TokenParams{ID: "card", Type: vault.TypeCard, Data: vault.CardData{Number: given.Visa, CVC: "987"}})
	return w
}

// react runs the reactor under an idempotency key, as the REST API does.
func (w *replayWorld) react(t *testing.T, args string) (vault.StoredResponse, bool, error) {
	t.Helper()
	key := vault.IdempotencyKey{Scope: "react", Key: "k", Lease: time.Minute}
	return w.caller.Once(t.Context(), key, func(ctx context.Context, c *vault.Client) (vault.StoredResponse, error) {
		out, err := c.React(ctx, w.reactor.ID, vault.ReactParams{Args: vault.JSON(args)})
		if err != nil {
			return vault.StoredResponse{}, err
		}
		return vault.StoredResponse{Status: 200, Body: out.Raw}, nil
	})
}

// The stored response of a run is returned again only while its tokens exist and
// the callers who used them may see them.
func TestStoredResponseOfARun(t *testing.T) {
	t.Parallel()
	const used, read = `{"card":"{{ card }}"}`, `{"read":"card"}`
	const changing = `{"card":"{{ card }}","patch":{"metadata":{"seen":"yes"}}}`
	type step = func(ctx context.Context, w *replayWorld) error
	deleted := func(ctx context.Context, w *replayWorld) error { return w.Owner.DeleteToken(ctx, "card") }
	patched := func(patch string) step {
		return func(ctx context.Context, w *replayWorld) error {
			w.Clock.Advance(time.Minute)
			return must.Err(w.Owner.PatchToken(ctx, "card", vault.JSON(patch)))
		}
	}
	replaced := func(ctx context.Context, w *replayWorld) error {
		return must.Err(w.Owner.PatchToken(ctx, "card", vault.JSON(`{"data":{"number":"`+given.Mastercard+`"}}`)))
	}
	later := func(_ context.Context, w *replayWorld) error { w.Clock.Advance(61 * time.Minute); return nil }
	cut := func(container, transform string) step {
		return func(ctx context.Context, w *replayWorld) error {
			rules := vault.JSON(`{"rules":[{"priority":1,"container":"` + container + `","transform":"` + transform + `","permissions":["token:use"]}]}`)
			return must.Err(w.Owner.PatchApplication(ctx, w.app.ID, rules))
		}
	}
	for name, c := range map[string]struct {
		args string
		then step
		want error // nil: replayed
	}{
		"nothing happened":                  {used, nil, nil},
		"read by the code":                  {read, nil, nil},
		"without tokens":                    {`{"x":1}`, deleted, nil},
		"the token deleted":                 {used, deleted, vault.ErrWithdrawn},
		"read, and deleted":                 {read, deleted, vault.ErrWithdrawn},
		"changed by the code, and deleted":  {`{"patch":{"metadata":{"seen":"yes"}}}`, deleted, vault.ErrWithdrawn},
		"found as a duplicate, and deleted": {`{"like":"` + given.Visa + `"}`, deleted, vault.ErrWithdrawn},
		"deleted and made again": {used, func(ctx context.Context, w *replayWorld) error {
			if err := deleted(ctx, w); err != nil {
				return err
			}
			return must.Err(w.Owner.CreateToken(ctx, vault.TokenParams{ID: "card", Type: vault.TypeCard, Data: vault.CardData{Number: given.Mastercard}}))
		}, vault.ErrWithdrawn},
		"the cvc's hour is over":          {used, later, vault.ErrWithdrawn},
		"the cvc replaced":                {used, patched(`{"data":{"cvc":"111"}}`), vault.ErrWithdrawn},
		"the number replaced":             {used, replaced, vault.ErrWithdrawn},
		"masked, and the number replaced": {read, replaced, vault.ErrWithdrawn},
		"replaced twice at the same time": {changing, replaced, vault.ErrWithdrawn},
		"changed by the run itself":       {changing, nil, nil},
		"the keys replaced":               {used, func(ctx context.Context, w *replayWorld) error { return w.RotateDataKeys(ctx, w.Owner.TenantID(), nil) }, nil},
		// The code reads with plain permissions, so it sees a mask without the cvc.
		"masked, and the hour is over": {read, later, nil},
		"expired": {used, func(ctx context.Context, w *replayWorld) error {
			err := patched(`{"expires_at":"`+w.Clock.Now().Add(2*time.Minute).Format(time.RFC3339)+`"}`)(ctx, w)
			w.Clock.Advance(time.Minute)
			return err
		}, vault.ErrWithdrawn},
		"the caller's rules cut":     {used, cut("/other/", "reveal"), vault.ErrForbidden},
		"the caller's transform cut": {used, cut("/", "mask"), vault.ErrForbidden},
		"the code's application cut": {read, func(ctx context.Context, w *replayWorld) error {
			return must.Err(w.Owner.PatchApplication(ctx, w.reactor.ApplicationID, vault.JSON(`{"permissions":["token:create"]}`)))
		}, vault.ErrForbidden},
		"the code's application deleted": {read, func(ctx context.Context, w *replayWorld) error {
			return w.Owner.DeleteApplication(ctx, w.reactor.ApplicationID)
		}, vault.ErrForbidden},
		"the caller's cut, where the code read": {read, cut("/other/", "reveal"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newReplayWorld(t)
			first := replays(t, "the run", false)(w.react(t, c.args))
			if c.then != nil {
				must.Do(t, c.then(t.Context(), w))
			}
			before := len(given.Operations(t, w.Vault, "card"))
			again, replayed, err := w.react(t, c.args)
			switch {
			case c.want != nil && !errors.Is(err, c.want):
				t.Errorf("%v, want %v", err, c.want)
			case c.want != nil && (again.Body != nil || len(given.Operations(t, w.Vault, "card")) != before):
				t.Error("a refused replay shows something, or is logged as a use")
			case c.want == nil && (err != nil || !replayed || string(again.Body) != string(first.Body)):
				t.Errorf("replayed %v with %s, %v", replayed, again.Body, err)
			}
			if ops := given.Operations(t, w.Vault, "card"); c.want == nil && c.args != `{"x":1}` && (len(ops) != before+1 || ops[before] != "use") {
				t.Errorf("the replay is not logged as a use: %v", ops)
			}
			given.Same(t, "the code ran", w.runs, 1)
		})
	}
}

// A run that used more tokens than can be recorded is neither repeated nor
// replayed.
func TestStoredResponseOfTooManyTokensIsWithdrawn(t *testing.T) {
	t.Parallel()
	w := newReplayWorld(t)
	var all []map[string]any
	for i := range 1001 {
		all = append(all, map[string]any{"id": fmt.Sprintf("many-%d", i), "type": "token", "data": "x"})
	}
	for piece := range slices.Chunk(all, 500) {
		must.Get(w.Owner.Tokenize(t.Context(), piece))(t)
	}
	replays(t, "the first", false)(w.react(t, `{"many":1001}`))
	_, _, err := w.react(t, `{"many":1001}`)
	must.Match(t, "the replay", err, vault.ErrWithdrawn)
	given.Same(t, "the code ran", w.runs, 1)
}
