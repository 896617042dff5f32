package citus

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"time"

	"github.com/lib/pq/pqerror"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/link"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/statements"
)

// Cluster is the layout of tables that are distributed over the workers of a
// cluster, or may become so.
type Cluster struct {
	*Servers

	traits Traits
}

// NewCluster returns the layout of a cluster. hang is how long its coordinator may
// take to respond.
func NewCluster(hang time.Duration) *Cluster {
	// The coordinator gives up on a worker that accepts no connection before the
	// vault gives up on the coordinator. Otherwise the coordinator would keep a process
	// for each statement until the worker responds.
	connect := strconv.FormatInt(min(maxConnect, hang/2).Milliseconds(), 10)
	return &Cluster{traits: Traits{
		Composer: statements.AsSteps{},
		Settings: map[string]string{forwardSettings: "local", "citus.node_connection_timeout": connect},
		LogDelay: UsualLogDelay,
		// A write of no rows that Citus does in the way of COPY, which always
		// commits in two phases. Otherwise Citus commits on the worker first and then
		// on the coordinator, because it does not know about tables that only the
		// coordinator has. If the second commit fails, only the rows of the vault would
		// be there.
		Join: []string{"INSERT INTO vault_claims (tenant_id, key, owner, key_version)" +
			" SELECT ''::bytea, ''::bytea, ''::bytea, 0 FROM generate_series(1, 0)"},
		// A write of no rows locks the shard. A query does not. While a shard moves, a
		// query may find a row that the move leaves behind.
		Fence: []string{"DELETE FROM vault_logs WHERE ctid = '(0,0)' AND " + statements.AsSteps{}.TenantIs("tenant_id", "$1")},
		// The table of migrations is on the coordinator.
		Ping: `INSERT INTO vault_migrations SELECT -1 - (get_byte(r.bytes, 0) << 16 | get_byte(r.bytes, 1) << 8 | get_byte(r.bytes, 2)), r.bytes
			FROM (SELECT $1::bytea AS bytes) r`,
		// Several statements that are forwarded to another server take longer, and a
		// transaction for four callers takes hardly longer than one for a single caller.
		// Without the pause two statements alternate, each with some of the callers.
		Pace: Pace{Wait: 25 * time.Millisecond, Pause: 3 * time.Millisecond},
	}}
}

const (
	// maxConnect limits how long the coordinator connects to a worker.
	maxConnect = 5 * time.Second
	// forwardSettings is the setting that makes the coordinator forward settings of
	// a transaction to the workers.
	forwardSettings = "citus.propagate_set_commands"
)

// Traits implements Layout.
func (c *Cluster) Traits() *Traits { return &c.traits }

// Open implements Layout.
func (c *Cluster) Open(ctx context.Context, o *Opening) error {
	if err := FollowUp(ctx, o.DB, o.Schema, o.Mode); err != nil {
		return err
	}
	found, err := o.Shards(ctx, o.DB, o.Schema)
	if err != nil {
		return link.Clean(err)
	}
	again := func(ctx context.Context) (found *Shards, err error) {
		err = o.Do(ctx, func(conn *sql.Conn) (err error) {
			found, err = o.Shards(ctx, conn, o.Schema)
			return err
		})
		return found, err
	}
	c.Servers = NewServers(found, again, o.RetryFor, o.Reading, o.Writing)
	d := o.Dialect
	d.ForTenant, d.LookupInSteps, d.PreparedLists = c.Servers.Begin, true, false
	d.LogTenants, d.DueTenants = logTenants, dueTenants
	return nil
}

// A statement for all tenants must be simple. Each server searches the key of its
// logs, or looks through all of its waiting jobs.
const (
	logTenants = `SELECT DISTINCT l.tenant_id FROM vault_logs l WHERE l.tenant_id > ? AND l.id < ? AND l.created_at < ?
		ORDER BY l.tenant_id LIMIT ?`
	dueTenants = `SELECT DISTINCT j.tenant_id FROM vault_jobs j WHERE j.tenant_id > ? AND NOT j.dead AND j.run_at <= ?
		AND (j.lease_until IS NULL OR j.lease_until <= ?) ORDER BY j.tenant_id LIMIT ?`
)

// Begin implements Layout. The coordinator forwards a SET to the worker of the rows,
// along with everything else in the same message. So Begin sends the SET alone. The
// number of the coordinator's transaction orders log entries.
func (c *Cluster) Begin(ctx context.Context, conn *sql.Conn, pooled bool, lockTimeout time.Duration) (number int64, err error) {
	if err := conn.QueryRowContext(ctx, "BEGIN; SELECT txid_current()").Scan(&number); err != nil {
		return 0, err
	}
	if pooled { // otherwise it is set for the session
		if _, err := conn.ExecContext(ctx, "SET LOCAL "+forwardSettings+" = 'local'"); err != nil {
			return 0, err
		}
	}
	_, err = conn.ExecContext(ctx, SetLockTimeout("LOCAL ", lockTimeout))
	return number, err
}

// Explain implements Layout. A commit that failed on the coordinator may have
// happened on the server of the rows. The coordinator reports failures that it cannot
// explain as internal errors, for example when a connection to a worker ends within
// a statement.
func (c *Cluster) Explain(server int32, err error, commit bool) error {
	c.Record(server, err)
	if commit && err != nil && !link.Transient(err) || link.Code(err) == pqerror.InternalError {
		return errors.Join(link.ErrUncertain, err)
	}
	return err
}

// Enter implements Layout.
func (c *Cluster) Enter(ctx context.Context, tenant storage.ID, until time.Time) (turn Turn, ended func(), err error) {
	at := c.current(ctx)
	turn = Turn{Lane: tenant, Server: at.of(tenant), Most: shareOf(c.writing, at.servers)}
	ended, err = c.await(ctx, turn.Server, until)
	return turn, ended, err
}
