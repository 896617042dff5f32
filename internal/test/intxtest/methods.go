package intxtest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault"
)

// inTxCase is a call of a method in a transaction. It fails if the method does not
// see the writes of the transaction.
type inTxCase struct {
	method string
	call   func(ctx context.Context, f *inTxFixture) error
}

// inTxFixture holds entities that only the transaction can see.
type inTxFixture struct {
	tx              vault.Tx
	owner           *vault.Owner
	public, private *vault.Client
	app, spare      *vault.Application
	reactor         *vault.Reactor
	proxy           *vault.Proxy
	session         *vault.Session
}

func newInTxFixture(t *testing.T, s *Shop) *inTxFixture {
	t.Helper()
	ctx, tx := t.Context(), s.BeginTx(t)
	f := &inTxFixture{tx: tx, owner: s.Owner.InTx(tx), public: s.Public.InTx(tx)}
	create(t, f.owner.Client, vault.TokenParams{ID: "card", Type: vault.TypeCardNumber, Data: visa, Metadata: map[string]string{"order": "7"}, Containers: []string{"/new/"}})
	create(t, f.owner.Client, aCard("other"))
	var err [7]error
	f.app, err[0] = f.owner.CreateApplication(ctx, anApplication("App"))
	f.spare, err[1] = f.owner.CreateApplication(ctx, anApplication("Spare"))
	f.private, err[2] = f.owner.As(ctx, f.app.ID)
	f.reactor, err[3] = f.owner.CreateReactor(ctx, aReactor("Reactor"))
	f.proxy, err[4] = f.owner.CreateProxy(ctx, aProxy("Proxy"))
	f.session, err[5] = f.public.CreateSession(ctx)
	_, err[6] = f.public.CreateSession(ctx)
	if err := errors.Join(err[:]...); err != nil {
		t.Fatal(err)
	}
	return f
}

func anApplication(name string) vault.ApplicationParams {
	return vault.ApplicationParams{Name: name, Type: vault.ApplicationPrivate, Permissions: everything}
}

func aReactor(name string) vault.ReactorParams {
	return vault.ReactorParams{Name: name, Code: "module.exports = r => r", Configuration: map[string]string{}}
}

func aProxy(name string) vault.ProxyParams {
	return vault.ProxyParams{Name: name, DestinationURL: "https://example.com"}
}

// count fails unless a list has exactly want items.
func count[T any](want int, all iter.Seq2[T, error]) error {
	n := 0
	for _, err := range all {
		if err != nil {
			return err
		}
		n++
	}
	return number(want, n)
}

func number(want, got int) error {
	if got != want {
		return fmt.Errorf("got %d, want %d", got, want)
	}
	return nil
}

// pageOf fails unless a page has exactly want items.
func pageOf[T any](want int) func(*vault.Page[T], error) error {
	return func(page *vault.Page[T], err error) error {
		if err != nil {
			return err
		}
		return number(want, len(page.Data))
	}
}

// is fails unless got equals want.
func is[T comparable](want, got T) error {
	if got != want {
		return fmt.Errorf("got %v, want %v", got, want)
	}
	return nil
}

// everyMethod calls every method of a client in a transaction, on entities that
// only the transaction can see. A rollback removes all of them.
func everyMethod(t *testing.T, shops Shops) {
	t.Helper()
	works := slices.Concat(inTxTokens, inTxIdentities, inTxAdmin)
	untried := map[string]bool{}
	for i := range reflect.TypeFor[*vault.Client]().NumMethod() {
		untried[reflect.TypeFor[*vault.Client]().Method(i).Name] = true
	}
	for _, c := range slices.Concat(works, notInTx) {
		delete(untried, c.method)
	}
	for _, does := range []string{"TenantID", "ApplicationID", "Masked", "From"} { // without effects
		delete(untried, does)
	}
	if len(untried) > 0 {
		t.Errorf("not tried: %v", untried)
	}
	shops.Each(t, nil, func(t *testing.T, s *Shop) {
		before, entries := inVault(t, s)
		f := newInTxFixture(t, s)
		for _, c := range notInTx {
			if err := c.call(t.Context(), f); !errors.Is(err, vault.ErrInTx) || !strings.Contains(err.Error(), c.method) {
				t.Errorf("%s: got %v, want ErrInTx", c.method, err)
			}
		}
		for _, c := range works {
			if err := c.call(t.Context(), f); err != nil {
				t.Errorf("%s: %v", c.method, err)
			}
		}
		rollback(t, f.tx)
		if after, logged := inVault(t, s); after != before || logged != entries {
			t.Errorf("after the rollback: %v and %d entries, want %v and %d", after, logged, before, entries)
		}
	})
}

// inVault returns the number of tokens, applications, reactors, proxies and
// sessions, and the number of log entries about writes.
func inVault(t *testing.T, s *Shop) (things [5]int, entries int) {
	t.Helper()
	ctx := t.Context()
	n := func(i int, total int, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		things[i] = total
	}
	for _, err := range s.Owner.AllLogs(ctx, vault.ListLogsParams{Operation: vault.OperationCreate}) {
		if err != nil {
			t.Fatal(err)
		}
		entries++
	}
	tokens, err := s.Owner.ListTokens(ctx, vault.ListTokensParams{})
	n(0, tokens.Pagination.TotalItems, err)
	apps, err := s.Owner.ListApplications(ctx, vault.ListApplicationsParams{})
	n(1, apps.Pagination.TotalItems, err)
	reactors, err := s.Owner.ListReactors(ctx, vault.ListParams{})
	n(2, reactors.Pagination.TotalItems, err)
	proxies, err := s.Owner.ListProxies(ctx, vault.ListParams{})
	n(3, proxies.Pagination.TotalItems, err)
	sessions, err := s.Owner.ListSessions(ctx, vault.PageParams{})
	n(4, sessions.Pagination.TotalItems, err)
	return things, entries
}

// worksAfterIt uses keys that were created in a transaction.
func worksAfterIt(t *testing.T, shops Shops) {
	t.Helper()
	shops.Each(t, nil, func(t *testing.T, s *Shop) {
		f := newInTxFixture(t, s)
		err := f.private.AuthorizeSession(t.Context(), vault.SessionGrant{Nonce: f.session.Nonce, Permissions: []vault.Permission{"token:create"}})
		if err != nil {
			t.Fatal(err)
		}
		commit(t, f.tx)
		get(t, authenticated(t, s, f.app.Key), "card")
		create(t, authenticated(t, s, f.session.SessionKey), aCard("by-session"))
		if r, err := s.Management.GetReactor(t.Context(), f.reactor.ID); err != nil || r.Name != "Reactor" {
			t.Errorf("the reactor: %v", err)
		}
	})
}

// insideOnce checks that a transaction is refused inside Once, because Once
// commits itself.
func insideOnce(t *testing.T, shops Shops) {
	t.Helper()
	shops.Each(t, nil, func(t *testing.T, s *Shop) {
		_, _, err := s.Owner.Once(t.Context(), vault.IdempotencyKey{Key: "k"}, func(ctx context.Context, c *vault.Owner) (vault.StoredResponse, error) {
			tx, err := s.Other(t)(ctx, nil)
			if err != nil {
				return vault.StoredResponse{}, err
			}
			defer func() { _ = tx.Rollback() }()
			_, err = c.InTx(tx).CreateToken(ctx, aCard("other"))
			return vault.StoredResponse{}, err
		})
		if !errors.Is(err, vault.ErrInTx) {
			t.Errorf("got %v, want ErrInTx", err)
		}
	})
}
