package vault_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/script"
)

// replayWorld is a reactor that returns what it is given, and reads a token by
// itself when args say so.
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
		if n, ok := args["many"].(float64); ok {
			for i := range int(n) {
				if _, err := host.Call(ctx, "tokens.retrieve", json.RawMessage(fmt.Sprintf(`{"id":"many-%d"}`, i))); err != nil {
					return nil, err
				}
			}
		}
		return map[string]any{"raw": args}, nil
	})
	w.app, w.caller = newApp(t, w.Vault, vault.ApplicationParams{Name: "caller", Type: vault.Private,
		Rules: []vault.AccessRule{rule(1, "/", vault.Reveal, "token:use")}})
	create(t, w.Tenant, vault.TokenParams{ID: "card", Type: vault.Card, Data: vault.CardData{Number: visa, CVC: "987"}})
	return w
}

// react runs the reactor under an idempotency key, as the REST surface does.
func (w *replayWorld) react(t *testing.T, args string) (vault.Answer, bool, error) {
	t.Helper()
	key := vault.OnceKey{Scope: "react", Key: "k", Lease: time.Minute}
	return w.caller.Once(t.Context(), key, func(ctx context.Context, c *vault.Client) (vault.Answer, error) {
		out, err := c.React(ctx, w.reactor.ID, vault.ReactParams{Args: vault.JSON(args)})
		if err != nil {
			return vault.Answer{}, err
		}
		return vault.Answer{Status: 200, Body: out.Raw}, nil
	})
}

// The stored answer of a run is given again only while its tokens may be seen by
// those who used them, and exist.
func TestStoredAnswerOfARun(t *testing.T) {
	t.Parallel()
	const used, read = `{"card":"{{ card }}"}`, `{"read":"card"}`
	reactorApp := func(w *replayWorld) *vault.Application {
		app, err := w.Private.OwnApplication(context.Background())
		if err != nil {
			panic(err)
		}
		return app
	}
	for name, c := range map[string]struct {
		args string
		then func(ctx context.Context, w *replayWorld) error
		want error // nil: replayed
	}{
		"nothing happened":  {used, nil, nil},
		"read by the code":  {read, nil, nil},
		"without tokens":    {`{"x":1}`, func(ctx context.Context, w *replayWorld) error { return w.Tenant.DeleteToken(ctx, "card") }, nil},
		"the token deleted": {used, func(ctx context.Context, w *replayWorld) error { return w.Tenant.DeleteToken(ctx, "card") }, vault.ErrWithdrawn},
		"read, and deleted": {read, func(ctx context.Context, w *replayWorld) error { return w.Tenant.DeleteToken(ctx, "card") }, vault.ErrWithdrawn},
		"deleted and made again": {used, func(ctx context.Context, w *replayWorld) error {
			if err := w.Tenant.DeleteToken(ctx, "card"); err != nil {
				return err
			}
			_, err := w.Tenant.CreateToken(ctx, vault.TokenParams{ID: "card", Type: vault.Card, Data: vault.CardData{Number: mastercard}})
			return err
		}, vault.ErrWithdrawn},
		"the cvc's hour is over": {used, func(_ context.Context, w *replayWorld) error { w.Clock.Advance(61 * time.Minute); return nil }, vault.ErrWithdrawn},
		"the cvc replaced": {used, func(ctx context.Context, w *replayWorld) error {
			w.Clock.Advance(time.Minute)
			_, err := w.Tenant.UpdateToken(ctx, "card", vault.JSON(`{"data":{"cvc":"111"}}`))
			return err
		}, vault.ErrWithdrawn},
		// The code reads with plain permissions, so it sees a mask without the cvc.
		"masked, and the hour is over": {read, func(_ context.Context, w *replayWorld) error { w.Clock.Advance(61 * time.Minute); return nil }, nil},
		"expired": {used, func(ctx context.Context, w *replayWorld) error {
			_, err := w.Tenant.UpdateToken(ctx, "card", vault.JSON(`{"expires_at":"`+w.Clock.Now().Add(time.Second).Format(time.RFC3339)+`"}`))
			w.Clock.Advance(time.Minute)
			return err
		}, vault.ErrWithdrawn},
		"the caller's rules cut": {used, func(ctx context.Context, w *replayWorld) error {
			_, err := w.Tenant.PatchApplication(ctx, w.app.ID, vault.JSON(`{"rules":[{"priority":1,"container":"/other/","transform":"reveal","permissions":["token:use"]}]}`))
			return err
		}, vault.ErrForbidden},
		"the caller's transform cut": {used, func(ctx context.Context, w *replayWorld) error {
			_, err := w.Tenant.PatchApplication(ctx, w.app.ID, vault.JSON(`{"rules":[{"priority":1,"container":"/","transform":"mask","permissions":["token:use"]}]}`))
			return err
		}, vault.ErrForbidden},
		"the code's application cut": {read, func(ctx context.Context, w *replayWorld) error {
			_, err := w.Tenant.PatchApplication(ctx, reactorApp(w).ID, vault.JSON(`{"permissions":["token:create"]}`))
			return err
		}, vault.ErrForbidden},
		"the code's application deleted": {read, func(ctx context.Context, w *replayWorld) error {
			return w.Tenant.DeleteApplication(ctx, reactorApp(w).ID)
		}, vault.ErrForbidden},
		"the caller's cut, where the code read": {read, func(ctx context.Context, w *replayWorld) error {
			_, err := w.Tenant.PatchApplication(ctx, w.app.ID, vault.JSON(`{"rules":[{"priority":1,"container":"/other/","transform":"reveal","permissions":["token:use"]}]}`))
			return err
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newReplayWorld(t)
			first, replayed, err := w.react(t, c.args)
			if err != nil || replayed {
				t.Fatalf("the run: %v, %v", replayed, err)
			}
			if c.then != nil {
				if err := c.then(t.Context(), w); err != nil {
					t.Fatal(err)
				}
			}
			before := len(operations(t, w.Vault, "card"))
			again, replayed, err := w.react(t, c.args)
			switch {
			case c.want != nil && !errors.Is(err, c.want):
				t.Errorf("%v, want %v", err, c.want)
			case c.want != nil && (again.Body != nil || len(operations(t, w.Vault, "card")) != before):
				t.Error("a refused replay shows something, or is logged as a use")
			case c.want == nil && (err != nil || !replayed || string(again.Body) != string(first.Body)):
				t.Errorf("replayed %v with %s, %v", replayed, again.Body, err)
			}
			if ops := operations(t, w.Vault, "card"); c.want == nil && c.args != `{"x":1}` && (len(ops) != before+1 || ops[before] != "use") {
				t.Errorf("the replay is not logged as a use: %v", ops)
			}
			if w.runs != 1 {
				t.Errorf("the code ran %d times", w.runs)
			}
		})
	}
}

// A run that used more tokens than can be kept is not repeated, and not
// replayed.
func TestStoredAnswerOfTooManyTokensIsWithdrawn(t *testing.T) {
	t.Parallel()
	w := newReplayWorld(t)
	var all []map[string]any
	for i := range 1001 {
		all = append(all, map[string]any{"id": fmt.Sprintf("many-%d", i), "type": "token", "data": "x"})
	}
	for piece := range slices.Chunk(all, 500) {
		if _, err := w.Tenant.Tokenize(t.Context(), piece); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := w.react(t, `{"many":1001}`); err != nil {
		t.Fatal(err)
	}
	_, _, err := w.react(t, `{"many":1001}`)
	wantError(t, "the replay", err, vault.ErrWithdrawn)
	if w.runs != 1 {
		t.Errorf("the code ran %d times", w.runs)
	}
}
