// Package jsonx represents JSON exactly as it was written. Object members keep
// their order, numbers keep their source text (1.10 and 1e400 come back byte
// for byte), and strings keep lone surrogates.
//
// A [Value] is an immutable tree. [Parse] makes one from bytes, the
// constructors make one from parts, and [Value.Append] writes it back
// compactly. Parsing is strict. Duplicate keys, invalid UTF-8, trailing bytes
// and too deep nesting are errors. Errors name the position and never quote the
// input, because the input may be a card number.
package jsonx

import (
	"slices"
	"strconv"
)

// Kind is the kind of a [Value].
type Kind uint8

// The kinds of a Value. Invalid is the kind of the zero Value, which means
// "absent" and differs from a JSON null.
const (
	Invalid Kind = iota
	Null
	Bool
	Number
	String
	Array
	Object
)

var kindNames = [...]string{"absent", "null", "boolean", "number", "string", "array", "object"}

// String returns JSON's name of the kind, for use in messages.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "unknown"
}

// Value is a JSON value. The zero Value is absent. [Value.Get] returns it for a
// member that does not exist, and [Value.IsZero] distinguishes it from null.
// Values are immutable and safe for concurrent use.
//
// A Value takes 16 bytes and its children are adjacent in memory, so that a
// tree is small whatever its shape: see ref.go. Values that are == are equal,
// but equal Values need not be ==.
type Value struct {
	ref  ref
	meta meta
}

// Member is one name and value of an object.
type Member struct {
	Name  string
	Value Value
}

// NullValue returns a JSON null.
func NullValue() Value { return Value{meta: metaOf(Null, 0)} }

// BoolValue returns a JSON boolean.
func BoolValue(b bool) Value {
	if b {
		return Value{meta: metaOf(Bool, 1)}
	}
	return Value{meta: metaOf(Bool, 0)}
}

// StringValue returns a JSON string. Bytes that are neither UTF-8 nor an
// encoded surrogate become U+FFFD, so that every Value can be written as JSON.
func StringValue(s string) Value { return textValue(String, validWTF8(s)) }

// IntValue returns a JSON number.
func IntValue(n int64) Value { return textValue(Number, strconv.FormatInt(n, 10)) }

// NumberValue returns a JSON number with the given text. It fails if text is
// not a JSON number.
func NumberValue(text string) (Value, error) {
	if end := scanNumber(text, 0); end != len(text) || end == 0 {
		return Value{}, &Error{Msg: "is not a JSON number"}
	}
	return textValue(Number, text), nil
}

// ArrayValue returns a JSON array of a copy of elems.
func ArrayValue(elems ...Value) Value {
	return arrayValue(slices.Clone(elems))
}

// ObjectValue returns a JSON object with members in the given order. If two
// members have the same name, the later value replaces the earlier one, in its
// position.
func ObjectValue(members ...Member) Value {
	b := newObjectBuilder(len(members))
	for _, m := range members {
		b.set(validWTF8(m.Name), m.Value)
	}
	return b.value()
}

// Kind returns what v is.
func (v Value) Kind() Kind { return Kind(v.meta & (1<<kindBits - 1)) }

// IsZero reports whether v is absent. A JSON null is not absent.
func (v Value) IsZero() bool { return v.Kind() == Invalid }

// IsNull reports whether v is a JSON null.
func (v Value) IsNull() bool { return v.Kind() == Null }

// Text returns the decoded content of a string or the source text of a number,
// and "" for other kinds. A lone surrogate in a string is encoded in three
// bytes (WTF-8), so the text of a string may be invalid UTF-8; [DecodeRune]
// reads it.
func (v Value) Text() string {
	switch v.Kind() {
	case String, Number:
		return v.text()
	default:
		return ""
	}
}

// Bool returns the value of a boolean, and false for other kinds.
func (v Value) Bool() bool { return v.meta == metaOf(Bool, 1) }

// Int returns the value of a number that is written as an integer and fits an
// int64. ok is false for everything else, including 1.0 and 1e3.
func (v Value) Int() (n int64, ok bool) {
	if v.Kind() != Number {
		return 0, false
	}
	n, err := strconv.ParseInt(v.text(), 10, 64)
	return n, err == nil
}

// Elems returns the elements of an array, and nil for other kinds. The slice
// belongs to v, so callers must not change it.
func (v Value) Elems() []Value {
	if v.Kind() != Array {
		return nil
	}
	return v.elems()
}

// Members returns the members of an object in order, and nil for other kinds.
// The slice belongs to v, so callers must not change it.
func (v Value) Members() []Member {
	if v.Kind() != Object {
		return nil
	}
	return v.members()
}

// Len returns the number of elements or members, and 0 for scalars.
func (v Value) Len() int {
	switch v.Kind() {
	case Array, Object:
		return v.meta.size()
	default:
		return 0
	}
}

// Get returns the member with this name, or the zero Value if v is not an
// object or has no such member.
func (v Value) Get(name string) Value {
	for _, m := range v.Members() {
		if m.Name == name {
			return m.Value
		}
	}
	return Value{}
}

// Index returns element i of an array, or the zero Value if the array is shorter.
func (v Value) Index(i int) Value {
	if elems := v.Elems(); i >= 0 && i < len(elems) {
		return elems[i]
	}
	return Value{}
}

// With returns the object v with the member name set to x. An existing member
// is replaced in its position, and a new one is added at the end. Any other
// value counts as an empty object.
func (v Value) With(name string, x Value) Value {
	b := newObjectBuilder(v.Len() + 1)
	for _, m := range v.Members() {
		b.add(m)
	}
	b.set(validWTF8(name), x)
	return b.value()
}

// Without returns the object v without the named members, or v itself if it has
// none of them.
func (v Value) Without(names ...string) Value {
	listed := func(m Member) bool { return slices.Contains(names, m.Name) }
	if !slices.ContainsFunc(v.Members(), listed) {
		return v
	}
	kept := slices.DeleteFunc(slices.Clone(v.Members()), listed)
	return objectValue(kept)
}

// Equal reports whether v and w are the same. It compares numbers by their
// text, so 1.0 and 1 differ, and objects regardless of the order of their
// members. Absent equals only absent.
func (v Value) Equal(w Value) bool {
	if v.meta != w.meta || v.ref == w.ref {
		return v.meta == w.meta
	}
	switch v.Kind() {
	case Array:
		return slices.EqualFunc(v.elems(), w.elems(), Value.Equal)
	case Object:
		return equalMembers(v.members(), w.members())
	default:
		return v.Text() == w.Text()
	}
}

func equalMembers(a, b []Member) bool {
	var index nameIndex
	for i, m := range a {
		j := i // members are usually in the same order
		if b[j].Name != m.Name {
			if j = index.find(b, m.Name); j < 0 {
				return false
			}
		}
		if !m.Value.Equal(b[j].Value) {
			return false
		}
	}
	return true
}
