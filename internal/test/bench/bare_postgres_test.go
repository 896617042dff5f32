//go:build !race

package bench

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/lib/pq"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
)

// The same numbers as in storage/postgres.
const (
	postgresConns   = 16
	postgresWriters = 8
	postgresReaders = 8
	postgresBatch   = 100
	postgresGap     = 30 * time.Microsecond
	postgresShards  = 64
)

func openPostgres(b *testing.B, url string, binaryParameters bool) *sql.DB {
	b.Helper()
	config := must.Get(pq.NewConfig(url))(b)
	config.BinaryParameters = binaryParameters
	connector := must.Get(pq.NewConnectorConfig(config))(b)
	db := sql.OpenDB(connector)
	b.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(postgresConns)
	db.SetMaxIdleConns(postgresConns)
	return db
}

// postgresConn is a writing connection with its prepared statements.
type postgresConn struct {
	one, several *sql.Stmt
	shard        int
}

type postgresBare struct {
	grouping[*postgresConn]
	db *sql.DB
}

const (
	bareTokenColumns = `tenant_id, ord, id, type, set_id, containers, fingerprint, expression, hashes, key_version, body,
		created_by, created_at, rev`
	bareLogColumns = `tenant_id, id, created_at, actor_id, actor_type, entity_type, entity_id, operation, message`
	bareCount      = `INSERT INTO vault_token_counts (tenant_id, set_id, type, shard, n) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (tenant_id, set_id, type, shard) DO UPDATE SET n = vault_token_counts.n + EXCLUDED.n`

	// insertOne writes a token with two hashes.
	insertOne = `WITH t AS (INSERT INTO vault_tokens (` + bareTokenColumns + `)
			VALUES ($1, $6, $7, $3, $2, $8, $9, $10, $11, $12, $13, $14, $15, $16)),
		h AS (INSERT INTO vault_token_hashes (tenant_id, hash, ord) VALUES ($1, $17, $6), ($1, $18, $6)),
		n AS (` + bareCount + `)
		INSERT INTO vault_logs (` + bareLogColumns + `) VALUES ($1, $19, $20, $21, $22, $23, $24, $25, $26)`

	// insertSeveral writes tokens of the same tenant, set and type.
	insertSeveral = `WITH t AS (INSERT INTO vault_tokens (` + bareTokenColumns + `)
			SELECT $1, u.ord, u.id, $3, $2, u.containers, u.fingerprint, u.expression, u.hashes, u.key_version, u.body,
				u.created_by, u.created_at, u.rev
			FROM unnest($6::bytea[], $7::text[], $8::text[], $9::bytea[], $10::bytea[], $11::bytea[], $12::bigint[],
				$13::bytea[], $14::bytea[], $15::bigint[], $16::bigint[])
				AS u(ord, id, containers, fingerprint, expression, hashes, key_version, body, created_by, created_at, rev)),
		h AS (INSERT INTO vault_token_hashes (tenant_id, hash, ord)
			SELECT $1, u.* FROM unnest($17::bytea[], $18::bytea[]) AS u(hash, ord)),
		n AS (` + bareCount + `)
		INSERT INTO vault_logs (` + bareLogColumns + `)
			SELECT $1, u.* FROM unnest($19::bytea[], $20::bigint[], $21::bytea[], $22::text[], $23::text[], $24::text[],
				$25::text[], $26::text[]) AS u`
)

// openPostgresWriter returns a writer that sends groups in the driver's arrays.
func openPostgresWriter(b *testing.B, url string) bareWriter {
	b.Helper()
	w := &postgresBare{db: openPostgres(b, url, true)}
	w.limit, w.gap = postgresBatch, postgresGap
	w.grouping.write = func(conn *postgresConn, group []*storage.Change, _ func() []*storage.Change) error {
		return conn.write(group)
	}
	for i := range postgresWriters {
		conn := must.Get(w.db.Conn(context.Background()))(b)
		b.Cleanup(func() { _ = conn.Close() })
		w.free = append(w.free, &postgresConn{
			one: prepareOn(b, conn, insertOne), several: prepareOn(b, conn, insertSeveral), shard: i % postgresShards,
		})
	}
	return w
}

func (w *postgresBare) write(c *storage.Change) error { return w.do(c) }

// write writes the rows of a group in one statement.
func (conn *postgresConn) write(group []*storage.Change) error {
	first := group[0]
	t, l := &first.InsertTokens[0], &first.Logs[0]
	args := []any{first.Tenant[:], t.Set[:], t.Type, conn.shard, len(group)}
	if len(group) > 1 {
		return must.Err(conn.several.Exec(append(args, driverArrays(group)...)...))
	}
	return must.Err(conn.one.Exec(append(args, t.Ord[:], t.ID, strings.Join(t.Containers, ","), t.Fingerprint[:], t.Expression[:],
		joined(t.Hashes), t.KeyVersion, t.Body, t.CreatedBy[:], t.CreatedAt.UnixMicro(), t.Rev,
		t.Hashes[0][:], t.Hashes[1][:],
		l.ID[:], l.CreatedAt.UnixMicro(), l.ActorID[:], l.ActorType, l.EntityType, l.EntityID, l.Operation, l.Message)...))
}

// driverArrays returns the parameters of insertSeveral after the first five.
func driverArrays(group []*storage.Change) []any {
	var ords, fingerprints, expressions, hashLists, bodies, creators, hashes, hashOrds, logIDs, actors pq.ByteaArray
	var ids, containers pq.StringArray
	var keyVersions, createdAts, revs, loggedAts pq.Int64Array
	var logTexts [5]pq.StringArray
	for _, c := range group {
		t, l := &c.InsertTokens[0], &c.Logs[0]
		ords, ids = append(ords, t.Ord[:]), append(ids, t.ID)
		containers = append(containers, strings.Join(t.Containers, ","))
		fingerprints, expressions = append(fingerprints, t.Fingerprint[:]), append(expressions, t.Expression[:])
		hashLists, bodies = append(hashLists, joined(t.Hashes)), append(bodies, t.Body)
		keyVersions, revs = append(keyVersions, int64(t.KeyVersion)), append(revs, t.Rev)
		creators, createdAts = append(creators, t.CreatedBy[:]), append(createdAts, t.CreatedAt.UnixMicro())
		for i := range t.Hashes {
			hashes, hashOrds = append(hashes, t.Hashes[i][:]), append(hashOrds, t.Ord[:])
		}
		logIDs, actors = append(logIDs, l.ID[:]), append(actors, l.ActorID[:])
		loggedAts = append(loggedAts, l.CreatedAt.UnixMicro())
		for i, s := range [...]string{l.ActorType, l.EntityType, l.EntityID, l.Operation, l.Message} {
			logTexts[i] = append(logTexts[i], s)
		}
	}
	return []any{ords, ids, containers, fingerprints, expressions, hashLists, keyVersions, bodies, creators, createdAts, revs,
		hashes, hashOrds, logIDs, loggedAts, actors, logTexts[0], logTexts[1], logTexts[2], logTexts[3], logTexts[4]}
}
