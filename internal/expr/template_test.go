package expr_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/expr"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

const document = `{"number":"4242","month":12,"amount":1.10,"ok":true,"none":null,
	"list":[{"a":1},"b"],"a.b":"dotted","ä":"umlaut","first-name":"Jane"}`

func TestEvalIsTyped(t *testing.T) {
	t.Parallel()
	tests := []struct{ source, want string }{
		{`{{ data.number }}`, `"4242"`},
		{`{{data.month}}`, `12`},
		{"{{\n\tdata.amount\n}}", `1.10`},
		{`{{ data.ok }}`, `true`},
		{`{{ data.list }}`, `[{"a":1},"b"]`},
		{`{{ data.list[0].a }}`, `1`},
		{`{{ data['list'][ -1 ] }}`, `"b"`},
		{`{{ data["a.b"] }}`, `"dotted"`},
		{`{{ data.ä }}`, `"umlaut"`},
		{`{{ data.first-name }}`, `"Jane"`},
		{`{{ data.none }}`, `null`},
		{`{{ data.missing.deeper[3] }}`, `null`},
		{`{{ data.number.x }}`, `null`},
		{`{{ data.list.a }}`, `null`},
		{`{{ data[0] }}`, `null`},
		{`{{ data.list[9] }}`, `null`},
		{`{{ data.list[-9] }}`, `null`},
		{`{{ metadata.color }}`, `"red"`},
		{`{{ metadata['a b'] }}`, `"x"`},
		{`{{ 'lit | }} eral' }}`, `"lit | }} eral"`},
		{`{{ "it's" }}`, `"it's"`},
		{`{{ -1.50 }}`, `-1.50`},
		{`{{ false }}`, `false`},
		{`{{ nil }}`, `null`},
		{`{{ '' }}`, `""`},
		{``, `""`},
		{`plain`, `"plain"`},
		{`} }} {% {`, `"} }} {% {"`},
		{` {{ data.month }}`, `" 12"`},
		{`{{ data.month }} `, `"12 "`},
		{`{{ data.number }}|{{ data.month }}`, `"4242|12"`},
		{`{{ data.month }}{{ data.month }}`, `"1212"`},
		{`<{{ data.none }}{{ data.missing }}{{ data.ok }}{{ data.amount }}{{ data.list }}>`, `"<true1.10[{\"a\":1},\"b\"]>"`},
		{`{{ data.number | append: '}}' | append: "{{" }}`, `"4242}}{{"`},
		{`{{ data.number | slice: data.list[0].a, 2 }}`, `"24"`},
		{`{{data.number|reveal_last:2|append:"!"}}`, `"XX42!"`},
	}
	for _, tt := range tests {
		t.Run(tt.source, func(t *testing.T) {
			t.Parallel()
			got := must.Get(eval(t, tt.source, document))(t)
			must.Same(t, "the result", tt.want, got)
		})
	}
}

func TestInsertedDataIsNotEvaluated(t *testing.T) {
	t.Parallel()
	for _, source := range []string{"{{ data.x }}", "{{ data.x }} "} {
		got, err := eval(t, source, `{"x":"{{ data.secret }}","secret":"s3cret"}`)
		if err != nil || strings.Contains(got, "s3cret") {
			t.Errorf("%s gave %s, %v", source, got, err)
		}
	}
}

func TestInvalidTemplatesAreRejected(t *testing.T) {
	t.Parallel()
	tests := []struct {
		source string
		offset int
		msg    string
	}{
		{`{{ }}`, 3, "data, metadata, text in quotes"},
		{`{{`, 2, "data, metadata"},
		{`x {{ data`, 2, "no closing }}"},
		{`{{ data }`, 8, "expected a filter (after |) or the closing }}"},
		{`{{ data } }`, 8, "closing }}"},
		{`{{ {{ data }} }}`, 3, "data, metadata"},
		{`{{ card.number }}`, 3, "data, metadata"},
		{`{{ database }}`, 3, "data, metadata"},
		{`{{ data. }}`, 8, "expected a name after the dot"},
		{`{{ data.1 }}`, 8, "expected a name after the dot"},
		{`{{ data[ }}`, 9, "a key in quotes or an index"},
		{`{{ data['a }}`, 8, "a string has no closing quote"},
		{`{{ data['a' }}`, 12, "expected the closing ]"},
		{`{{ data[1.5] }}`, 8, "an index must be an integer"},
		{`{{ data[99999999999999999999] }}`, 8, "an index must be an integer"},
		{`{{ data number }}`, 8, "a filter (after |)"},
		{`{{ data | }}`, 10, "expected the name of a filter"},
		{`{{ data | nope }}`, 10, "there is no filter nope"},
		{`{{ data | reveal_last 4 }}`, 10, "filter reveal_last: the argument length is missing"},
		{`{{ data | upcase 4 }}`, 17, "a filter (after |)"},
		{`{{ data | append: }}`, 18, "filter append: expected data, metadata, text"},
		{`{{ data | append: 'x }}`, 18, "filter append: a string has no closing quote"},
		{`{{ data | append: 'x', }}`, 23, "filter append: has too many arguments"},
		{`{{ data | slice: 0 1 }}`, 19, "a filter (after |)"},
		{`{{ data | slice: 01 }}`, 17, "filter slice: a number must be written as in JSON"},
		{`{{ data | slice: x }}`, 17, "filter slice: expected data, metadata"},
		{`{{ data || upcase }}`, 9, "the name of a filter"},
		{`{{ data | default: 1, nope: 2 }}`, 28, "filter default: has no such argument; it takes value, allow_false"},
		{`{{ 'a` + "\n" + `}}`, 3, "no closing quote"},
		{`{{ data` + strings.Repeat(" | upcase", 33) + ` }}`, 296, "at most 32 filters"},
		{strings.Repeat("é", 10_001), 0, "at most 10000 characters"},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%.40s", tt.source), func(t *testing.T) {
			t.Parallel()
			_, err := expr.Compile(tt.source)
			e, ok := errors.AsType[*expr.Error](err)
			if !ok {
				t.Fatalf("got %v, want an *Error", err)
			}
			if e.Offset != tt.offset || !strings.Contains(e.Msg, tt.msg) {
				t.Errorf("got %q at %d, want %q at %d", e.Msg, e.Offset, tt.msg, tt.offset)
			}
		})
	}
}

func TestUnavailableRootFails(t *testing.T) {
	t.Parallel()
	for _, source := range []string{"{{ metadata.a }}", "{{ data | append: metadata.a }}"} {
		template := must.Get(expr.Compile(source))(t)
		_, err := template.Eval(expr.Data(jsonx.StringValue("x"), jsonx.Value{}, nil))
		must.Match(t, source+" without metadata", err, must.Text("not available here"))
		must.Fail(template.Eval(expr.Env{}))(t, source+" in an empty Env succeeded", must.Text("is not available here"))
	}
}

func TestCompileTokens(t *testing.T) {
	t.Parallel()
	tests := []struct {
		source string
		refs   []expr.Ref
		want   string
	}{
		{`{{ tok-1 }}`, []expr.Ref{{ID: "tok-1"}}, `"4242424242424242"`},
		{`{{tok-1}}`, []expr.Ref{{ID: "tok-1"}}, `"4242424242424242"`},
		{`{{ tok-1 | last4 }}`, []expr.Ref{{ID: "tok-1"}}, `"4242"`},
		{`{{ my id, ü.1 }}`, []expr.Ref{{ID: "my id, ü.1"}}, `{"a":1.10}`},
		{`{{ my id, ü.1 | json: '$.a' }}`, []expr.Ref{{ID: "my id, ü.1"}}, `1.10`},
		{`{{ data }}`, []expr.Ref{{ID: "data"}}, `"the token called data"`},
		{`{{ token: tok-1 }}`, []expr.Ref{{ID: "tok-1", Whole: true}}, `{"id":"tok-1","metadata":{"x":"y"}}`},
		{`{{token:tok-1|json:'$.metadata.x'}}`, []expr.Ref{{ID: "tok-1", Whole: true}}, `"y"`},
		{`{{ token : tok-1 | json: "$.id" }}`, []expr.Ref{{ID: "tok-1", Whole: true}}, `"tok-1"`},
		{`{{ token }}`, []expr.Ref{{ID: "token"}}, `"the token called token"`},
		{`a {{ tok-1 }} b {{ token: tok-1 | json: '$.id' }} c {{ tok-1 }}`,
			[]expr.Ref{{ID: "tok-1"}, {ID: "tok-1", Whole: true}}, `"a 4242424242424242 b tok-1 c 4242424242424242"`},
		{`no expression`, nil, `"no expression"`},
	}
	env := expr.Env{Lookup: func(ref expr.Ref) (jsonx.Value, bool) {
		v, ok := map[expr.Ref]jsonx.Value{
			{ID: "tok-1"}:              jsonx.StringValue("4242424242424242"),
			{ID: "my id, ü.1"}:         mustJSON(t, `{"a":1.10}`),
			{ID: "data"}:               jsonx.StringValue("the token called data"),
			{ID: "token"}:              jsonx.StringValue("the token called token"),
			{ID: "tok-1", Whole: true}: mustJSON(t, `{"id":"tok-1","metadata":{"x":"y"}}`),
		}[ref]
		return v, ok
	}}
	for _, tt := range tests {
		t.Run(tt.source, func(t *testing.T) {
			t.Parallel()
			template := must.Get(expr.CompileTokens(tt.source))(t)
			must.Same(t, "refs", tt.refs, template.Refs())
			got := must.Get(template.Eval(env))(t)
			must.Same(t, "the result", tt.want, string(got.JSON()))
		})
	}
}

func TestInvalidTokenTemplatesAreRejected(t *testing.T) {
	t.Parallel()
	for _, source := range []string{
		`{{`, `{{ }}`, `{{ ab }}`, `{{ | last4 }}`, `{{ abc`, `{{ abc }`, `{{ a{bc }}`, `{{ a}bc }}`, `{{ 'abc' }}`, `{{ "abc" }}`,
		`{{ a:bc }}`, `{{ token: }}`, `{{ token:: abc }}`, `{{ tokens: abc }}`, `{{ a/b }}`, `{{ a#b }}`, `{{ a=b }}`, "{{ a\x00b }}",
		`{{ abc | nope }}`, `{{ abc | append: data }}`, `{{ abc | reveal_last }}`, `{{{ abc }}}`,
		`{{ ` + strings.Repeat("a", 401) + ` }}`,
		`{{ abc | append: '` + strings.Repeat("a", 10_000) + `' }}`,
		strings.Repeat(`{{abc}}`, 10_001),
	} {
		_, err := expr.CompileTokens(source)
		if _, ok := errors.AsType[*expr.Error](err); !ok {
			t.Errorf("CompileTokens(%.40q) = %v, want an *Error", source, err)
		}
	}
	must.Get(expr.CompileTokens(`{{ ` + strings.Repeat("é", 400) + ` }}`))(t)
	must.Get(expr.CompileTokens(strings.Repeat("long body ", 100_000) + "{{ abc }}"))(t)
}

func TestRefsCoversArguments(t *testing.T) {
	t.Parallel()
	template := must.Get(expr.Compile("{{ data.a | append: metadata.b }}{{ data.c }}"))(t)
	must.Same(t, "references", []expr.Ref{{ID: "data"}, {ID: "metadata"}}, template.Refs())
}

func TestHasExpression(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bool{"": false, "a": false, "{ {": false, "}}": false, "{{": true, "a {{ b": true} {
		must.Same(t, fmt.Sprintf("HasExpression(%q)", s), want, expr.HasExpression(s))
	}
}

func TestCacheIsBoundedAndShared(t *testing.T) {
	t.Parallel()
	first := must.Get(expr.Compile("{{ data | append: 'shared' }}"))(t)
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for i := range 3000 {
				source := fmt.Sprintf("{{ data | append: '%d-%d' }}", worker, i)
				template, err := expr.Compile(source)
				if err != nil {
					t.Error(err)
					return
				}
				got, err := template.Eval(expr.Data(jsonx.StringValue("x"), jsonx.Value{}, nil))
				if want := fmt.Sprintf("x%d-%d", worker, i); err != nil || got.Text() != want {
					t.Errorf("got %q, %v, want %q", got.Text(), err, want)
				}
				if again, err := expr.Compile("{{ data | append: 'shared' }}"); err != nil || again != first {
					t.Errorf("a template in use fell out of the cache (%v)", err)
					return
				}
			}
		})
	}
	wg.Wait()
	if n := expr.CacheLen(); n > expr.CacheLimit {
		t.Errorf("the cache holds %d templates, more than %d", n, expr.CacheLimit)
	}
}

func TestTemplateRefersTo(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]bool{
		"{{ metadata.color }}": true, "{{ data }} {{ metadata }}": true, "{{ data | append: metadata.color }}": true,
		"{{ data.metadata }}": false, "metadata": false, "{{ data | append: 'metadata' }}": false,
	} {
		template := must.Get(expr.Compile(source))(t)
		must.Same(t, source+" refers to metadata", want, template.RefersTo("metadata"))
	}
}
