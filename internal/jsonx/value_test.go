package jsonx_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

func TestZeroValueIsAbsent(t *testing.T) {
	t.Parallel()
	var zero jsonx.Value
	if !zero.IsZero() || zero.IsNull() || zero.Kind() != jsonx.Invalid {
		t.Error("the zero Value is not absent")
	}
	null := jsonx.NullValue()
	if null.IsZero() || !null.IsNull() || null.Equal(zero) {
		t.Error("null is not distinguished from absent")
	}
	if got := mustParse(t, `{"a":null}`); got.Get("a").IsZero() || !got.Get("b").IsZero() {
		t.Error("Get does not distinguish a null member from an absent one")
	}
	for _, v := range []jsonx.Value{zero, null, jsonx.StringValue("x")} {
		if v.Len() != 0 || v.Elems() != nil || v.Members() != nil || !v.Index(0).IsZero() || !v.Get("a").IsZero() {
			t.Errorf("a scalar of kind %s has children", v.Kind())
		}
	}
}

func TestConstructors(t *testing.T) {
	t.Parallel()
	number := must.Get(jsonx.NumberValue("1.10"))(t)
	v := jsonx.ObjectValue(
		jsonx.Member{Name: "s", Value: jsonx.StringValue("a\"b")},
		jsonx.Member{Name: "n", Value: number},
		jsonx.Member{Name: "i", Value: jsonx.IntValue(math.MinInt64)},
		jsonx.Member{Name: "b", Value: jsonx.BoolValue(true)},
		jsonx.Member{Name: "l", Value: jsonx.ArrayValue(jsonx.NullValue(), jsonx.Value{})},
		jsonx.Member{Name: "s", Value: jsonx.StringValue("later")},
	)
	want := `{"s":"later","n":1.10,"i":-9223372036854775808,"b":true,"l":[null,null]}`
	must.Same(t, "the value", want, string(v.JSON()))
	for _, bad := range []string{"", "01", "1.", "+1", " 1", "1 ", "NaN", "0x1", "1e", "-"} {
		must.Fail(jsonx.NumberValue(bad))(t, "NumberValue("+bad+") succeeded", must.Text("is not a JSON number"))
	}
}

func TestConstructorsCopyTheirArguments(t *testing.T) {
	t.Parallel()
	elems := []jsonx.Value{jsonx.IntValue(1)}
	v := jsonx.ArrayValue(elems...)
	elems[0] = jsonx.IntValue(2)
	must.Same(t, "changing the argument changed the Value to", "[1]", string(v.JSON()))
}

func TestStringValueIsAlwaysWritable(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain":                        `"plain"`,
		"\xff":                         `"` + "\ufffd" + `"`,
		"\xed\xa0\x80":                 `"\ud800"`,
		"\xed\xa0\xbd\xed\xb8\x80":     `"😀"`,
		"\xed\xb8\x80\xed\xa0\xbd":     `"\ude00\ud83d"`,
		"\xed\xa0":                     `"` + "\ufffd\ufffd" + `"`,
		"a\x00\x1f\x7f":                `"a\u0000\u001f` + "\x7f" + `"`,
		"\ud7ff\ue000":                 `"` + "\ud7ff\ue000" + `"`,
		"\xed\xa0\xbd\xed\xa0\xbdtail": `"\ud83d\ud83dtail"`,
	} {
		got := string(jsonx.StringValue(in).JSON())
		must.Same(t, "StringValue("+in+") wrote", want, got)
		if !mustParse(t, got).Equal(jsonx.StringValue(in)) {
			t.Errorf("StringValue(%q) does not survive a round trip", in)
		}
	}
}

func TestInt(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"0": 0, "-12": -12, "9223372036854775807": math.MaxInt64} {
		if got, ok := mustParse(t, text).Int(); !ok || got != want {
			t.Errorf("Int of %s = %d, %v", text, got, ok)
		}
	}
	for _, text := range []string{"1.0", "1e3", "9223372036854775808", `"1"`, "null", "true"} {
		if got, ok := mustParse(t, text).Int(); ok {
			t.Errorf("Int of %s = %d, want none", text, got)
		}
	}
}

func TestEqual(t *testing.T) {
	t.Parallel()
	var long, reversed []string
	for i := range 50 {
		long = append(long, `"k`+strconv.Itoa(i)+`":`+strconv.Itoa(i))
		reversed = append([]string{long[i]}, reversed...)
	}
	tests := []struct {
		a, b string
		want bool
	}{
		{`1`, `1`, true}, {`1`, `1.0`, false}, {`"1"`, `1`, false}, {`true`, `false`, false},
		{`null`, `null`, true}, {`null`, `false`, false}, {`[]`, `{}`, false}, {`[]`, `[]`, true},
		{`[1,2]`, `[2,1]`, false}, {`[1]`, `[1,2]`, false},
		{`{"a":1,"b":2}`, `{"b":2,"a":1}`, true}, {`{"a":1}`, `{"a":2}`, false}, {`{"a":1}`, `{"b":1}`, false},
		{`{"a":{"x":[1]}}`, `{"a":{"x":[1]}}`, true},
		{"{" + strings.Join(long, ",") + "}", "{" + strings.Join(reversed, ",") + "}", true},
	}
	for _, tt := range tests {
		a, b := mustParse(t, tt.a), mustParse(t, tt.b)
		must.Same(t, tt.a+" equals "+tt.b, []any{tt.want, tt.want}, []any{a.Equal(b), b.Equal(a)})
	}
}

func TestWithAndWithout(t *testing.T) {
	t.Parallel()
	v := mustParse(t, `{"number":"4242","cvc":"123","year":2030}`)
	must.Same(t, "Without", `{"number":"4242","year":2030}`, string(v.Without("cvc", "other").JSON()))
	if got := string(v.With("cvc", jsonx.NullValue()).With("new", jsonx.IntValue(1)).JSON()); got != `{"number":"4242","cvc":null,"year":2030,"new":1}` {
		t.Errorf("With: %s", got)
	}
	must.Same(t, "the original changed", `{"number":"4242","cvc":"123","year":2030}`, string(v.JSON()))
	must.Same(t, "With on absent", `{"a":1}`, string(jsonx.Value{}.With("a", jsonx.IntValue(1)).JSON()))
}

func TestInsideEncodingJSON(t *testing.T) {
	t.Parallel()
	type doc struct {
		Data   jsonx.Value `json:"data"`
		Absent jsonx.Value `json:"absent,omitzero"`
	}
	var d doc
	must.Do(t, json.Unmarshal([]byte(`{"data":{"b":1.10,"a":12345678901234567890}}`), &d))
	must.Same(t, "Marshal", `{"data":{"b":1.10,"a":12345678901234567890}}`, string(must.Get(json.Marshal(d))(t)))
	var e *jsonx.Error
	if err := json.Unmarshal([]byte(`{"data":{"a":1,"a":2}}`), &d); !errors.As(err, &e) {
		t.Errorf("a duplicate key gave %v", err)
	}
}

func TestFrom(t *testing.T) {
	t.Parallel()
	type card struct {
		Number string          `json:"number"`
		CVC    string          `json:"cvc,omitempty"`
		Raw    json.RawMessage `json:"raw,omitempty"`
	}
	tests := []struct {
		name string
		in   any
		want string
	}{
		{"nil", nil, `null`},
		{"value", mustParse(t, `{"a":1.0}`), `{"a":1.0}`},
		{"raw", json.RawMessage(` {"b": 1.10} `), `{"b":1.10}`},
		{"nil raw", json.RawMessage(nil), `null`},
		{"string", "a<b", `"a<b"`},
		{"bool", true, `true`},
		{"int", -3, `-3`},
		{"int64", int64(1) << 60, `1152921504606846976`},
		{"uint", uint8(3), `3`},
		{"float", 1.5, `1.5`},
		{"json number", json.Number("1.10"), `1.10`},
		{"struct", card{Number: "<1>", Raw: json.RawMessage(`{"z":1.0,"a":2}`)}, `{"number":"<1>","raw":{"z":1.0,"a":2}}`},
		{"map", map[string]any{"b": mustParse(t, `1.0`), "a": nil}, `{"a":null,"b":1.0}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := must.Get(jsonx.From(tt.in))(t)
			must.Same(t, "the value", tt.want, string(got.JSON()))
		})
	}
}

// A []byte does not reveal what it contains, and an error must not reveal it
// either.
func TestFromRejectsBytes(t *testing.T) {
	t.Parallel()
	for _, in := range [][]byte{nil, {}, []byte(`4242`)} {
		if _, err := jsonx.From(in); err == nil || !strings.Contains(err.Error(), "use vault.JSON") || strings.Contains(err.Error(), "4242") {
			t.Errorf("From(%q) = %v", in, err)
		}
	}
}

type leaky struct{}

func (leaky) MarshalJSON() ([]byte, error) { return nil, errors.New("4242424242424242 is wrong") }

func TestFromRejectsUnsupportedValues(t *testing.T) {
	t.Parallel()
	for _, in := range []any{
		math.NaN(), func() {}, make(chan int), leaky{}, json.RawMessage(`{"a":1,"a":1}`), json.RawMessage(`{`),
		json.Number("x"), map[string]any{"a": json.RawMessage(`{"k":1,"k":2}`)},
	} {
		_, err := jsonx.From(in)
		if _, ok := errors.AsType[*jsonx.Error](err); !ok {
			t.Errorf("From(%T) = %v, want an *Error", in, err)
			continue
		}
		must.Lack(t, fmt.Sprintf("the error of From(%T)", in), err.Error(), "4242")
	}
}
