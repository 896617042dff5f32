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

const canary = "c4n4ry-4242424242424242"

func seedSources(f *testing.F, add func(string)) {
	f.Helper()
	for _, c := range allCases {
		if len(c.use) < 200 {
			add("{{ data | " + c.use + " }}")
		}
	}
	for _, source := range []string{
		"{{ data }}", "{{ data.a[0]['b'] | reveal: 1, 2, 'X', '-' }} text {{ metadata.x }}", "{{ token: abc | json: '$..*' }}",
		"{{", "}}", "{{ }}", "{{ data | }}", "{{ 'x", "{{ data[", "{{ abc | alias_card: true }}", "{{ 1e400 | plus: 1 }}",
		"{{ data | json: '$[?@.a==1 && match(@.b, \"x*\")]' }}",
	} {
		add(source)
	}
}

// FuzzCompile checks that no source makes either language panic, that failures
// are errors of the package, and that a source without {{ yields itself.
func FuzzCompile(f *testing.F) {
	seedSources(f, func(s string) { f.Add(s) })
	f.Fuzz(func(t *testing.T, source string) {
		for _, compile := range []func(string) (*expr.Template, error){expr.Compile, expr.CompileTokens} {
			template, err := compile(source)
			var e *expr.Error
			switch {
			case err != nil && !errors.As(err, &e):
				t.Fatalf("%T is not an *Error", err)
			case err != nil && (e.Offset < 0 || e.Offset > len(source)):
				t.Fatalf("offset %d is outside of %d bytes", e.Offset, len(source))
			case err != nil:
				continue
			}
			template.Refs()
			if !expr.HasExpression(source) {
				v, err := template.Eval(expr.Env{})
				if err != nil || !v.Equal(jsonx.StringValue(source)) {
					t.Fatalf("plain text became %s, %v", v.JSON(), err)
				}
			}
		}
	})
}

// FuzzEval checks that no expression panics on any data, that the result is
// JSON, and that no error contains the data.
func FuzzEval(f *testing.F) {
	seedSources(f, func(s string) {
		f.Add(s, []byte(`"`+canary+`"`))
		f.Add(s, []byte(`[{"a":1,"b":"`+canary+`"},null,2.50]`))
		f.Add(s, []byte(`{"a":["\ud800",{}],"b":-1e9}`))
	})
	f.Fuzz(func(t *testing.T, source string, data []byte) {
		v, err := jsonx.Parse(data, jsonx.Limits{})
		if err != nil {
			t.Skip("not JSON")
		}
		template, err := expr.Compile(source)
		if err != nil {
			return
		}
		out, err := template.Eval(expr.Data(v, v, admission.RequestBudget(t.Context(), 1, len(data))))
		if err != nil {
			if _, ok := errors.AsType[*expr.Error](err); !ok || (strings.Contains(err.Error(), canary) && !strings.Contains(source, canary)) {
				t.Fatalf("unfit error: %v", err)
			}
			return
		}
		must.Get(jsonx.Parse(out.JSON(), jsonx.Limits{Depth: 1000}))(t)
	})
}
