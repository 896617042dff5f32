package expr_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/expr"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// gone is the context of a caller who leaves after a number of checks.
type gone struct {
	context.Context
	after int
}

func (g *gone) Err() error {
	if g.after--; g.after < 0 {
		return context.Canceled
	}
	return nil
}

// TestEvaluationEndsWithItsCaller ends the context in the middle of long
// evaluations.
func TestEvaluationEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	long := `"` + strings.Repeat("abcdefgh", 10_000) + `"`
	numbers := list("3,2,1", 20_000)
	for use, data := range map[string]string{
		"json: '$[?$[?$[?@.zz]]]'":                 list("1", 130),
		"json: '$..*..*..zz'":                      strings.Repeat(`[[1],`, 150) + `1` + strings.Repeat(`]`, 150),
		`json: '$[?search(@, "(ab|b|cd|d)*x")]'`:   list(long, 1),
		"sort":                                     numbers,
		"uniq":                                     numbers,
		"stringify":                                numbers,
		"join: 'x'":                                numbers,
		"reverse | reverse | reverse":              numbers,
		"upcase | downcase | upcase | downcase":    long,
		"alias_preserve_length | alias_card":       long,
		"split: '' | join: '' | split: '' | first": long,
	} {
		template := must.Get(expr.Compile("{{ data | " + use + " }}"))(t)
		doc := mustJSON(t, data)
		run := func(after int) (looks int, err error) {
			caller := &gone{t.Context(), after}
			_, err = template.Eval(expr.Data(doc, jsonx.Value{}, admission.RequestBudget(caller, 1, len(data))))
			return after - caller.after, err
		}
		looks, _ := run(1 << 30)
		if looks < 3 {
			t.Errorf("%s checks the context only %d times", use, looks)
		}
		if _, err := run(looks / 2); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", use, err)
		} else if fault := (*expr.Error)(nil); errors.As(err, &fault) {
			t.Errorf("%s: the caller left, but the error blames the expression: %v", use, err)
		}
	}
}
