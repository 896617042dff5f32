//go:build !race

package sim

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
)

// client makes requests, one after the other.
type client struct {
	w       *world
	n       int
	tenants []uuid.UUID
	app     uuid.UUID         // its application, of the first tenant
	made    map[string]string // tokens that it knows, by their deduplicated value
}

// requestTimeout is the deadline of a request.
const requestTimeout = 30 * time.Second

// outcome is what a client learned of a request.
type outcome struct {
	value   string // the value read, or the token's id
	refused bool   // it had no effect
	unknown bool   // it may have had its effect, or may still have it
}

// request is a request to be made.
type request struct {
	step
	tenant uuid.UUID
	do     func(ctx context.Context, v *vault.Vault, c *vault.Client) (string, error)
	// entry is the log entry of a success: an operation and an entity.
	entry string
}

// run makes requests.
func (c *client) run(requests int) {
	for i := range requests {
		r := c.w.draw(fmt.Sprint("client", c.n), i)
		c.request(c.onOwn(c.choose(r, i)), r)
	}
}

// request makes a request on a node, and notes what came of it.
func (c *client) request(q request, r *rand.Rand) outcome {
	w := c.w
	var on *node
	for on == nil {
		if w.park(nil, aClient, fmt.Sprintf("client %d", c.n)).kind == gone {
			return outcome{unknown: true}
		}
		if live := w.live(); len(live) > 0 {
			on = live[r.IntN(len(live))]
		} else {
			w.sleep(context.Background(), time.Second)
		}
	}
	w.logf("client %d asks %s: %s", c.n, on.name(), q)
	began := w.book.begin()
	value, err := on.serve(q)
	out := outcomeOf(q, value, err)
	w.logf("client %d got %+v%s", c.n, out, outcomeText(err))
	w.book.end(c.n, q, out, began)
	if q.kind == "dedup" && !out.unknown && !out.refused {
		c.made[q.thing] = out.value
	}
	return out
}

var errDied = errors.New("the node died")

// serve runs a request, unless the node dies.
func (n *node) serve(q request) (string, error) {
	type result struct {
		value string
		err   error
	}
	got := make(chan result, 1)
	began, stalled := time.Now(), n.w.stalledFor()
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
		defer cancel()
		value, err := q.do(ctx, n.v, n.v.Tenant(q.tenant).Client)
		got <- result{value, err}
	}()
	select {
	case r := <-got:
		if n.isDead() {
			return "", errDied // both are ready
		}
		n.w.patient(n, q, time.Since(began)-(n.w.stalledFor()-stalled))
		return r.value, r.err
	case <-n.dead:
		return "", errDied
	case <-n.w.over:
		return "", errGone
	}
}

// outcomeOf returns the outcome of a request, as far as its error reveals it.
func outcomeOf(q request, value string, err error) outcome {
	switch {
	case err == nil:
		return outcome{value: value}
	case errors.Is(err, errDied), errors.Is(err, errGone), errors.Is(err, errPart), strings.Contains(err.Error(), "may or may not have been applied"):
		return outcome{unknown: true}
	case unavailable(err), errors.Is(err, vault.ErrInProgress),
		errors.Is(err, vault.ErrInvalid) && !q.expires.IsZero(): // it came too late
		return outcome{value: noEffect, refused: true}
	case errors.Is(err, vault.ErrNotFound), errors.Is(err, vault.ErrConflict):
		return outcome{refused: true}
	default:
		return outcome{value: err.Error(), unknown: true}
	}
}

// unavailable reports whether an error means that a call may succeed later.
func unavailable(err error) bool {
	return errors.Is(err, vault.ErrUnavailable) || errors.Is(err, vault.ErrKeyUnavailable) || errors.Is(err, vault.ErrKeyDenied) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, vault.ErrBusy)
}

// noEffect is the value of a refusal that says nothing about the state.
const noEffect = "no effect"

func (q request) String() string {
	return fmt.Sprintf("%s %s %s %s", q.kind, short(tenantID(q.tenant)), q.thing, q.step.value)
}

// choose returns a random request.
func (c *client) choose(r *rand.Rand, i int) request {
	tenant := r.IntN(len(c.tenants))
	q := request{tenant: c.tenants[tenant]}
	name := func(kind string, of int) string { return fmt.Sprintf("%s-%d-%d", kind, tenant, r.IntN(of)) }
	value := fmt.Sprintf("%d-%d", c.n, i)
	switch n := r.IntN(150); {
	case n >= 100:
		return c.chooseRare(r, q, name("token", 4), value)
	case n < 3:
		return c.once(q, name("leased", 2), time.Minute)
	case n < 10:
		return c.once(q, name("once", 3), 0)
	case n < 20:
		return c.dedup(q, name("dedup", 2))
	case n < 25:
		for thing, id := range sorted(c.made) {
			return c.delete(q, thing, id)
		}
		return c.dedup(q, name("dedup", 2))
	case n < 40:
		return c.create(q, name("token", 4), value, time.Time{})
	case n < 47:
		return c.create(q, "expires-"+value, value, time.Now().Add(time.Second+upTo(r, time.Minute)))
	case n < 52:
		return c.tokenize(q, value)
	case n < 65:
		return c.patch(q, name("token", 4), value)
	case n < 78:
		return c.delete(q, name("token", 4), "")
	case n < 80:
		return c.rotate(q)
	case n < 83:
		return c.sweep(q)
	default:
		return c.get(q, name("token", 4))
	}
}

func (c *client) create(q request, thing, value string, expires time.Time) request {
	q.step, q.entry = step{kind: "create", thing: thing, value: value, expires: expires}, "create "+thing
	q.do = func(ctx context.Context, _ *vault.Vault, c *vault.Client) (string, error) {
		return idOf(c.CreateToken(ctx, vault.TokenParams{ID: thing, Type: vault.TypeGeneric, Data: value, ExpiresAt: expires}))
	}
	return q
}

func idOf(t *vault.Token, err error) (string, error) {
	if err != nil {
		return "", err
	}
	return t.ID, nil
}

func (c *client) dedup(q request, thing string) request {
	q.step = step{kind: "dedup", thing: thing}
	q.do = func(ctx context.Context, _ *vault.Vault, c *vault.Client) (string, error) {
		yes := true
		return idOf(c.CreateToken(ctx, vault.TokenParams{Type: vault.TypeGeneric, Data: thing, DeduplicateToken: &yes}))
	}
	return q
}

func (c *client) once(q request, thing string, lease time.Duration) request {
	q.step = step{kind: "once", thing: thing}
	q.do = func(ctx context.Context, _ *vault.Vault, c *vault.Client) (string, error) {
		a, _, err := c.Once(ctx, vault.IdempotencyKey{Scope: "sim", Key: thing, Lease: lease}, func(ctx context.Context, c *vault.Client) (vault.StoredResponse, error) {
			id, err := idOf(c.CreateToken(ctx, vault.TokenParams{Type: vault.TypeGeneric, Data: thing, Metadata: map[string]string{"once": thing}}))
			return vault.StoredResponse{Status: 201, Body: []byte(id)}, err
		})
		return string(a.Body), err
	}
	return q
}

func (c *client) get(q request, thing string) request {
	q.step, q.entry = step{kind: "get", thing: thing}, "read "+thing
	q.do = decoded(thing)
	return q
}

func decoded(id string) func(ctx context.Context, _ *vault.Vault, c *vault.Client) (string, error) {
	return func(ctx context.Context, _ *vault.Vault, c *vault.Client) (string, error) {
		t, err := c.GetToken(ctx, id)
		if err != nil {
			return "", err
		}
		var value string
		err = t.Data.Decode(&value)
		return value, err
	}
}

func (c *client) patch(q request, thing, value string) request {
	q.step, q.entry = step{kind: "patch", thing: thing, value: value}, "update "+thing
	q.do = func(ctx context.Context, _ *vault.Vault, c *vault.Client) (string, error) {
		return idOf(c.PatchToken(ctx, thing, vault.JSON(fmt.Sprintf(`{"data":%q}`, value))))
	}
	return q
}

// delete deletes a token, which may have another id than its thing.
func (c *client) delete(q request, thing, id string) request {
	q.step = step{kind: "delete", thing: thing, value: id}
	if id == "" {
		id = thing
	}
	q.entry = "delete " + id
	q.do = func(ctx context.Context, _ *vault.Vault, c *vault.Client) (string, error) {
		return "", c.DeleteToken(ctx, id)
	}
	return q
}

// tokenize creates two tokens or none.
func (c *client) tokenize(q request, value string) request {
	q.step = step{kind: "tokenize", thing: "both-" + value}
	q.do = func(ctx context.Context, _ *vault.Vault, c *vault.Client) (string, error) {
		var doc []any
		for _, half := range []string{"a", "b"} {
			doc = append(doc, map[string]any{"id": "both-" + half + "-" + value, "type": "token", "data": value})
		}
		_, err := c.Tokenize(ctx, doc)
		return "", err
	}
	return q
}

func (c *client) rotate(q request) request {
	q.step = step{kind: "rotate"}
	q.do = func(ctx context.Context, v *vault.Vault, _ *vault.Client) (string, error) {
		return "", v.RotateDataKeys(context.WithoutCancel(ctx), q.tenant, nil)
	}
	return q
}

func (c *client) sweep(q request) request {
	q.step = step{kind: "sweep"}
	q.do = func(ctx context.Context, v *vault.Vault, _ *vault.Client) (string, error) {
		_, err := v.Sweep(context.WithoutCancel(ctx))
		return "", err
	}
	return q
}

// stalledFor returns how long the world let time pass although goroutines could
// have proceeded.
func (w *world) stalledFor() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stalled
}

// forever is the end of a request whose outcome is unknown.
const forever = math.MaxInt64

// operation is a request in the form of porcupine.
func operation(caller int, in step, out outcome, from, to int64) porcupine.Operation {
	return porcupine.Operation{ClientId: caller, Input: in, Call: from, Output: out, Return: to}
}
