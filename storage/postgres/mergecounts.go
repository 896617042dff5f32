package postgres

import (
	"context"
	"database/sql"
	"errors"

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
	if s.apart.Add(1)%mergeAfter != 0 {
		return
	}
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	if !s.queue.closed {
		s.queue.busy.Go(func() {
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

// These statements remove rows that transactions of the application have added
// for a tenant, so that they can be added to the shared rows. They do not see
// rows of uncommitted transactions, and skip rows that another node is merging.
const (
	takeCounts = `DELETE FROM vault_token_counts WHERE ctid = ANY (ARRAY(
		SELECT k.ctid FROM vault_token_counts k, ` + sqlstore.InOrder + ` WHERE k.tenant_id = $1 AND k.shard < 0
		LIMIT $2::bigint FOR UPDATE OF k SKIP LOCKED))
		AND `
	returnCounts = " RETURNING set_id, type, n"
	takeSets     = `DELETE FROM vault_container_sets WHERE ctid = ANY (ARRAY(
		SELECT k.ctid FROM vault_container_sets k, ` + sqlstore.InOrder + ` WHERE k.tenant_id = $1 AND k.shard < 0
		LIMIT $2::bigint FOR UPDATE OF k SKIP LOCKED))
		AND `
	returnSets = " RETURNING set_id, containers"
)

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
				if n, err = s.inOwnTx(ctx, tenant, f.merge); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// tenants returns the tenant ids that a query finds.
func (s *Store) tenants(ctx context.Context, query string, args ...any) (found []storage.ID, err error) {
	err = sqlstore.Do(ctx, s.reader, func(conn *sql.Conn) error {
		found = nil
		rows, err := conn.QueryContext(ctx, s.schema.in(query), args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id []byte
			if err := rows.Scan(&id); err != nil {
				return err
			}
			found = append(found, storage.ID(id))
		}
		return rows.Err()
	})
	return found, link.Failed(err)
}

// inOwnTx runs a step of a merge in a transaction and returns how many rows it
// took.
func (s *Store) inOwnTx(ctx context.Context, tenant storage.ID,
	merge func(*Store, context.Context, *sql.Tx, storage.ID) (int, error),
) (n int, err error) {
	err = s.layout.Run(ctx, tenant, func() error {
		return link.Failed(sqlstore.Do(ctx, s.reader, func(conn *sql.Conn) error {
			return s.transact(ctx, conn, func(tx *sql.Tx) (err error) {
				n, err = merge(s, ctx, tx, tenant)
				return err
			})
		}))
	})
	return n, err
}

func (s *Store) mergeCounts(ctx context.Context, tx *sql.Tx, tenant storage.ID) (n int, err error) {
	rows, err := tx.QueryContext(ctx, s.schema.in(takeCounts+s.layout.Traits().TenantIs("tenant_id", "$1")+returnCounts), tenant[:], mergeAtOnce)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	var sums statements.Counts
	for rows.Next() {
		var set []byte
		var c statements.Count
		if err := rows.Scan(&set, &c.Kind, &c.N); err != nil {
			return 0, err
		}
		copy(c.Set[:], set)
		sums.Add(c)
		n++
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil || n == 0 {
		return n, err
	}
	st := statements.NewStatement(tenant)
	text := st.InsertCounts(sums, 0)
	_, err = tx.ExecContext(ctx, s.schema.in(text), st.Args...)
	return n, err
}

func (s *Store) mergeSets(ctx context.Context, tx *sql.Tx, tenant storage.ID) (n int, err error) {
	rows, err := tx.QueryContext(ctx, s.schema.in(takeSets+s.layout.Traits().TenantIs("tenant_id", "$1")+returnSets), tenant[:], mergeAtOnce)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	kept := wire.NewRows(wire.SetColumns, 1)
	for rows.Next() {
		var set []byte
		var containers string
		if err := rows.Scan(&set, &containers); err != nil {
			return 0, err
		}
		kept.Bytes(set)
		kept.Text(containers)
		n++
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil || n == 0 {
		return n, err
	}
	st := statements.NewStatement(tenant)
	text := st.Insert("vault_container_sets", kept) + " ON CONFLICT DO NOTHING"
	_, err = tx.ExecContext(ctx, s.schema.in(text), st.Args...)
	return n, err
}
