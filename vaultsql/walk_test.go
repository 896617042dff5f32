package vaultsql_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaultsql"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

type base struct{ Base vaultsql.Text }

type node struct {
	Value vaultsql.Text
	Next  *node
}

type everywhere struct {
	base
	*node
	vaultsql.Bytes
	Nested  struct{ Deep vaultsql.Text }
	Ptr     *vaultsql.Text `vault:"type=card_number"`
	Nil     *vaultsql.Text
	NilNode *node
	List    []vaultsql.Text `vault:"type=card_number"`
	Nodes   []*node
	Array   [2]vaultsql.Text
	Map     map[string]*vaultsql.Text
	Other   map[string]int
	private int
	anys    []any
}

// Sealed fields are found in all supported places.
func TestFieldsAreFound(t *testing.T) {
	t.Parallel()
	c := count(vaulttest.New(t).Private)
	text := vaultsql.NewText
	one, two := text(number), text("in a map")
	e := everywhere{base: base{text("base")}, node: &node{Value: text("node")}, Bytes: vaultsql.New([]byte("bytes")), Ptr: &one,
		List: []vaultsql.Text{text(number), text(number)}, Nodes: []*node{{Value: text("a")}, {Value: text("b")}},
		Array: [2]vaultsql.Text{text("x"), text("y")}, Map: map[string]*vaultsql.Text{"m": &two}, private: 1, anys: []any{1}}
	e.Nested.Deep = text("deep")
	e.Nodes[1].Next = e.Nodes[1] // a cycle
	seal(t, c, []any{&e, e.Nodes}, &e)
	c.expect(t, map[string]int{"Tokenize": 1})
	all := []vaultsql.Text{e.Base, e.node.Value, e.Nested.Deep, one, e.List[0], e.List[1], e.Nodes[0].Value, e.Nodes[1].Value, e.Array[0], e.Array[1], two}
	seen := map[string]bool{e.Bytes.ID(): true}
	for i, o := range all {
		if o.ID() == "" || seen[o.ID()] {
			t.Errorf("field %d has no separate token", i)
		}
		seen[o.ID()] = true
	}
	tok := must.Get(c.GetToken(t.Context(), e.List[1].ID()))(t)
	must.Same(t, "the tag of a slice does not apply to its elements", vault.TypeCardNumber, tok.Type)
}

func TestBadInputIsNamed(t *testing.T) {
	t.Parallel()
	c := vaulttest.New(t).Private
	text := vaultsql.NewText("secret-value")
	type unexported struct{ name vaultsql.Text }
	type deep struct {
		List []struct{ inner unexported }
	}
	type plain struct {
		Name string `vault:"index"`
	}
	type none struct{ Name string }
	type byValue struct{ Map map[string]vaultsql.Text }
	type unknown struct {
		Name vaultsql.Text `vault:"container=/a/,indexed"`
	}
	type twice struct {
		Name vaultsql.Text `vault:"type=token,type=card"`
	}
	type empty struct {
		Name vaultsql.Text `vault:"type="`
	}
	type duration struct {
		Name vaultsql.Text `vault:"expires=1 month"`
	}
	type past struct {
		Name vaultsql.Text `vault:"expires=-1h"`
	}
	type wrongType struct {
		Name vaultsql.Text `vault:"type=passport"`
	}
	type container struct {
		Name vaultsql.Text `vault:"container=pii"`
	}
	type ssn struct {
		Name vaultsql.Text `vault:"type=social_security_number"`
	}
	type float struct{ Number vaultsql.Of[float64] }
	type pointer struct{ Number vaultsql.Of[*int] }
	type channel struct{ C vaultsql.Of[chan int] }
	for name, tt := range map[string]struct {
		dst  any
		want []string
	}{
		"nil":             {nil, []string{"nil was given"}},
		"nil pointer":     {(*customer)(nil), []string{"nil *customer"}},
		"nil element":     {[]*customer{newCustomer(), nil}, []string{"customer[1]", "nil"}},
		"nil in any":      {[]any{nil}, []string{"nil"}},
		"by value":        {customer{}, []string{"customer", "by value", "pointer"}},
		"field by value":  {text, []string{"by value"}},
		"no struct":       {5, []string{"int", "no sealed fields"}},
		"nothing sealed":  {&none{}, []string{"none", "no sealed fields"}},
		"unexported":      {&unexported{text}, []string{"unexported.name", "unexported", "export it"}},
		"deep unexported": {&deep{make([]struct{ inner unexported }, 1)}, []string{"deep.List[0].inner", "export it"}},
		"tag on a string": {&plain{"secret-value"}, []string{"plain.Name", "string", "vaultsql.Text"}},
		"map of values":   {&byValue{map[string]vaultsql.Text{"k": text}}, []string{"byValue.Map", "pointers"}},
		"unknown word":    {&unknown{text}, []string{"unknown.Name", `"indexed"`}},
		"type twice":      {&twice{text}, []string{"twice.Name", "type= twice"}},
		"empty type":      {&empty{text}, []string{"empty.Name", "type="}},
		"bad duration":    {&duration{text}, []string{"duration.Name", "720h"}},
		"negative":        {&past{text}, []string{"past.Name", "positive"}},
		"unknown type":    {&wrongType{text}, []string{"wrongType.Name", "must be one of"}},
		"bad container":   {&container{text}, []string{"container.Name", "containers[0]", "must start and end with '/'"}},
		"bad data":        {[]ssn{{vaultsql.NewText("123456789")}, {text}}, []string{"ssn[1].Name", "data", "9 digits"}},
		"not a number":    {&float{vaultsql.New(math.NaN())}, []string{"float.Number", "JSON"}},
		"null":            {&pointer{vaultsql.New[*int](nil)}, []string{"pointer.Number", "null"}},
		"nil bytes":       {&struct{ B vaultsql.Bytes }{vaultsql.New[[]byte](nil)}, []string{"struct.B", "null"}},
		"a channel":       {&channel{vaultsql.New(make(chan int))}, []string{"channel.C", "JSON"}},
		"not UTF-8":       {&none2{vaultsql.NewText("a\xffb")}, []string{"none2.Name", "UTF-8"}},
		"over the limit":  {[]none2{{text}, {vaultsql.NewText(strings.Repeat("x", 6<<20))}}, []string{"none2[1].Name", "too large", "bytes"}},
		"one over":        {&none2{vaultsql.NewText(strings.Repeat("x", 6<<20))}, []string{"none2.Name", "bytes"}},
	} {
		err := vaultsql.Seal(t.Context(), c, tt.dst)
		for _, part := range append(tt.want, "vaultsql: ") {
			if err == nil || !strings.Contains(err.Error(), part) || strings.Contains(err.Error(), "secret-value") {
				t.Errorf("%s: %v, want %q in it", name, err, part)
			}
		}
	}
	must.Same(t, "tokens are left", 0, must.Get(c.ListTokens(t.Context(), vault.ListTokensParams{}))(t).Pagination.TotalItems)
	must.Match(t, "empty slices", vaultsql.Seal(t.Context(), c, []customer(nil), []*customer{}), nil)
}

type none2 struct{ Name vaultsql.Text }

// An error names all invalid fields at once, and wraps distinct errors.
func TestSealNamesAllInvalidFields(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	rows := []customer{*newCustomer(), *newCustomer(), *newCustomer()}
	rows[0].Card = vaultsql.NewCard(vault.CardData{Number: "4242424242424241"})
	rows[2].Card = vaultsql.NewCard(vault.CardData{})
	err := vaultsql.Seal(t.Context(), v.Private, rows)
	if !errors.Is(err, vault.ErrInvalid) || !strings.Contains(err.Error(), "customer[0].Card") || !strings.Contains(err.Error(), "customer[2].Card") ||
		strings.Contains(err.Error(), "customer[1]") || strings.Contains(err.Error(), "4242424242424241") {
		t.Errorf("the error is %v", err)
	}
	must.Same(t, "a field has a token although nothing was sealed", "", rows[1].Card.ID())
	must.Match(t, "without the permission", vaultsql.Seal(t.Context(), v.Management, rows[1:2]), vault.ErrForbidden)
}
