package expr_test

import (
	"testing"

	"github.com/seed-72ea4aab/vault/internal/expr"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

func BenchmarkCompileCached(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := expr.Compile("{{ data | reveal_last: 4 }}"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCompileTokens(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := expr.CompileTokens("{{ 6b0b1a1e-6f0c-4a51-9d0c-3f1f6f0a8a51 | last4 }}"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEval(b *testing.B) {
	env := expr.Data(jsonx.ObjectValue(
		jsonx.Member{Name: "number", Value: jsonx.StringValue("4242424242424242")},
		jsonx.Member{Name: "expiration_month", Value: jsonx.IntValue(12)},
	), jsonx.Value{}, nil)
	for _, source := range []string{
		"{{ data.number }}",
		"{{ data.number | reveal_last: 4 }}",
		"{{ data.number | card_mask: true, true }}",
		"{{ data | stringify }}",
		"{{ data | json: '$.number' }}",
		"{{ data.number | alias_preserve_format }}",
		"{{ data.number }}|{{ data.expiration_month }}",
	} {
		b.Run(source, func(b *testing.B) {
			t, err := expr.Compile(source)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := t.Eval(env); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
