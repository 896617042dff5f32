package postgres

import (
	"context"
	"database/sql"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/link"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/statements"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/wire"
)

const (
	// mergeAfter is the number of changes in transactions of the application
	// after which their counts are merged, if no sweep comes first.
	mergeAfter = 1000
	// mergeAtOnce limits the rows of one transaction that merges.
	mergeAtOnce = 5000
)

// noteApart records a change that added separate rows to the counts.
func (s *Store) noteApart() {
	if s.apart.Add(1)%mergeAfter == 0 {
		s.queue.background(func() {
			_ = s.mergeApart(storage.NoWait(context.Background())) // if this fails, the next sweep does it
		})
	}
}

// apartTables lists the tables that transactions of the application add separate
// rows to.
var apartTables = []struct {
	table string
	merge func(s *Store, ctx context.Context, tx *sql.Tx, tenant storage.ID) (int, error)
}{
	{"vault_token_counts", (*Store).mergeCounts},
	{"vault_container_sets", (*Store).mergeSets},
}

// mergeApart merges the separate rows of committed transactions of the application
// into the shared rows.
func (s *Store) mergeApart(ctx context.Context) error {
	for _, f := range apartTables {
		tenants, err := s.tenants(ctx, "SELECT DISTINCT tenant_id FROM "+f.table+" WHERE shard < 0")
		if err != nil {
			return err
		}
		for _, tenant := range tenants {
			for n := mergeAtOnce; n == mergeAtOnce; {
				err := s.inTx(ctx, tenant, func(tx *sql.Tx) (err error) {
					n, err = f.merge(s, ctx, tx, tenant)
					return err
				})
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// tenants returns the tenant ids that a query finds.
func (s *Store) tenants(ctx context.Context, query string, args ...any) (found []storage.ID, err error) {
	err = s.each(ctx, func() { found = nil }, func(rows *sql.Rows) error {
		var id []byte
		err := rows.Scan(&id)
		if err == nil {
			found = append(found, storage.ID(id))
		}
		return err
	}, query, args...)
	return found, err
}

// each runs a query and calls row for every row of its result. It calls begin before
// each attempt.
func (s *Store) each(ctx context.Context, begin func(), row func(*sql.Rows) error, query string, args ...any) error {
	return link.Failed(sqlstore.Do(ctx, s.reader, func(conn *sql.Conn) error {
		begin()
		return link.Each(ctx, conn, row, s.schema.in(query), args...)
	}))
}

// take removes rows that transactions of the application have added for a tenant, so
// that they can be added to the shared rows. It does not see rows of uncommitted
// transactions, and skips rows that another node is merging. It
// scans the columns of each row.
func (s *Store) take(ctx context.Context, tx *sql.Tx, tenant storage.ID, table, columns string, dest []any, row func()) (n int, err error) {
	text := "DELETE FROM " + table + " WHERE ctid = ANY (ARRAY(SELECT k.ctid FROM " + table + " k, " +
		sqlstore.InOrder + " WHERE k.tenant_id = $1 AND k.shard < 0 LIMIT $2::bigint FOR UPDATE OF k SKIP LOCKED)) AND " +
		s.layout.Traits().TenantIs("tenant_id", "$1") + " RETURNING " + columns
	err = link.Each(ctx, tx, func(rows *sql.Rows) error {
		n++
		err := rows.Scan(dest...)
		row()
		return err
	}, s.schema.in(text), tenant[:], mergeAtOnce)
	return n, err
}

func (s *Store) mergeCounts(ctx context.Context, tx *sql.Tx, tenant storage.ID) (n int, err error) {
	var sums statements.Counts
	var set []byte
	var c statements.Count
	n, err = s.take(ctx, tx, tenant, "vault_token_counts", "set_id, type, n", []any{&set, &c.Kind, &c.N}, func() {
		copy(c.Set[:], set)
		sums.Add(c)
	})
	if err != nil || n == 0 {
		return n, err
	}
	st := statements.NewStatement(tenant)
	text := st.InsertCounts(sums, 0)
	_, err = tx.ExecContext(ctx, s.schema.in(text), st.Args...)
	return n, err
}

func (s *Store) mergeSets(ctx context.Context, tx *sql.Tx, tenant storage.ID) (n int, err error) {
	kept := wire.NewRows(wire.SetColumns, 1)
	var set []byte
	var containers string
	n, err = s.take(ctx, tx, tenant, "vault_container_sets", "set_id, containers", []any{&set, &containers}, func() {
		kept.Bytes(set, sqlstore.NotNull)
		kept.Text(containers, sqlstore.NotNull)
	})
	if err != nil || n == 0 {
		return n, err
	}
	st := statements.NewStatement(tenant)
	text := st.Insert("vault_container_sets", kept) + " ON CONFLICT DO NOTHING"
	_, err = tx.ExecContext(ctx, s.schema.in(text), st.Args...)
	return n, err
}
