package expr_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

var thousandNines = strings.Repeat("9", 1000)

var numberCases = []filterCase{
	{use: "plus: 2", data: `4`, want: `6`},
	{use: "plus: 1", data: `12345678901234567890`, want: `12345678901234567891`},
	{use: "plus: 0.2", data: `0.1`, want: `0.3`},
	{use: "plus: 2", data: `1.10`, want: `3.1`},
	{use: "plus: 1", data: `1.0`, want: `2.0`},
	{use: "plus: '3'", data: `"4"`, want: `7`},
	{use: "plus: -5", data: `4`, want: `-1`},
	{use: "plus: 1", data: `1e3`, want: `1001.0`},
	{use: "plus: 1e-3", data: `1`, want: `1.001`},
	{use: "plus: data.b", data: `{"b":1}`, fails: "needs a number, not an object"},
	{use: "json: '$.a' | plus: data.b", data: `{"a":1,"b":2}`, want: `3`},
	{use: "plus: 1", data: thousandNines, want: "1" + strings.Repeat("0", 1000)},
	{use: "plus: 1", data: thousandNines + "9", fails: "a number of at most 1000 digits"},
	{use: "plus: 1", data: `1e1001`, fails: "a number of at most 1000 digits"},
	{use: "plus: 1", data: `1e-99999999999999999999`, fails: "at most 1000 digits"},
	{use: "plus: 1", data: `"abcd"`, fails: "needs a number"},
	{use: "plus: 1", data: `null`, fails: "needs a number, not null"},
	{use: "plus: 1", data: `true`, fails: "needs a number, not a boolean"},
	{use: "plus: 'x'", data: `1`, fails: "the argument operand must be a number"},
	{use: "plus", data: `1`, fails: "missing"},
	{use: "minus: 2", data: `4`, want: `2`},
	{use: "minus: 12", data: `183.357`, want: `171.357`},
	{use: "minus: 0.3", data: `0.1`, want: `-0.2`},
	{use: "minus: 1", data: `[]`, fails: "needs a number"},
	{use: "times: 7", data: `24`, want: `168`},
	{use: "times: 12", data: `183.357`, want: `2200.284`},
	{use: "times: 99999999999999999999", data: `99999999999999999999`, want: `9999999999999999999800000000000000000001`},
	{use: "times: -0.5", data: `3`, want: `-1.5`},
	{use: "times: 2", data: `{}`, fails: "needs a number"},
	{use: "divided_by: 4", data: `16`, want: `4`},
	{use: "divided_by: 3", data: `5`, want: `1`},
	{use: "divided_by: 3", data: `-5`, want: `-2`},
	{use: "divided_by: -3", data: `-5`, want: `1`},
	{use: "divided_by: 7.0", data: `20`, want: `2.85714285714285714286`},
	{use: "divided_by: 3", data: `-2.0`, want: `-0.66666666666666666667`},
	{use: "divided_by: 0.5", data: `1`, want: `2.0`},
	{use: "divided_by: 10", data: `100000000000000000000`, want: `10000000000000000000`},
	{use: "divided_by: 0", data: `1`, fails: "division by zero"},
	{use: "divided_by: 0.0", data: `1`, fails: "division by zero"},
	{use: "modulo: 2", data: `3`, want: `1`},
	{use: "modulo: 12", data: `183.357`, want: `3.357`},
	{use: "modulo: 3", data: `-5`, want: `1`},
	{use: "modulo: -3", data: `5`, want: `-1`},
	{use: "modulo: 3", data: `-6`, want: `0`},
	{use: "modulo: 0", data: `5`, fails: "division by zero"},
	{use: "round", data: `1.2`, want: `1`},
	{use: "round", data: `2.5`, want: `3`},
	{use: "round", data: `-2.5`, want: `-3`},
	{use: "round", data: `-0.4`, want: `0`},
	{use: "round: 2", data: `183.357`, want: `183.36`},
	{use: "round: 2", data: `1.50`, want: `1.5`},
	{use: "round: 2", data: `4`, want: `4`},
	{use: "round", data: `1e3`, want: `1000`},
	{use: "round: -1", data: `15`, fails: "must be an integer from 0"},
	{use: "round", data: `"x"`, fails: "needs a number"},
	{use: "floor", data: `1.9`, want: `1`},
	{use: "floor", data: `-1.1`, want: `-2`},
	{use: "floor", data: `"3.5"`, want: `3`},
	{use: "floor", data: `7`, want: `7`},
	{use: "floor", data: `-2.0`, want: `-2`},
	{use: "floor", data: `[]`, fails: "needs a number"},
	{use: "ceil", data: `1.2`, want: `2`},
	{use: "ceil", data: `-1.9`, want: `-1`},
	{use: "ceil", data: `2.0`, want: `2`},
	{use: "ceil", data: `[]`, fails: "needs a number"},
	{use: "abs", data: `-17`, want: `17`},
	{use: "abs", data: `"-19.86"`, want: `19.86`},
	{use: "abs", data: `4`, want: `4`},
	{use: "abs", data: `null`, fails: "needs a number"},
}

var arrayCases = []filterCase{
	{use: "join", data: `["a","b"]`, want: `"a b"`},
	{use: "join: ' and '", data: `["a",1.10,true,null,[1]]`, want: `"a and 1.10 and true and  and [1]"`},
	{use: "join: ','", data: `[]`, want: `""`},
	{use: "join", data: `"secret"`, fails: "needs an array, not a string"},
	{use: "first", data: `[1.0,2]`, want: `1.0`},
	{use: "first", data: `[]`, want: `null`},
	{use: "first", data: `"éa"`, want: `"é"`},
	{use: "first", data: `null`, want: `null`},
	{use: "first", data: `{}`, fails: "needs an array or text, not an object"},
	{use: "last", data: `[1,2.0]`, want: `2.0`},
	{use: "last", data: `[]`, want: `null`},
	{use: "last", data: `"aé"`, want: `"é"`},
	{use: "last", data: `""`, want: `""`},
	{use: "last", data: `5`, fails: "needs an array or text, not a number"},
	{use: "size", data: `"é😀"`, want: `2`},
	{use: "size", data: `[1,2,3]`, want: `3`},
	{use: "size", data: `{"a":1}`, want: `1`},
	{use: "size", data: `null`, want: `0`},
	{use: "size", data: `12345`, fails: "needs text, an array or an object"},
	{use: "reverse", data: `[1,"b",null]`, want: `[null,"b",1]`},
	{use: "reverse", data: `"abc"`, fails: "needs an array, not a string"},
	{use: "sort", data: `[10,9.5,1e1,null,-1]`, want: `[-1,9.5,10,1e1,null]`},
	{use: "sort", data: `["b","B","a","ä"]`, want: `["B","a","b","ä"]`},
	{use: "sort: 'p'", data: `[{"p":2,"n":"x"},{"n":"y"},{"p":1,"n":"z"}]`, want: `[{"p":1,"n":"z"},{"p":2,"n":"x"},{"n":"y"}]`},
	{use: "sort", data: `[]`, want: `[]`},
	{use: "sort", data: `[1,"a"]`, fails: "needs only numbers, or only text"},
	{use: "sort", data: `[{}]`, fails: "needs only numbers, or only text"},
	{use: "sort: 'p'", data: `[1]`, fails: "needs an array of objects"},
	{use: "sort", data: `"cba"`, fails: "needs an array"},
	{use: "uniq", data: `["a",1,"a",1,1.0,"1"]`, want: `["a",1,1.0,"1"]`},
	{use: "uniq: 'k'", data: `[{"k":1,"v":1},{"k":1,"v":2},{"v":3},{"k":null}]`, want: `[{"k":1,"v":1},{"v":3}]`},
	{use: "uniq", data: `{}`, fails: "needs an array"},
	{use: "compact", data: `[1,null,"",false,null]`, want: `[1,"",false]`},
	{use: "compact: 'k'", data: `[{"k":1},{"k":null},{}]`, want: `[{"k":1}]`},
	{use: "compact", data: `[null]`, want: `[]`},
	{use: "compact: 'k'", data: `["secret"]`, fails: "needs an array of objects, not a string"},
	{use: "map: 'k'", data: `[{"k":1.0},{"x":2},{"k":[3]}]`, want: `[1.0,null,[3]]`},
	{use: "map: 'k'", data: `[]`, want: `[]`},
	{use: "map: 'k'", data: `[1]`, fails: "needs an array of objects, not a number"},
	{use: "map: 'k'", data: `{"k":1}`, fails: "needs an array, not an object"},
	{use: "map", data: `[]`, fails: "the argument property is missing"},
	{use: "concat: data", data: `[1,"a"]`, want: `[1,"a",1,"a"]`},
	{use: "concat: metadata.none", data: `[1]`, fails: "must be an array"},
	{use: "concat: 'x'", data: `[1]`, fails: "must be an array"},
	{use: "concat: data", data: `"abcd"`, fails: "needs an array"},
}

// TestSortIsStable compares sort with the standard library.
func TestSortIsStable(t *testing.T) {
	t.Parallel()
	for n := range 70 {
		type pair struct{ key, place int }
		pairs := make([]pair, n)
		for i := range pairs {
			pairs[i] = pair{i * i % 7, i}
		}
		text := func() string {
			var b strings.Builder
			for _, p := range pairs {
				fmt.Fprintf(&b, `,{"k":%d,"i":%d}`, p.key, p.place)
			}
			return "[" + strings.TrimPrefix(b.String(), ",") + "]"
		}
		got, err := eval(t, "{{ data | sort: 'k' }}", text())
		slices.SortStableFunc(pairs, func(a, b pair) int { return a.key - b.key })
		if want := text(); err != nil || got != want {
			t.Errorf("of %d: %s, %v, want %s", n, got, err, want)
		}
	}
}
