//go:build !race

package bench

import (
	"context"
	"database/sql"
	"runtime"
	"strings"
	"testing"

	_ "modernc.org/sqlite" // the driver under test

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
)

// The same settings as in storage/sqlite, with one difference: the caller that
// finds the write-ahead log long moves it to the database.
const (
	sqliteCommon = "_pragma=busy_timeout(10000)&_pragma=temp_store(2)"
	sqliteWriter = sqliteCommon + "&_pragma=cache_size(-2048)&_pragma=secure_delete(1)&_pragma=journal_mode(wal)&_pragma=synchronous(2)" +
		"&_pragma=wal_autocheckpoint(4000)&_txlock=immediate"
	sqliteReader = sqliteCommon + "&_pragma=cache_size(-16384)&_pragma=query_only(1)"

	sqliteBatch = 512
)

func openSQLite(b *testing.B, path, settings string, conns int) *sql.DB {
	b.Helper()
	db := must.Get(sql.Open("sqlite", "file:"+path+"?"+settings))(b)
	b.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db
}

// prepareOn prepares a statement and closes it before its connection.
func prepareOn(b *testing.B, conn *sql.Conn, text string) *sql.Stmt {
	b.Helper()
	stmt := must.Get(conn.PrepareContext(context.Background(), text))(b)
	b.Cleanup(func() { _ = stmt.Close() })
	return stmt
}

// sqliteConn is the writing connection with its prepared statements.
type sqliteConn struct {
	begin, commit                               *sql.Stmt
	token, hash, log, countTokens, countEntries *sql.Stmt
}

type sqliteBare struct{ grouping[*sqliteConn] }

const secondsPerDay = 24 * 60 * 60

func openSQLiteWriter(b *testing.B, path string) bareWriter {
	b.Helper()
	conn := must.Get(openSQLite(b, path, sqliteWriter, 1).Conn(context.Background()))(b)
	b.Cleanup(func() { _ = conn.Close() })
	c := &sqliteConn{
		begin:  prepareOn(b, conn, "BEGIN IMMEDIATE"),
		commit: prepareOn(b, conn, "COMMIT"),
		token: prepareOn(b, conn, `INSERT INTO vault_tokens (tenant_id, ord, id, type, set_id, containers, key_version, rev,
			created_by, created_at, fingerprint, expression, hashes, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`),
		hash: prepareOn(b, conn, `INSERT INTO vault_token_hashes (tenant_id, hash, ord) VALUES (?, ?, ?)`),
		log: prepareOn(b, conn, `INSERT INTO vault_logs (tenant_id, id, created_at, actor_id, actor_type, entity_type, entity_id,
			operation, message) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`),
		countTokens: prepareOn(b, conn, `INSERT INTO vault_token_counts (tenant_id, set_id, type, shard, n) VALUES (?, ?, ?, 0, ?)
			ON CONFLICT DO UPDATE SET n = n + excluded.n`),
		countEntries: prepareOn(b, conn, `INSERT INTO vault_log_counts (tenant_id, entity_type, day, shard, n, first_id, last_id)
			VALUES (?, ?, ?, 0, ?, x'', x'') ON CONFLICT DO UPDATE SET n = n + excluded.n`),
	}
	w := &sqliteBare{}
	w.grouping.write, w.limit, w.late, w.free = writeSQLite, sqliteBatch, true, []*sqliteConn{c}
	return w
}

func (w *sqliteBare) write(c *storage.Change) error     { return w.do(c) }
func (w *sqliteBare) writeMany(c *storage.Change) error { return w.do(c) }

// writeSQLite writes the rows of a group in one transaction. An error ends the
// benchmark, so there is no rollback.
func writeSQLite(conn *sqliteConn, group []*storage.Change, more func() []*storage.Change) error {
	if _, err := conn.begin.Exec(); err != nil {
		return err
	}
	tokens, entries := 0, 0
	first := group[0]
	for ; len(group) > 0; group = more() {
		for _, c := range group {
			if err := conn.insert(c); err != nil {
				return err
			}
			tokens += len(c.InsertTokens)
			entries += len(c.Logs)
		}
	}
	t := &first.InsertTokens[0]
	if _, err := conn.countTokens.Exec(first.Tenant[:], t.Set[:], t.Type, tokens); err != nil {
		return err
	}
	day := t.CreatedAt.Unix() / secondsPerDay
	if _, err := conn.countEntries.Exec(first.Tenant[:], t.Type, day, entries); err != nil {
		return err
	}
	return must.Err(conn.commit.Exec())
}

func (conn *sqliteConn) insert(c *storage.Change) error {
	for i := range c.InsertTokens {
		t := &c.InsertTokens[i]
		if _, err := conn.token.Exec(c.Tenant[:], t.Ord[:], t.ID, t.Type, t.Set[:], strings.Join(t.Containers, ","),
			t.KeyVersion, t.Rev, t.CreatedBy[:], t.CreatedAt.UnixMicro(), t.Fingerprint[:], t.Expression[:],
			joined(t.Hashes), t.Body); err != nil {
			return err
		}
		for j := range t.Hashes {
			if _, err := conn.hash.Exec(c.Tenant[:], t.Hashes[j][:], t.Ord[:]); err != nil {
				return err
			}
		}
	}
	for i := range c.Logs {
		l := &c.Logs[i]
		if _, err := conn.log.Exec(c.Tenant[:], l.ID[:], l.CreatedAt.UnixMicro(), l.ActorID[:], l.ActorType,
			l.EntityType, l.EntityID, l.Operation, l.Message); err != nil {
			return err
		}
	}
	return nil
}

func joined(hashes []storage.Hash) []byte {
	all := make([]byte, 0, 16*len(hashes))
	for i := range hashes {
		all = append(all, hashes[i][:]...)
	}
	return all
}

func openSQLiteReader(b *testing.B, path string) bareReader {
	b.Helper()
	return preparedSelect(b, openSQLite(b, path, sqliteReader, sqliteReaders()), "? AND id = ?")
}

func sqliteReaders() int { return min(4, 2*runtime.NumCPU()) }

// preparedSelect returns a function that selects one token.
func preparedSelect(b *testing.B, db *sql.DB, where string) bareReader {
	b.Helper()
	stmt := must.Get(db.Prepare(`SELECT ord, id, type, set_id, containers, fingerprint, expression, dedup, key_version, body,
		cvc, cvc_expires_at, expires_at, created_by, created_at, modified_by, modified_at, rev
		FROM vault_tokens WHERE tenant_id = ` + where))(b)
	b.Cleanup(func() { _ = stmt.Close() })
	return func(tenant storage.ID, id string) error {
		var text [3]string
		var blob [9][]byte
		var number [3]int64
		var optional [3]*int64
		return stmt.QueryRow(tenant[:], id).Scan(&blob[0], &text[0], &text[1], &blob[1], &text[2], &blob[2], &blob[3], &blob[4],
			&number[0], &blob[5], &blob[6], &optional[0], &optional[1], &blob[7], &number[1], &blob[8], &optional[2], &number[2])
	}
}
