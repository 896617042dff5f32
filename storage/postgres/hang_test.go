package postgres_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres"
)

// A hanging server acknowledges packets but sends nothing. A read still ends
// with its caller's context.
func TestContextEndsReadFromSilentServer(t *testing.T) {
	t.Parallel()
	p := newProxy(t, postgres.Vaults.URL(t))
	s, tenant := openAt(t, p.address, &postgres.Options{HangTimeout: time.Hour}), newID()
	token := sample(tenant, 1)
	must.Do(t, s.Write(t.Context(), token))
	reads := map[string]func(context.Context) error{
		"Tokens": func(ctx context.Context) error {
			return must.Err(s.Tokens(ctx, tenant, []string{token.InsertTokens[0].ID}))
		},
		"ListTokens": func(ctx context.Context) error {
			_, _, err := s.ListTokens(ctx, storage.TokenFilter{Tenant: tenant, Limit: 1})
			return err
		},
		"ReadToken": func(ctx context.Context) error {
			return must.Err(s.ReadToken(ctx, storage.Reading{Tenant: tenant, ID: token.InsertTokens[0].ID, Entry: sample(tenant, 1).Logs[0]}))
		},
		"Ping": s.Ping,
	}
	p.silent.Lock()
	var work sync.WaitGroup
	for name, read := range reads {
		work.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			must.Match(t, name, read(ctx), context.DeadlineExceeded)
		})
	}
	work.Wait()
	p.silent.Unlock()
	for name, read := range reads {
		must.Match(t, name+", after the server responds again", read(t.Context()), nil)
	}
}

// A change whose server falls silent is written once, on another connection if
// necessary. A change whose caller stops waiting fails.
func TestChangeIsWrittenOnceDespiteSilentServer(t *testing.T) {
	t.Parallel()
	address := postgres.Vaults.URL(t)
	p := newProxy(t, address)
	s, tenant := openAt(t, p.address, &postgres.Options{HangTimeout: time.Hour, RetryFor: time.Hour}), newID()
	must.Do(t, s.Write(t.Context(), sample(tenant, 1)))
	p.silent.Lock()
	postgres.SetHangTimeout(s, 100*time.Millisecond)
	speak := sync.OnceFunc(func() {
		postgres.SetHangTimeout(s, time.Hour)
		p.silent.Unlock()
	})
	p.dialed.Store(&speak) // the store has given up the connection
	must.Match(t, "after a silence", s.Write(t.Context(), sample(tenant, 1)), nil)
	p.silent.Lock()
	postgres.SetHangTimeout(s, 100*time.Millisecond)
	lost := sample(tenant, 1)
	if err := s.Write(storage.NoWait(t.Context()), lost); !errors.Is(err, storage.ErrUnavailable) || !lost.Unsure {
		t.Errorf("silent server: %v, unsure %v", err, lost.Unsure)
	}
	if _, err := s.Tokens(storage.NoWait(t.Context()), tenant, []string{"x"}); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("a read from a silent server: %v", err)
	}
	postgres.SetHangTimeout(s, time.Hour)
	p.silent.Unlock()
	if err := s.Write(t.Context(), lost); err != nil || number(t, database(t, address), "SELECT count(*) FROM vault_tokens") != 3 {
		t.Errorf("the same change, after the server responds again: %v", err)
	}
}
