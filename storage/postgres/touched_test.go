package postgres_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/long"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres"
)

const (
	deletedAtOnce = 200
	// refusedAtOnce is the number of rows of changes whose refusal must not scan all
	// rows of the tenant once.
	refusedAtOnce = 20
	// touchedPerRow limits the blocks and the entries of tables and indexes that
	// a statement visits for each row that it writes. A plan that scans the index
	// of a tenant visits hundreds.
	touchedPerRow = 100
)

// touchedTokens is the number of tokens of the tenant. With 14,000 tokens, the
// indexes on ids and on fingerprints have one level more than the primary key. So
// reading the whole tenant by the primary key looks cheaper to a planner that
// expects one row.
var touchedTokens = long.Rounds(14_000, 200_000)

// TestBlocksTouched checks that the work of every statement that changes many
// rows does not depend on the size of the vault, whatever statistics the server
// has when it plans.
func TestBlocksTouched(t *testing.T) {
	t.Parallel()
	for _, c := range touchedCases() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			newTouched(t, pgtest.URL(t), touchedTokens, c.hashes, c.analyzed).all(t)
		})
	}
}

// touchedCase is a vault with constant or distinct metadata, and with statistics of
// some time.
type touchedCase struct {
	name     string
	hashes   string // an expression
	analyzed string
}

func touchedCases() (cases []touchedCase) {
	expressions := map[string]string{
		"constant": `sha256('a') || sha256('b')`,
		"distinct": `sha256(i::text::bytea) || sha256(('b' || i)::bytea)`,
	}
	for _, c := range []struct {
		metadata, analyzed string
		long               bool
	}{
		{"constant", "early", false},
		{"distinct", "never", false},
		{"distinct", "emptied", false},
		{"constant", "never", true},
		{"constant", "empty", true},
		{"constant", "loaded", true},
		{"constant", "emptied", true},
		{"distinct", "empty", true},
		{"distinct", "early", true},
		{"distinct", "loaded", true},
	} {
		if !c.long || long.Run {
			cases = append(cases, touchedCase{c.metadata + " metadata, analyzed " + c.analyzed, expressions[c.metadata], c.analyzed})
		}
	}
	return cases
}

// all runs all steps.
func (s *touched) all(t *testing.T) {
	t.Helper()
	for name, read := range s.firstReads() {
		t.Run("first read of "+name, func(t *testing.T) {
			s.within(t, 1, func(t *testing.T, db *postgres.Store) {
				if found, err := read(t.Context(), db); err != nil || !found {
					t.Errorf("found %t, %v", found, err)
				}
			})
		})
	}
	for _, step := range s.steps() {
		t.Run(step.name, func(t *testing.T) { s.within(t, step.rows, step.do) })
	}
}

// touchedOnCitus is TestBlocksTouched for a vault on Citus.
func touchedOnCitus(t *testing.T) {
	for _, c := range touchedCases() {
		t.Run(c.name, func(t *testing.T) {
			address := pgtest.Citus(t)
			must.Do(t, postgres.Distribute(t.Context(), address, nil))
			newTouched(t, address, touchedTokens, c.hashes, c.analyzed).all(t)
		})
	}
}

// touched is a vault whose work is counted.
type touched struct {
	address, name string
	tenant        storage.ID
	now           time.Time
	n             int
	db            *sql.DB
}

// newTouched loads n tokens, log entries, records, claims and jobs of one
// tenant.
func newTouched(t *testing.T, address string, n int, hashes, analyzed string) *touched {
	t.Helper()
	s := &touched{address: address, name: fmt.Sprintf("vault-%x", newID()), tenant: newID(), now: time.Now(), n: n}
	s.db = database(t, with(t, address, "application_name", s.name)) // until the rows are loaded
	s.db.SetMaxOpenConns(1)
	must.Get(postgres.OpenOptions(t.Context(), address, &postgres.Options{Migrate: storage.MigrateOnly}))(t)
	s.exec(t, eachTable("ALTER TABLE %I SET (autovacuum_enabled = false)"))
	analyze := func(when string) {
		if analyzed == when {
			s.exec(t, eachTable("ANALYZE %I"))
		}
	}
	analyze("empty")
	for range 20 { // tenants, so that the server expects one row of each
		const late = 1_000_000 // they expire after the others
		s.tenant = newID()
		s.load(t, late, late+1, hashes)
	}
	s.tenant = newID() // which ANALYZE has not seen
	analyze("early")
	s.load(t, 0, n, hashes)
	analyze("loaded")
	if analyzed == "emptied" { // as if the server had analyzed the table while it was empty
		s.exec(t, "BEGIN; DELETE FROM vault_token_hashes; "+eachTable("ANALYZE %I")+"; ROLLBACK")
	}
	must.Do(t, s.db.Close())
	// On Citus, this connection leaves no sessions on workers.
	s.db = database(t, with(t, address, "citus.max_cached_conns_per_worker", "0"))
	s.settle(t)
	return s
}

// eachTable returns a statement that runs another one for each table of the
// schema, and leaves other schemas alone.
func eachTable(statement string) string {
	return `DO $$ DECLARE r record; BEGIN
		FOR r IN SELECT tablename FROM pg_tables WHERE schemaname = current_schema() AND tablename !~ '_[0-9]+$' LOOP
			EXECUTE format('` + statement + `', r.tablename);
		END LOOP; END $$`
}

func (s *touched) exec(t *testing.T, text string) {
	t.Helper()
	if _, err := s.db.Exec(text); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
}

// load adds rows number first to last-1. All tokens have expired, all claims
// are over, and half of the jobs are dead. The ids of tokens are as long as UUIDs.
func (s *touched) load(t *testing.T, first, last int, hashes string) {
	t.Helper()
	r := strings.NewReplacer(
		"$tenant", fmt.Sprintf(`'\x%x'::bytea`, s.tenant[:]),
		"$id", `decode(lpad(to_hex(1700000000000 + i), 12, '0') || '70008' || lpad(to_hex(i), 15, '0'), 'hex')`,
		"$set", `decode(repeat('01', 16), 'hex')`, "$key", "sha256(('key' || i)::bytea || $tenant)", "$hashes", hashes,
		"$rows", fmt.Sprintf("generate_series(%d::bigint, %d) AS i", first, last-1))
	for _, text := range []string{
		`INSERT INTO vault_tokens (tenant_id, ord, id, type, set_id, containers, fingerprint, expression, hashes, key_version, body, created_at, expires_at, rev)
			SELECT $tenant, $id, 'token-' || lpad(i::text, 30, '0'), 'token', $set, '/', $key, $set, $hashes, 1, '\x00', (1700000000000 + i) * 1000, i, 1 FROM $rows`,
		`INSERT INTO vault_token_hashes (tenant_id, hash, ord)
			SELECT DISTINCT $tenant, substring($hashes FROM 16 * k + 1 FOR 16), $id FROM $rows, generate_series(0, 3) AS k`,
		`INSERT INTO vault_logs (tenant_id, id, created_at, actor_type, entity_type, entity_id, operation, message)
			SELECT $tenant, $id, (1700000000000 + i) * 1000, 'user', 'token', 'token ' || i, 'create', '' FROM $rows`,
		`INSERT INTO vault_records (tenant_id, kind, id, name, name_fold, key_hash, expires_at, key_version, body, created_at, rev)
			SELECT $tenant, 'session', $id, '', '', $key, i, 1, '\x00', i, 1 FROM $rows`,
		`INSERT INTO vault_lookups (hash, tenant_id, kind, id) SELECT $key, $tenant, 'session', $id FROM $rows`,
		`INSERT INTO vault_claims (tenant_id, key, owner, expires_at, key_version, answer) SELECT $tenant, $key, $set, i, 1, '\x00' FROM $rows`,
		`INSERT INTO vault_jobs (tenant_id, id, kind, run_at, attempts, dead, key_version, payload)
			SELECT $tenant, $id, 'react', i, 1, i % 2 = 0, 1, '\x00' FROM $rows`,
		`INSERT INTO vault_token_counts (tenant_id, set_id, type, shard, n) SELECT $tenant, $set, 'token', -1 - i, 1 FROM $rows`,
	} {
		s.exec(t, r.Replace(r.Replace(text))) // twice, because $key contains $tenant
	}
}

// within runs do on a separate store, and checks how many blocks its
// connections visited. The server adds them up when a session ends.
func (s *touched) within(t *testing.T, rows int, do func(*testing.T, *postgres.Store)) {
	t.Helper()
	s.atMost(t, touchedPerRow, rows, do)
}

// atMost is within, with another limit for each row.
func (s *touched) atMost(t *testing.T, perRow, rows int, do func(*testing.T, *postgres.Store)) {
	t.Helper()
	store := must.Get(postgres.OpenOptions(t.Context(), with(t, s.address, "application_name", s.name), nil))(t)
	defer store.Close()
	postgres.NoBackground(store)
	s.outlast(t)
	before := s.work(t)
	start := time.Now()
	do(t, store)
	took := time.Since(start)
	must.Do(t, store.Close())
	s.settle(t)
	got, most := s.work(t), perRow*rows+2000
	for i, what := range touchedParts {
		n := got[i] - before[i]
		t.Logf("%d of %d %s, %v", n, most, what.name, took)
		if n > most {
			t.Errorf("%d %s were visited for %d rows, want %d at most", n, what.name, rows, most)
		}
	}
}

// outlast waits until the transactions that are open now have ended, including the
// transactions of other tests. They hide new log entries, and keep dead rows in the
// indexes.
func (s *touched) outlast(t *testing.T) {
	t.Helper()
	var now, oldest int64
	must.Do(t, s.db.QueryRowContext(t.Context(), "SELECT txid_current()").Scan(&now))
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for ; oldest <= now; <-tick.C {
		must.Do(t, s.db.QueryRowContext(t.Context(), "SELECT txid_snapshot_xmin(txid_current_snapshot())").Scan(&oldest))
	}
}

// settle waits until the sessions have ended.
func (s *touched) settle(t *testing.T) {
	t.Helper()
	for number(t, s.db, "SELECT count(*) FROM pg_stat_activity, pg_sleep(0.01) WHERE application_name = $1", s.name) > 0 {
		if t.Context().Err() != nil {
			t.Fatal("sessions are still open")
		}
	}
	// Citus's own daemons, which look for deadlocks and prepared transactions, stay.
	sessions := "SELECT count(*) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND (application_name LIKE 'citus_internal%'" +
		" AND query NOT LIKE 'SELECT waiting_pid%' AND query NOT LIKE '%pg_prepared_xacts%' OR application_name = '" + s.name + "')"
	for end := time.Now().Add(time.Minute); s.onWorkers(t, sessions) > 0; {
		if time.Now().After(end) {
			t.Fatal("sessions of workers are still open")
		}
	}
}

// touchedParts are the kinds of work that the server counts.
var touchedParts = []struct{ name, count string }{
	{"blocks", "sum(heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read) FROM pg_statio_user_tables"},
	{"index entries", "sum(idx_tup_read) FROM pg_stat_user_indexes"},
	{"scanned rows", "sum(seq_tup_read) FROM pg_stat_user_tables"},
}

// work returns how much of each kind of work the servers have done.
func (s *touched) work(t *testing.T) (done []int) {
	t.Helper()
	for _, part := range touchedParts {
		text := "SELECT coalesce(" + strings.Replace(part.count, " FROM", "::bigint, 0) FROM", 1) +
			" WHERE schemaname = '" + pgtest.SchemaOf(t, s.address) + "' AND relname <> 'vault_migrations'"
		done = append(done, number(t, s.db, text)+s.onWorkers(t, text))
	}
	return done
}

// onWorkers returns the sum of the results of a query on all workers of a Citus
// cluster, or zero on any other server.
func (s *touched) onWorkers(t *testing.T, query string) int {
	t.Helper()
	if number(t, s.db, "SELECT count(*) FROM pg_extension WHERE extname = 'citus'") == 0 {
		return 0
	}
	return number(t, s.db, "SELECT sum(result::bigint) FROM run_command_on_workers($1)", query)
}

// touchedStep is one or more calls that write this many rows.
type touchedStep struct {
	name string
	rows int
	do   func(*testing.T, *postgres.Store)
}

func (s *touched) steps() []touchedStep {
	return []touchedStep{
		{"sweep expired tokens", 3 * deletedAtOnce, s.sweepTokens},
		{"leave expired rows", 2 * 3 * deletedAtOnce, s.leaveExpired},
		{"delete tokens one by one", 20, s.deleteTokens},
		{"read tokens", 3 * deletedAtOnce, s.readTokens},
		{"read tokens at once", deletedAtOnce, func(t *testing.T, db *postgres.Store) { s.last(t, db) }},
		{"rotate tokens", deletedAtOnce, func(t *testing.T, db *postgres.Store) { s.write(t, db, s.update(t, db, true)) }},
		{"replace metadata", deletedAtOnce, func(t *testing.T, db *postgres.Store) { s.write(t, db, s.update(t, db, false)) }},
		{"sweep in a transaction", deletedAtOnce, func(t *testing.T, db *postgres.Store) {
			s.writeInTx(t, db, s.deletion(s.expired(t, db).Tokens))
		}},
		{"rotate in a transaction", deletedAtOnce, func(t *testing.T, db *postgres.Store) { s.writeInTx(t, db, s.update(t, db, true)) }},
		{"replace metadata in a transaction", deletedAtOnce, func(t *testing.T, db *postgres.Store) {
			s.writeInTx(t, db, s.update(t, db, false))
		}},
		{"delete a token in a transaction", 1, func(t *testing.T, db *postgres.Store) {
			s.writeInTx(t, db, s.deletion(s.expired(t, db).Tokens[:1]))
		}},
		{"read records of any kind", 20, s.readRecords},
		{"rotate records", deletedAtOnce, s.updateRecords},
		{"delete records", deletedAtOnce, s.deleteRecords},
		{"reseal claims and jobs", 2 * deletedAtOnce, s.reseal},
		{"lease, put off and finish jobs", 3 * deletedAtOnce, s.jobs},
		{"sweep claims, jobs and counts", 4*deletedAtOnce + s.n, s.sweepStore},
		{"read log entries by id", deletedAtOnce, s.readLogs},
		{"look for a change", 1, s.lookForChange},
		{"delete log entries", 3 * deletedAtOnce, s.deleteLogs},
		{"import", deletedAtOnce, s.insert},
		{"import a token that exists", deletedAtOnce, s.insertTaken},
		{"delete tokens that have changed", deletedAtOnce, s.deleteStale},
		{"insert a record whose key exists", refusedAtOnce, s.insertTakenKey},
		{"update records that have changed", refusedAtOnce, s.updateStaleRecords},
		{"delete records that have changed", refusedAtOnce, s.deleteStaleRecords},
		{"finish jobs that another node has leased", refusedAtOnce, s.finishLostJobs},
		{"purge", 8 * deletedAtOnce, s.purge},
	}
}

// readToken reads a token as it was before it expired.
func (s *touched) readToken(t *testing.T, db *postgres.Store, token *storage.Token) {
	t.Helper()
	must.Get(db.ReadToken(t.Context(), s.reading(token.ID)))(t)
}

func (s *touched) reading(id string) storage.Reading {
	return storage.Reading{Tenant: s.tenant, ID: id, Entry: storage.Log{ID: newID(), CreatedAt: time.UnixMicro(-1)}}
}

func (s *touched) expired(t *testing.T, db *postgres.Store) storage.Expired {
	t.Helper()
	due, err := db.Expired(t.Context(), storage.ExpiredFilter{Now: s.now, Limit: deletedAtOnce})
	if err != nil || len(due.Tokens) != deletedAtOnce || len(due.Records) != deletedAtOnce {
		t.Fatalf("%d tokens and %d records, %v", len(due.Tokens), len(due.Records), err)
	}
	return due
}

// change returns an empty change with one log entry.
func (s *touched) change() *storage.Change {
	return &storage.Change{Tenant: s.tenant, Now: s.now, Logs: []storage.Log{{ID: newID(), CreatedAt: s.now}}}
}

func (s *touched) write(t *testing.T, db *postgres.Store, c *storage.Change) {
	t.Helper()
	must.Do(t, db.Write(t.Context(), c))
}

func (s *touched) deletion(tokens []storage.Token) *storage.Change {
	c := s.change()
	for _, token := range tokens {
		c.DeleteTokens = append(c.DeleteTokens, storage.TokenDelete{Ord: token.Ord, Rev: token.Rev, Set: token.Set, Type: token.Type})
	}
	return c
}

func (s *touched) sweepTokens(t *testing.T, db *postgres.Store) {
	for range 3 {
		s.write(t, db, s.deletion(s.expired(t, db).Tokens))
	}
}

// leaveExpired reads pages of expired rows that a sweep cannot open.
func (s *touched) leaveExpired(t *testing.T, db *postgres.Store) {
	ordered := storage.ExpiryPlace{Ordered: true}
	f := storage.ExpiredFilter{Now: s.now, Limit: deletedAtOnce, Tokens: ordered, CVCs: ordered, Records: ordered}
	for range 3 {
		due, err := db.Expired(t.Context(), f)
		if err != nil || len(due.Tokens) != deletedAtOnce || len(due.Records) != deletedAtOnce {
			t.Fatalf("%d tokens and %d records, %v", len(due.Tokens), len(due.Records), err)
		}
		for i := range deletedAtOnce {
			f.Tokens.Pass(due.Tokens[i].ExpiresAt, true)
			f.Records.Pass(due.Records[i].ExpiresAt, true)
		}
	}
}

func (s *touched) deleteTokens(t *testing.T, db *postgres.Store) {
	for _, token := range s.expired(t, db).Tokens[:20] {
		s.write(t, db, s.deletion([]storage.Token{token}))
	}
}

// readTokens reads tokens by id and by their other keys. It does so more often
// than the server plans a statement with its parameters.
func (s *touched) readTokens(t *testing.T, db *postgres.Store) {
	found := s.last(t, db)
	for i := range deletedAtOnce {
		token := &found[i]
		s.readToken(t, db, token)
		if got, err := db.Tokens(t.Context(), s.tenant, []string{token.ID}); err != nil || len(got) != 1 {
			t.Fatalf("%d tokens, %v", len(got), err)
		}
		d := storage.Duplicate{Fingerprint: token.Fingerprint, Expression: token.Expression}
		if got, err := db.Duplicate(t.Context(), s.tenant, d); err != nil || got == nil {
			t.Fatalf("duplicate %v, %v", got, err)
		}
	}
}

// firstReads read a row, or a page of one row, with each prepared statement. The
// server plans the first executions of a connection with their parameters, for a
// tenant that it may not know.
func (s *touched) firstReads() map[string]func(context.Context, *postgres.Store) (found bool, err error) {
	n := s.n / 2
	id, key := fmt.Sprintf("token-%030d", n), storage.Key(sha256.Sum256(append(fmt.Appendf(nil, "key%d", n), s.tenant[:]...)))
	return map[string]func(context.Context, *postgres.Store) (bool, error){
		"a token": func(ctx context.Context, db *postgres.Store) (bool, error) {
			got, err := db.Tokens(ctx, s.tenant, []string{id})
			return len(got) == 1, err
		},
		"a token, logged": func(ctx context.Context, db *postgres.Store) (bool, error) {
			got, err := db.ReadToken(ctx, s.reading(id))
			return got.ID == id, err
		},
		"a duplicate": func(ctx context.Context, db *postgres.Store) (bool, error) {
			d := storage.Duplicate{Fingerprint: key, Expression: storage.Hash(bytes.Repeat([]byte{1}, len(storage.Hash{})))}
			got, err := db.Duplicate(ctx, s.tenant, d)
			return got != nil, err
		},
		"a key": func(ctx context.Context, db *postgres.Store) (bool, error) {
			got, err := db.Lookup(ctx, key)
			return got.Key == key, err
		},
		"a claim": func(ctx context.Context, db *postgres.Store) (bool, error) {
			got, err := db.Claim(ctx, s.tenant, key)
			return got.Answer != nil, err
		},
		"a page of tokens": func(ctx context.Context, db *postgres.Store) (bool, error) {
			page, _, err := db.ListTokens(ctx, storage.TokenFilter{Tenant: s.tenant, Limit: 1, Now: time.UnixMicro(-1)})
			return len(page) == 1, err
		},
		"a page of the log": func(ctx context.Context, db *postgres.Store) (bool, error) {
			page, _, err := db.ListLogs(ctx, storage.LogFilter{Tenant: s.tenant, Limit: 1, CountUpTo: 1})
			return len(page) == 1, err
		},
		"the log from a time": func(ctx context.Context, db *postgres.Store) (bool, error) {
			f := storage.LogFollowing{Tenant: s.tenant, From: time.UnixMilli(1_700_000_000_000), Limit: 1}
			page, _, err := db.FollowLogs(ctx, f)
			return len(page) == 1, err
		},
		"the log as it grows": func(ctx context.Context, db *postgres.Store) (bool, error) {
			f := storage.LogFollowing{Tenant: s.tenant, Limit: 1}
			_, place, err := db.FollowLogs(ctx, f)
			if err != nil {
				return false, err
			}
			f.After = place
			page, _, err := db.FollowLogs(ctx, f)
			return len(page) == 0, err
		},
	}
}

// last reads the last tokens at once.
func (s *touched) last(t *testing.T, db *postgres.Store) []storage.Token {
	t.Helper()
	ids := make([]string, deletedAtOnce)
	for i := range ids {
		ids[i] = fmt.Sprintf("token-%030d", s.n-1-i)
	}
	found, err := db.Tokens(t.Context(), s.tenant, ids)
	if err != nil || len(found) != len(ids) {
		t.Fatalf("%d tokens, %v", len(found), err)
	}
	return found
}

// update returns a change of tokens that keeps their metadata or replaces it.
func (s *touched) update(t *testing.T, db *postgres.Store, keep bool) *storage.Change {
	t.Helper()
	c := s.change()
	for _, token := range s.expired(t, db).Tokens {
		if token.KeyVersion++; !keep {
			token.Hashes = []storage.Hash{{1}, storage.Hash(token.Ord)}
		}
		c.UpdateTokens = append(c.UpdateTokens, storage.TokenUpdate{Rev: token.Rev, OldSet: token.Set, Token: token, KeepHashes: keep})
	}
	return c
}

// writeInTx reads a token and writes a change in a transaction of the application.
func (s *touched) writeInTx(t *testing.T, db *postgres.Store, c *storage.Change) {
	t.Helper()
	own := must.Get(sql.Open("postgres", with(t, with(t, s.address, "application_name", s.name), "enable_seqscan", "off")))(t)
	defer own.Close()
	tx := must.Get(own.Begin())(t)
	defer func() { _ = tx.Rollback() }()
	in := must.Get(db.InTx(t.Context(), tx))(t)
	id := fmt.Sprintf("token-%030d", s.n-1)
	if found, err := in.Tokens(t.Context(), s.tenant, []string{id}); err != nil || len(found) != 1 {
		t.Fatalf("%d tokens, %v", len(found), err)
	}
	must.Do(t, in.Write(t.Context(), c))
	must.Do(t, tx.Commit())
}

func (s *touched) readRecords(t *testing.T, db *postgres.Store) {
	f := storage.RecordFilter{Tenant: s.tenant, Before: storage.ID{0xff}, Limit: 20}
	if found, _, err := db.ListRecords(t.Context(), f); err != nil || len(found) != f.Limit {
		t.Fatalf("%d records, %v", len(found), err)
	}
}

func (s *touched) updateRecords(t *testing.T, db *postgres.Store) {
	c := s.change()
	for i, r := range s.expired(t, db).Records {
		if i%2 == 0 {
			r.Key = storage.Key{byte(i), 1}
		}
		c.UpdateRecords = append(c.UpdateRecords, storage.RecordUpdate{Rev: r.Rev, Record: r})
	}
	s.write(t, db, c)
}

func (s *touched) deleteRecords(t *testing.T, db *postgres.Store) {
	c := s.change()
	for _, r := range s.expired(t, db).Records {
		c.DeleteRecords = append(c.DeleteRecords, storage.RecordDelete{Kind: r.Kind, ID: r.ID, Rev: r.Rev})
	}
	s.write(t, db, c)
}

func (s *touched) reseal(t *testing.T, db *postgres.Store) {
	c := s.change()
	for _, kind := range []storage.SealedKind{storage.SealedClaims, storage.SealedJobs} {
		sealed, err := db.SealedRows(t.Context(), storage.SealedFilter{Tenant: s.tenant, Kind: kind, Limit: deletedAtOnce})
		if err != nil || len(sealed) != deletedAtOnce {
			t.Fatalf("%d rows, %v", len(sealed), err)
		}
		for _, one := range sealed {
			one.KeyVersion = 2
			c.Reseal = append(c.Reseal, one)
		}
	}
	s.write(t, db, c)
}

func (s *touched) jobs(t *testing.T, db *postgres.Store) {
	owner := newID()
	jobs, err := db.LeaseJobs(t.Context(), storage.Lease{Tenant: s.tenant, Owner: owner, Now: s.now, Until: s.now.Add(time.Minute), Limit: deletedAtOnce})
	if err != nil || len(jobs) != deletedAtOnce {
		t.Fatalf("%d jobs, %v", len(jobs), err)
	}
	later, done := s.change(), s.change()
	for _, job := range jobs {
		later.UpdateJobs = append(later.UpdateJobs, storage.JobUpdate{Owner: owner, Job: job, Until: job.LeaseUntil})
		done.DeleteJobs = append(done.DeleteJobs, storage.JobDelete{Owner: owner, ID: job.ID})
	}
	s.write(t, db, later)
	s.write(t, db, done)
}

func (s *touched) sweepStore(t *testing.T, db *postgres.Store) {
	for range 2 {
		if more, err := db.Sweep(t.Context(), s.now, deletedAtOnce); err != nil || !more {
			t.Fatalf("more %t, %v", more, err)
		}
	}
}

// readLogs reads log entries by id.
func (s *touched) readLogs(t *testing.T, db *postgres.Store) {
	var refs []storage.LogRef
	for i := s.n - deletedAtOnce; i < s.n; i++ {
		id := must.Get(hex.DecodeString(fmt.Sprintf("%012x70008%015x", 1_700_000_000_000+i, i)))(t)
		refs = append(refs, storage.LogRef{ID: storage.ID(id), Seq: storage.AnySeq})
	}
	if found, err := db.LogsByRef(t.Context(), s.tenant, refs); err != nil || len(found) != deletedAtOnce {
		t.Fatalf("%d entries by id, %v", len(found), err)
	}
}

// lookForChange looks for a change whose result was lost.
func (s *touched) lookForChange(t *testing.T, db *postgres.Store) {
	if found, err := postgres.Applied(db, s.change()); err != nil || found {
		t.Fatalf("found %t, %v", found, err)
	}
}

func (s *touched) deleteLogs(t *testing.T, db *postgres.Store) {
	for range 3 {
		if n, err := db.DeleteLogs(t.Context(), s.tenant, s.now.Add(-time.Hour), deletedAtOnce); err != nil || n != deletedAtOnce {
			t.Fatalf("%d entries, %v", n, err)
		}
	}
}

func (s *touched) insert(t *testing.T, db *postgres.Store) {
	s.write(t, db, sample(s.tenant, deletedAtOnce))
}

func (s *touched) insertTaken(t *testing.T, db *postgres.Store) {
	c := sample(s.tenant, deletedAtOnce)
	c.InsertTokens[deletedAtOnce-1].ID = s.expired(t, db).Tokens[0].ID
	s.refused(t, db, c, deletedAtOnce, storage.TokenIDTaken)
}

func (s *touched) deleteStale(t *testing.T, db *postgres.Store) {
	c := s.deletion(s.expired(t, db).Tokens)
	c.DeleteTokens[deletedAtOnce-1].Rev++
	s.refused(t, db, c, deletedAtOnce, storage.TokenStale)
}

func (s *touched) insertTakenKey(t *testing.T, db *postgres.Store) {
	c := s.change()
	for range refusedAtOnce {
		c.InsertRecords = append(c.InsertRecords, storage.Record{Kind: "session", ID: newID(), Body: []byte("b"), CreatedAt: c.Now, Rev: 1})
	}
	c.InsertRecords[refusedAtOnce-1].Key = s.expired(t, db).Records[0].Key
	s.refused(t, db, c, refusedAtOnce, storage.KeyTaken)
}

func (s *touched) updateStaleRecords(t *testing.T, db *postgres.Store) {
	c := s.change()
	for _, r := range s.expired(t, db).Records[:refusedAtOnce] {
		c.UpdateRecords = append(c.UpdateRecords, storage.RecordUpdate{Rev: r.Rev, Record: r})
	}
	c.UpdateRecords[refusedAtOnce-1].Rev++
	s.refused(t, db, c, refusedAtOnce, storage.RecordStale)
}

func (s *touched) deleteStaleRecords(t *testing.T, db *postgres.Store) {
	c := s.change()
	for _, r := range s.expired(t, db).Records[:refusedAtOnce] {
		c.DeleteRecords = append(c.DeleteRecords, storage.RecordDelete{Kind: r.Kind, ID: r.ID, Rev: r.Rev})
	}
	c.DeleteRecords[refusedAtOnce-1].Rev++
	s.refused(t, db, c, refusedAtOnce, storage.RecordStale)
}

func (s *touched) finishLostJobs(t *testing.T, db *postgres.Store) {
	owner := newID()
	jobs, err := db.LeaseJobs(t.Context(), storage.Lease{Tenant: s.tenant, Owner: owner, Now: s.now, Until: s.now.Add(time.Minute), Limit: refusedAtOnce})
	if err != nil || len(jobs) != refusedAtOnce {
		t.Fatalf("%d jobs, %v", len(jobs), err)
	}
	c := s.change()
	for _, job := range jobs {
		c.DeleteJobs = append(c.DeleteJobs, storage.JobDelete{Owner: owner, ID: job.ID})
	}
	c.DeleteJobs[refusedAtOnce-1].Owner = newID()
	s.refused(t, db, c, refusedAtOnce, storage.JobStale)
}

// refused writes a change of some rows that is refused because of the last one.
func (s *touched) refused(t *testing.T, db *postgres.Store, c *storage.Change, rows int, kind storage.ConflictKind) {
	t.Helper()
	var got *storage.Conflict
	if err := db.Write(t.Context(), c); !errors.As(err, &got) {
		t.Fatalf("got %v, want a conflict", err)
	}
	must.Same(t, "the conflict", &storage.Conflict{Kind: kind, Index: rows - 1}, got)
}

func (s *touched) purge(t *testing.T, db *postgres.Store) {
	for range 8 {
		if more, err := db.Purge(t.Context(), s.tenant, deletedAtOnce); err != nil || !more {
			t.Fatalf("more %t, %v", more, err)
		}
	}
}

// TestPurgeVisitsDeletedRowsOnce deletes a whole tenant in steps. A step must not
// visit the rows that earlier steps have deleted.
func TestPurgeVisitsDeletedRowsOnce(t *testing.T) {
	t.Parallel()
	c := touchedCases()[0]
	s := newTouched(t, pgtest.URL(t), 14_000, c.hashes, c.analyzed)
	rows := 0
	for _, table := range []string{"tokens", "token_hashes", "logs", "records", "claims", "jobs", "lookups"} {
		rows += number(t, s.db, "SELECT count(*) FROM vault_"+table)
	}
	s.atMost(t, 8, rows, func(t *testing.T, db *postgres.Store) {
		for more := true; more; {
			more = must.Get(db.Purge(t.Context(), s.tenant, deletedAtOnce))(t)
		}
	})
	for _, table := range []string{"tokens", "token_hashes", "logs", "records"} {
		if left := number(t, s.db, "SELECT count(*) FROM vault_"+table+" WHERE tenant_id = $1", s.tenant[:]); left != 0 {
			t.Errorf("%d %s are left", left, table)
		}
	}
}
