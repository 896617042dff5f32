package expr_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/expr"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// tokens returns an environment in which every id stands for a value.
func tokens(values map[string]jsonx.Value) expr.Env {
	return expr.Env{Lookup: func(ref expr.Ref) (jsonx.Value, bool) {
		v, ok := values[ref.ID]
		return v, ok
	}}
}

func TestListGivesJSONAndText(t *testing.T) {
	t.Parallel()
	env := tokens(map[string]jsonx.Value{
		"text": jsonx.StringValue(`a"<b`), "number": jsonx.IntValue(7), "null": jsonx.NullValue(),
		"array": jsonx.ArrayValue(jsonx.IntValue(1), jsonx.StringValue("{{ text }}")),
	})
	var l expr.List
	shout := func(s string) string { return "<" + s + ">" }
	for _, err := range []error{
		l.Add("{{ text }}"), l.Add("n={{ number }}"), l.Add("{{ array }}"),
		l.AddText("{{ text }}", nil), l.AddText("{{ number }} {{ null }}", shout), l.AddText("{{ array }}", nil),
		l.AddText("\xff{{ number }}", nil), l.AddText("plain", shout),
	} {
		must.Do(t, err)
	}
	got := must.Get(l.Eval(env))(t)
	want := []string{`"a\"<b"`, `"n=7"`, `[1,"{{ text }}"]`, `a"<b`, `<7> <>`, `[1,"{{ text }}"]`, "\xff7", "plain"}
	must.Same(t, "values", want, got)
	refs := []expr.Ref{{ID: "text"}, {ID: "number"}, {ID: "array"}, {ID: "null"}}
	must.Same(t, "references", refs, l.Refs())
}

func TestListErrorNamesItsTemplate(t *testing.T) {
	t.Parallel()
	var l expr.List
	must.Match(t, "an unknown filter was accepted", l.Add("{{ tok | nope }}"), must.Text("there is no filter nope"))
	for _, source := range []string{"{{ tok }}", "{{ tok | plus: 1 }}", "{{ tok }}"} {
		must.Do(t, l.Add(source))
	}
	got, err := l.Eval(tokens(map[string]jsonx.Value{"tok": jsonx.StringValue("x")}))
	_, ok := errors.AsType[*expr.Error](err)
	must.Same(t, "results", []any{true, 1}, []any{ok, len(got)})
}

func TestListIsBoundedAsAWhole(t *testing.T) {
	t.Parallel()
	var many expr.List
	must.Do(t, many.AddText(strings.Repeat("{{tok}}", 10_000), nil))
	must.Match(t, "10,001 expressions were accepted", many.Add("{{tok}}"), must.Text("at most 10000 expressions"))
	var large expr.List
	for range 20 {
		must.Do(t, large.Add("{{ tok }}"))
	}
	results, err := large.Eval(tokens(map[string]jsonx.Value{"tok": jsonx.StringValue(strings.Repeat("x", 1<<20))}))
	if err == nil || len(results) > 16 {
		t.Errorf("%d MiB were inserted: %v", len(results), err)
	}
}
