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
	buf   []byte
	oid   uint32
	n     int
	nulls bool
}

// arrayHeader is the number of dimensions, the flag for nulls, the element
// type, and the length and lower bound of the one dimension: 4 bytes each.
const arrayHeader = 20

// newArray returns an array with room for this many elements, which take
// size bytes together.
func newArray(oid uint32, elements, size int) *array {
	return &array{buf: make([]byte, arrayHeader, arrayHeader+4*elements+size), oid: oid}
}

// add appends an element: nil, bool, int64, string or []byte.
func (a *array) add(element any) {
	a.n++
	switch v := element.(type) {
	case []byte:
		a.buf = append(binary.BigEndian.AppendUint32(a.buf, uint32(len(v))), v...)
	case string:
		a.buf = append(binary.BigEndian.AppendUint32(a.buf, uint32(len(v))), v...)
	case int64:
		a.buf = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(a.buf, 8), uint64(v))
	case bool:
		var b byte
		if v {
			b = 1
		}
		a.buf = append(binary.BigEndian.AppendUint32(a.buf, 1), b)
	default:
		a.nulls = true
		a.buf = binary.BigEndian.AppendUint32(a.buf, 0xffffffff)
	}
}

// width is the number of bytes that an element takes beside its length.
func width(element any) int {
	switch v := element.(type) {
	case []byte:
		return len(v)
	case string:
		return len(v)
	case int64:
		return 8
	case bool:
		return 1
	default:
		return 0
	}
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
	if a.nulls {
		a.buf[7] = 1
	}
	binary.BigEndian.PutUint32(a.buf[8:], a.oid)
	return a.buf
}
