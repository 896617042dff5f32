package postgres_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres"
)

// A change whose connection was lost may still be applied by a server that has
// not noticed. If it is then too late to try again, the error does not claim
// that nothing was written, and the next Write checks first.
func TestLateChangeAfterLostConnectionIsUnsure(t *testing.T) {
	t.Parallel()
	s, tenant := openAt(t, postgres.Vaults.URL(t), nil), newID()
	for _, unsure := range []bool{false, true} {
		late := sample(tenant, 1)
		late.Before, late.Unsure = time.Now().Add(-time.Second), unsure
		err := s.Write(t.Context(), late)
		if !errors.Is(err, storage.ErrLate) || late.Unsure != unsure {
			t.Errorf("%v, unsure %v; want ErrLate and %v", err, late.Unsure, unsure)
		}
		if err != nil && strings.Contains(err.Error(), "may or may not") != unsure {
			t.Errorf("sent before: %v; the error is %q", unsure, err)
		}
	}
}

// A change that was applied although its Write failed is found by its log
// entry, even if it was sealed again in between. It does not conflict with
// itself.
func TestUnsureChangeIsNotAppliedTwice(t *testing.T) {
	t.Parallel()
	address := postgres.Vaults.URL(t)
	s, tenant := openAt(t, address, nil), newID()
	first := sample(tenant, 1)
	must.Do(t, s.Write(t.Context(), first))
	again := *first
	again.Unsure, again.InsertTokens = true, []storage.Token{first.InsertTokens[0]}
	again.InsertTokens[0].Body = []byte("sealed again")
	must.Match(t, "the change conflicts with itself", s.Write(t.Context(), &again), nil)
	again.Unsure = false
	must.Match(t, "a change known not to be applied", s.Write(t.Context(), &again), storage.ErrExists)
	must.Same(t, "tokens", 1, number(t, database(t, address), "SELECT count(*) FROM vault_tokens"))
}

// If a change is rejected and its connection is lost during the rollback, the
// conflict is diagnosed on another connection.
func TestConflictIsFoundOnAnotherConnection(t *testing.T) {
	t.Parallel()
	c := newProxy(t, postgres.Vaults.URL(t))
	var cut atomic.Int64
	atFirst := func(command string) bool { return command == "ROLLBACK" && cut.Add(1) == 1 }
	c.cuts.Store(&atFirst)
	s := must.Get(postgres.OpenRouted(t.Context(), c.address, nil))(t)
	t.Cleanup(func() { s.Close() })
	first := sample(newID(), 1)
	must.Do(t, s.Write(t.Context(), first))
	again := sample(first.Tenant, 2) // not a change that could share a statement
	again.InsertTokens[1].ID = first.InsertTokens[0].ID
	var conflict *storage.Conflict
	if err := s.Write(t.Context(), again); !errors.As(err, &conflict) || conflict.Kind != storage.TokenIDTaken || conflict.Index != 1 {
		t.Errorf("got %v", err)
	}
	if cut.Load() == 0 {
		t.Error("no connection was lost")
	}
}

// A list whose connection is lost after some of its rows is read again from the
// beginning.
func TestInterruptedListStartsOver(t *testing.T) {
	t.Parallel()
	address := postgres.Vaults.URL(t)
	const tokens = 200
	change := sample(newID(), tokens)
	must.Do(t, openAt(t, address, nil).Write(t.Context(), change))
	c := newProxy(t, address)
	c.most.Store(400 << 10) // more than one list, and less than all of them
	s := openAt(t, c.address, &postgres.Options{MaxConns: 2})
	for range 4 {
		page, _, err := s.ListTokens(t.Context(), storage.TokenFilter{Tenant: change.Tenant, Limit: tokens})
		must.Do(t, err)
		ids := map[string]bool{}
		for i := range page {
			ids[page[i].ID] = true
		}
		if len(page) != tokens || len(ids) != tokens {
			t.Errorf("%d tokens are listed, %d of them once; want %d", len(page), len(ids), tokens)
		}
		logs, _, err := s.ListLogs(t.Context(), storage.LogFilter{Tenant: change.Tenant, Limit: tokens})
		if err != nil || len(logs) != tokens {
			t.Errorf("%d entries are listed (%v), want %d", len(logs), err, tokens)
		}
	}
	if c.lost.Load() == 0 {
		t.Error("no connection was lost")
	}
}

// An internal error of the server may mean that it has lost a worker, if it has
// any.
func TestInternalErrorMayMeanALostWorker(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(context.Context, string, *postgres.Options) (*postgres.Store, error){
		"one server": postgres.OpenOptions, "distributed": postgres.OpenRouted,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := postgres.Vaults.URL(t)
			s := must.Get(open(t.Context(), address, nil))(t)
			t.Cleanup(func() { s.Close() })
			must.Get(database(t, address).Exec(`CREATE SEQUENCE calls;
				CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
					IF nextval('calls') = 1 THEN RAISE 'no reason' USING ERRCODE = 'XX000'; END IF;
					RETURN NEW;
				END $$;
				CREATE TRIGGER fail BEFORE INSERT ON vault_logs FOR EACH ROW EXECUTE FUNCTION fail()`))(t)
			change := sample(newID(), 1)
			err := s.Write(t.Context(), change)
			_, total, listed := s.ListTokens(t.Context(), storage.TokenFilter{Tenant: change.Tenant, Limit: 1, Count: true})
			if distributed := name == "distributed"; (err == nil) != distributed || (total == 1) != distributed || listed != nil {
				t.Errorf("got %v, and %d tokens (%v)", err, total, listed)
			}
		})
	}
}
