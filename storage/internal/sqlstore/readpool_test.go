package sqlstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/direct"
)

// newPoolStore returns a Store whose connections have no prepared statements,
// so that it needs no tables.
func newPoolStore(t *testing.T, d Dialect) *Store {
	t.Helper()
	s := must.Get(New(t.Context(), openDB(t), d))(t)
	t.Cleanup(s.Close)
	return s
}

// open counts the connections of the Store.
func (s *Store) open() int { return s.db.Stats().OpenConnections }

// A slow list delays further lists beyond the limit, as long as their callers
// wait, but no read of a single row.
func TestListsLeaveConnectionsForSingleRows(t *testing.T) {
	t.Parallel()
	s := newPoolStore(t, Dialect{Conns: 2, Lists: 1})
	s.texts[pointClaim] = "SELECT 42"
	var n, found int
	err := s.each(t.Context(), "SELECT 1", nil, []Field{{&n}}, func() {
		stopped, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		must.Fail(s.count(stopped, "SELECT 1"))(t, "a second list, whose caller has left", context.DeadlineExceeded)
		if ok, err := s.one(t.Context(), pointClaim, into([]Field{{&found}})); !ok || err != nil {
			t.Errorf("a single row beside a list: %v, %v", ok, err)
		}
	})
	must.Do(t, err)
	if found != 42 || s.open() != 2 || len(s.lists.permits)+len(s.points.permits) != 0 {
		t.Errorf("found %d on %d connections; permits still taken: %d and %d",
			found, s.open(), len(s.lists.permits), len(s.points.permits))
	}
}

// Lists and single rows that share one connection take turns.
func TestOneConnectionIsEnough(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for range 3 {
		must.Get(s.count(t.Context(), "SELECT 1"))(t)
		must.Fail(s.Claim(t.Context(), someTenant, storage.Key{1}))(t, "no claim", storage.ErrNotFound)
	}
	must.Same(t, "connections are in use", 1, s.db.Stats().InUse)
}

// The most recently used connection is used next, so that few readers use few
// connections.
func TestMostRecentConnectionIsUsedFirst(t *testing.T) {
	t.Parallel()
	s := newPoolStore(t, Dialect{Conns: 3})
	var taken []*readConn
	for range 3 {
		l := must.Get(s.points.take(t.Context(), time.Time{}))(t)
		taken = append(taken, l)
	}
	for _, l := range taken {
		s.points.give(l, true)
	}
	for range 2 {
		l, err := s.points.take(t.Context(), time.Time{})
		if err != nil || l != taken[2] {
			t.Errorf("got another connection than the last one, %v", err)
		}
		s.points.give(l, true)
	}
}

// These cases check whether a connection is kept after an error, and whether
// its function runs again.
func TestConnectionsAfterErrors(t *testing.T) {
	t.Parallel()
	broken, errLeft := errors.New("broken"), errors.New("left")
	lose := func(l *readConn) { l.direct.Discard() }
	for name, test := range map[string]struct {
		again bool // may run again
		do    func(l *readConn, leave func()) error
		runs  int
		kept  bool
		want  error
	}{
		"none":                  {again: true, do: func(*readConn, func()) error { return nil }, runs: 1, kept: true},
		"of the statement":      {again: true, do: func(*readConn, func()) error { return broken }, runs: 1, want: broken},
		"the reader has left":   {again: true, do: func(_ *readConn, leave func()) error { leave(); return errLeft }, runs: 1, kept: true, want: context.Canceled},
		"the connection lost":   {again: true, do: func(l *readConn, _ func()) error { lose(l); return broken }, runs: 2, want: broken},
		"lost after a row":      {do: func(l *readConn, _ func()) error { lose(l); return broken }, runs: 1, want: broken},
		"lost, and reader left": {again: true, do: func(l *readConn, leave func()) error { lose(l); leave(); return errLeft }, runs: 1, want: context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newPoolStore(t, Dialect{Conns: 1})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			runs := 0
			err := s.on(ctx, s.points, func(l *readConn) (bool, error) {
				runs++
				return test.again, test.do(l, cancel)
			})
			if !errors.Is(err, test.want) || runs != test.runs || len(s.points.idle) == 1 != test.kept || len(s.points.permits) != 0 {
				t.Errorf("got %v after %d runs, %d connections are kept and %d permits taken", err, runs, len(s.points.idle), len(s.points.permits))
			}
			must.Same(t, "the next read", 7, must.Get(s.count(t.Context(), "SELECT 7"))(t))
		})
	}
}

// A lost connection is replaced before its reader notices.
func TestLostConnectionIsReplaced(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	lost := s.points.idle[0]
	lost.direct.Discard()
	must.Fail(s.Claim(t.Context(), someTenant, storage.Key{1}))(t, "a single row", storage.ErrNotFound)
	s.points.idle[0].direct.Discard()
	must.Same(t, "a list", 7, must.Get(s.count(t.Context(), "SELECT 7"))(t))
	if s.points.idle[0] == lost || s.open() != 1 {
		t.Errorf("%d connections are open", s.open())
	}
}

func TestOldConnectionsAreReplaced(t *testing.T) {
	t.Parallel()
	s := newPoolStore(t, Dialect{Conns: 3, Lifetime: time.Hour})
	var taken []*readConn
	for range 3 {
		l := must.Get(s.points.take(t.Context(), time.Time{}))(t)
		taken = append(taken, l)
	}
	for _, l := range taken {
		s.points.give(l, true)
	}
	taken[0].opened = taken[0].opened.Add(-time.Hour)
	taken[2].opened = taken[2].opened.Add(-2 * time.Hour)
	l := must.Get(s.points.take(t.Context(), time.Time{}))(t)
	defer s.points.give(l, true)
	if l != taken[1] || len(s.points.idle) != 0 || s.open() != 1 {
		t.Errorf("%d connections are open, of which %d idle", s.open(), len(s.points.idle))
	}
}

func TestCloseDoesNotWaitForReads(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]Dialect{"shared": {Conns: 2}, "apart": {Conns: 2, Lists: 1}} {
		s := newPoolStore(t, d)
		var got []int
		var n int
		err := s.each(t.Context(), "SELECT 1 UNION SELECT 2", nil, []Field{{&n}}, func() {
			s.Close()
			got = append(got, n)
		})
		if diff := cmp.Diff([]int{1, 2}, got); diff != "" || err != nil {
			t.Errorf("%s: the running read: %v (-want +got):\n%s", name, err, diff)
		}
		must.Fail(s.count(t.Context(), "SELECT 1"))(t, name+": a read after it", storage.ErrClosed)
		must.Same(t, name, 0, s.open())
	}
}

// A panic closes its connection, and another connection can take its place.
func TestPanicClosesItsConnection(t *testing.T) {
	t.Parallel()
	s := newPoolStore(t, Dialect{Conns: 1})
	func() {
		defer func() { _ = recover() }()
		_ = s.on(t.Context(), s.points, func(*readConn) (bool, error) { panic("broken") })
	}()
	if len(s.points.idle) != 0 || s.open() != 0 {
		t.Errorf("%d connections are kept, %d connections are open", len(s.points.idle), s.open())
	}
	must.Same(t, "the next read", 7, must.Get(s.count(t.Context(), "SELECT 7"))(t))
}

// A panic while reading a row becomes an error of the reader, and leaves the
// connection intact.
func TestPanicInARowIsAnError(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	key := storage.Key{1}
	must.Get(s.db.Exec(`INSERT INTO vault_claims (tenant_id, key, key_version) VALUES (?, ?, 7)`, someTenant[:], key[:]))(t)
	conn := s.points.idle[0]
	_, err := s.one(t.Context(), pointClaim, func(direct.Row) error { panic("a value") }, someTenant[:], key[:])
	if err == nil || err.Error() != "storage: panic while reading a row (string)" {
		t.Errorf("the error is %v", err)
	}
	must.Same(t, "the next read", 7, must.Get(s.Claim(t.Context(), someTenant, key))(t).KeyVersion)
	if len(s.points.idle) != 1 || s.points.idle[0] != conn {
		t.Error("the connection was given up")
	}
}

// Lists of one tenant leave connections for others.
func TestTenantHasShareOfLists(t *testing.T) {
	t.Parallel()
	s := sqliteShelf(t, 10).store
	s.dialect.TenantLists, s.listing = 1, NewTurnsBy[storage.ID](1)
	leave := must.Get(s.enterList(t.Context(), someTenant))(t)
	list := func(tenant storage.ID) error {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if tenant != someTenant {
			ctx = t.Context()
		}
		_, _, err := s.ListTokens(ctx, storage.TokenFilter{Tenant: tenant, Limit: 1})
		return err
	}
	must.Match(t, "a second list of the tenant", list(someTenant), context.DeadlineExceeded)
	must.Match(t, "a list of another tenant", list(storage.ID{9}), nil)
	leave()
	if _, _, err := s.ListTokens(t.Context(), storage.TokenFilter{Tenant: someTenant, Limit: 1}); err != nil {
		t.Errorf("a list after the first has ended: %v", err)
	}
}
