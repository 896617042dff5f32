package vault_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

func detokenize(t testing.TB, c *vault.Client, doc string) string {
	t.Helper()
	out, err := c.Detokenize(t.Context(), vault.JSON(doc))
	if err != nil {
		t.Fatalf("detokenize %s: %v", doc, err)
	}
	return string(out)
}

// wallet creates tokens to be used by name.
func wallet(t *testing.T, v *vaulttest.Vault) {
	t.Helper()
	for id, data := range map[string]string{
		"text": `"s3cr3t"`, "number": `1.10`, "flag": `true`, "tree": `{"z":1,"a":["x",{"b":12345678901234567890}]}`,
		"tricky": `"\"},{{ text }}\n\\\u0000"`, "expression": `"{{ text }}"`, "odd id.~1": `"odd"`,
	} {
		create(t, v.Tenant, vault.TokenParams{ID: id, Type: vault.Generic, Data: vault.JSON(data), Metadata: map[string]string{"color": "red"}})
	}
	create(t, v.Tenant, vault.TokenParams{ID: "card", Type: vault.Card, Data: vault.CardData{Number: visa, ExpirationMonth: 7, CVC: "987"}})
}

func TestDetokenize(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	wallet(t, v)
	for doc, want := range map[string]string{
		`"{{ text }}"`: `"s3cr3t"`, `"{{text}}"`: `"s3cr3t"`, `"{{ number }}"`: `1.10`, `"{{ flag }}"`: `true`,
		`"{{ tree }}"`: `{"z":1,"a":["x",{"b":12345678901234567890}]}`, `"{{ odd id.~1 }}"`: `"odd"`,
		`{"a":["{{ text }}",{"b":"{{ number }}"}],"n":1.0}`: `{"a":["s3cr3t",{"b":1.10}],"n":1.0}`,
		`"a {{ text }} b {{ number }} c"`:                   `"a s3cr3t b 1.10 c"`,
		`"tree: {{ tree }}"`:                                `"tree: {\"z\":1,\"a\":[\"x\",{\"b\":12345678901234567890}]}"`,
		`"{{ text | last4 }}"`:                              `"cr3t"`,
		`"{{ card | json: '$.number' }}"`:                   `"4242424242424242"`,
		`"{{ card }}"`:                                      `{"number":"4242424242424242","expiration_month":7,"cvc":"987"}`,
		`"{{ token: text | json: '$.metadata.color' }}"`:    `"red"`,
		`"{{ token: card | json: '$.type' }}"`:              `"card"`,
		`"{{ token: card | json: '$.enrichments.card' }}"`:  `{"brand":"visa","bin":"42424242","last4":"4242"}`,
		`"{{ expression }}"`:                                `"{{ text }}"`,       // inserted data is not evaluated again
		`{"{{ text }}":"x"}`:                                `{"{{ text }}":"x"}`, // keys are not looked at
		`["{{ tricky }}"]`:                                  `["\"},{{ text }}\n\\\u0000"]`,
		`{"a":"x {{ tricky }}"}`:                            `{"a":"x \"},{{ text }}\n\\\u0000"}`,
		`{"a": 1.10, "b": [1e400] }`:                        `{"a": 1.10, "b": [1e400] }`, // not a byte is changed
		`"}} { { %}"`:                                       `"}} { { %}"`,
	} {
		if got := detokenize(t, v.Private, doc); got != want {
			t.Errorf("%s gives %s, want %s", doc, got, want)
		}
	}
	out, err := v.Private.Detokenize(t.Context(), map[string]string{"pan": "{{ text }}"})
	if err != nil {
		t.Fatal(err)
	}
	wantData(t, "a Go value", out, `{"pan":"s3cr3t"}`)
}

func TestDetokenizeRefusesBadExpressions(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	wallet(t, v)
	for doc, fields := range map[string][]string{
		`"{{"`: {""}, `{"a":["{{ }}"]}`: {"a[0]"}, `{"a":{"b":"{{ text | nope }}"}}`: {"a.b"}, `"{{ text"`: {""},
		`["{{ text | plus: 1 }}"]`: {"[0]"}, `{"a":"{{ tree | json: '$..b.c' }}"}`: {"a"},
	} {
		_, err := v.Private.Detokenize(t.Context(), vault.JSON(doc))
		wantFields(t, doc, err, fields...)
		wantSilent(t, err, "s3cr3t")
	}
	_, err := v.Private.Detokenize(t.Context(), vault.JSON(`["{{ text }}","{{ missing-1 }}","{{ missing-2 }}"]`))
	wantFields(t, "unknown ids", err, "")
	for _, part := range []string{"Failed to detokenize some tokens: ", "missing-1, missing-2"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error %q does not say %q", err, part)
		}
	}
	same(t, "log of a token in a failed request", operations(t, v, "text"), []string{"create", "use"}) // of the filter that failed
}

// At most 100 distinct tokens are used at once.
func TestDetokenizeLimit(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	var parts []string
	for i := range 101 {
		id := fmt.Sprintf("tok%03d", i)
		create(t, v.Tenant, vault.TokenParams{ID: id, Type: vault.Generic, Data: i})
		parts = append(parts, `"{{ `+id+` }}"`, `"{{ token: `+id+` | json: '$.id' }}"`)
	}
	doc := func(n int) string { return `[` + strings.Join(parts[:2*n], ",") + `]` }
	if got := detokenize(t, v.Private, doc(100)); !strings.HasPrefix(got, `[0,"tok000",1,`) {
		t.Errorf("100 tokens: %.50s", got)
	}
	_, err := v.Private.Detokenize(t.Context(), vault.JSON(doc(101)))
	wantFields(t, "101 tokens", err, "")
	same(t, "uses of the first", operations(t, v, "tok000"), []string{"create", "use"})
	same(t, "uses of the last", operations(t, v, "tok100"), []string{"create"})
}

// However few tokens a request names, what they hold in all is bounded, but a
// single one can always be used.
func TestDetokenizeBoundsBytes(t *testing.T) {
	t.Parallel()
	v := vaulttest.Open(t, ":memory:", &vault.Config{MaxPageBytes: 30_000})
	for _, id := range []string{"one", "two", "huge"} {
		data := strings.Repeat("x", 20_000)
		if id == "huge" {
			data += data
		}
		create(t, v.Tenant, vault.TokenParams{ID: id, Type: vault.Generic, Data: data})
	}
	detokenize(t, v.Private, `["{{ one }}"]`)
	detokenize(t, v.Private, `["{{ huge }}"]`)
	_, err := v.Private.Detokenize(t.Context(), vault.JSON(`["{{ one | last4 }}","{{ two | last4 }}"]`))
	wantFields(t, "two tokens", err, "")
	same(t, "uses", operations(t, v, "two"), []string{"create"})
}

// token:use is needed on each token, and its transform counts.
func TestDetokenizeUnderRules(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	wallet(t, v)
	create(t, v.Tenant, vault.TokenParams{ID: "closed", Type: vault.Generic, Data: "other", Containers: []string{"/closed/"}})
	general := private(t, v, rule(1, "/general/", vault.Reveal, "token:use"))
	if got := detokenize(t, general, `"{{ text }}"`); got != `"s3cr3t"` {
		t.Errorf("reveal gives %s", got)
	}
	for _, doc := range []string{`"{{ closed }}"`, `["{{ text }}","{{ card }}"]`, `"{{ token: closed | json: '$.type' }}"`} {
		_, err := general.Detokenize(t.Context(), vault.JSON(doc))
		wantError(t, doc, err, vault.ErrForbidden)
	}
	masked := private(t, v, rule(1, "/", vault.Mask, "token:use"))
	if got := detokenize(t, masked, `["{{ text }}","{{ card }}"]`); got != `["XXcr3t",{"number":"XXXXXXXXXXXX4242","expiration_month":7}]` {
		t.Errorf("mask gives %s", got)
	}
	if got := detokenize(t, masked, `"{{ token: card }}"`); strings.Contains(got, "4242424") || strings.Contains(got, "enrichments") {
		t.Errorf("mask gives more than the mask: %s", got)
	}
	_, err := masked.Detokenize(t.Context(), vault.JSON(`"{{ number }}"`))
	if err == nil {
		t.Error("a value without a mask is shown")
	}
	wantSilent(t, err, "1.10")
	redacted := private(t, v, rule(1, "/", vault.Redact, "token:use"))
	_, err = redacted.Detokenize(t.Context(), vault.JSON(`"{{ text }}"`))
	wantError(t, "redact", err, vault.ErrForbidden)
	if got := detokenize(t, redacted, `"nothing to use"`); got != `"nothing to use"` {
		t.Errorf("a document without expressions becomes %s", got)
	}
}

func TestCardBrands(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	for number, want := range map[string]string{
		visa:               `{"brand":"visa","bin":"42424242","last4":"4242"}`,
		mastercard:         `{"brand":"mastercard","bin":"55555555","last4":"4444"}`,
		"2223003122003222": `{"brand":"mastercard","bin":"22230031","last4":"3222"}`,
		"378282246310005":  `{"brand":"american-express","bin":"378282","last4":"0005"}`,
		"6011111111111117": `{"brand":"discover","bin":"60111111","last4":"1117"}`,
		"3056930009020004": `{"brand":"diners-club","bin":"30569300","last4":"0004"}`,
		"36227206271667":   `{"brand":"diners-club","bin":"362272","last4":"1667"}`,
		"3566002020360505": `{"brand":"jcb","bin":"35660020","last4":"0505"}`,
		"6200000000000005": `{"brand":"unionpay","bin":"62000000","last4":"0005"}`,
		"4000000000006":    `{"brand":"visa","bin":"400000","last4":"0006"}`,
		"9999999999999995": `{"brand":"unknown","bin":"99999999","last4":"9995"}`,
	} {
		tok, err := v.Tenant.CreateToken(t.Context(), vault.TokenParams{Type: vault.CardNumber, Data: number})
		if err != nil {
			t.Errorf("%s: %v", number, err)
			continue
		}
		if got := detokenize(t, v.Tenant, `"{{ token: `+tok.ID+` | json: '$.enrichments.card' }}"`); got != want {
			t.Errorf("%s: %s, want %s", number, got, want)
		}
	}
}
