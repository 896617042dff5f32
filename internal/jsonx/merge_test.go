package jsonx_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

func TestMerge(t *testing.T) {
	t.Parallel()
	tests := []struct{ target, patch, want string }{
		// The examples of RFC 7386, appendix A.
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`["a","b"]`, `["c","d"]`, `["c","d"]`},
		{`{"a":"b"}`, `["c"]`, `["c"]`},
		{`{"a":"foo"}`, `null`, `null`},
		{`{"a":"foo"}`, `"bar"`, `"bar"`},
		{`{"e":null}`, `{"a":1}`, `{"e":null,"a":1}`},
		{`[1,2]`, `{"a":"b","c":null}`, `{"a":"b"}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
		// Order and numbers.
		{`{"z":1.0,"y":2,"x":3}`, `{"w":4,"y":2.50,"z":null}`, `{"y":2.50,"x":3,"w":4}`},
		{`{"a":1}`, `{"a":[null,{"b":null}]}`, `{"a":[null,{"b":null}]}`},
	}
	for _, tt := range tests {
		got := string(jsonx.Merge(mustParse(t, tt.target), mustParse(t, tt.patch)).JSON())
		must.Same(t, "Merge("+tt.target+", "+tt.patch+")", tt.want, got)
	}
}

func TestMergeAbsent(t *testing.T) {
	t.Parallel()
	v := mustParse(t, `{"a":1}`)
	if got := jsonx.Merge(v, jsonx.Value{}); !got.Equal(v) {
		t.Errorf("an absent patch made %s", got.JSON())
	}
	if got := jsonx.Merge(jsonx.Value{}, mustParse(t, `{"a":null,"b":1}`)); string(got.JSON()) != `{"b":1}` {
		t.Errorf("an absent target made %s", got.JSON())
	}
}

// FuzzMerge compares Merge with the pseudo-code of RFC 7386 on Go maps.
func FuzzMerge(f *testing.F) {
	f.Add([]byte(`{"a":{"b":1,"c":2},"d":[1]}`), []byte(`{"a":{"b":null,"x":{"y":null}},"d":{"e":1}}`))
	f.Add([]byte(`[1]`), []byte(`{"a":null}`))
	f.Add([]byte(`{"a":1}`), []byte(`null`))
	f.Fuzz(func(t *testing.T, target, patch []byte) {
		tv, err := jsonx.Parse(target, jsonx.Limits{})
		if err != nil {
			t.Skip("not JSON")
		}
		pv, err := jsonx.Parse(patch, jsonx.Limits{})
		if err != nil {
			t.Skip("not JSON")
		}
		before := string(tv.JSON())
		got := jsonx.Merge(tv, pv)
		// encoding/json reads lone surrogates as U+FFFD, which can make two
		// keys equal.
		if strings.Contains(before, `\ud`) || strings.Contains(string(pv.JSON()), `\ud`) {
			t.Skip("not in the model")
		}
		want := mergeModel(meaning(t, target), meaning(t, patch))
		must.Same(t, fmt.Sprintf("Merge(%s, %s)", target, patch), want, meaning(t, got.JSON()))
		if string(tv.JSON()) != before {
			t.Fatal("Merge changed its target")
		}
	})
}

func mergeModel(target, patch any) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	merged := map[string]any{}
	if old, ok := target.(map[string]any); ok {
		for k, v := range old {
			merged[k] = v
		}
	}
	for k, v := range p {
		if v == nil {
			delete(merged, k)
		} else {
			merged[k] = mergeModel(merged[k], v)
		}
	}
	return merged
}

func TestRewrite(t *testing.T) {
	t.Parallel()
	v := mustParse(t, `{"a":"x","b":[1,"y",{"c":"z"}],"skip":{"d":"x"},"n":1.10}`)
	var seen []string
	got := must.Get(jsonx.Rewrite(v, func(p *jsonx.Path, v jsonx.Value) (jsonx.Value, bool, error) {
		seen = append(seen, p.String())
		if v.Kind() == jsonx.String {
			return jsonx.StringValue(strings.ToUpper(v.Text())), false, nil
		}
		return v, p.String() != "skip", nil
	}))(t)
	must.Same(t, "the rewritten value", `{"a":"X","b":[1,"Y",{"c":"Z"}],"skip":{"d":"x"},"n":1.10}`, string(got.JSON()))
	must.Same(t, "visits", []string{"", "a", "b", "b[0]", "b[1]", "b[2]", "b[2].c", "skip", "n"}, seen)
	if want := `{"a":"x","b":[1,"y",{"c":"z"}],"skip":{"d":"x"},"n":1.10}`; string(v.JSON()) != want {
		t.Errorf("the original changed to %s", v.JSON())
	}
}

func TestRewriteSharesUnchangedParts(t *testing.T) {
	t.Parallel()
	v := mustParse(t, `{"a":[1,2],"b":{"c":[3]}}`)
	keep := func(_ *jsonx.Path, v jsonx.Value) (jsonx.Value, bool, error) { return v, true, nil }
	if got, err := jsonx.Rewrite(v, keep); err != nil || got != v {
		t.Errorf("an unchanged tree was copied (%v)", err)
	}
	double := func(p *jsonx.Path, v jsonx.Value) (jsonx.Value, bool, error) {
		if p.String() == "b.c[0]" {
			return jsonx.IntValue(6), false, nil
		}
		return v, true, nil
	}
	got, err := jsonx.Rewrite(v, double)
	if err != nil || got.Get("a") != v.Get("a") || string(got.JSON()) != `{"a":[1,2],"b":{"c":[6]}}` {
		t.Errorf("got %s, %v, want b changed and a shared", got.JSON(), err)
	}
}

func TestRewriteStopsAtAnError(t *testing.T) {
	t.Parallel()
	stop, where := errors.New("stop"), ""
	_, err := jsonx.Rewrite(mustParse(t, `[{"a":{"b":[0,1]}},2]`), func(p *jsonx.Path, v jsonx.Value) (jsonx.Value, bool, error) {
		where = p.String()
		if v.Text() == "1" {
			return v, false, stop
		}
		return v, true, nil
	})
	if !errors.Is(err, stop) || where != "[0].a.b[1]" {
		t.Errorf("stopped at %q with %v", where, err)
	}
}
