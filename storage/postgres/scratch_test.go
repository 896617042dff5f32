package postgres

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/seed-72ea4aab/vault/internal/pgtest"
	"github.com/seed-72ea4aab/vault/storage"
)

func rb(n int) []byte { b := make([]byte, n); rand.Read(b); return b }
func scratchSample(tenant storage.ID) *storage.Change {
	now := time.Now().UTC().Truncate(time.Microsecond)
	c := &storage.Change{Tenant: tenant, Now: now}
	t := storage.Token{Ord: storage.ID(uuid.Must(uuid.NewV7())), Type: "token", Set: storage.Hash{1}, Containers: []string{"/general/high/"},
		Fingerprint: storage.Key(rb(32)), Expression: storage.Hash{2}, Hashes: []storage.Hash{storage.Hash(rb(16)), storage.Hash(rb(16))},
		KeyVersion: 1, Body: rb(400), CreatedBy: tenant, CreatedAt: now, Rev: 1}
	t.ID = uuid.UUID(t.Ord).String()
	c.InsertTokens = append(c.InsertTokens, t)
	c.Logs = append(c.Logs, storage.Log{ID: storage.ID(uuid.Must(uuid.NewV7())), ActorID: tenant, ActorType: "application", EntityType: "token", EntityID: t.ID, Operation: "create", Message: "Token created", CreatedAt: now})
	return c
}

const insertSeveral = `WITH t AS (INSERT INTO tokens (tenant_id, ord, id, type, set_id, containers, fingerprint, expression, hashes, key_version, body,
		created_by, created_at, rev)
			SELECT $1, u.ord, u.id, $3, $2, u.containers, u.fingerprint, u.expression, u.hashes, u.key_version, u.body,
				u.created_by, u.created_at, u.rev
			FROM unnest($6::bytea[], $7::text[], $8::text[], $9::bytea[], $10::bytea[], $11::bytea[], $12::bigint[],
				$13::bytea[], $14::bytea[], $15::bigint[], $16::bigint[])
				AS u(ord, id, containers, fingerprint, expression, hashes, key_version, body, created_by, created_at, rev)),
		h AS (INSERT INTO token_hashes (tenant_id, hash, ord)
			SELECT $1, u.* FROM unnest($17::bytea[], $18::bytea[]) AS u(hash, ord)),
		n AS (INSERT INTO token_counts (tenant_id, set_id, type, shard, n) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (tenant_id, set_id, type, shard) DO UPDATE SET n = token_counts.n + EXCLUDED.n)
		INSERT INTO logs (tenant_id, id, created_at, actor_id, actor_type, entity_type, entity_id, operation, message)
			SELECT $1, u.* FROM unnest($19::bytea[], $20::bigint[], $21::bytea[], $22::text[], $23::text[], $24::text[],
				$25::text[], $26::text[]) AS u`

func TestScratch(t *testing.T) {
	if os.Getenv("RATIO") == "" { t.Skip() }
	url := pgtest.URL(t)
	s, err := Open(t.Context(), url)
	if err != nil { t.Fatal(err) }
	defer s.Close()
	slot := s.queue.free[0]
	slot.connect(context.Background())
	db, _ := sql.Open("postgres", url+"&binary_parameters=yes")
	defer db.Close()
	conn, _ := db.Conn(t.Context())
	stmt, err := conn.PrepareContext(t.Context(), insertSeveral)
	if err != nil { t.Fatal(err) }
	tenant := storage.ID(uuid.Must(uuid.NewV7()))
	s.Write(t.Context(), scratchSample(tenant))
	bare := func(n int) []any {
		bc := columns{{"ord", bytea}, {"id", text}, {"c", text}, {"f", bytea}, {"e", bytea}, {"h", bytea}, {"k", bigint}, {"b", bytea}, {"cb", bytea}, {"ca", bigint}, {"r", bigint}}
		var rows, hs, logs [][]any
		for range n {
			c := scratchSample(tenant); t := &c.InsertTokens[0]
			rows = append(rows, []any{t.Ord[:], t.ID, t.Containers[0], t.Fingerprint[:], t.Expression[:], joinHashes(t.Hashes), int64(1), t.Body, t.CreatedBy[:], int64(5), int64(1)})
			for _, h := range t.Hashes { hs = append(hs, []any{h[:], t.Ord[:]}) }
			logs = append(logs, logRow(&c.Logs[0]))
		}
		args := []any{tenant[:], make([]byte, 16), "token", 3, n}
		args = append(args, bc.arrays(rows)...)
		args = append(args, columns{{"h", bytea}, {"o", bytea}}.arrays(hs)...)
		return append(args, logColumns.arrays(logs)...)
	}
	for _, n := range []int{4, 16, 60} {
		var tb, to, tc time.Duration
		for range 200 {
			args := bare(n)
			st := time.Now()
			if _, err := stmt.Exec(args...); err != nil { t.Fatal(err) }
			tb += time.Since(st)
			var batch, withc []*pending
			for range n {
				batch = append(batch, &pending{change: scratchSample(tenant), class: creates})
				c := scratchSample(tenant)
				c.Claim = &storage.ClaimChange{Op: storage.ClaimTake, Claim: storage.Claim{Key: storage.Key(rb(32)), Owner: tenant, ExpiresAt: c.Now.Add(1<<45), KeyVersion: 1, Answer: rb(500)}}
				withc = append(withc, &pending{change: c, class: creates})
			}
			st = time.Now()
			if done, err := s.createTogether(slot, batch); err != nil || len(done) != 0 { t.Fatal(err) }
			to += time.Since(st)
			st = time.Now()
			if done, err := s.createTogether(slot, withc); err != nil || len(done) != 0 { t.Fatal(err) }
			tc += time.Since(st)
		}
		d := time.Duration(200 * n)
		fmt.Printf("n=%d bare %v ours %v claims %v /token; bare/ours %.2f ours/claims %.2f\n", n, tb/d, to/d, tc/d, float64(tb)/float64(to), float64(to)/float64(tc))
	}
}
