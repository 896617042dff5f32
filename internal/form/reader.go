package form

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

// Reader reads the fields of an object one by one and collects their
// problems. A null field is the same as an absent field. Fields that are not
// read are rejected by name.
type Reader struct {
	object   jsonx.Value
	path     string
	problems *Problems
	known    []string // names of the fields that were read, a dozen at most
}

// NewReader returns a reader of a value at a path of a larger value. Spare
// holds the names of the fields, so that a caller can keep them off the heap;
// it may be nil. The caller must call [Reader.RefuseOthers] at the end. Read
// does all of this at once.
func NewReader(v jsonx.Value, path string, problems *Problems, spare []string) Reader {
	return Reader{object: v, path: path, problems: problems, known: spare}
}

// Read calls read with a reader of the object at a path.
func Read(v jsonx.Value, path string, problems *Problems, read func(*Reader)) {
	r := NewReader(v, path, problems, make([]string, 0, 12))
	if r.IsObject() {
		read(&r)
		r.RefuseOthers()
	}
}

// ReadText is Read on the text of a whole document.
func ReadText(text []byte, read func(*Reader)) *Problems {
	p := &Problems{}
	v, err := jsonx.Parse(text, jsonx.Limits{})
	if err != nil {
		p.AddErr("", err)
		return p
	}
	Read(v, "", p, read)
	return p
}

// IsObject reports whether the value is an object.
func (r *Reader) IsObject() bool {
	if r.object.Kind() != jsonx.Object {
		r.problems.Add(r.path, "must be an object")
		return false
	}
	return true
}

// RefuseOthers records a problem for each field that was not read.
func (r *Reader) RefuseOthers() {
	for _, m := range r.object.Members() {
		if !slices.Contains(r.known, m.Name) {
			r.problems.Add(r.At(m.Name), unknownField)
		}
	}
}

// At returns the path of a field.
func (r *Reader) At(name string) string { return jsonx.JoinName(r.path, name) }

// Problem records a message about a field.
func (r *Reader) Problem(name, format string, args ...any) {
	r.problems.Add(r.At(name), format, args...)
}

// Given returns a field as it was sent: zero if it is absent, and null if it
// is null.
func (r *Reader) Given(name string) jsonx.Value {
	r.known = append(r.known, name)
	return r.object.Get(name)
}

// Value returns a field, or zero if it is absent or null.
func (r *Reader) Value(name string) jsonx.Value {
	v := r.Given(name)
	if v.IsNull() {
		return jsonx.Value{}
	}
	return v
}

// Spelling returns which of two names a field has in the input. It rejects
// the second name if both are present.
func (r *Reader) Spelling(name, other string) string {
	first, second := r.Value(name), r.Value(other)
	switch {
	case second.IsZero():
		return name
	case !first.IsZero():
		r.Problem(other, "is another spelling of %s; give only one of them", name)
		return name
	default:
		return other
	}
}

// kind returns a field that must have the given kind, if it is present.
func (r *Reader) kind(name string, k jsonx.Kind) (jsonx.Value, bool) {
	v := r.Value(name)
	if v.IsZero() {
		return v, false
	}
	if v.Kind() != k {
		r.Problem(name, "must be of type %s", k)
		return jsonx.Value{}, false
	}
	return v, true
}

// Text returns a string, or "" if it is absent.
func (r *Reader) Text(name string) string {
	v, _ := r.kind(name, jsonx.String)
	return v.Text()
}

// OptionalText returns an optional string. In Go, "" means absent, so Reader
// must reject a JSON "" here.
func (r *Reader) OptionalText(name string) string {
	v, ok := r.kind(name, jsonx.String)
	if ok && v.Text() == "" {
		r.Problem(name, "must not be empty")
	}
	return v.Text()
}

// JSON returns a field of any kind as JSON text, or nil if it is absent.
func (r *Reader) JSON(name string) []byte {
	v := r.Value(name)
	if v.IsZero() {
		return nil
	}
	return v.JSON()
}

// Bool returns a boolean, or the given default if it is absent.
func (r *Reader) Bool(name string, absent bool) bool {
	if b := r.OptionalBool(name); b != nil {
		return *b
	}
	return absent
}

// BoolOrText returns a boolean that may also be the string "true" or "false".
// An absent field is false.
func (r *Reader) BoolOrText(name string) bool {
	v := r.Value(name)
	if v.Kind() != jsonx.String {
		return r.Bool(name, false)
	}
	if text := v.Text(); text == "true" || text == "false" {
		return text == "true"
	}
	r.Problem(name, `must be true or false, or the string "true" or "false"`)
	return false
}

// OptionalBool returns a boolean, or nil if it is absent.
func (r *Reader) OptionalBool(name string) *bool {
	v, ok := r.kind(name, jsonx.Bool)
	if !ok {
		return nil
	}
	b := v.Bool()
	return &b
}

// Int returns an integer, and whether it is present.
func (r *Reader) Int(name string) (int, bool) {
	v, ok := r.kind(name, jsonx.Number)
	if !ok {
		return 0, false
	}
	n, ok := v.Int()
	if !ok || int64(int(n)) != n {
		r.Problem(name, "must be an integer")
		return 0, false
	}
	return int(n), true
}

// ID returns a UUID, and whether it is present.
func (r *Reader) ID(name string) (uuid.UUID, bool) {
	v, ok := r.kind(name, jsonx.String)
	if !ok {
		return uuid.UUID{}, false
	}
	id, err := uuid.Parse(v.Text())
	if err != nil || len(v.Text()) != len(id.String()) {
		r.Problem(name, "must be a UUID")
		return uuid.UUID{}, false
	}
	return id, true
}

// Texts returns an array of strings, or nil if it is absent.
func (r *Reader) Texts(name string) []string {
	v, ok := r.kind(name, jsonx.Array)
	if !ok {
		return nil
	}
	out := make([]string, 0, v.Len())
	for i, e := range v.Elems() {
		if e.Kind() != jsonx.String {
			r.problems.Add(jsonx.JoinIndex(r.At(name), i), "must be of type string")
			continue
		}
		out = append(out, e.Text())
	}
	return out
}

// TextOrTexts returns a string or an array of strings.
func (r *Reader) TextOrTexts(name string) []string {
	if v := r.Value(name); v.Kind() == jsonx.String {
		return []string{v.Text()}
	}
	return r.Texts(name)
}

// TextMap returns an object of strings, or nil if it is absent.
func (r *Reader) TextMap(name string) map[string]string {
	v, ok := r.kind(name, jsonx.Object)
	if !ok {
		return nil
	}
	out := make(map[string]string, v.Len())
	for _, m := range v.Members() {
		if m.Value.Kind() != jsonx.String {
			r.problems.Add(jsonx.JoinName(r.At(name), m.Name), "must be of type string")
			continue
		}
		out[m.Name] = m.Value.Text()
	}
	return out
}

// Object reads a field that is an object. It reports whether the field is
// present.
func (r *Reader) Object(name string, read func(*Reader)) bool {
	v, ok := r.kind(name, jsonx.Object)
	if ok {
		Read(v, r.At(name), r.problems, read)
	}
	return ok
}

// Each reads an array of objects.
func (r *Reader) Each(name string, read func(*Reader)) {
	v, _ := r.kind(name, jsonx.Array)
	for i, e := range v.Elems() {
		Read(e, jsonx.JoinIndex(r.At(name), i), r.problems, read)
	}
}

// Moment returns an ISO 8601 date-time, or the zero time if it is absent.
// Without an offset it is in UTC.
func (r *Reader) Moment(name string) time.Time {
	return r.time(name, dateTimeLayouts, "must be an ISO 8601 date-time")
}

// Expiry returns the expiry of a token in one of its accepted forms, or the
// zero time if it is absent.
func (r *Reader) Expiry(name string) time.Time {
	return r.time(name, expiryLayouts, "must be M/D/YYYY, M/D/YYYY h:mm:ss AM|PM +hh:mm, or an ISO 8601 date-time")
}

// time returns a time in one of the layouts. The zero time means absent, so
// an explicit zero time becomes one microsecond later.
func (r *Reader) time(name string, layouts []string, want string) time.Time {
	v, ok := r.kind(name, jsonx.String)
	if !ok {
		return time.Time{}
	}
	t, ok := parseTime(v.Text(), layouts)
	if !ok {
		r.Problem(name, "%s", want)
		return time.Time{}
	}
	if t.IsZero() {
		t = t.Add(time.Microsecond)
	}
	return t
}
