package expr_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/expr"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// filterCase is one use of a filter: the text after "data | ", the data, and
// either the resulting JSON or a part of the error message.
type filterCase struct {
	use, data string
	want      string
	fails     string
}

func mustJSON(t testing.TB, text string) jsonx.Value {
	t.Helper()
	return must.Get(jsonx.Parse([]byte(text), jsonx.Limits{}))(t)
}

// noon is the time of the date filter in tests.
func noon() time.Time {
	return time.Date(2024, 2, 29, 13, 5, 9, 0, time.FixedZone("", 3600))
}

func eval(t testing.TB, source, data string) (string, error) {
	t.Helper()
	template, err := expr.Compile(source)
	if err != nil {
		return "", err
	}
	env := expr.Data(mustJSON(t, data), mustJSON(t, `{"color":"red","a b":"x"}`), admission.RequestBudget(t.Context(), 1, len(data)))
	env.Now = noon
	v, err := template.Eval(env)
	return string(v.JSON()), err
}

func TestFilters(t *testing.T) {
	t.Parallel()
	for _, c := range allCases {
		t.Run(c.use+" on "+c.data, func(t *testing.T) {
			t.Parallel()
			got, err := eval(t, "{{ data | "+c.use+" }}", c.data)
			if c.fails != "" {
				checkFailure(t, err, c)
			} else if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func checkFailure(t *testing.T, err error, c filterCase) {
	t.Helper()
	e, ok := errors.AsType[*expr.Error](err)
	if !ok {
		t.Fatalf("got %v, want an *Error", err)
	}
	must.Contain(t, "the message", e.Msg, c.fails)
	if e.Offset <= 0 {
		t.Errorf("the error has no offset: %v", e)
	}
	if secret := strings.Trim(c.data, `"{}[]`); len(secret) > 3 && secret != "null" && strings.Contains(e.Error(), secret) {
		t.Errorf("the error quotes the value: %v", e)
	}
}

var allCases = slices.Concat(hidingCases, typeCases, textCases, encodingCases, numberCases, arrayCases)

func TestEveryFilterIsTested(t *testing.T) {
	t.Parallel()
	for _, name := range expr.FilterNames() {
		tested := func(fails bool) bool {
			return slices.ContainsFunc(allCases, func(c filterCase) bool {
				used, _, _ := strings.Cut(c.use, ":")
				return used == name && (c.fails != "") == fails
			})
		}
		if !strings.HasPrefix(name, "alias_") && !(tested(true) && tested(false)) {
			t.Errorf("filter %s has no case that works, or none that fails", name)
		}
	}
}

var hidingCases = []filterCase{
	{use: "last4", data: `"4242424242421234"`, want: `"1234"`},
	{use: "last4", data: `"123"`, want: `"123"`},
	{use: "last4", data: `123456`, want: `"3456"`},
	{use: "last4", data: `"äöüßé"`, want: `"öüßé"`},
	{use: "last4", data: `null`, want: `null`},
	{use: "last4", data: `{"a":"secret"}`, fails: "filter last4: needs text, not an object"},
	{use: "last4: 1", data: `"x"`, fails: "too many arguments; it takes none"},
	{use: "reveal_last: 4", data: `"4242424242424242"`, want: `"XXXXXXXXXXXX4242"`},
	{use: "reveal_last: 4, '*'", data: `"123-45-6789"`, want: `"*******6789"`},
	{use: "reveal_last: 4, '•'", data: `"abcdé"`, want: `"•bcdé"`},
	{use: "reveal_last: 4", data: `"日本語テキスト"`, want: `"XXXテキスト"`},
	{use: "reveal_last: 4", data: `"\ud800abcd"`, want: `"Xabcd"`},
	{use: "reveal_last: 4", data: `"1234"`, want: `"XXXX"`},
	{use: "reveal_last: 4", data: `"123"`, want: `"XXX"`},
	{use: "reveal_last: 4", data: `""`, want: `""`},
	{use: "reveal_last: 0", data: `"123"`, want: `"XXX"`},
	{use: "reveal_last: 1000000", data: `"123"`, want: `"XXX"`},
	{use: "reveal_last: '4'", data: `"12345"`, want: `"X2345"`},
	{use: "reveal_last: length: 2, char: '#'", data: `"12345"`, want: `"###45"`},
	{use: "reveal_last: char='#', length=2", data: `"12345"`, want: `"###45"`},
	{use: "reveal_last: 4", data: `12345678`, want: `"XXXX5678"`},
	{use: "reveal_last: 2", data: `true`, want: `"XXue"`},
	{use: "reveal_last: 4", data: `null`, want: `null`},
	{use: "reveal_last: 4", data: `["12345678"]`, fails: "needs text, not an array"},
	{use: "reveal_last", data: `"12345"`, fails: "filter reveal_last: the argument length is missing"},
	{use: "reveal_last: -1", data: `"12345"`, fails: "the argument length must be an integer from 0"},
	{use: "reveal_last: 1.5", data: `"12345"`, fails: "must be an integer"},
	{use: "reveal_last: 'a'", data: `"12345"`, fails: "must be an integer"},
	{use: "reveal_last: 4, ''", data: `"12345"`, fails: "the argument char must be exactly one character"},
	{use: "reveal_last: 4, 'XY'", data: `"12345"`, fails: "exactly one character"},
	{use: "reveal_last: 4, 'X', 1", data: `"12345"`, fails: "too many arguments; it takes length, char"},
	{use: "reveal_last: 4, length: 5", data: `"12345"`, fails: "the argument length is given twice"},
	{use: "reveal_last: size: 5", data: `"12345"`, fails: "has no such argument; it takes length, char"},
	{use: "reveal: 2, 2", data: `"12345678"`, want: `"12XXXX78"`},
	{use: "reveal: 6", data: `"4242424242424242"`, want: `"424242XXXXXXXXXX"`},
	{use: "reveal: 0, 4, 'X', '-'", data: `"123-45-6789"`, want: `"XXX-XX-6789"`},
	{use: "reveal: 0, 4, 'X', '-'", data: `"123456789"`, want: `"XXXXX6789"`},
	{use: "reveal: 0, 4, 'X', '-'", data: `"1234"`, want: `"XXXX"`},
	{use: "reveal: 0, 4, 'X', '-'", data: `"----1234"`, want: `"XXXXXXXX"`},
	{use: "reveal: 2, 2", data: `"1234"`, want: `"XXXX"`},
	{use: "reveal: 2, 2", data: `"12345"`, want: `"12X45"`},
	{use: "reveal: 1000000, 1000000", data: `"12"`, want: `"XX"`},
	{use: "reveal: 1, 1, '*', 'é '", data: `"café olé x"`, want: `"c**é **é x"`},
	{use: "reveal: 1, 1", data: `null`, want: `null`},
	{use: "reveal: 1, 1", data: `{}`, fails: "needs text, not an object"},
	{use: "reveal", data: `"12345"`, fails: "the argument first is missing"},
	{use: "reveal: 1, 1, 'X', '-', 1", data: `"12345"`, fails: "too many arguments"},
	{use: "reveal: nil", data: `"12345"`, fails: "must be an integer"},
	{use: "card_mask", data: `"4242424242424242"`, want: `"XXXXXXXXXXXXXXXX"`},
	{use: "card_mask: true, true", data: `"4242424242421234"`, want: `"42424242XXXX1234"`},
	{use: "card_mask: 'true', 'false'", data: `"4242424242424242"`, want: `"42424242XXXXXXXX"`},
	{use: "card_mask: true, true", data: `"378282246310005"`, want: `"378282XXXXX0005"`},
	{use: "card_mask: false, true, '*', ' '", data: `"4242 4242 4242 1234"`, want: `"**** **** **** 1234"`},
	{use: "card_mask: true, true, 'X', '-'", data: `"4242-4242-4242-1234"`, want: `"4242-4242-XXXX-1234"`},
	{use: "card_mask: true, true", data: `"4242-4242-4242-1234"`, want: `"4242X4242XXXXXX1234"`},
	{use: "card_mask: reveal_last4=true", data: `"4242424242421234"`, want: `"XXXXXXXXXXXX1234"`},
	{use: "card_mask: reveal_last4: 'true', char: '#'", data: `4242424242421234`, want: `"############1234"`},
	{use: "card_mask: true, true", data: `"1234567890"`, want: `"XXXXXXXXXX"`},
	{use: "card_mask: false, true", data: `"1234"`, want: `"XXXX"`},
	{use: "card_mask", data: `"no digits"`, want: `"XXXXXXXXX"`},
	{use: "card_mask", data: `null`, want: `null`},
	{use: "card_mask: 'yes'", data: `"4242424242424242"`, fails: "the argument reveal_bin must be true or false"},
	{use: "card_mask: 1", data: `"4242424242424242"`, fails: "must be true or false"},
	{use: "card_mask", data: `{"number":"4242424242424242"}`, fails: "needs text, not an object"},
	{use: "card_bin", data: `"4242424242424242"`, want: `"42424242"`},
	{use: "card_bin", data: `"378282246310005"`, want: `"378282"`},
	{use: "card_bin", data: `"4242-4242-4242-4242"`, want: `"42424242"`},
	{use: "card_bin: '-'", data: `"4242424242424242"`, want: `"4242-4242"`},
	{use: "card_bin: separator: ' '", data: `"378282246310005"`, want: `"3782 82"`},
	{use: "card_bin", data: `null`, want: `null`},
	{use: "card_bin", data: `"1234567890"`, fails: "needs a card number"},
	{use: "card_bin", data: `"secret"`, fails: "needs a card number"},
	{use: "card_bin", data: `[]`, fails: "needs text, not an array"},
}

var typeCases = []filterCase{
	{use: "json: '$.a.b'", data: `{"a":{"b":1.10}}`, want: `1.10`},
	{use: "json: '$'", data: `"x"`, want: `"x"`},
	{use: "json: '$.l[-1]'", data: `{"l":[1,{"z":1,"a":2}]}`, want: `{"z":1,"a":2}`},
	{use: `json: "$['a b'][0]"`, data: `{"a b":[12345678901234567890]}`, want: `12345678901234567890`},
	{use: "json: '$.l[?@.k==2].v'", data: `{"l":[{"k":1,"v":"x"},{"k":2,"v":"y"}]}`, want: `"y"`},
	{use: "json: '$..deep'", data: `{"a":[{"b":{"deep":true}}]}`, want: `true`},
	{use: "json: '$.l[1:2]'", data: `{"l":[1,2,3]}`, want: `2`},
	{use: "json: '$.a'", data: `{"a":null}`, want: `null`},
	{use: "json: '$.a' | reveal_last: 4", data: `{"a":"123456"}`, want: `"XX3456"`},
	{use: "json: '$.none'", data: `{"a":"secret"}`, fails: "filter json: the JSONPath finds nothing"},
	{use: "json: '$.*'", data: `{"a":"secret","b":2}`, fails: "finds more than one value"},
	{use: "json: '$.a'", data: `"secret"`, fails: "finds nothing"},
	{use: "json: 'a'", data: `{}`, fails: "the argument path is not a valid JSONPath: it must start with $"},
	{use: "json: '$.'", data: `{}`, fails: "expected a name, * or ["},
	{use: "json: 1", data: `{}`, fails: "must be a JSONPath in quotes"},
	{use: "json: data.p", data: `{"p":"$"}`, fails: "the argument path must be text in quotes"},
	{use: "json", data: `{}`, fails: "the argument path is missing"},
	{use: "stringify", data: `"a \" b"`, want: `"a \" b"`},
	{use: "stringify", data: `1.10`, want: `"1.10"`},
	{use: "stringify", data: `{"z":1.0,"a":[true,null,"<"]}`, want: `"{\"z\":1.0,\"a\":[true,null,\"<\"]}"`},
	{use: "stringify", data: `null`, want: `"null"`},
	{use: "stringify", data: `false`, want: `"false"`},
	{use: "stringify: 1", data: `1`, fails: "too many arguments"},
	{use: "to_string", data: `1.10`, want: `"1.10"`},
	{use: "to_string", data: `[1, 2]`, want: `"[1,2]"`},
	{use: "to_string", data: `null`, want: `""`},
	{use: "to_string", data: `"x"`, want: `"x"`},
	{use: "to_string: 1", data: `1`, fails: "too many arguments"},
	{use: "to_number", data: `"1.10"`, want: `1.10`},
	{use: "to_number", data: `" +007 "`, want: `7`},
	{use: "to_number", data: `"-0042.50e1"`, want: `-42.50e1`},
	{use: "to_number", data: `"000"`, want: `0`},
	{use: "to_number", data: `12345678901234567890`, want: `12345678901234567890`},
	{use: "to_number", data: `true`, want: `1`},
	{use: "to_number", data: `false`, want: `0`},
	{use: "to_number", data: `"12a4"`, fails: "needs text that is a decimal number"},
	{use: "to_number", data: `""`, fails: "needs text that is a decimal number"},
	{use: "to_number", data: `"+-5"`, fails: "decimal number"},
	{use: "to_number", data: `"--5"`, fails: "decimal number"},
	{use: "to_number", data: `null`, fails: "needs a number or text, not null"},
	{use: "to_number", data: `[1]`, fails: "not an array"},
	{use: "to_boolean", data: `"true"`, want: `true`},
	{use: "to_boolean", data: `" FALSE "`, want: `false`},
	{use: "to_boolean", data: `1`, want: `true`},
	{use: "to_boolean", data: `"0"`, want: `false`},
	{use: "to_boolean", data: `true`, want: `true`},
	{use: "to_boolean", data: `"maybe"`, fails: "needs true, false, 1 or 0"},
	{use: "to_boolean", data: `2`, fails: "needs true, false, 1 or 0"},
	{use: "to_boolean", data: `null`, fails: "needs a boolean or text, not null"},
	{use: "default: 'x'", data: `null`, want: `"x"`},
	{use: "default: 1.50", data: `""`, want: `1.50`},
	{use: "default: true", data: `[]`, want: `true`},
	{use: "default: 'x'", data: `{}`, want: `"x"`},
	{use: "default: 'x'", data: `false`, want: `"x"`},
	{use: "default: 'x', allow_false: true", data: `false`, want: `false`},
	{use: "default: 'x'", data: `0`, want: `0`},
	{use: "default: 'x'", data: `"v"`, want: `"v"`},
	{use: "json: '$.a' | default: data.b", data: `{"a":null,"b":[1]}`, want: `[1]`},
	{use: "default", data: `null`, fails: "the argument value is missing"},
	{use: "default: 1, 2", data: `null`, fails: "allow_false must be true or false"},
}
