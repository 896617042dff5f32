package expr_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/expr"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

func TestTree(t *testing.T) {
	t.Parallel()
	mask := `{"number":"{{ data.number | reveal_last: 4 }}","{{ data.number }}":1.0,
		"month":"{{ data.month }}","list":["plain",true,{"x":"no. {{ data.number | last4 }}"}]}`
	tree := must.Get(expr.CompileTree(mustJSON(t, mask)))(t)
	if !tree.HasExpressions() {
		t.Error("the tree has no expressions")
	}
	must.Same(t, "refs", []expr.Ref{{ID: "data"}}, tree.Refs())
	for range 2 { // a tree can be evaluated again
		got := must.Get(evalTree(t, tree, expr.Data(mustJSON(t, `{"number":"4242424242421234","month":12}`), jsonx.Value{}, nil)))(t)
		want := `{"number":"XXXXXXXXXXXX1234","{{ data.number }}":1.0,"month":12,"list":["plain",true,{"x":"no. 1234"}]}`
		must.Same(t, "the result", want, string(got.JSON()))
	}
}

// evalTree evaluates a tree to a value and to text, which must be the same.
func evalTree(t *testing.T, tree *expr.Tree, env expr.Env) (jsonx.Value, error) {
	t.Helper()
	v, err := tree.Eval(env)
	text, textErr := tree.JSON(env)
	if err == nil && string(text) != string(v.JSON()) || err != nil && text != nil {
		t.Errorf("as text the tree is %q, as a value %q", text, v.JSON())
	}
	must.Same(t, "as text the tree fails differently", err, textErr)
	return v, err
}

func TestTreeOfScalars(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`"{{ data.list }}"`: `[{"a":1},"b"]`, `"plain"`: `"plain"`, `1.10`: `1.10`, `null`: `null`, `{}`: `{}`,
	} {
		tree := must.Get(expr.CompileTree(mustJSON(t, text)))(t)
		got := must.Get(evalTree(t, tree, expr.Data(mustJSON(t, document), jsonx.Value{}, nil)))(t)
		must.Same(t, text+" gave", want, string(got.JSON()))
	}
}

func TestTreeErrorsNameTheirPlace(t *testing.T) {
	t.Parallel()
	_, err := expr.CompileTree(mustJSON(t, `{"a":"{{ data }}","b":[0,{"c":"x {{ data | nope }}"}]}`))
	checkTreeError(t, err, "b[1].c", 12, "there is no filter nope")

	tree := must.Get(expr.CompileTree(mustJSON(t, `{"a":["{{ data | upcase }}"]}`)))(t)
	_, err = evalTree(t, tree, expr.Data(mustJSON(t, `["secret"]`), jsonx.Value{}, nil))
	checkTreeError(t, err, "a[0]", 10, "filter upcase: needs text, not an array")
	must.Lack(t, "the value in the error", err.Error(), "secret")
}

func checkTreeError(t *testing.T, err error, path string, offset int, msg string) {
	t.Helper()
	e, ok := errors.AsType[*expr.Error](err)
	if !ok {
		t.Fatalf("got %v, want an *Error", err)
	}
	must.Same(t, "the error", expr.Error{Path: path, Offset: offset, Msg: msg}, *e)
}

func TestTokenTree(t *testing.T) {
	t.Parallel()
	tree := must.Get(expr.CompileTokenTree(mustJSON(t, `{"card":"{{ tok-1 }}","note":"{{ tok-2 | upcase }}!","again":["{{tok-1}}"],"{{ tok-9 }}":0}`)))(t)
	must.Same(t, "refs", []expr.Ref{{ID: "tok-1"}, {ID: "tok-2"}}, tree.Refs())
	values := map[string]string{"tok-1": `{"n":"\"{{ tok-2 }}"}`, "tok-2": `"a\"b"`}
	env := expr.Env{Lookup: func(ref expr.Ref) (jsonx.Value, bool) {
		text, ok := values[ref.ID]
		if !ok {
			return jsonx.Value{}, false
		}
		return mustJSON(t, text), true
	}}
	got := must.Get(evalTree(t, tree, env))(t)
	want := `{"card":{"n":"\"{{ tok-2 }}"},"note":"A\"B!","again":[{"n":"\"{{ tok-2 }}"}],"{{ tok-9 }}":0}`
	must.Same(t, "the result", want, string(got.JSON()))
	delete(values, "tok-2")
	if _, err := evalTree(t, tree, env); err == nil || !strings.Contains(err.Error(), "note: the expression refers to something that is not available") {
		t.Errorf("an unknown token gave %v", err)
	}
}

func TestInsertedValuesAreLimited(t *testing.T) {
	t.Parallel()
	refs := strings.Repeat(`"{{ tok-1 }}",`, 100)
	tree := must.Get(expr.CompileTokenTree(mustJSON(t, `[`+refs+`1]`)))(t)
	sized := func(n int) expr.Env {
		v := jsonx.ArrayValue(jsonx.StringValue(strings.Repeat("x", n)))
		return expr.Env{Lookup: func(expr.Ref) (jsonx.Value, bool) { return v, true }}
	}
	must.Get(evalTree(t, tree, sized(100_000)))(t)
	must.Fail(evalTree(t, tree, sized(200_000)))(t, "20 MB", must.Text("more than 16777216 bytes"))
	many := `[` + strings.Repeat(`"{{ tok-1 }}",`, 10_001) + `1]`
	must.Fail(expr.CompileTokenTree(mustJSON(t, many)))(t, "10,001 expressions", must.Text("at most 10000 expressions"))
}

// A token's mask is evaluated each time the token is read, so a small token
// must not cause much work or output.
func TestMaskWorkIsLimitedByTheData(t *testing.T) {
	t.Parallel()
	small, medium, large := `"x"`, `"`+strings.Repeat("a", 10_000)+`"`, `"`+strings.Repeat("a", 2<<20)+`"`
	often := `[` + strings.Repeat(`"{{ data }}",`, 120) + `1]`
	elements := `[` + strings.TrimSuffix(strings.Repeat(`{"k":1},`, 900), ",") + `]`
	for name, tt := range map[string]struct{ mask, data, want string }{
		"output of a small token": {often, medium, "too much work"},
		"work on a small token":   {`"{{ data | pad_left: 900000 | upcase | downcase | upcase | last4 }}"`, small, "too much work"},
		"a long list to keep":     {`"{{ data | reveal: 0, 0, 'X', data }}"`, large, "too much work"},
		"a search in a search":    {`"{{ data | json: '$[?@.k && count($[?count($[?@.zz])==1])==0].k' }}"`, elements, "too much work"},
		"one search":              {`"{{ data | json: '$[?@.k==2 || @.z]' | default: 1 }}"`, elements, "finds nothing"},
		"many long expressions":   {`[` + strings.Repeat(`"{{ data | append: '`+strings.Repeat(`x`, 300)+`' }}",`, 200) + `1]`, small, "too much work"},
		"all of a large token":    {`["{{ data }}"]`, large, ""},
		"the end of a large one":  {`["{{ data | reveal_last: 4 }}"]`, large, ""},
		"a large token twice":     {`["{{ data }}","{{ data }}"]`, large, "more than 3145"},
	} {
		tree := must.Get(expr.CompileTree(mustJSON(t, tt.mask)))(t)
		data := mustJSON(t, tt.data)
		_, err := tree.Eval(expr.Data(data, jsonx.Value{}, admission.MaskBudget(t.Context(), data.Size())))
		_, jsonErr := tree.JSON(expr.Data(data, jsonx.Value{}, admission.MaskBudget(t.Context(), data.Size())))
		for _, err := range []error{err, jsonErr} {
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%s: %v, want %q", name, err, tt.want)
			}
		}
	}
}

func TestEvaluationsShareABudget(t *testing.T) {
	t.Parallel()
	tree, err := expr.CompileTree(mustJSON(t, `"{{ data | pad_left: 100000 }}"`))
	if err != nil {
		t.Fatal(err)
	}
	env := expr.Data(mustJSON(t, `"x"`), jsonx.Value{}, admission.MaskBudget(t.Context(), 0))
	done := 0
	for ; err == nil && done < 100; done++ {
		_, err = tree.Eval(env)
	}
	if done < 2 || done > 6 || !strings.Contains(err.Error(), "too much work") {
		t.Errorf("after %d evaluations: %v", done, err)
	}
	must.Fail(tree.Eval(env))(t, "another evaluation began", must.Text("takes too much work"))
}

// Compiling takes more time than reading, so the length of the expressions in a
// large body is limited too.
func TestCompiledLengthIsLimited(t *testing.T) {
	t.Parallel()
	long := "{{ tok-1 | append: '" + strings.Repeat("x", 900) + "' }}"
	fits, tooLong := list(`"`+long+`"`, 1000), list(`"`+long+`"`, 2000)
	must.Get(expr.CompileTokenTree(mustJSON(t, fits)))(t)
	must.Fail(expr.CompileTokenTree(mustJSON(t, tooLong)))(t, "2 MB of expressions", must.Text("at most about 1048576 bytes"))
	var l expr.List
	var err error
	for range 2000 {
		if err = l.Add(long); err != nil {
			break
		}
	}
	must.Match(t, "2 MB of expressions were accepted one by one", err, must.Text("may have at most about 1048576 bytes"))
}
