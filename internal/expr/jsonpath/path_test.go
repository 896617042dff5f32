package jsonpath_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/expr/jsonpath"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// steps returns a budget of n steps, at least 20,000.
func steps(t testing.TB, n int) *admission.Budget {
	return admission.MaskBudget(t.Context(), 8*(n-20_000))
}

func mustJSON(t testing.TB, text string) jsonx.Value {
	t.Helper()
	return must.Get(jsonx.Parse([]byte(text), jsonx.Limits{}))(t)
}

func find(t testing.TB, path, doc string) string {
	t.Helper()
	p := must.Get(jsonpath.Parse(path))(t)
	var all []jsonx.Value
	must.Do(t, p.Each(mustJSON(t, doc), steps(t, 1<<20), func(v jsonx.Value) bool {
		all = append(all, v)
		return true
	}))
	return string(jsonx.ArrayValue(all...).JSON())
}

const (
	store = `{"store":{"book":[
		{"category":"reference","author":"Nigel Rees","title":"Sayings of the Century","price":8.95},
		{"category":"fiction","author":"Evelyn Waugh","title":"Sword of Honour","price":12.99},
		{"category":"fiction","author":"Herman Melville","title":"Moby Dick","isbn":"0-553-21311-3","price":8.99},
		{"category":"fiction","author":"J. R. R. Tolkien","title":"The Lord of the Rings","isbn":"0-395-19395-8","price":22.99}],
		"bicycle":{"color":"red","price":399}}}`
	mixed = `{"a":[3,5,1,2,4,6,{"b":"j"},{"b":"k"},{"b":{}},{"b":"kilo"}],"o":{"p":1,"q":2,"r":3,"s":5,"t":{"u":6}},"e":"f"}`
)

// TestFind has the examples of RFC 9535, and more filters and names.
func TestFind(t *testing.T) {
	t.Parallel()
	letters, nested := `["a","b","c","d","e","f","g"]`, `{"o":{"j":1,"k":2},"a":[5,3,[{"j":4},{"k":6}]]}`
	const names = `{"a'b":1,"a\"b":2,"a\\b":3,"ä☺":4,"\n\t\u0001":5,"😀":6,"_x1":7,"/":8}`
	tests := []struct{ doc, path, want string }{
		{store, `$.store.book[*].author`, `["Nigel Rees","Evelyn Waugh","Herman Melville","J. R. R. Tolkien"]`},
		{store, `$..author`, `["Nigel Rees","Evelyn Waugh","Herman Melville","J. R. R. Tolkien"]`},
		{store, `$.store..price`, `[8.95,12.99,8.99,22.99,399]`},
		{store, `$..book[2].title`, `["Moby Dick"]`},
		{store, `$..book[2].publisher`, `[]`},
		{store, `$..book[-1].title`, `["The Lord of the Rings"]`},
		{store, `$..book[0,1].price`, `[8.95,12.99]`},
		{store, `$..book[:2].price`, `[8.95,12.99]`},
		{store, `$..book[?@.isbn].price`, `[8.99,22.99]`},
		{store, `$..book[?@.price<10].title`, `["Sayings of the Century","Moby Dick"]`},
		{`{"k":"v"}`, `$`, `[{"k":"v"}]`},
		{`{"o":{"j j":{"k.k":3}},"'":{"@":2}}`, `$.o['j j']['k.k']`, `[3]`},
		{`{"o":{"j j":{"k.k":3}},"'":{"@":2}}`, `$["'"]["@"]`, `[2]`},
		{`{"o":{"j":1,"k":2},"a":[5,3]}`, `$[*]`, `[{"j":1,"k":2},[5,3]]`},
		{`{"o":{"j":1,"k":2},"a":[5,3]}`, `$.o[*, *]`, `[1,2,1,2]`},
		{letters, `$[1:3]`, `["b","c"]`},
		{letters, `$[5:]`, `["f","g"]`},
		{letters, `$[1:5:2]`, `["b","d"]`},
		{letters, `$[5:1:-2]`, `["f","d"]`},
		{letters, `$[::-1]`, `["g","f","e","d","c","b","a"]`},
		{letters, `$[0:3,5]`, `["a","b","c","f"]`},
		{letters, `$[0, 0]`, `["a","a"]`},
		{letters, `$[-2]`, `["f"]`},
		{letters, `$[::0]`, `[]`},
		{letters, `$[9:]`, `[]`},
		{letters, `$[-3:-1]`, `["e","f"]`},
		{nested, `$..j`, `[1,4]`},
		{nested, `$..[0]`, `[5,{"j":4}]`},
		{nested, `$..o`, `[{"j":1,"k":2}]`},
		{nested, `$.a..[0, 1]`, `[5,3,{"j":4},{"k":6}]`},
		{nested, `$..*`, `[{"j":1,"k":2},[5,3,[{"j":4},{"k":6}]],1,2,5,3,[{"j":4},{"k":6}],{"j":4},{"k":6},4,6]`},
		{`{"a":null,"b":[null],"c":[{}],"null":1}`, `$.a`, `[null]`},
		{`{"a":null,"b":[null],"c":[{}],"null":1}`, `$.a.d`, `[]`},
		{`{"a":null,"b":[null],"c":[{}],"null":1}`, `$.b[?@==null]`, `[null]`},
		{`{"a":null,"b":[null],"c":[{}],"null":1}`, `$.c[?@.d==null]`, `[]`},
		{`{"a":null,"b":[null],"c":[{}],"null":1}`, `$.null`, `[1]`},
		{mixed, `$.a[?@.b == 'kilo']`, `[{"b":"kilo"}]`},
		{mixed, `$.a[?(@.b == 'kilo')]`, `[{"b":"kilo"}]`},
		{mixed, `$.a[?@>3.5]`, `[5,4,6]`},
		{mixed, `$.a[?@.b]`, `[{"b":"j"},{"b":"k"},{"b":{}},{"b":"kilo"}]`},
		{mixed, `$[?@.*]`, `[[3,5,1,2,4,6,{"b":"j"},{"b":"k"},{"b":{}},{"b":"kilo"}],{"p":1,"q":2,"r":3,"s":5,"t":{"u":6}}]`},
		{mixed, `$[?@[?@.b]]`, `[[3,5,1,2,4,6,{"b":"j"},{"b":"k"},{"b":{}},{"b":"kilo"}]]`},
		{mixed, `$.o[?@<3, ?@<3]`, `[1,2,1,2]`},
		{mixed, `$.a[?@<2 || @.b == "k"]`, `[1,{"b":"k"}]`},
		{mixed, `$.a[?match(@.b, "[jk]")]`, `[{"b":"j"},{"b":"k"}]`},
		{mixed, `$.a[?search(@.b, "[jk]")]`, `[{"b":"j"},{"b":"k"},{"b":"kilo"}]`},
		{mixed, `$.o[?@>1 && @<4]`, `[2,3]`},
		{mixed, `$.o[?@.u || @.x]`, `[{"u":6}]`},
		{mixed, `$.a[?@.b == $.x]`, `[3,5,1,2,4,6]`},
		{mixed, `$.a[?@ == @]`, `[3,5,1,2,4,6,{"b":"j"},{"b":"k"},{"b":{}},{"b":"kilo"}]`},
		{mixed, `$.a[?!@.b]`, `[3,5,1,2,4,6]`},
		{mixed, `$.a[?!(@.b == 'k') && @.b]`, `[{"b":"j"},{"b":{}},{"b":"kilo"}]`},
		{mixed, `$.a[?length(@.b) == 4]`, `[{"b":"kilo"}]`},
		{mixed, `$.a[?length(@.b) < 1]`, `[{"b":{}}]`},
		{mixed, `$.a[?count(@.*) == 1 && @.b != 'j']`, `[{"b":"k"},{"b":{}},{"b":"kilo"}]`},
		{mixed, `$.a[?value(@..b) == 'j']`, `[{"b":"j"}]`},
		{mixed, `$.a[?@.b == 'k' || @.b == 'j' && @ > 99]`, `[{"b":"k"}]`},
		{mixed, `$.a[?@ >= 5.0]`, `[5,6]`},
		{mixed, `$.a[?@ <= 1e0]`, `[1]`},
		{mixed, `$.a[?@ == 0.3e1]`, `[3]`},
		{mixed, `$.a[?'j' <= @.b]`, `[{"b":"j"},{"b":"k"},{"b":"kilo"}]`},
		{mixed, `$.a[?@.b < 'k']`, `[{"b":"j"}]`},
		{mixed, `$.o[?@ == $.o.p]`, `[1]`},
		{mixed, `$[?@ == 'f']`, `["f"]`},
		{mixed, `$.a[?match(@.b, 'k.*')]`, `[{"b":"k"},{"b":"kilo"}]`},
		{mixed, `$.a[?match(@.b, 'k|i')]`, `[{"b":"k"}]`},
		{mixed, `$.a[?match(@.b, '(')]`, `[]`},
		{mixed, `$.a[?search(@.b, $.e)]`, `[]`},
		{mixed, `$.a[?match(@.b, @.b)]`, `[{"b":"j"},{"b":"k"},{"b":"kilo"}]`},
		{names, `$['a\'b']`, `[1]`},
		{names, `$["a'b"]`, `[1]`},
		{names, `$["a\"b"]`, `[2]`},
		{names, `$['a"b']`, `[2]`},
		{names, `$['a\\b']`, `[3]`},
		{names, `$.ä☺`, `[4]`},
		{names, `$['\u00e4\u263A']`, `[4]`},
		{names, `$['\n\t\u0001']`, `[5]`},
		{names, `$["\ud83d\ude00"]`, `[6]`},
		{names, `$.😀`, `[6]`},
		{names, `$._x1`, `[7]`},
		{names, `$['\/']`, `[8]`},
		{names, `$ ['_x1']`, `[7]`},
		{names, "$\n.\x5fx1", `[7]`},
		{names, "$[ '_x1' ,\t\"/\" ]", `[7,8]`},
	}
	for _, tt := range tests {
		must.Same(t, tt.path, tt.want, find(t, tt.path, tt.doc))
	}
}

func TestComparisons(t *testing.T) {
	t.Parallel()
	doc := `{"obj":{"x":"y"},"other":{"x":"y"},"arr":[2,3],"same":[2.0,3],"t":true,"dots":"a\r\nb","n":12345678901234567890}`
	for condition, want := range map[string]bool{
		`$.absent1 == $.absent2`: true, `$.absent1 <= $.absent2`: true, `$.absent == 'g'`: false, `$.absent != 'g'`: true,
		`1 <= 2`: true, `1 > 2`: false, `13 == '13'`: false, `'a' <= 'b'`: true, `'a' > 'b'`: false,
		`$.obj == $.arr`: false, `$.obj != $.arr`: true, `$.obj == $.other`: true, `$.obj == $.obj`: true, `$.arr == $.same`: true,
		`$.obj == 17`: false, `$.obj <= $.arr`: false, `$.obj < $.arr`: false, `$.obj <= $.obj`: true, `$.arr <= $.arr`: true,
		`1 <= $.arr`: false, `1 >= $.arr`: false, `true <= true`: true, `true > true`: false, `$.t == true`: true,
		`$.n == 12345678901234567890`: true, `$.n == 12345678901234567891`: false, `null == null`: true, `null < null`: false,
		`search($.dots, 'a..b')`: false, `search($.dots, '\\ab\\s')`: false, `search($.dots, 'a[.\\r]')`: true,
		`length($.arr) == 2`: true, `length($.t) == 2`: false, `length($.absent) == $.absent`: true, `count($..x) == 2`: true,
		`value($..x) == $.absent`: true, `value($.obj.*) == 'y'`: true,
	} {
		got := find(t, `$[?`+condition+`]`, doc) != `[]`
		must.Same(t, condition, want, got)
	}
}

func TestInvalidPathsAreRejected(t *testing.T) {
	t.Parallel()
	for _, path := range []string{
		``, `a`, ` $`, `$ `, `@`, `$.`, `$..`, `$...a`, `$.a b`, `$a`, `$. a`, `$.1a`, `$.a-b`, `$[`, `$[]`, `$[a]`, `$['a]`, `$['a'`, `$['a' 'b']`, `$['a',]`,
		`$[01]`, `$[-0]`, `$[-]`, `$[1.0]`, `$[9007199254740992]`, `$[-9007199254740992]`, `$[99999999999999999999]`, `$[1:2:3:4]`, `$[1 2]`, `$[:01]`, `$[::-]`,
		`$['\x']`, `$['\"']`, `$["\'"]`, `$['\ud800']`, `$['\u12']`, "$['\n']", `$['\`,
		`$[?]`, `$[?@.a==]`, `$[?==1]`, `$[?1]`, `$[?'a']`, `$[?true]`, `$[?@.a=1]`, `$[?@.*==1]`, `$[?@[0,1]==1]`, `$[?@..a==1]`, `$[?1==@[0:1]]`,
		`$[?@.a && ]`, `$[?(@.a]`, `$[?!1]`, `$[?!@.a==1]`, `$[?@.a==1==1]`, `$[?@.a=='x]`, `$[?@.a==01]`, `$[?@.a==1.]`, `$[?@.a==tru]`, `$[?@.a==True]`,
		`$[?length(@)]`, `$[?length()==1]`, `$[?length(@,@)==1]`, `$[?length(@.*)==1]`, `$[?length (@)==1]`, `$[?count(1)==1]`, `$[?value('a')==1]`,
		`$[?match(@.a)]`, `$[?match(@.a,'x')==true]`, `$[?match(@.*,'x')]`, `$[?nope(@)]`, `$[?length(match(@,'a'))==1]`, `$[?count(@.a`, `$[?count(@.a @.b)==1]`,
		`$[?@.a in [1]]`, `$[(@.length-1)]`,
		`$` + strings.Repeat("[?@", 21) + strings.Repeat("]", 21),
		`$[?` + strings.Repeat("(", 21) + "@" + strings.Repeat(")", 21) + `]`,
		`$[?` + strings.Repeat("length(", 21) + "@" + strings.Repeat(")", 21) + `==1]`,
		`$.` + strings.Repeat("a", 2000),
	} {
		_, err := jsonpath.Parse(path)
		e, ok := errors.AsType[*jsonpath.SyntaxError](err)
		if !ok {
			t.Errorf("Parse(%.60q) = %v, want a *SyntaxError", path, err)
			continue
		}
		if e.Offset < 0 || e.Offset > len(path) {
			t.Errorf("Parse(%.60q): offset %d", path, e.Offset)
		}
	}
}

func TestOne(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]error{`$.o.p`: nil, `$.none`: jsonpath.ErrNone, `$.o.*`: jsonpath.ErrMany, `$[?@.p].p`: nil} {
		p := must.Get(jsonpath.Parse(path))(t)
		b := steps(t, 1<<20)
		v, err := p.One(mustJSON(t, mixed), b)
		if !errors.Is(err, want) || (want == nil) != (v.Text() == "1") {
			t.Errorf("One(%s) = %s, %v, want %v", path, v.JSON(), err, want)
		}
		if b.Used() == 0 {
			t.Errorf("One(%s) cost nothing", path)
		}
	}
}

// TestBudget runs paths that would take forever without a budget.
func TestBudget(t *testing.T) {
	t.Parallel()
	wide := `[` + strings.Repeat(`{"a":[1,2,3],"s":"`+strings.Repeat("a", 1000)+`"},`, 300) + `1]`
	deep := strings.Repeat(`[`, 150) + `1` + strings.Repeat(`]`, 150)
	for path, doc := range map[string]string{
		`$..[?@..[?@..[?@..*]]].none`:            wide,
		`$` + strings.Repeat(`..[*]`, 30) + `.x`: deep,
		`$[?count($..*) > count($..[?@..*])]`:    wide,
		`$[?search(@.s, '(a|aa|aaa){1,50}b')]`:   wide,
		`$[?search(@.s, @.s)]`:                   wide,
		`$[*,*,*,*][*,*,*,*][*,*,*,*].none`:      wide,
		`$..[?$ == $].none`:                      wide,
		`$[?$[?length(@.s) == 1]]`:               wide,
	} {
		p := must.Get(jsonpath.Parse(path))(t)
		b := steps(t, 20_000)
		if _, err := p.One(mustJSON(t, doc), b); err == nil || !errors.Is(err, b.Err()) {
			t.Errorf("%s: %v after %d steps", path, err, b.Used())
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := p.One(mustJSON(t, doc), admission.RequestBudget(ctx, 0, 0)); !errors.Is(err, context.Canceled) {
			t.Errorf("%s, after the caller left: %v", path, err)
		}
	}
	p := must.Get(jsonpath.Parse(`$..[?@..*]`))(t)
	b := steps(t, 20_000)
	if _, err := p.One(mustJSON(t, wide), b); !errors.Is(err, jsonpath.ErrMany) || b.Used() > 1000 {
		t.Errorf("a search that is cut short by its second match: %v after %d steps", err, b.Used())
	}
}

// A short pattern may compile to a large program, so compiling must be charged
// to the budget.
func TestCompilingPatternsIsCharged(t *testing.T) {
	t.Parallel()
	var calls []string
	for c := 'a'; c <= 'z'; c++ {
		calls = append(calls, `match(@,"`+string(c)+`{1000}")`)
	}
	p := must.Get(jsonpath.Parse(`$[?` + strings.Join(calls, "||") + `]`))(t)
	b := steps(t, 200_000)
	if _, err := p.One(mustJSON(t, `["x"]`), b); err == nil || !errors.Is(err, b.Err()) {
		t.Errorf("26 large patterns: %v after %d steps", err, b.Used())
	}
	p = must.Get(jsonpath.Parse(`$[?match(@,"z{1000}")]`))(t)
	long := mustJSON(t, `[`+strings.Repeat(`"",`, 100)+`"`+strings.Repeat("z", 1000)+`"]`)
	b = steps(t, 100_000)
	if _, err := p.One(long, b); err == nil || !errors.Is(err, b.Err()) {
		t.Errorf("a pattern over a long text: %v after %d steps", err, b.Used())
	}
	must.Get(p.One(long, steps(t, 250_000)))(t)
}

func FuzzPath(f *testing.F) {
	for _, path := range []string{
		`$`, `$.a['b'][0][1:2:3]..*`, `$[?@.a==1&&!(@.b<'x'||$.c)]`, `$[?match(@.a,"[a-z]+")]`, `$[?length(@.a)>count(@.*)]`,
		`$..[?value(@..b)!=null]`, `$["\ud83d\ude00"]`, `$[-1,::-1]`, `$[?$[?$[?@.zz]]]`, `$[?@.k && count($[?count($[?@.zz])==1])==0].k`,
	} {
		f.Add(path, []byte(mixed))
	}
	f.Fuzz(func(t *testing.T, path string, doc []byte) {
		v, err := jsonx.Parse(doc, jsonx.Limits{})
		if err != nil {
			t.Skip("not JSON")
		}
		p, err := jsonpath.Parse(path)
		if err != nil {
			e, ok := errors.AsType[*jsonpath.SyntaxError](err)
			if !ok || e.Offset < 0 || e.Offset > len(path) {
				t.Fatalf("unfit error: %v", err)
			}
			return
		}
		b := steps(t, 100_000)
		err = p.Each(v, b, func(found jsonx.Value) bool { return !found.IsZero() })
		if (b.Used() > 100_000) != (err != nil) {
			t.Fatalf("%d steps, but %v", b.Used(), err)
		}
	})
}
