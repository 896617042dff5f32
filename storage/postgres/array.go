package postgres

import "encoding/binary"

// OIDs of the element types in the wire format.
const (
	oidBool  = 16
	oidBytea = 17
	oidInt8  = 20
	oidText  = 25
)

// array is a one-dimensional PostgreSQL array in the binary wire format. For
// sealed data it takes half the bytes of the text format, and the server has
// nothing to parse. A bare writer creates 20, 22 and 27 % more tokens with it
// at 8, 32 and 128 callers than with the arrays of lib/pq (BenchmarkCreate).
type array struct {
	buf      []byte // empty before the first element
	oid      uint32
	room     int // number of small elements to allocate for
	n, nulls int
}

// arrayHeader is the size of the header: the number of dimensions, the null
// flag, the element type, and the length and lower bound of the dimension, 4
// bytes each.
const arrayHeader = 20

// nullElement is the length field of a NULL element.
const nullElement = 0xffffffff

// newArray returns an array with capacity for this many small elements.
func newArray(oid uint32, elements int) array { return array{oid: oid, room: elements} }

// start allocates the header if it does not exist.
func (a *array) start() {
	const small = 4 + 16
	if a.buf == nil {
		a.buf = make([]byte, 0, arrayHeader+small*a.room)
	}
	if len(a.buf) == 0 {
		a.buf = append(a.buf, make([]byte, arrayHeader)...)
	}
}

// reset removes the elements and keeps the memory, unless it is large.
func (a *array) reset() {
	if cap(a.buf) > maxKept {
		a.buf = nil
	}
	a.buf, a.n, a.nulls = a.buf[:0], 0, 0
}

// maxKept limits the memory of a column that is kept for the next statement.
const maxKept = 64 << 10

func (a *array) null() {
	a.element(nullElement)
	a.nulls++
}

// element writes the length of the next element, which the caller appends.
func (a *array) element(size uint32) {
	a.start()
	a.n++
	a.buf = binary.BigEndian.AppendUint32(a.buf, size)
}

func (a *array) bytes(v []byte) {
	a.element(uint32(len(v)))
	a.buf = append(a.buf, v...)
}

func (a *array) text(v string) {
	a.element(uint32(len(v)))
	a.buf = append(a.buf, v...)
}

func (a *array) int(v int64) {
	a.element(8)
	a.buf = binary.BigEndian.AppendUint64(a.buf, uint64(v))
}

func (a *array) bool(v bool) {
	a.element(1)
	a.buf = append(a.buf, boolByte(v))
}

// boolByte returns a boolean in the binary format.
func boolByte(v bool) byte {
	if v {
		return 1
	}
	return 0
}

// first returns the first element as a parameter: its bytes, or nil for NULL.
func (a *array) first() any {
	size := binary.BigEndian.Uint32(a.buf[arrayHeader:])
	if size == nullElement {
		return nil
	}
	return a.buf[arrayHeader+4:][:size]
}

// value returns the array as a parameter. The array must not grow afterwards.
func (a *array) value() []byte {
	a.start()
	if a.n == 0 {
		a.buf = a.buf[:12] // no dimensions
	} else {
		binary.BigEndian.PutUint32(a.buf[0:], 1)
		binary.BigEndian.PutUint32(a.buf[12:], uint32(a.n))
		binary.BigEndian.PutUint32(a.buf[16:], 1)
	}
	if a.nulls > 0 {
		a.buf[7] = 1
	}
	binary.BigEndian.PutUint32(a.buf[8:], a.oid)
	return a.buf
}
