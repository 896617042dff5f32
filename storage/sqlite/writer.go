package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/direct"
)

const (
	// busyPause is how long the start of a transaction waits before it tries
	// again to get the write lock, which another process or a transaction of
	// the application holds. SQLite itself would try every tenth of a second.
	// It would rarely hit the moment between two transactions of a process that
	// writes all the time.
	busyPause = 300 * time.Microsecond
	// beginAttempts limits the attempts to start a transaction after other
	// errors.
	beginAttempts = 3
	// relaxedSync is how long an unsynced commit waits for its sync.
	relaxedSync = 500 * time.Millisecond
	// maxKnownSets limits the remembered container sets.
	maxKnownSets = 100_000
)

// background is the context of all statements of the writer. A canceled context
// would interrupt the transaction of a whole group.
var background = context.Background()

// writer runs groups of calls on the connection that writes. It is used by one
// goroutine at a time.
type writer struct {
	db    *sql.DB
	conn  *sql.Conn
	file  file
	on    *direct.Conn   // conn
	stmts []*direct.Stmt // by statementID; nil if not prepared yet
	tx    storage.SQLTx  // a transaction of the application to write in; nil for its own

	relaxed bool // synchronous is NORMAL
	wrote   bool // the current call has changed something
	grouped bool // log entries of several calls are inserted together
	tenant  any  // the value of tenant_id for the current change

	wait time.Duration // how long a call waits for the write lock

	// Changes of the current transaction that take effect when it commits.
	counts countChanges
	sets   []setKey
	seqs   seqs
	row    values // memory for the values of a row
	logs   values // arguments of log entries that are not inserted yet

	known known

	// knownSets are sets that are in the database. The name of a set is a hash
	// of its content, so no other process can change it. This makes CreateToken
	// 11 to 14 % faster at 8 callers, and 3 % at 32 (BenchmarkCreate).
	knownSets map[setKey]struct{}

	checkpoints *checkpointer // nil in memory
	looked      time.Time     // when the writer last looked how much space is left

	unsynced atomic.Bool // a commit waits for its sync
	timer    *time.Timer // of that sync
	syncs    sync.WaitGroup
}

type setKey struct {
	tenant storage.ID
	set    storage.Hash
}

// close releases the connection. It closes the statements first, because SQLite
// would otherwise keep the connection, its memory and its files.
func (w *writer) close() error {
	w.stopSync()
	errs := []error{w.checkpoints.stop()}
	for _, stmt := range w.stmts {
		if stmt != nil {
			errs = append(errs, stmt.Close())
		}
	}
	return errors.Join(append(errs, w.truncate(), w.conn.Close(), w.db.Close())...)
}

// run runs a group of calls and sets their errors. A panic becomes an error of
// the group, and leaves no transaction open.
func (w *writer) run(g *group) {
	defer func() {
		if p := recover(); p != nil {
			_, _ = w.exec(stmtRollback)
			w.known.forget()
			g.fail(fmt.Errorf("sqlite: panic in a transaction (%T)", p))
		}
	}()
	if first := g.calls[0]; first.outside != nil { // it is alone
		first.err = first.outside(w)
		return
	}
	if errors.Is(w.transact(g, w.applyAll), errReplay) {
		_ = w.transact(g, w.oneByOne)
	}
}

// errReplay means that a call failed after it had changed something, or that
// the database failed.
var errReplay = errors.New("sqlite: the group must be replayed")

// transact runs a group in one transaction. If that fails, nothing of the group
// is written, and every call gets the error.
func (w *writer) transact(g *group, apply func(*group) error) error {
	w.counts.all = w.counts.all[:0]
	w.sets = w.sets[:0]
	clear(w.seqs)
	w.known.checked = false
	w.logs = w.logs[:0]
	err := w.begin(g)
	if err == nil {
		if err = apply(g); err == nil {
			err = w.commit()
		}
		if err != nil {
			_, _ = w.exec(stmtRollback)
		}
	}
	w.makeRoom(err)
	if err != nil {
		w.known.forget()
		g.fail(err)
		return err
	}
	if w.checkpoints.wrote(g.rows, w.relaxed) {
		w.limitLog()
	}
	return nil
}

func (w *writer) begin(g *group) error {
	if err := w.setRelaxed(g); err != nil {
		// Durability cannot be set in a transaction that was left open.
		_, _ = w.exec(stmtRollback)
		return describe("setting the durability", err)
	}
	for attempt := 1; ; {
		_, err := w.exec(stmtBegin)
		switch {
		case err == nil:
			return nil
		case isBusy(err):
			err = unavailable(describe("starting a transaction", err))
			if g.giveUp(time.Now().Add(-w.wait), err); len(g.calls) == 0 {
				return err
			}
			<-time.After(busyPause)
		case attempt == beginAttempts:
			return describe("starting a transaction", err)
		default:
			// A failed rollback may have left a transaction open.
			_, _ = w.exec(stmtRollback)
			attempt++
		}
	}
}

// setRelaxed turns off the sync of the commit if all calls of the group allow
// it.
func (w *writer) setRelaxed(g *group) error {
	if w.file.memory {
		return nil
	}
	relaxed := true
	for _, c := range g.calls {
		relaxed = relaxed && c.relaxed()
	}
	if relaxed == w.relaxed {
		return nil
	}
	mode := stmtSyncFull
	if relaxed {
		mode = stmtSyncNormal
	}
	if _, err := w.exec(mode); err != nil {
		return err
	}
	w.relaxed = relaxed
	return nil
}

// applyAll applies the calls of a group one after the other, including calls
// that arrive in the meantime. It skips a call that is rejected before it has
// changed anything. A call that fails later spoils the transaction for all.
func (w *writer) applyAll(g *group) error {
	w.grouped = true
	defer func() { w.grouped = false }()
	for i := 0; i < len(g.calls) || g.more != nil && g.more(g); i++ {
		c := g.calls[i]
		w.wrote = false
		if c.err = w.apply(c); c.err == nil {
			continue
		}
		if !refused(c.err) || w.wrote {
			return errReplay
		}
	}
	if w.flushLogs(0) != nil {
		return errReplay
	}
	return nil
}

// refused reports whether the call itself was rejected, as opposed to an error
// of the database.
func refused(err error) bool {
	_, conflict := errors.AsType[*storage.Conflict](err)
	return conflict || errors.Is(err, storage.ErrLate)
}

// oneByOne applies the calls of a group, each in its own savepoint. This is
// slower, but a call that fails does not affect the others.
func (w *writer) oneByOne(g *group) error {
	for _, c := range g.calls {
		if _, err := w.exec(stmtSavepoint); err != nil {
			return err
		}
		counts, sets := len(w.counts.all), len(w.sets)
		if c.err = w.apply(c); c.err != nil {
			if _, err := w.exec(stmtRollbackTo); err != nil {
				return c.err
			}
			clear(w.known.holds)
			w.counts.all = w.counts.all[:counts]
			w.sets = w.sets[:sets]
		}
		if _, err := w.exec(stmtRelease); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) apply(c *call) error {
	if c.inside != nil {
		if err := w.flushLogs(0); err != nil {
			return err
		}
		clear(w.known.holds) // it may change records
		return c.inside(w)
	}
	if c.change.Late(time.Now()) {
		return storage.ErrLate
	}
	if err := w.hold(c.change); err != nil {
		return err
	}
	return w.applyChange(c.change)
}

// hold returns ErrLate if the record that a change holds has another revision.
// Remembering held revisions takes 10 µs off the CPU time of CreateToken.
func (w *writer) hold(c *storage.Change) error {
	if c.Hold == nil {
		return nil
	}
	h := held{c.Tenant, *c.Hold}
	w.known.check(w)
	if _, ok := w.known.holds[h]; ok {
		return nil
	}
	found, err := w.found(stmtHold, nil, c.Tenant[:], h.Kind, h.ID[:], h.Rev)
	switch {
	case err != nil:
		return describe("holding a record", err)
	case !found:
		return storage.ErrLate
	}
	if len(w.known.holds) > maxKnown {
		clear(w.known.holds)
	}
	w.known.holds[h] = struct{}{}
	return nil
}

func (w *writer) commit() error {
	if err := w.writeCounts(); err != nil {
		return describe("counting", err)
	}
	if _, err := w.exec(stmtCommit); err != nil {
		return describe("committing", err)
	}
	if len(w.knownSets)+len(w.sets) > maxKnownSets {
		clear(w.knownSets)
	}
	for _, set := range w.sets {
		w.knownSets[set] = struct{}{}
	}
	w.known.committed(w)
	// A relaxed commit reaches the disk soon, even if no later write syncs it.
	if w.relaxed && w.unsynced.CompareAndSwap(false, true) {
		w.syncs.Add(1)
		w.timer = time.AfterFunc(relaxedSync, w.syncLog)
	}
	return nil
}

// exec runs a statement and returns how many rows it changed.
func (w *writer) exec(id statementID, args ...any) (int64, error) {
	var result driver.Result
	var err error
	if w.tx != nil {
		result, err = w.tx.ExecContext(background, statementTexts[id], args...)
	} else {
		var stmt *direct.Stmt
		if stmt, err = w.prepared(id); err == nil {
			result, err = stmt.Exec(background, args...)
		}
	}
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	w.wrote = w.wrote || n > 0
	return n, err
}

// query runs a statement and calls row for each of its rows.
func (w *writer) query(id statementID, row func(direct.Row) error, args ...any) error {
	if w.tx != nil {
		return direct.QueryTx(background, w.tx, statementTexts[id], row, args...)
	}
	stmt, err := w.prepared(id)
	if err != nil {
		return err
	}
	return stmt.Query(background, row, args...)
}

// found reports whether a statement returns a row. It stores the columns, which
// are bytes or NULL, in dest.
func (w *writer) found(id statementID, dest []*[]byte, args ...any) (bool, error) {
	found := false
	err := w.query(id, func(row direct.Row) error {
		found = true
		for i, column := range dest {
			*column, _ = row[i].([]byte) // the driver has copied it
		}
		return nil
	}, args...)
	return found, err
}

func (w *writer) prepared(id statementID) (*direct.Stmt, error) {
	if w.stmts[id] == nil {
		stmt, err := w.on.Prepare(background, statementTexts[id])
		if err != nil {
			return nil, err
		}
		w.stmts[id] = stmt
	}
	return w.stmts[id], nil
}

// syncLog syncs the write-ahead log. It ignores errors, which mean that the log
// no longer exists or that the next commit will fail in the same way.
func (w *writer) syncLog() {
	defer w.syncs.Done()
	w.unsynced.Store(false)
	if log, err := os.OpenFile(w.file.path+"-wal", os.O_RDWR, 0); err == nil {
		_ = log.Sync()
		_ = log.Close()
	}
}

func (w *writer) stopSync() {
	if w.timer != nil && w.timer.Stop() {
		w.syncs.Done()
	}
	w.syncs.Wait()
}
