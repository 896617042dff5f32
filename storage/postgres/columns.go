package postgres

import (
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
)

// kind is the type of a column.
type kind struct {
	name string
	oid  uint32
}

var (
	bytea   = kind{"bytea", oidBytea}
	text    = kind{"text", oidText}
	bigint  = kind{"bigint", oidInt8}
	boolean = kind{"boolean", oidBool}
)

type column struct {
	name string
	kind kind
}

// columns are the columns of rows that a statement is given.
type columns []column

// names lists the columns, each with a prefix.
func (cs columns) names(prefix string) string {
	var b strings.Builder
	for i, c := range cs {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(prefix)
		b.WriteString(c.name)
	}
	return b.String()
}

// from is an item of a FROM list that yields rows of these columns under an
// alias, out of the parameters after the first n. One row comes as scalars,
// which the server plans and runs faster; several come as arrays, so that one
// statement fits any number.
func (cs columns) from(n int, many bool, alias string) string {
	as := " AS " + alias + "(" + cs.names("") + ")"
	if many {
		return "unnest(" + cs.places(n, "[]") + ")" + as
	}
	return "(VALUES (" + cs.places(n, "") + "))" + as
}

// places lists the parameters after the first n, as these columns or as arrays
// of them.
func (cs columns) places(n int, suffix string) string {
	var b strings.Builder
	for i, c := range cs {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString("$" + strconv.Itoa(n+i+1) + "::" + c.kind.name + suffix)
	}
	return b.String()
}

// set returns the columns with these names, a bit for each.
func (cs columns) set(names ...string) (set uint32) {
	for i, c := range cs {
		if slices.Contains(names, c.name) {
			set |= 1 << i
		}
	}
	return set
}

// layout says how columns are sent. It saves the server the work of taking
// arrays apart that hold nothing, or one value again and again.
type layout struct {
	absent uint32 // columns that are NULL in every row: not sent
	shared uint32 // columns that have one value in all rows: sent as a scalar
}

// insert is an INSERT of rows of these columns, as they are laid out in the
// parameters after the first n, and the number of those. Columns that are in
// none of the rows come first, with the expressions for them.
func (cs columns) insert(table, others, values string, n int, l layout) (text string, args int) {
	var arrays columns
	names, exprs := others, values
	var unnest strings.Builder
	for i, c := range cs {
		if l.absent&(1<<i) != 0 {
			continue
		}
		n++
		args++
		place, expr := "$"+strconv.Itoa(n)+"::"+c.kind.name, "u."+c.name
		if l.shared&(1<<i) != 0 {
			expr = place
		} else {
			if len(arrays) > 0 {
				unnest.WriteString(", ")
			}
			unnest.WriteString(place + "[]")
			arrays = append(arrays, c)
		}
		if names != "" {
			names, exprs = names+", ", exprs+", "
		}
		names, exprs = names+c.name, exprs+expr
	}
	return "INSERT INTO " + table + " (" + names + ") SELECT " + exprs +
		" FROM unnest(" + unnest.String() + ") AS u(" + arrays.names("") + ")", args
}

// rows are rows on their way to the server: an array for each column, or, for
// one row, scalars, all in the binary format. Its methods add the next value of
// the current row.
type rows struct {
	columns columns
	n       int     // rows
	arrays  []array // of each column
	shared  uint32  // columns of which the first row's value stands for all
	scalars []any   // in place of the arrays; beyond its length are those of the row before
	next    int     // the column of the next value
	spare   array   // what takes values that are not sent
}

// newRows returns rows that are sent as arrays, with room for n of them.
func newRows(cs columns, n int) *rows {
	r := &rows{columns: cs, arrays: make([]array, len(cs))}
	for i, c := range cs {
		r.arrays[i] = newArray(c.kind.oid, n)
	}
	return r
}

// newRow returns rows that hold one, which is sent as scalars.
func newRow(cs columns) *rows {
	return &rows{columns: cs, scalars: make([]any, 0, len(cs))}
}

// reset empties the rows. What was made of them must have been sent.
func (r *rows) reset() {
	r.n, r.next, r.shared = 0, 0, 0
	for i := range r.arrays {
		r.arrays[i].reset()
	}
	r.scalars = r.scalars[:0]
}

// rowsOf puts every value into rows; a single one as scalars.
func rowsOf[T any](cs columns, values []T, put func(*rows, *T)) *rows {
	r := newRow(cs)
	if len(values) != 1 {
		r = newRows(cs, len(values))
	}
	for i := range values {
		put(r, &values[i])
	}
	return r
}

// many reports whether the rows are arrays.
func (r *rows) many() bool { return r.scalars == nil }

// column returns the array of the next value, and moves on.
func (r *rows) column() *array {
	a := &r.arrays[r.next]
	if r.shared&(1<<r.next) != 0 {
		a.room = 1
		if r.n > 0 {
			r.spare.reset()
			a = &r.spare
		}
	}
	if r.next++; r.next == len(r.arrays) {
		r.next = 0
		r.n++
	}
	return a
}

// scalar adds the next value of a single row.
func (r *rows) scalar(v any) {
	if r.scalars = append(r.scalars, v); len(r.scalars) == len(r.columns) {
		r.n = 1
	}
}

// copied adds a value of a single row, for the caller to fill in. Its memory is
// that of the row before if it is as large, which most values are: to wrap it
// anew for the driver would be most of the work.
func (r *rows) copied(size int) []byte {
	if n := len(r.scalars); n < cap(r.scalars) && size <= maxKept {
		before := r.scalars[:n+1][n]
		if memory, ok := before.([]byte); ok && len(memory) == size {
			r.scalar(before)
			return memory
		}
	}
	own := make([]byte, size)
	r.scalar(own)
	return own
}

func (r *rows) null() {
	if r.many() {
		r.column().null()
	} else {
		r.scalar(nil)
	}
}

func (r *rows) bytes(v []byte) {
	if r.many() {
		r.column().bytes(v)
	} else {
		copy(r.copied(len(v)), v)
	}
}

func (r *rows) text(v string) {
	if r.many() {
		r.column().text(v)
	} else {
		copy(r.copied(len(v)), v)
	}
}

func (r *rows) int(v int64) {
	if r.many() {
		r.column().int(v)
	} else {
		binary.BigEndian.PutUint64(r.copied(8), uint64(v))
	}
}

func (r *rows) bool(v bool) {
	if r.many() {
		r.column().bool(v)
	} else {
		r.copied(1)[0] = boolByte(v)
	}
}

// optional adds bytes of which nil are NULL.
func (r *rows) optional(v []byte) {
	if v == nil {
		r.null()
	} else {
		r.bytes(v)
	}
}

// id adds an id of which zero is NULL.
func (r *rows) id(v *storage.ID) {
	if v.IsZero() {
		r.null()
	} else {
		r.bytes(v[:])
	}
}

// key adds a key of which zero is NULL.
func (r *rows) key(v *storage.Key) {
	if v.IsZero() {
		r.null()
	} else {
		r.bytes(v[:])
	}
}

// hash adds a hash of which zero is NULL.
func (r *rows) hash(v *storage.Hash) {
	if *v == (storage.Hash{}) {
		r.null()
	} else {
		r.bytes(v[:])
	}
}

// time adds a time of which zero is NULL.
func (r *rows) time(v time.Time) {
	if v.IsZero() {
		r.null()
	} else {
		r.int(v.UnixMicro())
	}
}

// values appends the parameters that the rows are: scalars, or arrays.
func (r *rows) values(args []any) []any {
	args = append(args, r.scalars...)
	for i := range r.arrays {
		args = append(args, r.arrays[i].value())
	}
	return args
}

// layout tells how the rows can be sent.
func (r *rows) layout() layout {
	l := layout{shared: r.shared}
	for i := range r.arrays {
		if r.arrays[i].absent() {
			l.absent |= 1 << i
		}
	}
	return l
}

// laidOut appends the parameters of the rows in a layout.
func (r *rows) laidOut(args []any, l layout) []any {
	for i := range r.arrays {
		switch {
		case l.absent&(1<<i) != 0:
		case l.shared&(1<<i) != 0:
			args = append(args, r.arrays[i].first())
		default:
			args = append(args, r.arrays[i].value())
		}
	}
	return args
}
