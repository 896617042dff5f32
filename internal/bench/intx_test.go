package bench

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
)

// BenchmarkInTx places an order and creates a card token in one transaction.
// The opponent runs the same statements by hand: BEGIN, the order, the token,
// its hashes, the log entry, the counts, COMMIT. Neither prepares statements,
// because an application does not either.
func BenchmarkInTx(b *testing.B) {
	each(b, func(b *testing.B, on *backend) {
		counts := []int{1}
		if on == onPostgres {
			counts = append(counts, 8)
		}
		for _, callers := range counts {
			b.Run(strconv.Itoa(callers), func(b *testing.B) {
				dsn := on.create(b)
				u := newUser(b, on.openStore(b, dsn))
				ours := &contender{name: "vault", call: inTx(u.vault.Tenant(uuid.UUID(u.tenant)).Client, openShop(b, on, dsn))}
				bare := bareCreate(b, byHand(openShop(b, on, on.emptyDatabase(b)), on))
				race(b, callers, ours, bare)
				report(b, figure{what: "order and token by hand / InTx", metric: "x/hand", backend: on.name, callers: strconv.Itoa(callers),
					value: bare.over(ours), unit: "x", goal: 2, atMost: true, rates: ours.perSecond() + ", " + bare.perSecond()})
			})
		}
	})
}

// openShop opens a database like an application that keeps its orders there.
func openShop(b *testing.B, on *backend, dsn string) *sql.DB {
	b.Helper()
	db := openPostgresOrSQLite(b, on, dsn)
	must.Get(db.Exec(`CREATE TABLE orders (id integer PRIMARY KEY, card text NOT NULL)`))(b)
	return db
}

func openPostgresOrSQLite(b *testing.B, on *backend, dsn string) *sql.DB {
	b.Helper()
	if on == onSQLite {
		return openSQLite(b, dsn, sqliteWriter, 1)
	}
	db := openPostgres(b, dsn, false)
	db.SetMaxIdleConns(8)
	return db
}

const insertOrder = `INSERT INTO orders (id, card) VALUES ($1, $2)`

// inTx places orders through the vault.
func inTx(c *vault.Client, db *sql.DB) func() error {
	var n atomic.Int64
	ctx := context.Background()
	return func() error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		card, err := c.InTx(tx).CreateToken(ctx, cards()[rand.N(len(cards()))])
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, insertOrder, n.Add(1), card.ID); err != nil {
			return err
		}
		return tx.Commit()
	}
}

// byHand places orders with the rows of a token that is already sealed.
func byHand(db *sql.DB, on *backend) func(*storage.Change) error {
	var n atomic.Int64
	return func(c *storage.Change) error {
		tx, err := db.BeginTx(context.Background(), nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		t, l, tenant := &c.InsertTokens[0], &c.Logs[0], c.Tenant[:]
		add := func(query string, args ...any) {
			if err == nil {
				_, err = tx.Exec(query, args...)
			}
		}
		add(insertOrder, n.Add(1), t.ID)
		add(`INSERT INTO vault_tokens (`+bareTokenColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`,
			tenant, t.Ord[:], t.ID, t.Type, t.Set[:], strings.Join(t.Containers, ","), t.Fingerprint[:], t.Expression[:],
			joined(t.Hashes), t.KeyVersion, t.Body, t.CreatedBy[:], t.CreatedAt.UnixMicro(), t.Rev)
		add(`INSERT INTO vault_token_hashes (tenant_id, hash, ord) VALUES ($1, $2, $3), ($4, $5, $6)`,
			tenant, t.Hashes[0][:], t.Ord[:], tenant, t.Hashes[1][:], t.Ord[:])
		add(`INSERT INTO vault_logs (`+bareLogColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
			tenant, l.ID[:], l.CreatedAt.UnixMicro(), l.ActorID[:], l.ActorType, l.EntityType, l.EntityID, l.Operation, l.Message)
		add(`INSERT INTO vault_token_counts (tenant_id, set_id, type, shard, n) VALUES ($1, $2, $3, $4, 1)
			ON CONFLICT (tenant_id, set_id, type, shard) DO UPDATE SET n = vault_token_counts.n + 1`, tenant, t.Set[:], t.Type, n.Load()%64)
		if on == onSQLite {
			add(`INSERT INTO vault_log_counts (tenant_id, entity_type, day, shard, n, first_id, last_id) VALUES ($1, $2, $3, 0, 1, x'', x'')
				ON CONFLICT DO UPDATE SET n = n + 1`, tenant, t.Type, t.CreatedAt.Unix()/secondsPerDay)
		}
		if err != nil {
			return err
		}
		return tx.Commit()
	}
}
