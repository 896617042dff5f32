package vault_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// Expressions that take far longer than their length suggests: the first over
// 130 numbers, the second, which is valid, over 900 objects.
const (
	nested  = "{{ data | json: '$[?$[?$[?@.zz]]]' }}"
	counted = "{{ data | json: '$[?@.k && count($[?count($[?@.zz])==1])==0].k' }}"
)

func repeated(elem string, n int) vault.JSON {
	return vault.JSON("[" + strings.TrimSuffix(strings.Repeat(elem+",", n), ",") + "]")
}

var ones = repeated("1", 130)

// gone is the context of a caller who leaves after so many looks at it.
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

func TestExpressionsOfARequestShareABudget(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	light := slices.Repeat([]string{"{{ data[0] }}"}, 3)
	for field, p := range map[string]vault.TokenParams{
		"mask":                   {Mask: nested, FingerprintExpression: nested, SearchIndexes: slices.Repeat([]string{nested}, 10)},
		"fingerprint_expression": {FingerprintExpression: nested, SearchIndexes: slices.Repeat([]string{nested}, 10)},
		"search_indexes[0]":      {SearchIndexes: slices.Repeat([]string{nested}, 10)},
		"search_indexes[3]":      {SearchIndexes: append(light, nested, "{{ data.nowhere }}")},
		"id":                     {ID: "{{ data | json: '$[?$[?$[?@.zz]]]' | default: 'x' }}"},
	} {
		p.Type, p.Data = vault.Generic, ones
		_, err := v.Public.CreateToken(t.Context(), p)
		wantFields(t, field, err, field)
	}
}

// TestTokensOfADocumentShareABudget: 40 tokens take what 5 do not. The first
// that finds nothing left is named, and no other is looked at.
func TestTokensOfADocumentShareABudget(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	data := strings.Replace(string(repeated("1", 120)), "1", "7", 1)
	request := `{"type":"token","data":` + data + `,"fingerprint_expression":"{{ data | json: '$[?count($[?@==2])==0 && @==7]' }}"}`
	if _, err := v.Public.Tokenize(t.Context(), repeated(request, 5)); err != nil {
		t.Errorf("five: %v", err)
	}
	_, err := v.Public.Tokenize(t.Context(), repeated(request, 40))
	bad, ok := errors.AsType[*vault.InvalidError](err)
	if !ok || len(bad.Fields) != 1 {
		t.Fatalf("forty: %v", err)
	}
	for field := range bad.Fields {
		if !strings.HasSuffix(field, "].fingerprint_expression") {
			t.Errorf("forty: %v", err)
		}
	}
	_, err = v.Public.Tokenize(t.Context(), vault.JSON(`[1,2,{"type":"token","data":`+string(ones)+`,"fingerprint_expression":"`+nested+`"},`+
		`{"type":"token","data":1,"mask":"{{ nothing"}]`))
	wantFields(t, "the third", err, "[2].fingerprint_expression")
}

// Each token of a batch brings steps of its own.
func TestALargeBatchOfExpressionsPasses(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	request := `{"type":"token","data":{"number":"4242424242424242","name":"Jane Doe"},"mask":{"number":"{{ data.number | card_mask: true, true }}","name":"{{ data.name | reveal: 1, 1 }}"},` +
		`"fingerprint_expression":"{{ data.number }}|{{ data.name | downcase }}","search_indexes":["{{ data.number | last4 }}","{{ data.name | downcase }}","{{ data | json: '$.name' }}"]}`
	if _, err := v.Private.Tokenize(t.Context(), repeated(request, 4000)); err != nil {
		t.Error(err)
	}
}

func TestMasksAreCheckedWhenTheyAreWritten(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	heavy := repeated(`{"k":1}`, 900)
	_, err := v.Private.CreateToken(t.Context(), vault.TokenParams{Type: vault.Generic, Data: heavy, Mask: counted})
	wantFields(t, "create", err, "mask")
	c := revealing(t, v)
	tok := create(t, c, vault.TokenParams{Type: vault.Generic, Data: heavy})
	_, err = c.UpdateToken(t.Context(), tok.ID, map[string]any{"mask": counted})
	wantFields(t, "a new mask", err, "mask")
	mask := map[string]any{"a": "x", "b": "{{ data | size }}"}
	tok = create(t, c, vault.TokenParams{Type: vault.Generic, Data: repeated(`{"k":1}`, 3), Mask: mask})
	_, err = c.UpdateToken(t.Context(), tok.ID, map[string]any{"mask": map[string]any{"b": counted}, "data": heavy})
	wantFields(t, "a new mask and new data", err, "mask.b")
	if _, err := c.UpdateToken(t.Context(), tok.ID, map[string]any{"data": heavy}); err != nil {
		t.Errorf("new data under a light mask: %v", err)
	}
}

func TestWorkEndsWhenTheCallerHasGone(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	tok := create(t, v.Private, vault.TokenParams{Type: vault.Generic, Data: ones})
	deep := strings.Replace(nested, "data", tok.ID, 1)
	create := func(ctx context.Context) error {
		_, err := v.Private.CreateToken(ctx, vault.TokenParams{Type: vault.Generic, Data: ones, FingerprintExpression: nested})
		return err
	}
	tokenize := func(ctx context.Context) error {
		_, err := v.Private.Tokenize(ctx, vault.JSON(`[{"type":"token","data":`+string(ones)+`,"search_indexes":["`+nested+`"]}]`))
		return err
	}
	detokenize := func(ctx context.Context) error {
		_, err := v.Private.Detokenize(ctx, []string{deep})
		return err
	}
	c := revealing(t, v)
	update := func(ctx context.Context) error {
		_, err := c.UpdateToken(ctx, tok.ID, map[string]any{"search_indexes": []string{nested}})
		return err
	}
	for what, do := range map[string]func(ctx context.Context) error{
		"create": create, "tokenize": tokenize, "detokenize": detokenize, "update": update,
	} {
		caller := &gone{Context: t.Context(), after: 1 << 30}
		wantError(t, what, do(caller), vault.ErrInvalid)
		looks := 1<<30 - caller.after
		if looks < 300 {
			t.Errorf("%s looks for its caller only %d times", what, looks)
		}
		caller.after = looks - 100 // in the middle of the evaluation
		if err := do(caller); !errors.Is(err, context.Canceled) || errors.Is(err, vault.ErrInvalid) {
			t.Errorf("%s, when the caller has gone: %v", what, err)
		}
		if caller.after < -10 {
			t.Errorf("%s went on for %d looks", what, -caller.after)
		}
	}
}

// BenchmarkHostileCreate shows what one small request of the least trusted key
// can take.
func BenchmarkHostileCreate(b *testing.B) {
	v := vaulttest.New(b)
	for name, p := range map[string]vault.TokenParams{
		"nested":       {Data: ones, Mask: nested, FingerprintExpression: nested, SearchIndexes: slices.Repeat([]string{nested}, 10)},
		"without mask": {Data: ones, FingerprintExpression: nested, SearchIndexes: slices.Repeat([]string{nested}, 10)},
		"counted":      {Data: repeated(`{"k":1}`, 900), SearchIndexes: slices.Repeat([]string{counted}, 10)},
	} {
		p.Type = vault.Generic
		size, err := json.Marshal(p)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("%s of %d bytes", name, len(size)), func(b *testing.B) {
			for b.Loop() {
				if _, err := v.Public.CreateToken(b.Context(), p); err == nil {
					b.Fatal("it was created")
				}
			}
			b.ReportMetric(float64(b.Elapsed()/time.Microsecond)/float64(b.N)/1000, "ms/request")
		})
	}
}
