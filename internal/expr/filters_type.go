package expr

import (
	"strings"

	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

func typeFilters() []*filter {
	return []*filter{
		{name: "json", params: []param{required("path", pathParam)}, apply: jsonFilter},
		{name: "stringify", apply: func(ev *evaluator, in jsonx.Value, _ []arg) jsonx.Value {
			return stringify(ev, in)
		}},
		{name: "to_string", apply: toString},
		{name: "to_number", apply: toNumber},
		{name: "to_boolean", apply: toBoolean},
		{name: "default", params: []param{required("value", anyParam), or("allow_false", flagParam, false)}, apply: defaultFilter},
	}
}

func jsonFilter(ev *evaluator, in jsonx.Value, args []arg) jsonx.Value {
	v, err := args[0].path.One(in, ev.env.Budget)
	if err != nil {
		panic(faultf("%v", err))
	}
	return v
}

// stringify returns the text of any value: a string unchanged, otherwise
// compact JSON.
func stringify(ev *evaluator, v jsonx.Value) jsonx.Value {
	if v.Kind() == jsonx.String {
		return v
	}
	text := ev.inserted(v)
	if v.IsNull() {
		text = "null"
	}
	return jsonx.StringValue(text)
}

func toString(ev *evaluator, in jsonx.Value, _ []arg) jsonx.Value {
	if in.IsNull() {
		return jsonx.StringValue("")
	}
	return stringify(ev, in)
}

// toNumber keeps the text of a number, so that 1.10 stays 1.10. It drops a plus
// sign, leading zeros and surrounding spaces.
func toNumber(_ *evaluator, in jsonx.Value, _ []arg) jsonx.Value {
	switch in.Kind() {
	case jsonx.Number:
		return in
	case jsonx.Bool:
		if in.Bool() {
			return jsonx.IntValue(1)
		}
		return jsonx.IntValue(0)
	case jsonx.String:
		v, err := jsonx.NumberValue(plainNumber(in.Text()))
		if err != nil {
			panic(faultf("needs text that is a decimal number"))
		}
		return v
	default:
		panic(needs("a number or text", in))
	}
}

// plainNumber writes a decimal number in the form that JSON requires. If the
// text is not a number, the result is not one either.
func plainNumber(s string) string {
	s = strings.TrimSpace(s)
	sign := ""
	if unsigned, found := strings.CutPrefix(s, "-"); found {
		sign, s = "-", unsigned
	} else {
		s = strings.TrimPrefix(s, "+")
	}
	for len(s) > 1 && s[0] == '0' && s[1] >= '0' && s[1] <= '9' {
		s = s[1:]
	}
	if strings.HasPrefix(s, "-") {
		return ""
	}
	return sign + s
}

func toBoolean(_ *evaluator, in jsonx.Value, _ []arg) jsonx.Value {
	s, ok := scalarText(in)
	if !ok {
		panic(needs("a boolean or text", in))
	}
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "true", "1":
		return jsonx.BoolValue(true)
	case "false", "0":
		return jsonx.BoolValue(false)
	default:
		panic(faultf("needs true, false, 1 or 0"))
	}
}

// defaultFilter replaces null, false and empty values. With allow_false, false
// stays.
func defaultFilter(_ *evaluator, in jsonx.Value, args []arg) jsonx.Value {
	var missing bool
	switch in.Kind() {
	case jsonx.Null:
		missing = true
	case jsonx.Bool:
		missing = !in.Bool() && !args[1].yes
	case jsonx.String:
		missing = in.Text() == ""
	case jsonx.Array, jsonx.Object:
		missing = in.Len() == 0
	default: // a number is never empty
	}
	if missing {
		return args[0].value
	}
	return in
}
