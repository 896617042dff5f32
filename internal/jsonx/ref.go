package jsonx

import "unsafe"

// A Value is a pointer and a length, like a string or a slice. Depending on the
// kind, it refers to text, elements or members. That halves the size of a
// Value, and arrays and objects need no separate header. So the tree of a body
// takes at most 20 times its text, whatever its shape (TestTreesAreCompact).
// log/slog stores its values in the same way.
//
// Only this file converts pointers to text and slices. It is sound because a
// Value is made here from a string or slice together with its length, and
// neither changes afterwards.

// ref points to the bytes of a text, or to the first element or member.
type ref = unsafe.Pointer

// meta holds the kind in its lowest byte. Above it is the length of the text,
// the number of children, or 1 for true.
type meta uint64

const kindBits = 8

func metaOf(k Kind, n int) meta { return meta(n)<<kindBits | meta(k) }

func (m meta) size() int { return int(m >> kindBits) }

func textValue(k Kind, s string) Value {
	return Value{ref(unsafe.StringData(s)), metaOf(k, len(s))} //nolint:gosec // see above
}

func arrayValue(elems []Value) Value {
	return Value{ref(unsafe.SliceData(elems)), metaOf(Array, len(elems))} //nolint:gosec // see above
}

func objectValue(members []Member) Value {
	return Value{ref(unsafe.SliceData(members)), metaOf(Object, len(members))} //nolint:gosec // see above
}

// text returns the text of a string or number.
func (v Value) text() string { return unsafe.String((*byte)(v.ref), v.meta.size()) } //nolint:gosec // see above

// elems returns the elements of an array.
func (v Value) elems() []Value { return unsafe.Slice((*Value)(v.ref), v.meta.size()) } //nolint:gosec // see above

// members returns the members of an object.
func (v Value) members() []Member { return unsafe.Slice((*Member)(v.ref), v.meta.size()) } //nolint:gosec // see above
