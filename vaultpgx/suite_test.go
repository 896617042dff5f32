package vaultpgx_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres"
	"github.com/seed-72ea4aab/vault/storage/storagetest"
	"github.com/seed-72ea4aab/vault/vaultpgx"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// TestTxStorage runs the contract tests of storages with transactions of pgx.
func TestTxStorage(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(*pgxpool.Pool) storagetest.Begin{"pool": beginOn, "nested": beginNested} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storagetest.RunTx(t, storagetest.TxBackend{
				New: func(tb testing.TB) (storagetest.Opener, storagetest.Begin) {
					address := pgtest.URL(tb)
					open := func(ctx context.Context) (storage.Storage, error) {
						return postgres.OpenOptions(ctx, address, &postgres.Options{MaxConns: 6})
					}
					return open, begin(pool(tb, address))
				},
				Others: func(tb testing.TB) map[string]storagetest.Begin {
					return map[string]storagetest.Begin{"empty": begin(pool(tb, elsewhere(pgtest.URL(tb))))}
				},
				Chapters: []string{"Model"},
			})
		})
	}
}

func beginOn(p *pgxpool.Pool) storagetest.Begin {
	return func(ctx context.Context) (storage.SQLTx, error) { return adapted(p.Begin(ctx)) }
}

// beginNested begins transactions that are nested in others. The outer
// transaction ends in the same way as the nested one.
func beginNested(p *pgxpool.Pool) storagetest.Begin {
	return func(ctx context.Context) (storage.SQLTx, error) {
		outer, err := p.Begin(ctx)
		if err != nil {
			return nil, err
		}
		inner, err := outer.Begin(ctx)
		return adapted(nestedTx{inner, outer}, err)
	}
}

func adapted(tx pgx.Tx, err error) (vault.Tx, error) {
	if err != nil {
		return nil, err
	}
	return vaultpgx.Tx(tx), nil
}

// shop is an application that uses pgx.
type shop struct {
	*vaulttest.Vault

	pool *pgxpool.Pool
	DB   *sql.DB // the same pool
}

func newShop(t *testing.T) *shop {
	t.Helper()
	address := pgtest.URL(t)
	store := must.Get(postgres.OpenOptions(t.Context(), address, &postgres.Options{MaxConns: 6}))(t)
	p := pool(t, address)
	db := stdlib.OpenDBFromPool(p)
	t.Cleanup(func() { _ = db.Close() })
	return &shop{Vault: vaulttest.OpenStorage(t, store, nil), pool: p, DB: db}
}

type nestedTx struct {
	pgx.Tx
	outer pgx.Tx
}

func (n nestedTx) Commit(ctx context.Context) error {
	if err := n.Tx.Commit(ctx); err != nil {
		_ = n.outer.Rollback(ctx)
		return err
	}
	return n.outer.Commit(ctx)
}

func (n nestedTx) Rollback(ctx context.Context) error {
	err := n.Tx.Rollback(ctx)
	_ = n.outer.Rollback(ctx)
	return err
}

func pool(tb testing.TB, address string) *pgxpool.Pool {
	tb.Helper()
	config := must.Get(pgxpool.ParseConfig(address))(tb)
	config.MaxConns = 8
	p := must.Get(pgxpool.NewWithConfig(context.Background(), config))(tb)
	tb.Cleanup(p.Close)
	return p
}

// elsewhere returns the address of a database without a vault on the same server.
func elsewhere(address string) string {
	return strings.Replace(address, "/postgres?", "/template1?", 1)
}
