package expr

import (
	"slices"
	"unicode/utf8"

	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

// ShortLeaf is the number of characters from which a string or number is
// sensitive by itself. Filters may take shorter values apart.
const ShortLeaf = 6

// Whole restricts expressions over some tokens, so that they insert data whole:
// a part of a value cannot be recognized in a response. Such an expression may
// use json with a path of names and indexes to one leaf, to_string and
// stringify, and other filters on leaves of fewer than ShortLeaf characters. A
// path with a condition would tell whether the condition holds.
type Whole struct {
	Of       func(id string) bool           // whether it applies to a token
	Inserted func(id string, v jsonx.Value) // called with each result
	Refused  func(id string)                // called before an evaluation fails
}

// wholeFilters are the filters that keep a value whole.
var wholeFilters = []string{"json", "to_string", "stringify"}

// keepsWhole reports whether a filter may be applied to data of a token that is
// inserted whole. If free is true, so may all filters after it.
func (f *application) keepsWhole(in jsonx.Value) (ok, free bool) {
	if !slices.Contains(wholeFilters, f.filter.name) {
		short := isLeaf(in) && utf8.RuneCountInString(in.Text()) < ShortLeaf
		return short, short
	}
	return f.filter.name != "json" || f.args[0].path.Singular(), false
}

func isLeaf(v jsonx.Value) bool { return v.Kind() != jsonx.Object && v.Kind() != jsonx.Array }

// whole evaluates an expression under the restriction.
func (ev *evaluator) whole(e *expression, v jsonx.Value) jsonx.Value {
	id, free := e.operand.ref.ID, false
	for i := range e.filters {
		f, ok := &e.filters[i], true
		if !free {
			ok, free = f.keepsWhole(v)
		}
		if ok {
			v = ev.apply(f, v)
		}
		if !ok || f.filter.name == "json" && !isLeaf(v) {
			ev.env.Whole.Refused(id)
			ev.filter = f
			panic(faultf("must not take data of this token apart"))
		}
	}
	ev.env.Whole.Inserted(id, v)
	return v
}
