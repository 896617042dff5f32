package expr

import "github.com/seed-72ea4aab/vault/internal/jsonx"

// filters is the table of all filters by name.
var filters = func() map[string]*filter {
	table := make(map[string]*filter)
	for _, group := range [][]*filter{
		hidingFilters(), aliasFilters(), typeFilters(), textFilters(), encodingFilters(), numberFilters(), arrayFilters(),
	} {
		for _, f := range group {
			table[f.name] = f
		}
	}
	return table
}()

// required makes a required parameter.
func required(name string, kind paramKind) param { return param{name: name, kind: kind} }

// optional makes a parameter without a default.
func optional(name string, kind paramKind) param {
	return param{name: name, kind: kind, optional: true}
}

// or makes a parameter with a default.
func or(name string, kind paramKind, fallback any) param {
	v, err := jsonx.From(fallback)
	if err != nil {
		panic(err)
	}
	return param{name: name, kind: kind, fallback: v}
}

// textFilter makes a filter from a function on text. Null counts as "", as in
// Liquid.
func textFilter(name string, apply func(ev *evaluator, in string, args []arg) string, params ...param) *filter {
	return &filter{name: name, params: params, apply: func(ev *evaluator, in jsonx.Value, args []arg) jsonx.Value {
		s, ok := scalarText(in)
		if !ok && !in.IsNull() {
			panic(needs("text", in))
		}
		return jsonx.StringValue(apply(ev, s, args))
	}}
}

// secretFilter makes a filter from a function that hides text. Null stays null,
// because there is nothing to hide.
func secretFilter(name string, apply func(ev *evaluator, in string, args []arg) string, params ...param) *filter {
	f := textFilter(name, apply, params...)
	onText := f.apply
	f.apply = func(ev *evaluator, in jsonx.Value, args []arg) jsonx.Value {
		if in.IsNull() {
			return in
		}
		return onText(ev, in, args)
	}
	return f
}

// arrayFilter makes a filter from a function on arrays.
func arrayFilter(name string, apply func(ev *evaluator, in []jsonx.Value, args []arg) jsonx.Value, params ...param) *filter {
	return &filter{name: name, params: params, apply: func(ev *evaluator, in jsonx.Value, args []arg) jsonx.Value {
		if in.Kind() != jsonx.Array {
			panic(needs("an array", in))
		}
		return apply(ev, in.Elems(), args)
	}}
}
