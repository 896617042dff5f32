package postgres

import "encoding/binary"

// The object ids of the element types, as the wire format names them.
const (
	oidBool  = 16
	oidBytea = 17
	oidInt8  = 20
	oidText  = 25
)

// array is a one-dimensional PostgreSQL array in its binary wire format: half
// the bytes of the text form for sealed data, and nothing for the server to
// parse.
type array struct {
	buf      []byte
	oid      uint32
	n, nulls int
}

// arrayHeader is the number of dimensions, the flag for nulls, the element
// type, and the length and lower bound of the one dimension: 4 bytes each.
const arrayHeader = 20

// newArray returns an array with room for this many small elements.
func newArray(oid uint32, elements int) array {
	const small = 4 + 16
	return array{buf: make([]byte, arrayHeader, arrayHeader+small*elements), oid: oid}
}

func (a *array) null() {
	a.n++
	a.nulls++
	a.buf = binary.BigEndian.AppendUint32(a.buf, 0xffffffff)
}

func (a *array) bytes(v []byte) {
	a.n++
	a.buf = append(binary.BigEndian.AppendUint32(a.buf, uint32(len(v))), v...)
}

func (a *array) text(v string) {
	a.n++
	a.buf = append(binary.BigEndian.AppendUint32(a.buf, uint32(len(v))), v...)
}

func (a *array) int(v int64) {
	a.n++
	a.buf = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(a.buf, 8), uint64(v))
}

func (a *array) bool(v bool) {
	var b byte
	if v {
		b = 1
	}
	a.n++
	a.buf = append(binary.BigEndian.AppendUint32(a.buf, 1), b)
}

// absent reports whether every element is NULL.
func (a *array) absent() bool { return a.n == a.nulls }

// first returns the first element, which is not NULL, as a parameter in the
// binary format.
func (a *array) first() []byte {
	element := a.buf[arrayHeader:]
	return element[4 : 4+binary.BigEndian.Uint32(element)]
}

// value returns the array as a parameter; it cannot grow after that.
func (a *array) value() []byte {
	if a.n == 0 {
		a.buf = a.buf[:12] // no dimension
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
