package postgres

import (
	"bytes"
	"context"
	"database/sql/driver"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/link"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/wire"
)

// If tables are distributed, a statement is fast only if the coordinator can
// send it unchanged to the worker of its tenant. It cannot do so with common
// table expressions that write to several tables. Each of them gets its own
// plan, with intermediate rows in files. Creates were 7 to 12 times slower that
// way than on a single server. So a change becomes several statements in a
// transaction: one for each table that gets new rows, and one for all updates
// and deletes.

// step is one of the statements of a change.
type step struct {
	text    string
	args    []any
	prepare bool
	want    int // number of rows it must write, or anyRows

	// row, if set, is called for each row that the statement returns.
	row func([]driver.Value) error
	// later, if set, builds the statement after the steps before it have run.
	// The statement has no text if there is nothing to do.
	later func() step
}

const anyRows = -1

// runner is a connection that runs steps in a transaction.
type runner interface {
	asker
	// run runs a statement, ignores its result rows, and returns how many rows
	// it wrote.
	run(ctx context.Context, text string, args []any, prepare bool) (int64, error)
	// number returns the transaction number as a parameter.
	number(ctx context.Context) (any, error)
}

// txNumber is a placeholder for the transaction number among the parameters of
// a step. The column's default is a function, which the coordinator cannot
// forward together with the rows.
type txNumber struct{}

var numberColumn = wire.ParseColumns("xid:bigint")

// numbered reports whether a parameter is the transaction number.
func (p *step) numbered() bool { return slices.ContainsFunc(p.args, isTxNumber) }

func isTxNumber(v any) bool {
	_, ok := v.(txNumber)
	return ok
}

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
		return link.ErrGuard
	}
	return err
}

// inSteps runs steps in a transaction. A single step needs no explicit
// transaction, unless it uses the transaction number.
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

// number implements runner.
func (s *slot) number(context.Context) (any, error) {
	return binary.BigEndian.AppendUint64(nil, uint64(s.xid)), nil
}

// write adds a part that refers to no other part. If want is not anyRows, the
// part must write that many rows. If tables are distributed, the part becomes a
// separate statement.
func (s *statement) write(name string, want int, body func(*statement) string) {
	s.layout.write(s, name, want, body)
}

// step returns a part as a statement.
func (s *statement) step(want int, body func(*statement) string) step {
	alone := newStatement(s.tenant)
	alone.anyDriver = s.anyDriver
	text := body(alone)
	return step{text: text, args: alone.args, prepare: true, want: want}
}

// later adds a statement that needs the found rows. It is built after they have
// been found.
func (s *statement) later(make func() step) { s.after = append(s.after, step{later: make}) }

// insert returns an INSERT of rows into a table, under the tenant.
func (s *statement) insert(table string, r *wire.Rows) string {
	text := "INSERT INTO " + table + " (tenant_id, " + r.Columns.Names("") + ") VALUES ($1::bytea, "
	if r.Many() {
		text += r.Columns.Unnested(len(s.args))
	} else {
		text += r.Columns.Places(len(s.args), "")
	}
	s.values(r)
	return text + ")"
}

// found holds the results of parts that refer to each other: changes of token
// counts, and keys that records had.
type found struct {
	counts tally
	keys   []foundKey
}

type foundKey struct {
	key  storage.Key
	kind string // of the record
	id   storage.ID
}

// row adds a result row: a number of tokens by set and type or, if the number
// is null, a key.
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

// foundText selects the found rows. It evaluates the guards even if there are
// none.
func (s *statement) foundText(guards []string) string {
	guard := strings.Join(append(guards, "1")[:1], "")
	results := append(s.results, "SELECT NULL::bytea, NULL::text, NULL::bigint, NULL::bytea WHERE false")
	return "SELECT g.ok, f.name, f.kind, f.n, f.id FROM (SELECT " + guard + " AS ok) g LEFT JOIN (" +
		strings.Join(results, " UNION ALL ") + ") AS f(name, kind, n, id) ON true"
}

// textOf returns the text in a column, as either type that a driver may return.
func textOf(column driver.Value) string {
	if raw, ok := column.([]byte); ok {
		return string(raw)
	}
	text, _ := column.(string)
	return text
}

// all returns the statements of a change. Usually this is one statement. If
// tables are distributed, these are the INSERTs, then one statement that
// updates and deletes, and then the statements that need its results.
func (s *statement) all() []step {
	if len(s.parts) == 0 {
		return s.steps
	}
	main := step{text: s.text(), args: s.args, prepare: !s.joins, want: anyRows, row: s.layout.result(s)}
	return append(append(s.steps[:len(s.steps):len(s.steps)], main), s.after...)
}

// routedReadText reads tokens by their ids.
var routedReadText = "SELECT " + readColumns + " FROM unnest($2::text[]) AS u(id) CROSS JOIN LATERAL (" +
	firstFrom("k.*", "vault_tokens", "id", "u.id") + ") AS t WHERE t.id = u.id"

// readRouted reads the tokens of a batch, which are all of one tenant, and then
// logs the reads.
func (s *slot) readRouted(ctx context.Context, batch []*pending) error {
	defer cutAfter(batch[0].reading.ctx, s.cut)()
	ids := wire.NewArray(wire.OIDText, len(batch))
	for _, p := range batch {
		ids.Text(p.reading.ID)
	}
	tenant := batch[0].reading.Tenant
	err := s.query(ctx, routedReadText, []any{tenant[:], ids.Value()}, true, func(row []driver.Value) error {
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

// maxListedLogs limits the entries that a statement lists, and with them the
// number of its texts.
const maxListedLogs = 32

// enterRouted logs reads of a tenant. It lists a few of them in one statement
// without an explicit transaction, so that the server fills in the transaction
// number of each row.
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
		row := wire.NewRow(wire.LogColumns)
		wire.PutLog(row, e)
		args = row.Values(args)
	}
	return s.exec(listedLogs(len(entries)), args)
}

// listedLogs returns the statement that inserts n log entries.
func listedLogs(n int) string {
	rows := make([]string, n)
	for i := range rows {
		rows[i] = "($1::bytea, " + wire.LogColumns.Places(1+i*len(wire.LogColumns), "") + ")"
	}
	return "INSERT INTO vault_logs (tenant_id, " + wire.LogColumns.Names("") + ") VALUES " + strings.Join(rows, ", ")
}

// take gives a reading the token that it names, unless the token has expired.
// It copies the bytes, because several readings may get the same token.
func (r *reading) take(t *storage.Token) {
	if r.ID != t.ID || !t.ExpiresAt.IsZero() && !t.ExpiresAt.After(r.Entry.CreatedAt) {
		return
	}
	r.found, r.token = true, *t
	r.token.Body, r.token.CVC = bytes.Clone(t.Body), bytes.Clone(t.CVC)
	r.token.Containers = slices.Clone(t.Containers)
}
