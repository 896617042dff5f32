package expr

import (
	"cmp"
	"slices"
	"strings"

	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

// uniqueCost is the cost of adding an element to a set, in addition to its
// JSON.
const uniqueCost = 6

func arrayFilters() []*filter {
	return []*filter{
		arrayFilter("join", join, or("glue", textParam, " ")),
		arrayFilter("reverse", func(ev *evaluator, in []jsonx.Value, _ []arg) jsonx.Value {
			ev.spend(len(in))
			out := slices.Clone(in)
			slices.Reverse(out)
			return jsonx.ArrayValue(out...)
		}),
		arrayFilter("sort", sortArray, optional("property", textParam)),
		arrayFilter("uniq", uniq, optional("property", textParam)),
		arrayFilter("compact", compact, optional("property", textParam)),
		arrayFilter("map", mapArray, required("property", textParam)),
		arrayFilter("concat", concatArrays, required("array", anyParam)),
		{name: "first", apply: func(_ *evaluator, in jsonx.Value, _ []arg) jsonx.Value {
			return end(in, in.Index(0), func(s string) string { return prefix(s, 1) })
		}},
		{name: "last", apply: func(_ *evaluator, in jsonx.Value, _ []arg) jsonx.Value {
			return end(in, in.Index(in.Len()-1), func(s string) string { return suffix(s, 1) })
		}},
		{name: "size", apply: size},
	}
}

// end returns an end of an array or of a string, or null for an empty array.
func end(in, elem jsonx.Value, ofText func(string) string) jsonx.Value {
	switch {
	case in.Kind() == jsonx.String:
		return jsonx.StringValue(ofText(in.Text()))
	case in.IsNull(), in.Kind() == jsonx.Array && elem.IsZero():
		return jsonx.NullValue()
	case in.Kind() == jsonx.Array:
		return elem
	default:
		panic(needs("an array or text", in))
	}
}

// size counts the characters of text, or the children of an array or object.
func size(_ *evaluator, in jsonx.Value, _ []arg) jsonx.Value {
	switch in.Kind() {
	case jsonx.String:
		return jsonx.IntValue(int64(charCount(in.Text())))
	case jsonx.Array, jsonx.Object, jsonx.Null:
		return jsonx.IntValue(int64(in.Len()))
	default:
		panic(needs("text, an array or an object", in))
	}
}

func join(ev *evaluator, in []jsonx.Value, args []arg) jsonx.Value {
	var b strings.Builder
	for i, e := range in {
		piece, glue := ev.inserted(e), args[0].text
		if i == 0 {
			glue = ""
		}
		ev.spend(1 + admission.TextSteps(len(glue)))
		if size := b.Len() + len(glue) + len(piece); size > maxText {
			ev.fits(size, 0)
		}
		b.WriteString(glue)
		b.WriteString(piece)
	}
	return jsonx.StringValue(b.String())
}

// property returns the member of an element that an optional argument names, or
// null if there is no such member. Without the argument it returns the element
// itself.
func property(ev *evaluator, elem jsonx.Value, name arg) jsonx.Value {
	ev.spend(1 + elem.Len()/membersPerStep)
	if !name.given {
		return elem
	}
	if elem.Kind() != jsonx.Object {
		panic(needs("an array of objects", elem))
	}
	if v := elem.Get(name.text); !v.IsZero() {
		return v
	}
	return jsonx.NullValue()
}

func mapArray(ev *evaluator, in []jsonx.Value, args []arg) jsonx.Value {
	ev.spend(len(in))
	out := make([]jsonx.Value, len(in))
	for i, e := range in {
		out[i] = property(ev, e, args[0])
	}
	return jsonx.ArrayValue(out...)
}

// compact removes the elements that are null, or whose property is null.
func compact(ev *evaluator, in []jsonx.Value, args []arg) jsonx.Value {
	var out []jsonx.Value
	for _, e := range in {
		if !property(ev, e, args[0]).IsNull() {
			out = append(out, e)
		}
	}
	ev.spend(len(out))
	return jsonx.ArrayValue(out...)
}

// uniq keeps the first of elements with the same JSON text, or with the same
// property.
func uniq(ev *evaluator, in []jsonx.Value, args []arg) jsonx.Value {
	seen := make(map[string]bool)
	var out []jsonx.Value
	for _, e := range in {
		v := property(ev, e, args[0])
		size := ev.weigh(v)
		ev.spend(uniqueCost + admission.TextSteps(size))
		key := string(v.Append(make([]byte, 0, size)))
		if !seen[key] {
			seen[key] = true
			out = append(out, e)
		}
	}
	return jsonx.ArrayValue(out...)
}

const sortCost = 2 // per element, in addition to the comparisons

type sortItem struct {
	key, elem jsonx.Value
	at        int
}

// sortArray sorts numbers by value or strings by code point, with null at the
// end.
func sortArray(ev *evaluator, in []jsonx.Value, args []arg) jsonx.Value {
	ev.spend(sortCost * len(in))
	items := make([]sortItem, len(in))
	kind := jsonx.Null
	for i, e := range in {
		key := property(ev, e, args[0])
		items[i] = sortItem{key, e, i}
		if key.IsNull() {
			continue
		}
		if k := key.Kind(); (k != jsonx.Number && k != jsonx.String) || (kind != jsonx.Null && k != kind) {
			panic(faultf("needs only numbers, or only text, to sort by"))
		}
		kind = key.Kind()
	}
	slices.SortFunc(items, func(a, b sortItem) int { return cmp.Or(ev.compareKeys(a.key, b.key), cmp.Compare(a.at, b.at)) })
	out := make([]jsonx.Value, len(items))
	for i := range items {
		out[i] = items[i].elem
	}
	return jsonx.ArrayValue(out...)
}

// The cost of comparing two keys, in addition to their text.
const (
	compareCost       = 1
	compareNumberCost = 4
)

func (ev *evaluator) compareKeys(a, b jsonx.Value) int {
	cost := compareCost
	if a.Kind() == jsonx.Number {
		cost = compareNumberCost
	}
	ev.spend(cost + admission.TextSteps(len(a.Text())+len(b.Text())))
	switch {
	case a.IsNull() && b.IsNull():
		return 0
	case a.IsNull():
		return 1
	case b.IsNull():
		return -1
	case a.Kind() == jsonx.Number:
		return jsonx.CompareNumbers(a.Text(), b.Text())
	default:
		return strings.Compare(a.Text(), b.Text())
	}
}

func concatArrays(ev *evaluator, in []jsonx.Value, args []arg) jsonx.Value {
	other := args[0].value
	if other.Kind() != jsonx.Array {
		panic(faultf("the argument array must be an array, such as data.list"))
	}
	ev.spend(len(in) + other.Len())
	return jsonx.ArrayValue(slices.Concat(in, other.Elems())...)
}
