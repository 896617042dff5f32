package postgres

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
)

// workers sends creates and reads of tokens straight to the worker with the rows of
// their tenant: see [Options].DirectWorkers. A worker runs a create as one statement
// on the tables of a shard. The coordinator needs several statements, and plans each
// of them on two servers.
//
// Three rules make sure that no acknowledged write is lost:
//
//   - A statement runs under a [pledge], and goes where the shards were when the
//     pledge had its locks.
//   - A statement succeeds only if the pledge is found open afterwards. If the
//     connection of the pledge was lost, others may have moved the shard. The result
//     is then unknown, and its changes are looked up through the coordinator.
//   - A worker refuses a statement that it begins to run after a deadline. So a
//     statement that arrives at a hung worker has no effect later.
//
// A worker with a synchronous standby gets no such statements. Its commits may wait
// for the standby without limit, and their rows appear only then.
type workers struct {
	pledges pledges
	// open opens the connections to a worker, and identify asks the coordinator for
	// the worker's system identifier.
	open     func(address) (*pool, error)
	identify func(ctx context.Context, server int32, at address) (int64, error)
	note     func(server int32, result error)
	late     time.Duration // directLimit
	sent     atomic.Int64  // number of statements

	mu    sync.Mutex
	known map[address]*worker
}

type address struct {
	host string
	port uint16
}

// worker is the pool of a worker's connections, with the time before which no new
// ones are opened.
type worker struct {
	*pool
	mu         sync.Mutex
	identifier int64 // zero until the coordinator has confirmed it
	notYet     time.Time
}

// workerError is the error of a statement on a worker.
type workerError struct{ error }

func (e *workerError) Unwrap() error { return e.error }

// onWorker reports whether an error is a worker's.
func onWorker(err error) bool {
	_, ok := errors.AsType[*workerError](err)
	return ok
}

// errThroughCoordinator means that a statement was not sent to a worker, or had no
// effect there.
var errThroughCoordinator = errors.New("postgres: the coordinator has to run the statement")

// outlet is a connection to a worker. It belongs to the slot that writes for the
// worker's tenants, so each worker has at most as many as there are slots.
type outlet struct {
	slot
	worker  *worker
	session session
	clock   int64     // the worker's clock when it was compared, in microseconds
	at      time.Time // when the result of that arrived
}

// session identifies a session of a server.
type session struct {
	pid   int
	start int64 // in microseconds
}

// order holds the connection, log number and deadline of a statement on a worker.
type order struct {
	*slot
	number []byte // of log entries
	until  []byte // when the worker begins to refuse it, in microseconds
}

// run runs a statement on the worker of a tenant, over a connection that belongs to
// a slot.
func (w *workers) run(s *slot, tenant storage.ID, do func(*order) error) error {
	if w == nil {
		return errThroughCoordinator
	}
	p := w.pledges.join()
	if p == nil {
		return errThroughCoordinator
	}
	leave := p.leave
	defer func() { leave() }()
	i := p.at.index(tenant)
	out, err := w.outlet(s, p.at.server[i], p.at.address[p.at.server[i]])
	if err != nil {
		return errThroughCoordinator
	}
	number, err := w.pledges.numbers.get()
	if err != nil || number <= p.xid {
		return errThroughCoordinator
	}
	w.sent.Add(1)
	out.tables = p.at.tables[i]
	deadline := out.clock + (time.Since(out.at) + w.late).Microseconds()
	session := out.session // the outlet may be connected again
	leave = func() {       // the result was lost, or do panics
		out.reset()
		p.leaveAfter(func() bool { return out.worker.ended(session) })
	}
	err = do(&order{&out.slot, bigEndian(number), bigEndian(deadline)})
	if lost(err) {
		return &workerError{err}
	}
	leave = p.leave
	switch {
	case err == nil:
		if err := p.confirm(); err != nil {
			return &workerError{errors.Join(errUncertain, err)}
		}
		return nil
	case refused(err), transient(err):
		out.forget(err)
		return &workerError{err}
	default: // the worker cannot do what the coordinator can
		out.worker.pause(err)
		out.reset()
		return errThroughCoordinator
	}
}

func bigEndian(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

// inTime returns an expression that fails after the microsecond in a parameter, or
// if the server has a synchronous standby. The error is [errorLate].
func inTime(place string) string {
	return "ln(CASE WHEN extract(epoch FROM clock_timestamp()) * 1000000 < " + place +
		"::bigint AND current_setting('synchronous_standby_names') = '' THEN 1 ELSE 0 END)"
}

var errorLate = pqerror.InvalidArgumentForLog

// outlet returns the connection of a slot to a worker.
func (w *workers) outlet(s *slot, server int32, at address) (*outlet, error) {
	to, err := w.worker(at)
	if err != nil {
		return nil, err
	}
	out := s.outlets[server]
	if out == nil || out.worker != to {
		if out != nil {
			out.reset()
		}
		out = &outlet{worker: to, slot: slot{
			pool: to.pool, prepare: true, layout: oneServer{}, shard: s.shard, server: server, note: w.note,
		}}
		if s.outlets == nil {
			s.outlets = map[int32]*outlet{}
		}
		s.outlets[server] = out
	}
	switch {
	case out.connected():
		return out, nil
	case to.paused():
		return nil, errThroughCoordinator
	}
	if err := w.dial(out, at); err != nil {
		to.pause(err)
		out.reset()
		return nil, err
	}
	return out, nil
}

// dial opens the connection, checks that it leads to the worker, and compares the
// clocks.
func (w *workers) dial(o *outlet, at address) error {
	ctx, cancel := context.WithTimeout(context.Background(), connectTimeout)
	defer cancel()
	if err := o.connect(ctx); err != nil {
		return err
	}
	var identifier int64
	var standby string
	err := o.conn.QueryRowContext(ctx, `SELECT pid, (extract(epoch FROM backend_start) * 1000000)::bigint,
		(extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
		(SELECT system_identifier FROM pg_catalog.pg_control_system()), current_setting('synchronous_standby_names')
		FROM pg_catalog.pg_stat_activity WHERE pid = pg_catalog.pg_backend_pid()`).
		Scan(&o.session.pid, &o.session.start, &o.clock, &identifier, &standby)
	o.at = time.Now() // so the clock is too low by the latency of the result
	if err != nil {
		return err
	}
	if standby != "" {
		return errThroughCoordinator
	}
	return w.check(ctx, o, at, identifier)
}

// check compares the system identifier of a worker with the identifier that the
// coordinator sees. The address of a worker may lead elsewhere from here.
func (w *workers) check(ctx context.Context, o *outlet, at address, identifier int64) error {
	o.worker.mu.Lock()
	defer o.worker.mu.Unlock()
	if o.worker.identifier == identifier {
		return nil
	}
	known, err := w.identify(ctx, o.server, at)
	if err != nil {
		return err
	}
	if known != identifier {
		return errThroughCoordinator
	}
	o.worker.identifier = known
	return nil
}

// identifyText asks a worker for its system identifier, through the coordinator.
const identifyText = `SELECT result::bigint FROM pg_catalog.run_command_on_workers(
	'SELECT system_identifier FROM pg_catalog.pg_control_system()') WHERE success AND nodename = $1 AND nodeport = $2`

// identifyWorker implements [workers].identify.
func (s *Store) identifyWorker(ctx context.Context, server int32, at address) (id int64, err error) {
	err = sqlstore.Do(ctx, s.reader, func(conn *sql.Conn) error {
		row := conn.QueryRowContext(ctx, identifyText, at.host, int64(at.port))
		if server == 0 {
			row = conn.QueryRowContext(ctx, "SELECT system_identifier FROM pg_catalog.pg_control_system()")
		}
		return row.Scan(&id)
	})
	return id, err
}

// ended reports whether a session of the worker has ended for certain.
func (w *worker) ended(s session) bool {
	ctx, cancel := context.WithTimeout(context.Background(), endedPause)
	defer cancel()
	var running int
	err := w.QueryRowContext(ctx, `SELECT count(*) FROM pg_catalog.pg_stat_activity
		WHERE pid = $1 AND (extract(epoch FROM backend_start) * 1000000)::bigint = $2`, s.pid, s.start).Scan(&running)
	return err == nil && running == 0
}

// pause makes the coordinator run the statements for a worker for a while after an
// error.
func (w *worker) pause(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notYet = time.Now().Add(pauseAfter(err))
}

func (w *worker) paused() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Before(w.notYet)
}

// pauseAfter returns how long a node uses the coordinator after an error.
func pauseAfter(err error) time.Duration {
	if passes(err) || code(err) == errorLate {
		return pledgePause
	}
	return directPause
}

// worker returns the worker at an address.
func (w *workers) worker(at address) (*worker, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if known := w.known[at]; known != nil {
		return known, nil
	}
	opened, err := w.open(at)
	if err != nil {
		return nil, err
	}
	if w.known == nil {
		w.known = map[address]*worker{}
	}
	w.known[at] = &worker{pool: opened}
	return w.known[at], nil
}

// pools returns the pools of pledges and workers.
func (w *workers) pools() []*pool {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	all := []*pool{w.pledges.pool}
	for _, known := range w.known {
		all = append(all, known.pool)
	}
	return all
}

// connectWorkers prepares the slots for statements straight to workers.
func (s *Store) connectWorkers(config pq.Config, o *Options) error {
	config = config.Clone()
	config.Runtime["lock_timeout"] = milliseconds(lockTimeout)
	config.Runtime["idle_in_transaction_session_timeout"] = "0"
	pledging, err := newPool(config, maxPledges+1, o.HangTimeout, nil)
	if err != nil {
		return err
	}
	size, silence := len(s.queue.free), min(o.HangTimeout, directSilence)
	direct := config.Clone()
	direct.Runtime["citus.enable_manual_changes_to_shards"] = "on"
	direct.Runtime["statement_timeout"] = milliseconds(directLimit)
	// Statements insert rows, or look them up by unique key.
	direct.Runtime["plan_cache_mode"] = "force_generic_plan"
	s.workers = &workers{
		pledges:  pledges{schema: s.schema, tables: writtenDirectly, pool: pledging},
		identify: s.identifyWorker,
		note:     s.servers.note,
		late:     directLimit,
		open: func(at address) (opened *pool, err error) {
			own := direct.Clone()
			own.Host, own.Hostaddr, own.Port, own.Multi = at.host, netip.Addr{}, at.port, nil
			// One connection more looks for sessions that hang.
			opened, err = newPool(own, size+1, silence, func(since time.Time) { opened.lines.cutIdle(since) })
			return opened, err
		},
	}
	drawing := &slot{pool: pledging, layout: oneServer{}, prepare: true}
	s.workers.pledges.drawing, s.workers.pledges.numbers.ask = drawing, draw(drawing)
	for range maxPledges {
		s.workers.pledges.free = append(s.workers.pledges.free, &slot{pool: pledging, layout: oneServer{}})
	}
	for _, slot := range s.queue.free {
		slot.workers = s.workers
	}
	return nil
}

// writtenDirectly are the tables of statements straight to workers.
var writtenDirectly = []string{
	anchor, "vault_token_hashes", "vault_token_counts", "vault_container_sets", "vault_claims", "vault_logs", "vault_records",
}

// createDirectly is createTrusting on the worker of the tenant. All rows are of one
// tenant.
func (g *group) createDirectly(slot *slot, t *trusting) error {
	return slot.workers.run(slot, g.tenant, func(o *order) error {
		var args []any
		for i := range t.parts {
			args = t.parts[i].args(g, args)
			if t.parts[i].name == "logged" {
				args = append(args, o.number)
			}
		}
		return o.exec(t.direct, g.holdArgs(append(args, o.until)))
	})
}

// directText returns the statement that writes a group on a worker.
func directText(f form, parts []groupPart) string {
	n := 0
	expressions := make([]string, len(parts))
	for i := range parts {
		columns, shared := parts[i].numbered()
		expressions[i] = parts[i].name + " AS (" + columns.insert(parts[i].table, n, shared) + parts[i].conflict + ")"
		n += len(columns)
	}
	n++
	list := []string{inTime("$" + strconv.Itoa(n))}
	if f.holds {
		list = append(list, "1 / (CASE WHEN "+allHeld(n)+" THEN 1 ELSE 0 END)")
	}
	return "WITH " + strings.Join(expressions, ",\n") + "\n" + selectList(list)
}
