package once_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/script"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

const (
	number = "4242424242424242"
	cvc    = "987"
	note   = "marked" // metadata of the token
)

// echo is a runtime whose code returns its input. The code of a transform gets the
// request or response, and the client instance reads the token.
type echo struct{}

func (echo) Check(context.Context, script.Program) error { return nil }
func (echo) Close() error                                { return nil }
func (echo) Run(ctx context.Context, _ script.Program, in json.RawMessage, host script.Host) (json.RawMessage, error) {
	var input struct{ Args json.RawMessage }
	if err := json.Unmarshal(in, &input); err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{"raw": map[string]any{"args": input.Args}})
}

// cardVault is a vault with a card whose number, cvc and metadata are known.
type cardVault struct {
	*vaulttest.Vault
	app     *vault.Application
	reader  *vault.Client // may do everything with tokens, and sees their data
	reactor *vault.Reactor
	proxy   *vault.Proxy
	server  *httptest.Server
}

func newCardVault(t *testing.T) *cardVault {
	t.Helper()
	w := &cardVault{Vault: vaulttest.Open(t, ":memory:", &vault.Config{Runtime: echo{}, Egress: vault.EgressPolicy{AllowHTTP: true, AllowPrivate: true}})}
	ctx := t.Context()
	w.server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { _, _ = io.Copy(rw, r.Body) }))
	t.Cleanup(w.server.Close)
	w.app = must.Get(w.Owner.CreateApplication(ctx, vault.ApplicationParams{Name: "reader", Type: vault.ApplicationPrivate, Rules: reading(vault.TransformReveal)}))(t)
	w.reader = must.Get(w.Owner.As(ctx, w.app.ID))(t)
	w.reactor = must.Get(w.Owner.CreateReactor(ctx, vault.ReactorParams{Name: "r", Code: "code", Configuration: map[string]string{}, ApplicationID: w.app.ID}))(t)
	w.proxy = must.Get(w.Owner.CreateProxy(ctx, vault.ProxyParams{Name: "p", DestinationURL: w.server.URL, RequireAuth: new(true)}))(t)
	must.Get(w.Owner.CreateToken(ctx, card("card")))(t)
	return w
}

func card(id string) vault.TokenParams {
	return vault.TokenParams{ID: id, Type: vault.TypeCard, Data: vault.CardData{Number: number, CVC: cvc}, Metadata: map[string]string{"note": note}}
}

func reading(transform vault.Transform) []vault.AccessRule {
	return []vault.AccessRule{{Priority: 1, Container: "/", Transform: transform,
		Permissions: []vault.Permission{"token:create", "token:read", "token:update", "token:delete", "token:search", "token:use"}}}
}

// arguments returns arguments with which the methods of a client show the card, if
// they show tokens at all. Other methods get zero values.
func (w *cardVault) arguments() map[string][]any {
	return map[string][]any{
		"CreateToken":     {vault.TokenParams{Type: vault.TypeCard, Data: vault.CardData{Number: number}, Metadata: map[string]string{"note": note}}},
		"Tokenize":        {map[string]any{"type": "card", "data": map[string]any{"number": number}}},
		"Detokenize":      {"{{ card }}"},
		"Explain":         {vault.ExplainParams{ApplicationID: w.app.ID, Permission: "token:read", TokenID: "card"}},
		"InvokeProxy":     {vault.ProxyCall{Key: w.proxy.Key, Method: "POST", Header: http.Header{"Content-Type": {"application/json"}}, Body: strings.NewReader(`"{{ card }}"`)}},
		"GetToken":        {"card"},
		"HasPermission":   {vault.Permission("token:read")},
		"PatchToken":      {"card", vault.JSON(`{"expires_at":null}`)},
		"React":           {w.reactor.ID, vault.ReactParams{Args: map[string]any{"card": "{{ card }}"}}},
		"SearchTokens":    {vault.SearchTokensParams{Query: "type:card"}},
		"AllTokens":       {vault.SearchTokensParams{Query: "type:card"}},
		"ListTokensAfter": {vault.SearchTokensParams{Query: "type:card"}, ""},
		"Once": {vault.IdempotencyKey{Key: "inner"}, func(ctx context.Context, c *vault.Client) (vault.StoredResponse, error) {
			tok, err := c.GetToken(ctx, "card")
			if err != nil {
				return vault.StoredResponse{}, err
			}
			return vault.StoredResponse{Status: 200, Body: tok.Data}, nil
		}},
		"RoundTripper": {http.DefaultTransport},
	}
}

// call calls a method of a client, and returns everything it showed as text.
func (w *cardVault) call(ctx context.Context, c *vault.Client, method string) (string, error) {
	m := reflect.ValueOf(c).MethodByName(method)
	in, given := []reflect.Value{}, w.arguments()[method]
	for i := range m.Type().NumIn() {
		switch of := m.Type().In(i); {
		case of == reflect.TypeFor[context.Context]():
			in = append(in, reflect.ValueOf(ctx))
		case given != nil:
			in, given = append(in, reflect.ValueOf(given[0])), given[1:]
		default:
			in = append(in, reflect.Zero(of))
		}
	}
	var shown strings.Builder
	for _, out := range m.Call(in) {
		if err, ok := out.Interface().(error); ok {
			return shown.String(), err
		}
		if err := show(ctx, w, &shown, out); err != nil {
			return shown.String(), err
		}
	}
	return shown.String(), nil
}

// show writes a result as text. It walks iterators, reads bodies, and sends a
// request through a RoundTripper.
func show(ctx context.Context, w *cardVault, to *strings.Builder, out reflect.Value) error {
	switch v := out.Interface().(type) {
	case *vault.ProxyAnswer:
		if v == nil {
			return nil
		}
		defer v.Body.Close()
		_, err := io.Copy(to, v.Body)
		return err
	case http.RoundTripper:
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.server.URL, strings.NewReader(`"{{ card }}"`))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		res, err := v.RoundTrip(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		_, err = io.Copy(to, res.Body)
		return err
	case vault.StoredResponse:
		to.Write(v.Body)
		return nil
	}
	if out.Kind() == reflect.Func {
		for item, err := range out.Seq2() {
			if failed, ok := err.Interface().(error); ok {
				return failed
			}
			if err := show(ctx, w, to, item); err != nil {
				return err
			}
		}
		return nil
	}
	text, _ := json.Marshal(out.Interface())
	to.Write(text)
	return nil
}

// holdsTokens reports whether values of a type have a token in them.
func holdsTokens(t reflect.Type, seen map[reflect.Type]bool) bool {
	if seen[t] {
		return false
	}
	seen[t] = true
	if t == reflect.TypeFor[vault.Token]() {
		return true
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return holdsTokens(t.Elem(), seen)
	case reflect.Func: // an iterator
		return t.NumIn() == 1 && t.In(0).Kind() == reflect.Func && t.In(0).NumIn() > 0 && holdsTokens(t.In(0).In(0), seen)
	case reflect.Struct:
		for f := range t.Fields() {
			if holdsTokens(f.Type, seen) {
				return true
			}
		}
	default: // no other type has elements
	}
	return false
}

// TestEveryMethodBindsTheResponse calls every method of a client inside Once and
// stores a response that does not name the token. A response of work that was
// shown data of the card is not replayed after the card was erased.
func TestEveryMethodBindsTheResponse(t *testing.T) {
	t.Parallel()
	// reports are methods whose result shows what they wrote. A deletion leaves it.
	reports := map[string]bool{"CreateToken": true, "Tokenize": true}
	// never are methods that do not return inside Once: they wait, lead elsewhere, or
	// print the client.
	never := []string{"FollowLogs", "Format", "InTx", "NextLogs"}
	methods, shown := reflect.TypeFor[*vault.Client](), map[string]bool{}
	var typed []string
	for m := range methods.Methods() {
		if slices.Contains(never, m.Name) {
			continue
		}
		for i := range m.Type.NumOut() {
			if holdsTokens(m.Type.Out(i), map[reflect.Type]bool{}) {
				typed = append(typed, m.Name)
			}
		}
		for _, gone := range []string{"erased", "deleted"} {
			w, runs := newCardVault(t), 0
			once := func() error {
				_, _, err := w.reader.Once(t.Context(), vault.IdempotencyKey{Key: "k"}, func(ctx context.Context, c *vault.Client) (vault.StoredResponse, error) {
					runs++
					text, err := w.call(ctx, c, m.Name)
					if err == nil && (strings.Contains(text, number[12:]) || strings.Contains(text, note)) {
						shown[m.Name] = true
					}
					return vault.StoredResponse{Status: 200, Body: []byte("not the id")}, nil
				})
				return err
			}
			must.Do(t, once())
			var want error
			if gone == "erased" {
				must.Get(w.Owner.EraseTokens(t.Context(), vault.EraseParams{Query: "type:card", Reason: "x"}))(t)
			} else {
				must.Do(t, cmpNotFound(w.Owner.DeleteToken(t.Context(), "card")))
			}
			if shown[m.Name] && (gone == "erased" || !reports[m.Name]) {
				want = vault.ErrWithdrawn
			}
			if m.Name == "DeleteToken" || m.Name == "Explain" && gone == "erased" {
				continue // its own effect; a name
			}
			must.Match(t, m.Name+", with the card "+gone, once(), want)
			must.Same(t, m.Name+": runs", runs, 1)
		}
	}
	must.Same(t, "methods that showed the card", slices.Sorted(maps.Keys(shown)), []string{
		"AllTokens", "CreateToken", "Detokenize", "GetToken", "InvokeProxy", "ListTokens", "ListTokensAfter", "Once",
		"PatchToken", "React", "RoundTripper", "SearchTokens", "Tokenize",
	})
	for _, name := range typed {
		if !shown[name] {
			t.Errorf("%s returns tokens, and did not show the card: it needs arguments here", name)
		}
	}
}

// cmpNotFound returns the error of a deletion, unless the token no longer exists.
func cmpNotFound(err error) error {
	if errors.Is(err, vault.ErrNotFound) {
		return nil
	}
	return err
}

// TestStoredResponseOfReads changes what a response depends on.
func TestStoredResponseOfReads(t *testing.T) {
	t.Parallel()
	type work = func(ctx context.Context, w *cardVault, c *vault.Client) error
	type step = func(ctx context.Context, w *cardVault) error
	get := func(ctx context.Context, _ *cardVault, c *vault.Client) error {
		return must.Err(c.GetToken(ctx, "card"))
	}
	use := func(ctx context.Context, _ *cardVault, c *vault.Client) error {
		return must.Err(c.Detokenize(ctx, "{{ card }}"))
	}
	masked := func(ctx context.Context, _ *cardVault, c *vault.Client) error {
		return must.Err(c.Masked().GetToken(ctx, "card"))
	}
	same := func(ctx context.Context, _ *cardVault, c *vault.Client) error {
		p := card("")
		p.DeduplicateToken = new(true)
		return must.Err(c.CreateToken(ctx, p))
	}
	patch := func(ctx context.Context, _ *cardVault, c *vault.Client) error {
		return must.Err(c.PatchToken(ctx, "card", vault.JSON(`{"metadata":{"a":"b"}}`)))
	}
	changed := func(ctx context.Context, w *cardVault) error {
		w.Clock.Advance(time.Minute)
		return must.Err(w.Owner.PatchToken(ctx, "card", vault.JSON(`{"metadata":{"a":"c"}}`)))
	}
	deleted := func(ctx context.Context, w *cardVault) error { return w.Owner.DeleteToken(ctx, "card") }
	later := func(_ context.Context, w *cardVault) error { w.Clock.Advance(3 * time.Hour); return nil }
	expired := func(ctx context.Context, w *cardVault) error {
		end := w.Clock.Now().Add(time.Minute).Format(time.RFC3339)
		err := must.Err(w.Owner.PatchToken(ctx, "card", vault.JSON(`{"expires_at":"`+end+`"}`)))
		w.Clock.Advance(time.Minute)
		return err
	}
	cut := func(transform vault.Transform) step {
		return func(ctx context.Context, w *cardVault) error {
			text, err := json.Marshal(map[string]any{"rules": reading(transform)})
			if err != nil {
				return err
			}
			return must.Err(w.Owner.PatchApplication(ctx, w.app.ID, vault.JSON(text)))
		}
	}
	as := func(ctx context.Context, w *cardVault, c *vault.Client) error {
		inside, err := (&vault.Owner{Client: c}).As(ctx, w.app.ID)
		if err != nil {
			return err
		}
		return must.Err(inside.GetToken(ctx, "card"))
	}
	outside := func(ctx context.Context, w *cardVault, _ *vault.Client) error { // the wrong client, with the given context
		return must.Err(w.reader.GetToken(ctx, "card"))
	}
	for name, tt := range map[string]struct {
		owner bool
		do    work
		then  step
		want  error
	}{
		"nothing happened":              {false, get, nil, nil},
		"read, and deleted":             {false, get, deleted, vault.ErrWithdrawn},
		"read, and changed":             {false, get, changed, vault.ErrWithdrawn},
		"read, and expired":             {false, get, expired, vault.ErrWithdrawn},
		"read, and the hour is over":    {false, get, later, vault.ErrWithdrawn},
		"used, and the hour is over":    {false, use, later, vault.ErrWithdrawn},
		"masked, and the hour is over":  {false, masked, later, nil},
		"masked, and deleted":           {false, masked, deleted, vault.ErrWithdrawn},
		"read, and the rights cut":      {false, get, cut(vault.TransformMask), vault.ErrForbidden},
		"used, and the rights cut":      {false, use, cut(vault.TransformMask), vault.ErrForbidden},
		"masked, and the rights cut":    {false, masked, cut(vault.TransformMask), nil},
		"a duplicate, and changed":      {false, same, changed, nil},
		"a duplicate, and deleted":      {false, same, deleted, vault.ErrWithdrawn},
		"a duplicate, and redacted":     {false, same, cut(vault.TransformRedact), vault.ErrForbidden},
		"patched, and changed":          {false, patch, changed, nil},
		"patched, and deleted":          {false, patch, deleted, vault.ErrWithdrawn},
		"as another, nothing happened":  {true, as, nil, nil},
		"as another, whose rights cut":  {true, as, cut(vault.TransformMask), vault.ErrForbidden},
		"by the owner, the app's cut":   {true, get, cut(vault.TransformMask), nil},
		"as another, which was deleted": {true, as, func(ctx context.Context, w *cardVault) error { return w.Owner.DeleteApplication(ctx, w.app.ID) }, vault.ErrForbidden},
		"outside the client":            {false, outside, deleted, vault.ErrWithdrawn},
	} {
		for mode, lease := range map[string]time.Duration{"held": 0, "leased": time.Minute} {
			t.Run(name+", "+mode, func(t *testing.T) {
				t.Parallel()
				w, runs := newCardVault(t), 0
				caller := w.reader
				if tt.owner {
					caller = w.Owner.Client
				}
				once := func() error {
					_, _, err := caller.Once(t.Context(), vault.IdempotencyKey{Key: "k", Lease: lease}, func(ctx context.Context, c *vault.Client) (vault.StoredResponse, error) {
						runs++
						return vault.StoredResponse{Status: 200, Body: []byte(number)}, tt.do(ctx, w, c)
					})
					return err
				}
				must.Do(t, once())
				if tt.then != nil {
					must.Do(t, tt.then(t.Context(), w))
				}
				must.Match(t, "the replay", once(), tt.want)
				must.Same(t, "runs", runs, 1)
			})
		}
	}
}

// A response that was made from more than 1,000 tokens is never replayed, and the
// response of a large write is.
func TestStoredResponseOfManyTokens(t *testing.T) {
	t.Parallel()
	w := newCardVault(t)
	var values []string
	for i := range 1001 {
		values = append(values, fmt.Sprint("value ", i))
	}
	for name, tt := range map[string]struct {
		do   func(context.Context, *vault.Client) error
		want error
	}{
		"written": {func(ctx context.Context, c *vault.Client) error { return must.Err(c.Tokenize(ctx, values)) }, nil},
		"read": {func(ctx context.Context, c *vault.Client) error {
			must.Get(w.reader.Tokenize(ctx, values))(t)
			for _, err := range c.AllTokens(ctx, nil) {
				if err != nil {
					return err
				}
			}
			return nil
		}, vault.ErrWithdrawn},
	} {
		once := func() error {
			_, _, err := w.reader.Once(t.Context(), vault.IdempotencyKey{Key: name}, func(ctx context.Context, c *vault.Client) (vault.StoredResponse, error) {
				return vault.StoredResponse{Status: 200}, tt.do(ctx, c)
			})
			return err
		}
		must.Do(t, once())
		must.Match(t, name, once(), tt.want)
	}
}

// The response of an outer Once depends on what an inner Once read, also when the
// inner response was a replay.
func TestStoredResponseOfOnceInsideOnce(t *testing.T) {
	t.Parallel()
	w := newCardVault(t)
	inner := func(ctx context.Context, c *vault.Client) (vault.StoredResponse, error) {
		a, _, err := c.Once(ctx, vault.IdempotencyKey{Scope: "inner", Key: "k"}, func(ctx context.Context, c *vault.Client) (vault.StoredResponse, error) {
			return vault.StoredResponse{Status: 200}, must.Err(c.GetToken(ctx, "card"))
		})
		return a, err
	}
	outer := func(key string) error {
		_, _, err := w.reader.Once(t.Context(), vault.IdempotencyKey{Scope: "outer", Key: key}, inner)
		return err
	}
	for _, key := range []string{"a", "b", "a", "b"} { // in b the inner response is a replay
		must.Do(t, outer(key))
	}
	must.Do(t, w.Owner.DeleteToken(t.Context(), "card"))
	for _, key := range []string{"a", "b"} {
		must.Match(t, "after the deletion, "+key, outer(key), vault.ErrWithdrawn)
	}
}
