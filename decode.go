package vault

import (
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

// readObject reads a JSON object strictly: every field has to be asked for,
// and what nobody asked for is an error that names it. null is the same as
// absent. The error, if any, is an *InvalidError about all bad fields.
func readObject(data []byte, read func(*fieldReader)) error {
	v, err := jsonx.Parse(data, jsonx.Limits{})
	bad := &InvalidError{}
	if err != nil {
		bad.addErr("", err)
		return bad
	}
	readFields(v, "", bad, read)
	return bad.err()
}

// readFields is readObject on a value that stands at a path of a larger one.
func readFields(v jsonx.Value, path string, bad *InvalidError, read func(*fieldReader)) {
	r := &fieldReader{obj: v, path: path, bad: bad, known: make([]string, 0, 8)}
	if r.isObject() {
		read(r)
		r.refuseOthers()
	}
}

// fieldReader takes the fields of an object one by one and collects what is
// wrong with them.
type fieldReader struct {
	obj   jsonx.Value
	path  string
	bad   *InvalidError
	known []string // the fields that were asked for: a dozen at most
}

func (r *fieldReader) isObject() bool {
	if r.obj.Kind() != jsonx.Object {
		r.bad.add(r.path, "must be an object")
		return false
	}
	return true
}

// refuseOthers refuses the fields that nobody asked for.
func (r *fieldReader) refuseOthers() {
	for _, m := range r.obj.Members() {
		if !slices.Contains(r.known, m.Name) {
			r.bad.add(r.at(m.Name), unknownField)
		}
	}
}

// unknownField is what is wrong with a field that an object does not have.
const unknownField = "is not a field of this object"

func (r *fieldReader) at(name string) string { return jsonx.JoinName(r.path, name) }

// value returns a field, absent when it is null.
func (r *fieldReader) value(name string) jsonx.Value {
	r.known = append(r.known, name)
	v := r.obj.Get(name)
	if v.IsNull() {
		return jsonx.Value{}
	}
	return v
}

// kind returns a field that must be of a kind, if it is there.
func (r *fieldReader) kind(name string, k jsonx.Kind) (jsonx.Value, bool) {
	v := r.value(name)
	if v.IsZero() {
		return v, false
	}
	if v.Kind() != k {
		r.bad.add(r.at(name), "must be of type %s", k)
		return v, false
	}
	return v, true
}

func (r *fieldReader) text(name string) string {
	v, _ := r.kind(name, jsonx.String)
	if v.Kind() != jsonx.String {
		return ""
	}
	return v.Text()
}

// optionalText returns a text that may be left out. In Go "" says that it is,
// so a JSON "", which is there, has to be refused here.
func (r *fieldReader) optionalText(name string) string {
	v, ok := r.kind(name, jsonx.String)
	if !ok {
		return ""
	}
	if v.Text() == "" {
		r.bad.add(r.at(name), "must not be empty")
	}
	return v.Text()
}

// raw returns a field of any kind as JSON.
func (r *fieldReader) raw(name string) JSON {
	return jsonOf(r.value(name))
}

func (r *fieldReader) boolean(name string, absent bool) bool {
	v, ok := r.kind(name, jsonx.Bool)
	if !ok {
		return absent
	}
	return v.Bool()
}

func (r *fieldReader) optionalBool(name string) *bool {
	v, ok := r.kind(name, jsonx.Bool)
	if !ok {
		return nil
	}
	b := v.Bool()
	return &b
}

func (r *fieldReader) integer(name string) (int, bool) {
	v, ok := r.kind(name, jsonx.Number)
	if !ok {
		return 0, false
	}
	n, ok := v.Int()
	if !ok || int64(int(n)) != n {
		r.bad.add(r.at(name), "must be an integer")
		return 0, false
	}
	return int(n), true
}

func (r *fieldReader) id(name string) (uuid.UUID, bool) {
	v, ok := r.kind(name, jsonx.String)
	if !ok {
		return uuid.UUID{}, false
	}
	id, err := uuid.Parse(v.Text())
	if err != nil || len(v.Text()) != len(id.String()) {
		r.bad.add(r.at(name), "must be a UUID")
		return uuid.UUID{}, false
	}
	return id, true
}

// texts returns an array of strings; nil when it is absent.
func (r *fieldReader) texts(name string) []string {
	v, ok := r.kind(name, jsonx.Array)
	if !ok {
		return nil
	}
	out := make([]string, 0, v.Len())
	for i, e := range v.Elems() {
		if e.Kind() != jsonx.String {
			r.bad.add(jsonx.JoinIndex(r.at(name), i), "must be of type string")
			continue
		}
		out = append(out, e.Text())
	}
	return out
}

// textMap returns an object of strings; nil when it is absent.
func (r *fieldReader) textMap(name string) map[string]string {
	v, ok := r.kind(name, jsonx.Object)
	if !ok {
		return nil
	}
	out := make(map[string]string, v.Len())
	for _, m := range v.Members() {
		if m.Value.Kind() != jsonx.String {
			r.bad.add(jsonx.JoinName(r.at(name), m.Name), "must be of type string")
			continue
		}
		out[m.Name] = m.Value.Text()
	}
	return out
}

// object reads a field that is an object itself. It reports whether it is there.
func (r *fieldReader) object(name string, read func(*fieldReader)) bool {
	v, ok := r.kind(name, jsonx.Object)
	if ok {
		readFields(v, r.at(name), r.bad, read)
	}
	return ok
}

// each reads an array of objects.
func (r *fieldReader) each(name string, read func(*fieldReader)) {
	v, ok := r.kind(name, jsonx.Array)
	if !ok {
		return
	}
	for i, e := range v.Elems() {
		readFields(e, jsonx.JoinIndex(r.at(name), i), r.bad, read)
	}
}

// moment reads an ISO 8601 date-time. Without an offset it is in UTC.
func (r *fieldReader) moment(name string) *time.Time {
	v, ok := r.kind(name, jsonx.String)
	if !ok {
		return nil
	}
	for _, layout := range dateTimeLayouts {
		if t, err := time.Parse(layout, v.Text()); err == nil {
			t = t.UTC().Truncate(time.Microsecond)
			return &t
		}
	}
	r.bad.add(r.at(name), "must be an ISO 8601 date-time")
	return nil
}

// Bounds on text that stands in columns.
const maxName = 200

// checkName checks the name of a tenant, application, reactor or proxy.
func checkName(bad *InvalidError, path, name string) {
	switch {
	case strings.TrimSpace(name) == "":
		bad.add(path, "is required")
	case longer(name, maxName):
		bad.add(path, "must have at most %d characters", maxName)
	default:
		checkText(bad, path, name)
	}
}

// checkText refuses what a text column cannot hold or a person cannot see.
func checkText(bad *InvalidError, path, s string) bool {
	msg := textProblem(s)
	if msg != "" {
		bad.add(path, "%s", msg)
	}
	return msg == ""
}

// longer reports whether a text has more than so many characters.
func longer(s string, most int) bool { return len(s) > most && utf8.RuneCountInString(s) > most }

// isPlain reports whether a text is printable ASCII, as most are.
func isPlain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// textProblem says what checkText has against a text; "" when nothing.
func textProblem(s string) string {
	switch {
	case isPlain(s):
		return ""
	case !utf8.ValidString(s):
		return "must be valid Unicode text"
	case strings.ContainsFunc(s, unicode.IsControl):
		return "must not contain control characters"
	default:
		return ""
	}
}
