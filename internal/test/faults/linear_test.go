//go:build unix

package faults

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/long"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
)

// step is one operation on a thing that several callers share: a token, a
// deduplicated value, or an idempotency key.
type step struct {
	kind  string
	thing string
	value string // the value to write, or the token to delete
}

// outcome is what a caller learned. If the outcome is unknown, the operation
// may have happened, or may still happen later.
type outcome struct {
	value   string // the value read, or the token's id
	refused bool   // no such token, or it exists already
	unknown bool
}

// thing is the state of a shared thing. A token whose creator did not learn its
// id has the value anyID.
type thing struct {
	there bool
	value string
}

const anyID = "?"

// steps are the effects of each kind of operation on a thing.
var steps = map[string]func(thing, step, outcome) (bool, thing){
	"create": func(s thing, in step, out outcome) (bool, thing) {
		if s.there {
			return out.refused || out.unknown, s
		}
		return !out.refused, thing{true, in.value}
	},
	"get": func(s thing, _ step, out outcome) (bool, thing) {
		return s.there == !out.refused && (out.refused || s.value == out.value), s
	},
	"patch": func(s thing, in step, out outcome) (bool, thing) {
		if !s.there {
			return out.refused || out.unknown, s
		}
		return !out.refused, thing{true, in.value}
	},
	"delete": func(s thing, in step, out outcome) (bool, thing) {
		switch {
		case !s.there || in.value != "" && s.value != in.value && s.value != anyID:
			return out.refused || out.unknown, s
		case out.refused:
			return s.value == anyID, s
		}
		return true, thing{}
	},
	"dedup": same,
	"once":  same,
}

// same is an operation that creates a token or returns the existing one.
func same(s thing, _ step, out outcome) (bool, thing) {
	switch {
	case out.unknown && s.there:
		return true, s
	case out.unknown:
		return true, thing{true, anyID}
	case !s.there || s.value == anyID:
		return true, thing{true, out.value}
	default:
		return s.value == out.value, s
	}
}

// model is a vault in which every operation happens at a single moment.
var model = porcupine.Model{
	Partition: func(history []porcupine.Operation) (parts [][]porcupine.Operation) {
		things := map[string][]porcupine.Operation{}
		for _, op := range history {
			name := op.Input.(step).thing
			things[name] = append(things[name], op)
		}
		for _, part := range things {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() any { return thing{} },
	Step: func(state, input, output any) (bool, any) {
		in := input.(step)
		return both(steps[in.kind](state.(thing), in, output.(outcome)))
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
}

func both(ok bool, next thing) (bool, any) { return ok, next }

// history is what callers did, and when.
type history struct {
	began time.Time
	mu    sync.Mutex
	ops   []porcupine.Operation
}

// do runs a step and records it.
func (h *history) do(t *testing.T, caller int, c *vault.Client, in step) outcome {
	call := time.Since(h.began)
	out, err := carryOut(t.Context(), c, in)
	ret := time.Since(h.began)
	switch {
	case errors.Is(err, vault.ErrInProgress):
		return outcome{unknown: true} // it had no effect
	case errors.Is(err, vault.ErrUnavailable) && in.kind == "get":
		return outcome{unknown: true}
	case errors.Is(err, vault.ErrUnavailable):
		out, ret = outcome{unknown: true}, math.MaxInt64
	case errors.Is(err, vault.ErrNotFound), errors.Is(err, vault.ErrConflict):
		out = outcome{refused: true}
	case err != nil:
		t.Errorf("%s: %v", in.kind, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{ClientId: caller, Input: in, Call: int64(call), Output: out, Return: int64(ret)})
	return out
}

func carryOut(ctx context.Context, c *vault.Client, in step) (outcome, error) {
	create := func(ctx context.Context, c *vault.Client, p vault.TokenParams) (outcome, error) {
		p.Type = vault.TypeGeneric
		tok, err := c.CreateToken(ctx, p)
		if err != nil {
			return outcome{}, err
		}
		return outcome{value: tok.ID}, nil
	}
	switch in.kind {
	case "create":
		return create(ctx, c, vault.TokenParams{ID: in.thing, Data: in.value})
	case "dedup":
		yes := true
		return create(ctx, c, vault.TokenParams{Data: in.thing, DeduplicateToken: &yes})
	case "get":
		tok, err := c.GetToken(ctx, in.thing)
		if err != nil {
			return outcome{}, err
		}
		var value string
		err = tok.Data.Decode(&value)
		return outcome{value: value}, err
	case "patch":
		_, err := c.PatchToken(ctx, in.thing, vault.JSON(fmt.Sprintf(`{"data":%q}`, in.value)))
		return outcome{}, err
	case "delete":
		id := in.value
		if id == "" {
			id = in.thing
		}
		return outcome{}, c.DeleteToken(ctx, id)
	default:
		a, _, err := c.Once(ctx, onceKey(in.thing, 0), func(ctx context.Context, c *vault.Client) (vault.StoredResponse, error) {
			out, err := create(ctx, c, vault.TokenParams{Data: in.thing})
			return vault.StoredResponse{Status: 201, Body: []byte(out.value)}, err
		})
		return outcome{value: string(a.Body)}, err
	}
}

// TestLinearizable lets callers on two nodes work with a few tokens at once,
// while connections and the server are killed. There must be an order of the
// operations that explains every outcome.
func TestLinearizable(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	linearizable(t, c.URL, someRounds(t), c)
}

// someRounds returns which rounds a test makes.
func someRounds(t *testing.T) func(rounds, operations int) bool {
	began := time.Now()
	return func(rounds, _ int) bool { return rounds < long.Rounds(2, 20) || time.Since(began) < soak(t) }
}

// linearizable runs the test on a database that is on these servers, while more accepts
// the numbers of rounds and of operations so far.
func linearizable(t *testing.T, address string, more func(rounds, operations int) bool, servers ...*pgtest.Cluster) {
	t.Helper()
	master := vault.NewKey()
	var clients []*vault.Client
	var vaults []*vault.Vault
	for range 2 {
		store := must.Get(opener(t, address, nil)())(t)
		v := must.Get(vault.Open(t.Context(), store, master, nil))(t)
		t.Cleanup(func() { v.Close() })
		vaults = append(vaults, v)
	}
	tenant := must.Get(vaults[0].CreateTenant(t.Context(), "Acme"))(t)
	for _, v := range vaults {
		clients = append(clients, v.Tenant(tenant.ID).Client)
	}
	done := make(chan struct{}, 1000)
	var killer sync.WaitGroup
	killer.Go(func() { killAfter(t, done, servers) })
	total, rounds, worked, began := 0, 0, time.Duration(0), time.Now()
	for ; more(rounds, total) && !t.Failed(); rounds++ {
		h := linearRound(t, rounds, clients, done)
		total, worked = total+len(h.ops), worked+time.Since(h.began)
		h.check(t, rounds)
	}
	close(done)
	killer.Wait()
	t.Logf("%d operations in %d rounds of %s, checked in %s", total, rounds, worked, time.Since(began)-worked)
}

// killAfter ends all sessions of a server after some operations. Every eighth
// time it stops the server instead. It returns when the channel is closed.
func killAfter(t *testing.T, done <-chan struct{}, servers []*pgtest.Cluster) {
	for n := 1; ; n++ {
		for range 30 + rand.IntN(60) {
			if _, more := <-done; !more {
				return
			}
		}
		c := servers[rand.IntN(len(servers))]
		if n%8 != 0 {
			_ = execOn(c, endSessions)
			continue
		}
		must.Match(t, "restart", errors.Join(c.Control("stop", "-m", "immediate"), c.Control("start")), nil)
	}
}

// endSessions ends the vault's sessions, and the sessions that a coordinator
// opened for them on a worker.
const endSessions = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
	WHERE application_name = 'vault' OR application_name LIKE 'citus_internal%'`

// linearRound lets callers work on the things of one round. It sends on done
// after each operation, without waiting for a receiver.
func linearRound(t *testing.T, round int, clients []*vault.Client, done chan<- struct{}) *history {
	t.Helper()
	h := &history{began: time.Now()}
	var work sync.WaitGroup
	const callers, each = 10, 30
	for caller := range callers {
		work.Go(func() {
			made := map[string]string{}
			for n := range each {
				in := randomStep(round, fmt.Sprintf("%d-%d", caller, n), made)
				out := h.do(t, caller, clients[caller%len(clients)], in)
				select {
				case done <- struct{}{}:
				default:
				}
				if in.kind == "dedup" && !out.unknown && !out.refused {
					made[in.thing] = out.value
				}
			}
		})
	}
	work.Wait()
	return h
}

// check looks for an order that explains every outcome of a round. A round is
// small and each of its things is checked alone, so patience is far more time
// than needed.
func (h *history) check(t *testing.T, round int) {
	t.Helper()
	switch result, info := porcupine.CheckOperationsVerbose(model, h.ops, patience); result {
	case porcupine.Illegal:
		file := fmt.Sprintf("%s/history.html", t.ArtifactDir())
		t.Errorf("round %d: no order explains the outcomes; see %s (%v)", round, file, porcupine.VisualizePath(model, info, file))
	case porcupine.Unknown:
		t.Errorf("round %d: the check did not finish in %s", round, patience)
	default:
	}
}

// randomStep returns an operation on one of the round's things. made are the
// tokens that the caller knows, by their deduplicated value.
func randomStep(round int, value string, made map[string]string) step {
	name := func(kind string, of int) string { return fmt.Sprintf("%s-%d-%d", kind, round, rand.IntN(of)) }
	switch n := rand.IntN(100); {
	case n < 15:
		return step{kind: "once", thing: name("once", 3)}
	case n < 30:
		return step{kind: "dedup", thing: name("dedup", 2)}
	case n < 35:
		for thing, id := range made {
			return step{kind: "delete", thing: thing, value: id}
		}
		fallthrough
	case n < 50:
		return step{kind: "create", thing: name("token", 4), value: value}
	case n < 65:
		return step{kind: "patch", thing: name("token", 4), value: value}
	case n < 78:
		return step{kind: "delete", thing: name("token", 4)}
	default:
		return step{kind: "get", thing: name("token", 4)}
	}
}

// The check detects a lost acknowledged write, and a write that happened twice.
func TestLinearizabilityCheckFindsErrors(t *testing.T) {
	t.Parallel()
	op := func(from, to int64, in step, out outcome) porcupine.Operation {
		return porcupine.Operation{Input: in, Call: from, Output: out, Return: to}
	}
	write, read := step{kind: "create", thing: "a", value: "1"}, step{kind: "get", thing: "a"}
	once := step{kind: "once", thing: "k"}
	for name, test := range map[string]struct {
		history []porcupine.Operation
		want    bool
	}{
		"in order":       {[]porcupine.Operation{op(1, 2, write, outcome{}), op(3, 4, read, outcome{value: "1"})}, true},
		"lost":           {[]porcupine.Operation{op(1, 2, write, outcome{}), op(3, 4, read, outcome{refused: true})}, false},
		"unknown, there": {[]porcupine.Operation{op(1, math.MaxInt64, write, outcome{unknown: true}), op(3, 4, read, outcome{value: "1"})}, true},
		"unknown, not":   {[]porcupine.Operation{op(1, math.MaxInt64, write, outcome{unknown: true}), op(3, 4, read, outcome{refused: true})}, true},
		"twice":          {[]porcupine.Operation{op(1, 2, once, outcome{value: "x"}), op(3, 4, once, outcome{value: "y"})}, false},
	} {
		must.Same(t, name, test.want, porcupine.CheckOperations(model, test.history))
	}
}
