package expr_test

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/expr"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// priced has uses of every filter and every construct of JSONPath, each on data
// that makes it work hard.
var priced = func() []struct{ use, data string } {
	ones := list("1", 130)
	decimals := list("12.50,12.5000001,-3e2", 50)
	strs := list(`"abcdefgh"`, 500)
	objects := list(`{"k":1,"name":"Jane","tags":["a","b"]}`, 300)
	wide := `[{` + strings.TrimSuffix(members(400), ",") + `}]`
	deep := strings.Repeat(`[[1],`, 60) + `1` + strings.Repeat(`]`, 60)
	long := `"` + strings.Repeat("4242-abcD ", 2000) + `"`
	greek := `"` + strings.Repeat("αβγδ-Ωψ", 2000) + `"`
	texts := list(`"`+strings.Repeat("ab", 50)+`"`, 50)
	digits := `"` + strings.Repeat("7", 990) + `"`
	json := func(path string) string { return "json: '" + path + "'" }
	return []struct{ use, data string }{
		{json("$[?$[?$[?@.zz]]]"), ones},
		{json("$[?@.k && count($[?count($[?@.zz])==1])==0].k"), objects},
		{json("$..zz"), deep}, {json("$..[?@..zz]"), deep}, {json("$..*..*..zz"), deep},
		{json("$..*.zz"), objects}, {json("$[*,*,*].zz"), objects}, {json("$[::-1].zz"), objects}, {json("$[?!@.k]"), objects},
		{json(`$[?@.tags[0]=="zz"]`), objects}, {json("$[?@.tags==$[0].zz]"), objects}, {json(`$[?@.zz==1||@.name=="x"||@.k<1]`), objects},
		{json("$[?@==$[0]][?@.zz]"), objects}, {json("$[?$[?@==1.0]]"), decimals}, {json("$[?$[?@<-1e9]]"), decimals},
		{json(`$[?$[?@<"a"]]`), strs}, {json(`$[?$[?@=="abcdefgi"]]`), strs}, {json("$[?length(@)<0]"), texts}, {json("$[?value($..zz)==1]"), ones},
		{json("$[?value(@..zz)==1]"), objects}, {json("$[?count($..*)<0]"), ones}, {json("$[0].zz"), wide}, {json("$[?$[?$[0].zz]]"), wide},
		{json("$[?$[0]!=$[0]]"), wide},
		{json("$[?search(@, \"b[ab]+c\")]"), texts}, {json("$[?match(@, \"(a|b|ab)*c\")]"), texts}, {json("$[?search(@, \"(a|aa|b|bb){1,50}c\")]"), texts},
		{json("$[?search(@, \"a.*b.*c.*d\")]"), texts}, {json("$[?search(@, \"(a?){30}c\")]"), list(long, 1)},
		{json("$[?search(@, \"x\")]"), texts}, {json("$[?search(@, \"x\")]"), list(long, 1)}, {json("$[?match(@, \"z{1000}\")]"), `["x"]`},
		{json("$[?match(@, \"[a-z]{900}\")]"), `["x"]`}, {json("$[?match(@, \"(\\\\p{L}|\\\\p{N}){200}\")]"), `["x"]`}, {json("$[?match(@, $[0])]"), strs},
		{"stringify", objects}, {"stringify", ones}, {"stringify", long}, {"to_string", objects}, {"to_boolean", `"true"`}, {"to_number", digits},
		{"default: 1", `""`}, {"last4", long}, {"last4", greek}, {"reveal_last: 4", long}, {"reveal_last: 4, '*'", greek}, {"reveal: 0, 4", long},
		{"reveal: 0, 4, 'X', '-D'", long}, {"reveal: 0, 4, 'X', data", greek}, {"card_mask: true, true", long}, {"card_mask: true, true, 'X', '- '", long},
		{"card_bin: '-'", long}, {"alias_card", long}, {"alias_preserve_format", long}, {"alias_preserve_format", greek}, {"alias_preserve_length", long},
		{"alias_preserve_length", `"4242424242424242"`},
		{"append: data", long}, {"prepend: 'x'", long}, {"remove: '-'", long}, {"remove_first: '-'", long}, {"replace: 'a', 'bb'", long}, {"replace: '', 'x'", long},
		{"replace: 'aaab', 'x'", `"` + strings.Repeat("a", 20000) + `"`}, {"replace_first: 'a', 'b'", long}, {"upcase", long}, {"upcase", greek}, {"downcase", greek},
		{"capitalize", greek}, {"strip", `"` + strings.Repeat(" ", 20000) + `"`}, {"lstrip", `"` + strings.Repeat(" ", 20000) + `"`},
		{"rstrip", `"` + strings.Repeat("\u2003", 7000) + `"`}, {"strip_newlines", long}, {"strip_newlines", `"` + strings.Repeat(`\n`, 7000) + `"`},
		{"slice: 5, 9000", long}, {"slice: 5, 9000", greek}, {"slice: 5, 300", objects}, {"truncate: 9000", greek}, {"split: ''", long}, {"split: ' '", long}, {"split: '-'", long},
		{"escape", `"` + strings.Repeat("<&", 7000) + `"`}, {"escape", long}, {"url_encode", greek}, {"url_decode", `"` + strings.Repeat("%41+", 7000) + `"`},
		{"base64_encode", long}, {"base64_encode | base64_decode", long}, {"pad_left: 20000, 'x'", `"a"`}, {"pad_right: 20000, 'é'", `"a"`},
		{"plus: 1", "1"}, {"plus: 1.5", digits}, {"plus: 1e-999", `"1e999"`}, {"minus: 0.1", digits}, {"times: data", digits}, {"times: 1e999", `1e999`},
		{"divided_by: 3", digits}, {"divided_by: 3.5", `1e999`}, {"divided_by: 3e-999", `1e999`}, {"modulo: 7", digits}, {"modulo: 7e-999", `1e999`}, {"round: 2", `1.555`},
		{"floor", `1e-999`}, {"ceil", digits}, {"abs", digits}, {"abs", "-1"},
		{"date: '%Y-%m-%d'", `"2 Jan 2026"`}, {"date: '" + strings.Repeat("%c%A", 500) + "'", `"2026-01-02"`}, {"date: '" + strings.Repeat("x", 2000) + "'", `"2026-01-02"`},
		{"join", strs}, {"join: '--'", objects}, {"join: ''", ones}, {"reverse", strs}, {"sort", strs}, {"sort", decimals}, {"sort: 'name'", objects}, {"sort", list(`"`+strings.Repeat("x", 200)+`"`, 200)},
		{"uniq", strs}, {"uniq", objects}, {"uniq: 'name'", objects}, {"uniq", distinct(500)}, {"compact", strs}, {"compact: 'zz'", objects}, {"map: 'name'", objects}, {"map: 'zz'", wide},
		{"concat: data", strs}, {"first", long}, {"last", greek}, {"last", strs}, {"size", greek}, {"size", strs},
	}
}()

func list(elem string, n int) string {
	return "[" + strings.TrimSuffix(strings.Repeat(elem+",", n), ",") + "]"
}

func members(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(`"ab` + string(rune('0'+i/64)) + string(rune('0'+i%64)) + `":1,`)
	}
	return strings.ReplaceAll(b.String(), `\`, "é")
}

func distinct(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(`,"` + string(rune(0x4e00+i)) + `abcdef"`)
	}
	return "[" + b.String()[1:] + "]"
}

// TestEveryFilterIsPriced keeps the list above complete.
func TestEveryFilterIsPriced(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for _, p := range priced {
		for _, f := range strings.Split(p.use, " | ") {
			name, _, _ := strings.Cut(f, ":")
			used[name] = true
		}
	}
	for _, name := range expr.FilterNames() {
		if !used[name] {
			t.Errorf("%s is not priced", name)
		}
	}
}

// BenchmarkSteps shows the cost of a step in each filter and construct, which
// should be about 50 ns and nowhere much more.
func BenchmarkSteps(b *testing.B) {
	for _, p := range priced {
		name := p.use
		if len(name) > 50 {
			name = name[:50]
		}
		b.Run(name, func(b *testing.B) {
			template, err := expr.Compile("{{ data | " + p.use + " }}")
			must.Do(b, err)
			data, steps := mustJSON(b, p.data), 0
			for b.Loop() {
				request := admission.RequestBudget(b.Context(), 1, len(p.data))
				_, err = template.Eval(expr.Data(data, jsonx.Value{}, request))
				steps += request.Used()
			}
			if err != nil && !strings.Contains(err.Error(), "finds") && !strings.Contains(err.Error(), "work") {
				b.Fatalf("%s: %v", p.use, err)
			}
			b.ReportMetric(float64(b.Elapsed()/time.Nanosecond)/float64(steps), "ns/step")
		})
	}
}
