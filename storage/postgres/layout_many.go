package postgres

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"time"

	"github.com/lib/pq/pqerror"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/citus"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/link"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/statements"
)

// manyServers is the layout of tables that are distributed over the workers of a
// cluster, or may become so.
type manyServers struct{ statements.AsSteps }

func (manyServers) logDelay() time.Duration { return citus.UsualLogDelay }

// settings makes the coordinator give up on a worker that accepts no connection
// before the vault gives up on the coordinator. Otherwise the coordinator would keep
// a process for each statement until the worker responds.
func (manyServers) settings(hang time.Duration) map[string]string {
	return map[string]string{
		tellOfSettings:                  "local",
		"citus.node_connection_timeout": milliseconds(min(connectTimeout, hang/2)),
	}
}

func (manyServers) migrated(ctx context.Context, db *sql.DB, schema schemaName, mode storage.MigrateMode) error {
	return citus.FollowUp(ctx, db, schema.forCitus(), mode)
}

func (manyServers) adapt(d *sqlstore.Dialect) { d.Distributed, d.PreparedLists = true, false }

// recount makes all log entries of a tenant uncounted. Each server numbers its own
// transactions and cannot know which transactions have ended on another.
func (manyServers) recount() (texts []string, counted bool) {
	return []string{
		forgetCounts,
		"UPDATE vault_logs SET xid = 0 WHERE tenant_id = $1 AND xid IS NULL",
		"UPDATE vault_log_marks SET xid = 0 WHERE tenant_id = $1",
	}, false
}

// begin begins a transaction. The coordinator forwards a SET to the worker of the
// rows, along with everything else in the same message. So begin sends the SET
// alone. begin also reads the number of the coordinator's transaction, which orders
// log entries.
func (manyServers) begin(s *writer) error {
	if err := s.conn.QueryRowContext(context.Background(), "BEGIN; SELECT txid_current()").Scan(&s.xid); err != nil {
		return err
	}
	if !s.prepare { // otherwise it is set for the session
		if err := s.control("SET LOCAL " + tellOfSettings + " = 'local'"); err != nil {
			return err
		}
	}
	return s.control(setLockTimeout("LOCAL ", s.lockTimeout))
}

// tellOfSettings is the setting that makes the coordinator forward settings of
// a transaction to the workers.
const tellOfSettings = "citus.propagate_set_commands"

// joins is an INSERT of no rows that Citus does in the way of COPY, which always
// commits in two phases. Otherwise Citus commits on the worker first and then on the
// coordinator, because it does not know about tables that only the coordinator has.
// If the second commit fails, only the rows of the vault would be there.
func (manyServers) joins() string {
	return "INSERT INTO vault_claims (tenant_id, key, owner, key_version)" +
		" SELECT ''::bytea, ''::bytea, ''::bytea, 0 FROM generate_series(1, 0)"
}

// committed marks a commit that failed here and may have happened on the server of
// the rows.
func (manyServers) committed(err error) error {
	if err != nil && !link.Transient(err) {
		return errors.Join(link.ErrUncertain, err)
	}
	return err
}

// explain marks an error that may mean that a worker is lost. The coordinator
// reports failures that it cannot explain as internal errors, for example when
// a connection to a worker ends within a statement.
func (manyServers) explain(err error) error {
	if link.Code(err) == pqerror.InternalError {
		return errors.Join(link.ErrUncertain, err)
	}
	return err
}

// setLockTimeout changes the limit of the next transactions.
func (manyServers) setLockTimeout(s *writer, d time.Duration) { s.lockTimeout = d }

// ping writes a row with an unused version to the table of migrations, which is on
// the coordinator.
func (manyServers) ping(random []byte) (text string, args []any) {
	return pingLocalText, []any{-int64(binary.BigEndian.Uint32(random)), random}
}

func (manyServers) placed(ctx context.Context, on citus.Queryer, schema schemaName) (*citus.Shards, error) {
	return citus.ReadShards(ctx, on, schema.forCitus())
}

func (manyServers) relaxes() bool                     { return false }
func (manyServers) lane(tenant storage.ID) storage.ID { return tenant }
func (manyServers) inSteps() bool                     { return true }

// guard refuses a change that has a key twice, because separate statements would not
// see each other's conflict.
func (manyServers) guard(c *storage.Change) error {
	if statements.Twice(c) != nil {
		return link.ErrGuard
	}
	return nil
}

// fence is a write of no rows, which locks the shard. A query does not. While a
// shard moves, a query may find a row that the move leaves behind.
func (l manyServers) fence() string {
	return "DELETE FROM vault_logs WHERE ctid = '(0,0)' AND " + l.TenantIs("tenant_id", "$1")
}

func (manyServers) read(ctx context.Context, s *writer, batch []*pending) error {
	return s.readRouted(ctx, batch)
}

func (manyServers) logReads(s *writer, batch []*pending) error {
	var entries []*storage.Log
	for _, p := range batch {
		for i := range p.change.Logs {
			entries = append(entries, &p.change.Logs[i])
		}
	}
	return s.enterRouted(batch[0].change.Tenant, entries)
}
