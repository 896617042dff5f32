package expr_test

import (
	"fmt"

	"github.com/seed-72ea4aab/vault/internal/expr"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

// A mask is a tree of templates over the data of a token.
func ExampleCompileTree() {
	mask, err := jsonx.Parse([]byte(`{
		"number": "{{ data.number | reveal_last: 4 }}",
		"month": "{{ data.month }}",
		"label": "card ending in {{ data.number | slice: -2, 2 }}"
	}`), jsonx.Limits{})
	if err != nil {
		fmt.Println(err)
		return
	}
	tree, err := expr.CompileTree(mask)
	if err != nil {
		fmt.Println(err)
		return
	}
	data, err := jsonx.Parse([]byte(`{"number": "4242424242424242", "month": 12}`), jsonx.Limits{})
	if err != nil {
		fmt.Println(err)
		return
	}
	masked, err := tree.Eval(expr.Data(data, jsonx.Value{}, nil))
	fmt.Println(string(masked.JSON()), err)
	// Output:
	// {"number":"XXXXXXXXXXXX4242","month":12,"label":"card ending in 42"} <nil>
}

// A detokenization expression starts from a token's id.
func ExampleCompileTokens() {
	template, err := expr.CompileTokens("{{ token: tok_1 | json: '$.metadata.color' | upcase }}")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(template.Refs())
	whole, err := jsonx.Parse([]byte(`{"id": "tok_1", "metadata": {"color": "red"}}`), jsonx.Limits{})
	if err != nil {
		fmt.Println(err)
		return
	}
	v, err := template.Eval(expr.Env{Lookup: func(expr.Ref) (jsonx.Value, bool) { return whole, true }})
	fmt.Println(string(v.JSON()), err)
	// Output:
	// [{tok_1 true}]
	// "RED" <nil>
}
