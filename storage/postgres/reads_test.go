package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/lib/pq/pqerror"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres"
)

// node is a store, with a direct connection to its server.
type node struct {
	*postgres.Store
	name   string // application name of its connections
	db     *sql.DB
	tenant storage.ID
	token  storage.Token // exists
}

func newNode(t *testing.T, options *postgres.Options) *node {
	t.Helper()
	address := postgres.Vaults.URL(t)
	n := &node{name: fmt.Sprintf("vault-%x", newID()), db: database(t, address), tenant: newID()}
	n.Store = openAt(t, with(t, address, "application_name", n.name), options)
	c := sample(n.tenant, 1)
	must.Do(t, n.Write(t.Context(), c))
	n.token = c.InsertTokens[0]
	return n
}

func (n *node) read(ctx context.Context) error {
	found, err := n.Tokens(ctx, n.tenant, []string{n.token.ID})
	if err == nil && (len(found) != 1 || found[0].ID != n.token.ID) {
		return fmt.Errorf("%d tokens", len(found))
	}
	return err
}

// list lists the tokens.
func (n *node) list(ctx context.Context) error {
	page, _, err := n.ListTokens(ctx, storage.TokenFilter{Tenant: n.tenant, Now: time.Now(), Limit: 10})
	if err == nil && len(page) != 1 {
		return fmt.Errorf("%d tokens", len(page))
	}
	return err
}

// reads returns calls that need a reading connection.
func (n *node) reads() map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"a token": n.read, "a list": n.list, "ping": n.Ping,
		"a look-up": func(ctx context.Context) error {
			if _, err := n.Lookup(ctx, storage.Key{9}); !errors.Is(err, storage.ErrNotFound) {
				return fmt.Errorf("got %w, want ErrNotFound", err)
			}
			return nil
		},
		"a lease": func(ctx context.Context) error {
			return must.Err(n.LeaseJobs(ctx, storage.Lease{Tenant: n.tenant, Owner: n.tenant, Now: time.Now(), Limit: 1}))
		},
		"a sweep": func(ctx context.Context) error { return must.Err(n.Sweep(ctx, time.Unix(1, 0), 10)) },
	}
}

// sessions returns the server processes of the store.
func (n *node) sessions(t *testing.T) []int64 {
	t.Helper()
	return column[int64](t, n.db, "SELECT pid FROM pg_stat_activity WHERE application_name = $1 ORDER BY pid", n.name)
}

// lock keeps everyone from reading tokens until it is released.
func (n *node) lock(t *testing.T) (release func()) {
	t.Helper()
	tx := must.Get(n.db.BeginTx(t.Context(), nil))(t)
	t.Cleanup(func() { _ = tx.Rollback() })
	must.Get(tx.ExecContext(t.Context(), "LOCK TABLE vault_tokens"))(t)
	return func() {
		must.Match(t, "Rollback", tx.Rollback(), nil)
	}
}

// blocked waits until this many statements of the store wait for a lock.
func (n *node) blocked(t *testing.T, statements int) {
	t.Helper()
	for got := -1; got != statements; {
		got = number(t, n.db, "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock'", n.name)
	}
}

// A read after all connections have been killed succeeds.
func TestReadsSurviveKilledConnections(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]postgres.Options{
		"prepared": {MaxConns: 6}, "not prepared": {MaxConns: 6, TransactionPooler: true}, "one": {MaxConns: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t, &options)
			for what, read := range n.reads() {
				var readers sync.WaitGroup
				for range options.MaxConns {
					readers.Go(func() {
						must.Match(t, "before "+what, n.read(t.Context()), nil)
					})
				}
				readers.Wait()
				must.Get(n.db.ExecContext(t.Context(), `SELECT pg_terminate_backend(pid, 10000)
					FROM pg_stat_activity WHERE application_name = $1`, n.name))(t)
				must.Match(t, what, read(t.Context()), nil)
			}
		})
	}
}

// A read that its caller has canceled ends, and its connection serves the next
// read.
func TestCanceledReadKeepsItsConnection(t *testing.T) {
	t.Parallel()
	n := newNode(t, &postgres.Options{MaxConns: 2})
	must.Do(t, n.read(t.Context()))
	before := n.sessions(t)
	release := n.lock(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- n.read(ctx) }()
	n.blocked(t, 1)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the read ended with %v", err)
	}
	release()
	must.Match(t, "the next read", n.read(t.Context()), nil)
	must.Same(t, "the connections", before, n.sessions(t))
}

// A read that the server cancels, for example because of statement_timeout,
// fails. Later reads succeed.
func TestReadCanceledByServerFailsAlone(t *testing.T) {
	t.Parallel()
	n := newNode(t, &postgres.Options{MaxConns: 2})
	release := n.lock(t)
	for name, read := range map[string]func(context.Context) error{"a token": n.read, "a list": n.list} {
		ended := make(chan error)
		go func() { ended <- read(storage.NoWait(t.Context())) }()
		n.blocked(t, 1)
		must.Get(n.db.ExecContext(t.Context(), "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = $1", n.name))(t)
		server, ok := errors.AsType[*postgres.ServerError](<-ended)
		if !ok || server.Code != string(pqerror.QueryCanceled) {
			t.Errorf("%s: got %v, want SQLSTATE %s", name, server, pqerror.QueryCanceled)
		}
	}
	release()
	for name, read := range n.reads() {
		must.Match(t, name+" after it", read(t.Context()), nil)
	}
}

// With a single reading connection, all reads take turns.
func TestReadsTakeTurnsOnOneConnection(t *testing.T) {
	t.Parallel()
	n := newNode(t, &postgres.Options{MaxConns: 2})
	release := n.lock(t)
	var work sync.WaitGroup
	work.Go(func() {
		must.Match(t, "the running list", n.list(t.Context()), nil)
	})
	n.blocked(t, 1)
	for name, read := range n.reads() {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		must.Match(t, name+" beside a list", read(ctx), context.DeadlineExceeded)
		cancel()
		for range 4 {
			work.Go(func() {
				must.Match(t, name+" after a list", read(t.Context()), nil)
			})
		}
	}
	release()
	work.Wait()
	if got := len(n.sessions(t)); got > 2 {
		t.Errorf("%d connections, want no more than 2", got)
	}
}

// Close does not wait for reads, and leaves no connection open.
func TestCloseDoesNotWaitForReads(t *testing.T) {
	t.Parallel()
	n := newNode(t, nil)
	release := n.lock(t)
	var work sync.WaitGroup
	for _, read := range []func(context.Context) error{n.read, n.list} {
		work.Go(func() {
			if err := read(t.Context()); err != nil && !errors.Is(err, storage.ErrClosed) {
				t.Errorf("a running read: %v", err)
			}
		})
	}
	n.blocked(t, 2)
	must.Do(t, n.Close())
	for name, read := range n.reads() {
		must.Match(t, name+" after Close", read(t.Context()), storage.ErrClosed)
	}
	release()
	work.Wait()
	for len(n.sessions(t)) > 0 { // a server ends a session some time after its client has gone
	}
}
