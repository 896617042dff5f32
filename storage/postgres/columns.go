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

// columns are the columns of rows that are parameters of a statement.
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

// list returns the names of the columns.
func (cs columns) list() []string {
	names := make([]string, len(cs))
	for i, c := range cs {
		names[i] = c.name
	}
	return names
}

// from returns a FROM item with rows of these columns under an alias. The rows
// come from the parameters after the first n. A single row is passed as
// scalars, which the server plans and runs faster. Several rows are passed as
// arrays, so that one statement fits any number.
func (cs columns) from(n int, many bool, alias string) string {
	as := " AS " + alias + "(" + cs.names("") + ")"
	if many {
		return "unnest(" + cs.places(n, "[]") + ")" + as
	}
	return "(VALUES (" + cs.places(n, "") + "))" + as
}

// places lists the placeholders of the parameters after the first n, cast to
// the types of these columns or to arrays of them.
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

// unnested lists the elements of the parameters after the first n. They are
// arrays of these columns, except that columns in shared are scalars.
func (cs columns) unnested(n int, shared ...string) string {
	values := make([]string, len(cs))
	for i, c := range cs {
		values[i] = "$" + strconv.Itoa(n+i+1) + "::" + c.kind.name
		if !slices.Contains(shared, c.name) {
			values[i] = "unnest(" + values[i] + "[])"
		}
	}
	return strings.Join(values, ", ")
}

// insert returns an INSERT of rows of these columns. The parameters after the
// first n are arrays, or scalars for columns in shared.
//
// A VALUES list that contains sets is a single row to the planner. If tables
// are distributed, the coordinator therefore sends it whole to the worker of
// its tenant.
func (cs columns) insert(table string, n int, shared []string) string {
	return "INSERT INTO " + table + " (" + cs.names("") + ") VALUES (" + cs.unnested(n, shared...) + ")"
}

// rows are rows on the way to the server, in the binary format. Each column is
// an array, or, for a single row, a scalar. The methods add the next value of
// the current row.
type rows struct {
	columns columns
	n       int     // number of rows
	arrays  []array // one per column
	scalars []any   // instead of the arrays
	room    []byte  // memory for the next scalars
	next    int     // column of the next value
}

// newRows returns rows that are sent as arrays, with capacity for n rows.
func newRows(cs columns, n int) *rows {
	r := &rows{columns: cs, arrays: make([]array, len(cs))}
	for i, c := range cs {
		r.arrays[i] = newArray(c.kind.oid, n)
	}
	return r
}

// newRow returns rows for a single row, which is sent as scalars. Large values
// must not change before they are sent.
func newRow(cs columns) *rows { return &rows{columns: cs, scalars: make([]any, 0, len(cs))} }

// reset removes the rows and keeps their memory, except for large values.
func (r *rows) reset() {
	r.n, r.next = 0, 0
	for i := range r.arrays {
		r.arrays[i].reset()
	}
	if !r.many() {
		for i, v := range r.scalars {
			if large, ok := v.([]byte); ok && len(large) > maxCopied {
				r.scalars[i] = nil
			}
		}
		r.scalars = r.scalars[:0]
	}
}

// rowsOf converts values to rows, and a single value to scalars.
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

// column returns the array of the next value and advances to the next column.
func (r *rows) column() *array {
	a := &r.arrays[r.next]
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

const (
	// maxCopied limits the scalars that are copied.
	maxCopied = 4 << 10
	// roomPerColumn is the memory to allocate for a scalar. Most values fit.
	roomPerColumn = 24
)

// copied adds the next value of a single row and returns its memory for the caller
// to fill. A value of the last row with the same size is used again, because
// wrapping a slice in an interface allocates. This saves a third of the
// allocations of CreateToken at 1 caller.
func (r *rows) copied(size int) []byte {
	if n := len(r.scalars); n < cap(r.scalars) {
		last := r.scalars[:n+1][n]
		if memory, ok := last.([]byte); ok && len(memory) == size && size <= maxCopied {
			r.scalar(last)
			return memory
		}
	}
	if r.room == nil || cap(r.room)-len(r.room) < size { // nil would be NULL
		r.room = make([]byte, 0, max(size, roomPerColumn*len(r.columns)))
	}
	end := len(r.room) + size
	own := r.room[len(r.room):end:end]
	r.room = r.room[:end]
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
	switch {
	case r.many():
		r.column().bytes(v)
	case len(v) > maxCopied:
		r.scalar(v)
	default:
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

// optional adds bytes, or NULL for nil.
func (r *rows) optional(v []byte) {
	if v == nil {
		r.null()
	} else {
		r.bytes(v)
	}
}

// optionalText adds a text, or NULL if it is empty.
func (r *rows) optionalText(v string) {
	if v == "" {
		r.null()
	} else {
		r.text(v)
	}
}

// id adds an id, or NULL if it is zero.
func (r *rows) id(v *storage.ID) {
	if v.IsZero() {
		r.null()
	} else {
		r.bytes(v[:])
	}
}

// key adds a key, or NULL if it is zero.
func (r *rows) key(v *storage.Key) {
	if v.IsZero() {
		r.null()
	} else {
		r.bytes(v[:])
	}
}

// hash adds a hash, or NULL if it is zero.
func (r *rows) hash(v *storage.Hash) {
	if *v == (storage.Hash{}) {
		r.null()
	} else {
		r.bytes(v[:])
	}
}

// time adds a time, or NULL if it is zero.
func (r *rows) time(v time.Time) {
	if v.IsZero() {
		r.null()
	} else {
		r.int(v.UnixMicro())
	}
}

// values appends the rows as parameters: scalars or arrays.
func (r *rows) values(args []any) []any {
	switch {
	case r.many():
		return r.parameters(args, r.columns, nil)
	case args == nil:
		return slices.Clip(r.scalars)
	default:
		return append(args, r.scalars...)
	}
}

// parameters appends some columns of the rows, in their order, as parameters of
// insert.
func (r *rows) parameters(args []any, some columns, shared []string) []any {
	for i, c := range r.columns {
		switch {
		case len(some) == 0:
			return args
		case some[0].name != c.name:
			continue
		case !r.many():
			args = append(args, r.scalars[i])
		case slices.Contains(shared, c.name):
			args = append(args, r.arrays[i].first())
		default:
			args = append(args, r.arrays[i].value())
		}
		some = some[1:]
	}
	return args
}
