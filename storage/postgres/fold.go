package postgres

import (
	"context"
	"database/sql"
	"errors"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
)

const (
	// foldAfter is after how many changes in transactions of the application's
	// their counts are folded in, if no sweep has come before.
	foldAfter = 1000
	// foldAtOnce bounds the rows of one transaction that folds.
	foldAtOnce = 5000
)

// noteApart counts a change that has rows of its own in the counts.
func (s *Store) noteApart() {
	if s.apart.Add(1)%foldAfter != 0 {
		return
	}
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	if !s.queue.closed {
		s.queue.busy.Go(func() {
			_ = s.fold(storage.NoWait(context.Background())) // what fails here the next sweep does
		})
	}
}

// folded are the tables that transactions of the application add rows of their
// own to.
var folded = []struct {
	table string
	fold  func(s *Store, ctx context.Context, tx *sql.Tx, tenant storage.ID) (int, error)
}{
	{"vault_token_counts", (*Store).foldCounts},
	{"vault_container_sets", (*Store).foldSets},
}

// The rows of a tenant that transactions of the application have added to the
// counts and the sets, taken out and put where the others are. What a transaction
// that is not committed has added is not seen, and what another node is folding
// is passed over.
const (
	takeCounts = `DELETE FROM vault_token_counts WHERE ctid = ANY (ARRAY(
		SELECT ctid FROM vault_token_counts WHERE tenant_id = $1 AND shard < 0 LIMIT $2::bigint FOR UPDATE SKIP LOCKED))
		AND `
	returnCounts = " RETURNING set_id, type, n"
	takeSets     = `DELETE FROM vault_container_sets WHERE ctid = ANY (ARRAY(
		SELECT ctid FROM vault_container_sets WHERE tenant_id = $1 AND shard < 0 LIMIT $2::bigint FOR UPDATE SKIP LOCKED))
		AND `
	returnSets = " RETURNING set_id, containers"
)

// fold puts the rows of their own that committed transactions of the application
// have added to where the others are.
func (s *Store) fold(ctx context.Context) error {
	for _, f := range folded {
		tenants, err := s.tenants(ctx, "SELECT DISTINCT tenant_id FROM "+f.table+" WHERE shard < 0")
		if err != nil {
			return err
		}
		for _, tenant := range tenants {
			for n := foldAtOnce; n == foldAtOnce; {
				if n, err = s.inOwnTx(ctx, tenant, f.fold); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// tenants returns the ids that a query gives.
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
	return found, failed(err)
}

// inOwnTx runs a step of a fold in a transaction, and returns how many rows it
// took.
func (s *Store) inOwnTx(ctx context.Context, tenant storage.ID,
	fold func(*Store, context.Context, *sql.Tx, storage.ID) (int, error),
) (n int, err error) {
	err = sqlstore.Do(ctx, s.reader, func(conn *sql.Conn) error {
		return s.transact(ctx, conn, func(tx *sql.Tx) (err error) {
			n, err = fold(s, ctx, tx, tenant)
			return err
		})
	})
	return n, failed(err)
}

func (s *Store) foldCounts(ctx context.Context, tx *sql.Tx, tenant storage.ID) (n int, err error) {
	rows, err := tx.QueryContext(ctx, s.schema.in(takeCounts+s.tenantIs("$1")+returnCounts), tenant[:], foldAtOnce)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	var sums tally
	for rows.Next() {
		var set []byte
		var c count
		if err := rows.Scan(&set, &c.kind, &c.n); err != nil {
			return 0, err
		}
		copy(c.set[:], set)
		sums.sum(c)
		n++
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil || n == 0 {
		return n, err
	}
	st := newStatement(tenant)
	text := st.insertCounts(sums, 0)
	_, err = tx.ExecContext(ctx, s.schema.in(text), st.args...)
	return n, err
}

func (s *Store) foldSets(ctx context.Context, tx *sql.Tx, tenant storage.ID) (n int, err error) {
	rows, err := tx.QueryContext(ctx, s.schema.in(takeSets+s.tenantIs("$1")+returnSets), tenant[:], foldAtOnce)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	kept := newRows(setColumns, 1)
	for rows.Next() {
		var set []byte
		var containers string
		if err := rows.Scan(&set, &containers); err != nil {
			return 0, err
		}
		kept.bytes(set)
		kept.text(containers)
		n++
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil || n == 0 {
		return n, err
	}
	st := newStatement(tenant)
	text := st.insert("vault_container_sets", kept) + " ON CONFLICT DO NOTHING"
	_, err = tx.ExecContext(ctx, s.schema.in(text), st.args...)
	return n, err
}
