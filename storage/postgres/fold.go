package postgres

import (
	"context"
	"database/sql"
	"errors"
	"slices"

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

// The rows that transactions of the application have added to the counts and the
// sets, taken out and put where the others are. What a transaction that is not
// committed has added is not seen, and what another node is folding is passed over.
const (
	takeCounts = `DELETE FROM vault_token_counts c USING (
		SELECT tenant_id, set_id, type, shard FROM vault_token_counts WHERE shard < 0 LIMIT $1::bigint FOR UPDATE SKIP LOCKED) d
		WHERE c.tenant_id = d.tenant_id AND c.set_id = d.set_id AND c.type = d.type AND c.shard = d.shard
		RETURNING c.tenant_id, c.set_id, c.type, c.n`
	takeSets = `DELETE FROM vault_container_sets c USING (
		SELECT tenant_id, set_id, shard FROM vault_container_sets WHERE shard < 0 LIMIT $1::bigint FOR UPDATE SKIP LOCKED) d
		WHERE c.tenant_id = d.tenant_id AND c.set_id = d.set_id AND c.shard = d.shard
		RETURNING c.tenant_id, c.set_id, c.containers`
)

// fold puts the rows of their own that committed transactions of the application
// have added to where the others are.
func (s *Store) fold(ctx context.Context) error {
	for _, step := range []func(context.Context, *sql.Tx) (int, error){s.foldCounts, s.foldSets} {
		for n := foldAtOnce; n == foldAtOnce; {
			err := sqlstore.Do(ctx, s.reader, func(conn *sql.Conn) error {
				return s.transact(ctx, conn, func(tx *sql.Tx) (err error) {
					n, err = step(ctx, tx)
					return err
				})
			})
			if err != nil {
				return failed(err)
			}
		}
	}
	return nil
}

func (s *Store) foldCounts(ctx context.Context, tx *sql.Tx) (n int, err error) {
	rows, err := tx.QueryContext(ctx, s.schema.in(takeCounts), foldAtOnce)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	var sums tally
	for rows.Next() {
		var tenant, set []byte
		var c count
		if err := rows.Scan(&tenant, &set, &c.kind, &c.n); err != nil {
			return 0, err
		}
		copy(c.tenant[:], tenant)
		copy(c.set[:], set)
		sums.sum(c)
		n++
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil || n == 0 {
		return n, err
	}
	added := newRows(groupCountColumns, len(sums))
	slices.SortFunc(sums, compareCounts)
	for _, c := range sums {
		added.bytes(c.tenant[:])
		c.put(added)
	}
	_, err = tx.ExecContext(ctx, s.schema.in("INSERT INTO vault_token_counts (tenant_id, set_id, type, shard, n)"+
		" SELECT u.tenant_id, u.set_id, u.type, 0, u.n FROM "+groupCountColumns.from(0, true, "u")+addToCounts), added.values(nil)...)
	return n, err
}

func (s *Store) foldSets(ctx context.Context, tx *sql.Tx) (n int, err error) {
	rows, err := tx.QueryContext(ctx, s.schema.in(takeSets), foldAtOnce)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	kept := newRows(groupSetColumns, 1)
	for rows.Next() {
		var tenant, set []byte
		var containers string
		if err := rows.Scan(&tenant, &set, &containers); err != nil {
			return 0, err
		}
		kept.bytes(tenant)
		kept.bytes(set)
		kept.text(containers)
		n++
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil || n == 0 {
		return n, err
	}
	_, err = tx.ExecContext(ctx, s.schema.in(groupSetColumns.insert("vault_container_sets", 0, nil)+
		" ORDER BY u.tenant_id, u.set_id ON CONFLICT DO NOTHING"), kept.values(nil)...)
	return n, err
}
