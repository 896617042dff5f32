package storagetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
)

// ended returns a canceled context and a context whose deadline has passed.
func (w *dbTest) ended() []context.Context {
	canceled, cancel := context.WithCancel(w.Context())
	cancel()
	late, cancel := context.WithDeadline(w.Context(), time.Now())
	cancel()
	return []context.Context{canceled, late}
}

func cancelledWrite(w *dbTest) {
	tenant, e := w.id(), w.example("a")
	w.unchanged(tenant, func() {
		for _, ctx := range w.ended() {
			for _, c := range []*storage.Change{e.insert(tenant), {Tenant: tenant, Logs: []storage.Log{e.log}, Relaxed: true}} {
				if err := w.store.Write(ctx, c); !errors.Is(err, ctx.Err()) {
					w.Errorf("relaxed %t: got %v, want %v", c.Relaxed, err, ctx.Err())
				}
			}
		}
	})
	w.write(e.insert(tenant))
}

func lateWrite(w *dbTest) {
	tenant, e := w.id(), w.example("a")
	w.unchanged(tenant, func() {
		late := e.insert(tenant)
		late.Before = time.Now().Add(-time.Second)
		if err := w.store.Write(w.Context(), late); !errors.Is(err, storage.ErrLate) {
			w.Errorf("got %v, want ErrLate", err)
		}
	})
	inTime := e.insert(tenant)
	inTime.Before = time.Now().Add(time.Hour)
	w.write(inTime)
}

// calls returns all methods of a Storage except Write and Close, and all methods of a
// ReadLogger, each as a function of only a context. Other arguments are zero.
func (w *dbTest) calls() map[string]func(ctx context.Context) error {
	calls := map[string]func(ctx context.Context) error{}
	for _, of := range []reflect.Type{reflect.TypeFor[storage.Storage](), reflect.TypeFor[storage.ReadLogger]()} {
		for m := range of.Methods() {
			call := reflect.ValueOf(w.store).MethodByName(m.Name)
			if m.Name == "Write" || m.Name == "Close" || !call.IsValid() {
				continue
			}
			calls[m.Name] = func(ctx context.Context) error {
				args := []reflect.Value{reflect.ValueOf(ctx)}
				for i := 1; i < m.Type.NumIn(); i++ {
					args = append(args, reflect.Zero(m.Type.In(i)))
				}
				results := call.Call(args)
				err, _ := results[len(results)-1].Interface().(error)
				return err
			}
		}
	}
	return calls
}

func cancelledReads(w *dbTest) {
	for name, call := range w.calls() {
		for _, ctx := range w.ended() {
			if err := call(ctx); !errors.Is(err, ctx.Err()) {
				w.Errorf("%s: got %v, want %v", name, err, ctx.Err())
			}
		}
		if err := call(w.Context()); err != nil && !errors.Is(err, storage.ErrNotFound) {
			w.Errorf("%s afterwards: got %v", name, err)
		}
	}
}

func cancelDuringWrite(w *dbTest) {
	const n = 60
	tenant, tokens := w.id(), w.tokenSeries("t", n)
	errs := try(n, func(i int) error {
		ctx, cancel := context.WithTimeout(w.Context(), time.Duration(i*40)*time.Microsecond)
		defer cancel()
		return w.store.Write(ctx, insert(tenant, tokens[i]))
	})
	var want []storage.Token
	for i, err := range errs {
		switch {
		case err == nil:
			want = append(want, tokens[i])
		case !errors.Is(err, context.DeadlineExceeded):
			w.Errorf("writer %d: got %v, want context.DeadlineExceeded", i, err)
		}
	}
	w.hasTokens(tenant, want...)
}

func cancelDuringRead(w *dbTest) {
	tenant := w.id()
	w.write(insert(tenant, w.tokenSeries("t", 50)...))
	try(40, func(i int) error {
		ctx, cancel := context.WithTimeout(w.Context(), time.Duration(i*50)*time.Microsecond)
		defer cancel()
		page, _, err := w.store.ListTokens(ctx, storage.TokenFilter{Tenant: tenant, Limit: 50, Count: true})
		if err == nil && len(page) != 50 {
			w.Errorf("got %d tokens without an error, want 50", len(page))
		}
		return nil
	})
	w.same("total", w.count(storage.TokenFilter{Tenant: tenant}), 50)
}

func afterClose(w *dbTest) {
	calls := w.calls()
	calls["Write"] = func(ctx context.Context) error { return w.store.Write(ctx, insert(w.id(), w.token("a"))) }
	calls["Write, relaxed"] = func(ctx context.Context) error {
		return w.store.Write(ctx, &storage.Change{Tenant: w.id(), Logs: []storage.Log{w.log("token", "a")}, Relaxed: true})
	}
	w.ok("close", w.store.Close())
	for name, call := range calls {
		if err := call(w.Context()); !errors.Is(err, storage.ErrClosed) {
			w.Errorf("%s: got %v, want ErrClosed", name, err)
		}
	}
	if err := w.store.Close(); err != nil && !errors.Is(err, storage.ErrClosed) {
		w.Errorf("Close again: got %v, want nil or ErrClosed", err)
	}
}

// closeUnderWay closes the handle while writers use it, and returns the
// acknowledged tokens.
func (w *dbTest) closeUnderWay(tenant storage.ID) []storage.Token {
	w.Helper()
	const n = 4 * writers
	tokens := w.tokenSeries("t", n)
	errs := try(n, func(i int) error {
		if i == n/2 {
			return w.store.Close()
		}
		return w.store.Write(w.Context(), insert(tenant, tokens[i]))
	})
	if errs[n/2] != nil {
		w.Errorf("close: %v", errs[n/2])
	}
	var acknowledged []storage.Token
	for i, err := range errs {
		switch {
		case i == n/2:
		case err == nil:
			acknowledged = append(acknowledged, tokens[i])
		case !errors.Is(err, storage.ErrClosed):
			w.Errorf("writer %d: got %v, want nil or ErrClosed", i, err)
		}
	}
	return acknowledged
}

func closeThenReopen(w *dbTest) {
	tenant := w.id()
	acknowledged := w.closeUnderWay(tenant)
	w.store = w.node()
	w.hasTokens(tenant, acknowledged...)
}

func reopening(w *dbTest) {
	tenant, c := w.busy()
	open := w.claim()
	w.write(take(tenant, open))
	relaxed := w.log("token", "read")
	w.write(&storage.Change{Tenant: tenant, Logs: []storage.Log{relaxed}, Relaxed: true})
	before := w.state(tenant)
	for range 2 {
		w.ok("close", w.store.Close())
		w.store = w.node()
		w.same("state", w.state(tenant), before)
		w.same("claim", w.claimed(tenant, open.Key), &open)
		w.same("lookup", w.lookup(c.InsertRecords[2].AltKey).ID, c.InsertRecords[2].ID)
		w.same("tokens by hash", len(w.found(tenant, storage.HashIs(c.InsertTokens[2].Hashes[0]))), 1)
	}
	w.refused(insert(tenant, c.InsertTokens[0]), storage.TokenIDTaken, 0)
	w.write(w.full(tenant, "new"))
}

func twoNodes(w *dbTest) {
	tenant, nodes := w.id(), w.nodes()
	token := w.token("a")
	w.ok("write", nodes[1].Write(w.Context(), insert(tenant, token)))
	for i := range 6 {
		writer, reader := nodes[i%2], nodes[(i+1)%2]
		next := w.changed(token)
		c := &storage.Change{
			Tenant: tenant, UpdateTokens: []storage.TokenUpdate{updateOf(token, next)},
			InsertTokens: []storage.Token{w.token(fmt.Sprint(i))},
		}
		if err := writer.Write(w.Context(), c); err != nil {
			w.Fatalf("write %d: %v", i, err)
		}
		next.Rev = token.Rev + 1
		w.same("token on the other node", w.tokensOn(reader, tenant, "a"), []storage.Token{ofTenant(tenant, next)})
		_, total, err := reader.ListTokens(w.Context(), storage.TokenFilter{Tenant: tenant, Limit: 1, Count: true})
		if err != nil || total != i+2 {
			w.Errorf("total on the other node: got %d, %v, want %d", total, err, i+2)
		}
		w.isConflict(reader.Write(w.Context(), insert(tenant, c.InsertTokens...)), storage.TokenIDTaken, 0)
		c.InsertTokens = nil
		w.isConflict(reader.Write(w.Context(), c), storage.TokenStale, 0)
		token = next
	}
}

func nodeLeaves(w *dbTest) {
	tenant, nodes := w.id(), w.nodes()
	a, b := w.token("a"), w.token("b")
	w.ok("write", nodes[1].Write(w.Context(), insert(tenant, a)))
	w.ok("close", nodes[1].Close())
	w.write(insert(tenant, b))
	w.hasTokens(tenant, a, b)
}

func openAtOnce(w *dbTest) {
	open := w.backend.New(w)
	stores := make([]storage.Storage, 4)
	errs := try(len(stores), func(i int) (err error) {
		stores[i], err = open(w.Context())
		return err
	})
	tenant := w.id()
	for i, s := range stores {
		if errs[i] != nil {
			w.Errorf("node %d: %v", i, errs[i])
			continue
		}
		w.Cleanup(func() { _ = s.Close() })
		if err := s.Write(w.Context(), insert(tenant, w.token(fmt.Sprint(i)))); err != nil {
			w.Errorf("node %d: write: %v", i, err)
		}
	}
}
