//go:build !race

package bench

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/storage"
)

// writeMany copies the rows to their tables in one transaction.
func (w *postgresBare) writeMany(c *storage.Change) error {
	tx, err := w.db.BeginTx(context.Background(), nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := copyRows(tx, "vault_tokens", bareTokenColumns, len(c.InsertTokens), func(i int) []any {
		t := &c.InsertTokens[i]
		return []any{c.Tenant[:], t.Ord[:], t.ID, t.Type, t.Set[:], strings.Join(t.Containers, ","), t.Fingerprint[:],
			t.Expression[:], joined(t.Hashes), t.KeyVersion, t.Body, t.CreatedBy[:], t.CreatedAt.UnixMicro(), t.Rev}
	}); err != nil {
		return err
	}
	if err := copyRows(tx, "vault_logs", bareLogColumns, len(c.Logs), func(i int) []any {
		l := &c.Logs[i]
		return []any{c.Tenant[:], l.ID[:], l.CreatedAt.UnixMicro(), l.ActorID[:], l.ActorType,
			l.EntityType, l.EntityID, l.Operation, l.Message}
	}); err != nil {
		return err
	}
	t := &c.InsertTokens[0]
	if _, err := tx.Exec(bareCount, c.Tenant[:], t.Set[:], t.Type, 0, len(c.InsertTokens)); err != nil {
		return err
	}
	return tx.Commit()
}

func copyRows(tx *sql.Tx, table, columns string, rows int, row func(int) []any) error {
	stmt, err := tx.Prepare("COPY " + table + " (" + columns + ") FROM STDIN")
	if err != nil {
		return err
	}
	defer stmt.Close()
	for i := range rows {
		if _, err := stmt.Exec(row(i)...); err != nil {
			return err
		}
	}
	_, err = stmt.Exec()
	return err
}

// openNaiveWriter returns a simple writer: a transaction with one INSERT per
// table on a pool, without prepared statements.
func openNaiveWriter(b *testing.B, url string) func(*storage.Change) error {
	b.Helper()
	db := openPostgres(b, url, false)
	return func(c *storage.Change) error {
		tx, err := db.BeginTx(context.Background(), nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		t, l := &c.InsertTokens[0], &c.Logs[0]
		if _, err := tx.Exec(`INSERT INTO vault_tokens (`+bareTokenColumns+`)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`,
			c.Tenant[:], t.Ord[:], t.ID, t.Type, t.Set[:], strings.Join(t.Containers, ","), t.Fingerprint[:], t.Expression[:],
			joined(t.Hashes), t.KeyVersion, t.Body, t.CreatedBy[:], t.CreatedAt.UnixMicro(), t.Rev); err != nil {
			return err
		}
		if _, err := tx.Exec(`INSERT INTO vault_token_hashes (tenant_id, hash, ord) VALUES ($1, $2, $4), ($1, $3, $4)`,
			c.Tenant[:], t.Hashes[0][:], t.Hashes[1][:], t.Ord[:]); err != nil {
			return err
		}
		if _, err := tx.Exec(`INSERT INTO vault_logs (`+bareLogColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
			c.Tenant[:], l.ID[:], l.CreatedAt.UnixMicro(), l.ActorID[:], l.ActorType,
			l.EntityType, l.EntityID, l.Operation, l.Message); err != nil {
			return err
		}
		return tx.Commit()
	}
}

func openPostgresReader(b *testing.B, url string) bareReader {
	b.Helper()
	db := openPostgres(b, url, true)
	db.SetMaxOpenConns(postgresReaders)
	db.SetMaxIdleConns(postgresReaders)
	return preparedSelect(b, db, "$1 AND id = $2")
}
