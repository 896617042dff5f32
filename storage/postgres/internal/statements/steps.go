package statements

import (
	"context"
	"database/sql/driver"
	"strings"

	"github.com/seed-72ea4aab/vault/storage"
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

// Step is one of the statements of a change.
type Step struct {
	text    string
	args    []any
	prepare bool
	want    int // number of rows it must write, or anyRows
	// Numbered means that the last parameter is the transaction number. The column's
	// default is a function, which the coordinator cannot forward together with the
	// rows.
	Numbered bool

	// row, if set, is called for each row that the statement returns.
	row func([]driver.Value) error
	// later, if set, builds the statement after the steps before it have run.
	// The statement has no text if there is nothing to do.
	later func() Step
}

const anyRows = -1

// Runner is a connection that runs steps in a transaction.
type Runner interface {
	Conn
	// Run runs a statement, ignores its result rows, and returns how many rows
	// it wrote.
	Run(ctx context.Context, text string, args []any, prepare bool) (int64, error)
	// Number returns the transaction number as a parameter.
	Number(ctx context.Context) (any, error)
}

var numberColumn = wire.ParseColumns("xid:bigint")

// Do runs the statement, and checks how many rows it has written.
func (p Step) Do(ctx context.Context, on Runner) error {
	if p.later != nil {
		p = p.later()
	}
	if p.Numbered {
		n, err := on.Number(ctx)
		if err != nil {
			return err
		}
		p.args[len(p.args)-1] = n
	}
	switch {
	case p.text == "":
		return nil
	case p.row != nil:
		return on.Query(ctx, p.text, p.args, p.prepare, p.row)
	}
	n, err := on.Run(ctx, p.text, p.args, p.prepare)
	if err == nil && p.want != anyRows && n != int64(p.want) {
		return link.ErrGuard
	}
	return err
}

// write adds a part that refers to no other part. If want is not anyRows, the
// part must write that many rows. If tables are distributed, the part becomes a
// separate statement.
func (s *Statement) write(name string, want int, body func(*Statement) string) {
	s.Composer.write(s, name, want, body)
}

// step returns a part as a statement.
func (s *Statement) step(want int, body func(*Statement) string) Step {
	alone := NewStatement(s.tenant)
	alone.AnyDriver = s.AnyDriver
	text := body(alone)
	return Step{text: text, args: alone.Args, prepare: true, want: want, Numbered: alone.numbered}
}

// later adds a statement that needs the found rows. It is built after they have
// been found.
func (s *Statement) later(make func() Step) { s.after = append(s.after, Step{later: make}) }

// Insert returns an INSERT of rows into a table, under the tenant.
func (s *Statement) Insert(table string, r *wire.Rows) string {
	text := "INSERT INTO " + table + " (tenant_id, " + r.Columns.Names("") + ") VALUES ($1::bytea, "
	if r.Many() {
		text += r.Columns.Unnested(len(s.Args))
	} else {
		text += r.Columns.Placeholders(len(s.Args), "")
	}
	s.values(r)
	return text + ")"
}

// found holds the results of parts that refer to each other: changes of token
// counts, and keys that records had.
type found struct {
	counts Counts
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
		c := Count{Kind: textOf(row[2]), N: n}
		copy(c.Set[:], name)
		f.counts.Add(c)
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
func (s *Statement) foundText(guards []string) string {
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

// All returns the statements of a change. Usually this is one statement. If
// tables are distributed, these are the INSERTs, then one statement that
// updates and deletes, and then the statements that need its results.
func (s *Statement) All() []Step {
	if len(s.parts) == 0 {
		return s.steps
	}
	text, row := s.main()
	main := Step{text: text, args: s.Args, prepare: !s.joins, want: anyRows, row: row}
	return append(append(s.steps[:len(s.steps):len(s.steps)], main), s.after...)
}
