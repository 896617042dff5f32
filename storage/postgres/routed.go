package postgres

import (
	"bytes"
	"context"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"slices"
	"strings"

	"github.com/lib/pq/pqerror"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
)

// Where tables are distributed, a statement is worth its while if the server can
// send it as it is to the place of its tenant. One that writes to several tables
// by common table expressions cannot be: each of them becomes a plan of its own,
// with its rows on files in between, which made creates 7 to 12 times slower than
// on one server. So a change is several statements there, in a transaction: one
// for each table that rows are added to, and one for all that is updated or
// deleted.

// step is a statement that is part of a change.
type step struct {
	text    string
	args    []any
	prepare bool
	want    int // how many rows it has to write; anyRows when that does not matter

	// row is called for each row that the statement returns, if it is set.
	row func([]driver.Value) error
	// later makes the statement, if it is set, once those before it have run.
	// The statement has no text when there is nothing to do.
	later func() step
}

const anyRows = -1

// errGuard means that a step has written other rows than it had to.
var errGuard = errors.New("postgres: a guard of the change does not hold")

// runner is a connection that steps run on, in a transaction.
type runner interface {
	asker
	// run runs a statement whose rows do not matter, and returns how many it has
	// written.
	run(ctx context.Context, text string, args []any, prepare bool) (int64, error)
	// number is that of the transaction, as a parameter.
	number(ctx context.Context) (any, error)
}

// txNumber stands for the number of the transaction among the parameters of a
// step. The default of the column is a function, which the server could not send
// on together with the rows.
type txNumber struct{}

var numberColumn = columns{{"xid", bigint}}

// numbered reports whether the number of the transaction is a parameter.
func (p *step) numbered() bool { return slices.ContainsFunc(p.args, isTxNumber) }

func isTxNumber(v any) bool {
	_, ok := v.(txNumber)
	return ok
}

// do runs the step.
func (p step) do(ctx context.Context, on runner) error {
	if p.later != nil {
		p = p.later()
	}
	if p.numbered() {
		n, err := on.number(ctx)
		if err != nil {
			return err
		}
		p.args = slices.Clone(p.args)
		p.args[slices.IndexFunc(p.args, isTxNumber)] = n
	}
	switch {
	case p.text == "":
		return nil
	case p.row != nil:
		return on.query(ctx, p.text, p.args, p.prepare, p.row)
	}
	n, err := on.run(ctx, p.text, p.args, p.prepare)
	if err == nil && p.want != anyRows && n != int64(p.want) {
		return errGuard
	}
	return err
}

// inSteps runs steps in a transaction. A single one is its own, unless it has to
// know the transaction's number.
func (s *slot) inSteps(steps []step) error {
	ctx := context.Background()
	switch {
	case len(steps) == 0:
		return nil
	case len(steps) == 1 && !steps[0].numbered():
		return steps[0].do(ctx, s)
	}
	return s.transact(func() error {
		for _, p := range steps {
			if err := p.do(ctx, s); err != nil {
				return err
			}
		}
		return nil
	})
}

// begin begins a transaction. Where tables are distributed, the coordinator passes
// a SET on to the worker that has the rows, together with everything else in the
// same message, so the SET is sent alone. Then begin reads the number of the
// coordinator's transaction, by which log entries are ordered.
func (s *slot) begin() error {
	switch {
	case s.routed:
	case s.prepare:
		return s.control("BEGIN")
	default:
		return s.control("BEGIN; " + setLockTimeout("LOCAL ", lockTimeout))
	}
	if err := s.conn.QueryRowContext(context.Background(), "BEGIN; SELECT txid_current()").Scan(&s.xid); err != nil {
		return err
	}
	if !s.prepare { // else it is set for the session
		if err := s.control("SET LOCAL " + tellOfSettings + " = 'local'"); err != nil {
			return err
		}
	}
	return s.control(setLockTimeout("LOCAL ", s.lockTimeout))
}

// tellOfSettings is the setting that has the server tell others of what is set for
// a transaction.
const tellOfSettings = "citus.propagate_set_commands"

// number implements runner.
func (s *slot) number(context.Context) (any, error) {
	return binary.BigEndian.AppendUint64(nil, uint64(s.xid)), nil
}

// commit ends a transaction. Where its rows are on another server than this one,
// a commit that fails may have been done there.
func (s *slot) commit() error {
	err := s.control("COMMIT")
	if err != nil && s.routed && !transient(err) {
		return errors.Join(errUncertain, err)
	}
	return err
}

// errUncertain means that a transaction may or may not have been committed.
var errUncertain = errors.New("postgres: the commit failed; the change may or may not have been applied")

// uncertain marks an error that may mean that a worker is gone. What the server
// cannot explain, as when a connection to a worker ends within a statement, is an
// internal error to it.
func uncertain(err error, routed bool) error {
	if routed && code(err) == pqerror.InternalError {
		return errors.Join(errUncertain, err)
	}
	return err
}

// write adds a part that names no other part, and whose rows, if want is not
// anyRows, have to be that many. Where tables are distributed, it is a statement.
func (s *statement) write(name string, want int, body func(*statement) string) {
	switch {
	case s.routed && len(s.parts) > 0:
		s.after = append(s.after, s.step(want, body))
		return
	case s.routed:
		s.steps = append(s.steps, s.step(want, body))
		return
	}
	text := body(s)
	if want != anyRows {
		text += " RETURNING 1"
	}
	s.with(name, text)
	if want != anyRows {
		s.expect(name, want)
	}
}

// step returns a part as a statement.
func (s *statement) step(want int, body func(*statement) string) step {
	alone := newStatement(s.tenant)
	alone.portable = s.portable
	text := body(alone)
	return step{text: text, args: alone.args, prepare: true, want: want}
}

// later adds a statement that needs what was found, and so is made once that is.
func (s *statement) later(make func() step) { s.after = append(s.after, step{later: make}) }

// insert is an INSERT of rows into a table, under the tenant.
func (s *statement) insert(table string, r *rows) string {
	text := "INSERT INTO " + table + " (tenant_id, " + r.columns.names("") + ") VALUES ($1::bytea, "
	if r.many() {
		text += r.columns.unnested(len(s.args))
	} else {
		text += r.columns.places(len(s.args), "")
	}
	s.values(r)
	return text + ")"
}

// found is what the parts that name each other have found: what happened to the
// numbers of tokens, and keys that records had.
type found struct {
	counts tally
	keys   []foundKey
}

type foundKey struct {
	key  storage.Key
	kind string // of the record
	id   storage.ID
}

// row takes a row of what was found: a number of tokens by set and type, or,
// without a number, a key.
func (f *found) row(row []driver.Value) error {
	name, _ := row[1].([]byte)
	n, counted := row[3].(int64)
	switch {
	case counted:
		c := count{kind: textOf(row[2]), n: n}
		copy(c.set[:], name)
		f.counts.sum(c)
	case name != nil:
		k := foundKey{kind: textOf(row[2])}
		id, _ := row[4].([]byte)
		copy(k.key[:], name)
		copy(k.id[:], id)
		f.keys = append(f.keys, k)
	}
	return nil
}

// foundText selects what is found, and the guards whether anything is or not.
func (s *statement) foundText(guards []string) string {
	guard := strings.Join(append(guards, "1")[:1], "")
	results := append(s.results, "SELECT NULL::bytea, NULL::text, NULL::bigint, NULL::bytea WHERE false")
	return "SELECT g.ok, f.name, f.kind, f.n, f.id FROM (SELECT " + guard + " AS ok) g LEFT JOIN (" +
		strings.Join(results, " UNION ALL ") + ") AS f(name, kind, n, id) ON true"
}

// textOf is the text in a column, whatever the driver makes of it.
func textOf(column driver.Value) string {
	if raw, ok := column.([]byte); ok {
		return string(raw)
	}
	text, _ := column.(string)
	return text
}

// all returns the statements of a change: a single one, or, where tables are
// distributed, those that add rows, one that updates and deletes, and those that
// need what that has found.
func (s *statement) all() []step {
	if len(s.parts) == 0 {
		return s.steps
	}
	main := step{text: s.text(), args: s.args, prepare: !s.joins, want: anyRows}
	if s.routed {
		main.row = s.found.row
	}
	return append(append(s.steps[:len(s.steps):len(s.steps)], main), s.after...)
}

var routedReadText = "SELECT " + readColumns + " FROM vault_tokens t WHERE t.tenant_id = $1::bytea AND t.id = ANY($2::text[])"

// readRouted reads the tokens of a batch, which are of one tenant, and then enters
// that in the log.
func (s *slot) readRouted(ctx context.Context, batch []*pending) error {
	ids := newArray(oidText, len(batch))
	for _, p := range batch {
		ids.text(p.reading.ID)
	}
	tenant := batch[0].reading.Tenant
	err := s.query(ctx, routedReadText, []any{tenant[:], ids.value()}, true, func(row []driver.Value) error {
		t := storage.Token{Tenant: tenant}
		if err := sqlstore.ScanToken(row, &t); err != nil {
			return err
		}
		for _, p := range batch {
			p.reading.take(&t)
		}
		return nil
	})
	if err != nil {
		return err
	}
	var entries []*storage.Log
	for _, p := range batch {
		if r := p.reading; r.token.Body != nil {
			r.Entry.EntityType, r.Entry.EntityID = r.token.Type, r.token.ID
			entries = append(entries, &r.Entry)
		}
	}
	if len(entries) == 0 {
		return nil
	}
	return s.enterRouted(tenant, entries)
}

// maxListedLogs bounds the entries that a statement lists, and so the number of
// its texts.
const maxListedLogs = 32

// enterRouted enters reads of a tenant in the log. A few are listed in one
// statement, which is a transaction of its own: the server then finds its number
// by itself, for each of them.
func (s *slot) enterRouted(tenant storage.ID, entries []*storage.Log) error {
	if len(entries) > maxListedLogs {
		st := s.start(tenant)
		logs := make([]storage.Log, len(entries))
		for i := range entries {
			logs[i] = *entries[i]
		}
		st.insertLogs(logs)
		return s.inSteps(st.all())
	}
	args := []any{tenant[:]}
	for _, e := range entries {
		row := newRow(logColumns)
		putLog(row, e)
		args = row.values(args)
	}
	return s.exec(listedLogs(len(entries)), args, true)
}

// listedLogs is the statement that enters n rows.
func listedLogs(n int) string {
	rows := make([]string, n)
	for i := range rows {
		rows[i] = "($1::bytea, " + logColumns.places(1+i*len(logColumns), "") + ")"
	}
	return "INSERT INTO vault_logs (tenant_id, " + logColumns.names("") + ") VALUES " + strings.Join(rows, ", ")
}

// take gives a reading the token that it asks for, unless that has expired. Each
// has bytes of its own.
func (r *reading) take(t *storage.Token) {
	if r.ID != t.ID || !t.ExpiresAt.IsZero() && !t.ExpiresAt.After(r.Entry.CreatedAt) {
		return
	}
	r.found, r.token = true, *t
	r.token.Body, r.token.CVC = bytes.Clone(t.Body), bytes.Clone(t.CVC)
	r.token.Containers = slices.Clone(t.Containers)
}
