package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
)

// oneWriter opens a store with one writing connection.
func oneWriter(t *testing.T, open func(context.Context, string, *Options) (*Store, error)) (*Store, *writer) {
	t.Helper()
	s := must.Get(open(t.Context(), Vaults.URL(t), &Options{MaxConns: 2}))(t)
	t.Cleanup(func() {
		must.Match(t, "Close", s.Close(), nil)
	})
	return s, s.queue.free[0]
}

// newLogs returns a change that takes several statements if tables are
// distributed.
func newLogs(n int) *storage.Change {
	now := time.Now().UTC().Truncate(time.Microsecond)
	c := &storage.Change{Tenant: storage.ID(uuid.New()), Now: now}
	for range n {
		c.Logs = append(c.Logs, storage.Log{ID: storage.ID(uuid.Must(uuid.NewV7())), ActorType: "tenant", EntityType: "token", EntityID: "x", Operation: "read", CreatedAt: now})
	}
	return c
}

// A transaction that fails while it begins leaves nothing on the connection for
// the next change to trip over.
func TestPartlyBegunTransactionIsDiscarded(t *testing.T) {
	t.Parallel()
	s, w := oneWriter(t, OpenRouted)
	must.Do(t, s.Write(t.Context(), newLogs(1)))
	w.lockTimeout = -time.Second // which the server rejects after BEGIN
	must.Match(t, "the transaction began", s.Write(storage.NoWait(t.Context()), newLogs(1)), must.Text("22023"))
	w.lockTimeout = lockTimeout
	if w.conn != nil {
		t.Error("the connection was kept")
	}
	must.Match(t, "the next change", s.Write(t.Context(), newLogs(1)), nil)
}

// A connection in a failed transaction is given up, whatever the reason, and
// the change is written on another.
func TestConnectionInFailedTransactionIsReplaced(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(context.Context, string, *Options) (*Store, error){"one server": OpenOptions, "routed": OpenRouted} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, w := oneWriter(t, open)
			must.Do(t, s.Write(t.Context(), newLogs(1)))
			must.Do(t, w.control("BEGIN"))
			must.Match(t, "the transaction has not failed", w.control("SELECT 1/0"), must.Text("division by zero"))
			must.Match(t, "the next change", s.Write(t.Context(), newLogs(1)), nil)
		})
	}
}
