package vault_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/given"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// The result has the structure of the document, with ids in place of values.
func TestTokenizeKeepsTheStructure(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	var walk func(doc, out any) any
	walk = func(doc, out any) any {
		switch doc := doc.(type) {
		case nil:
			return out
		case map[string]any:
			m, ok := out.(map[string]any)
			if !ok || len(m) != len(doc) {
				t.Errorf("%v became %v", doc, out)
				return nil
			}
			for k := range doc {
				m[k] = walk(doc[k], m[k])
			}
			return m
		case []any:
			a, ok := out.([]any)
			if !ok || len(a) != len(doc) {
				t.Errorf("%v became %v", doc, out)
				return nil
			}
			for i := range doc {
				a[i] = walk(doc[i], a[i])
			}
			return a
		default:
			id, _ := out.(string)
			if _, err := uuid.Parse(id); err != nil {
				t.Errorf("%v became %v, which is not an id", doc, out)
				return nil
			}
			var value any
			must.Do(t, given.Get(t, v.Owner.Client, id).Data.Decode(&value))
			return value
		}
	}
	for _, doc := range []string{
		`"text"`, `1.5`, `true`, `null`, `[]`, `{}`, `""`,
		`["a","b","a",null,[],{}]`, `{"z":"1","a":{"y":[1,2,{"x":false}],"n":null}}`, `[[["deep"]]]`,
		`{"type":"card"}`, `{"data":"x"}`, `{"types":"card","data":"x"}`, `{"":"empty key"}`,
	} {
		var in, out any
		must.Do(t, vault.JSON(doc).Decode(&in))
		must.Do(t, given.Tokenize(t, v.Private, doc).Decode(&out))
		given.Same(t, doc, walk(in, out), in)
	}
	if got := string(given.Tokenize(t, v.Private, `{"z":null,"a":null,"m":[null]}`)); got != `{"z":null,"a":null,"m":[null]}` {
		t.Errorf("the order of keys is not kept: %s", got)
	}
}

func TestTokenizeGoValues(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	out := must.Get(v.Private.Tokenize(t.Context(), map[string]any{"name": "Jane"}))(t)
	given.WantData(t, "data", given.Get(t, v.Owner.Client, given.Field(t, out, "name")).Data, `"Jane"`)
	must.Match(t, "nothing", must.Err(v.Private.Tokenize(t.Context(), nil)), vault.ErrInvalid)
}

// A token request takes the parameters of CreateToken, and becomes a token object.
func TestTokenizeRequests(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	out := given.Tokenize(t, v.Private, `{"person":{"id":"jane","type":"token","data":"Jane Doe","mask":"{{ data | reveal_last: 3 }}","containers":["/pii/"],
		"metadata":{"k":"v"},"search_indexes":["{{ data }}"],"fingerprint_expression":"{{ data | downcase }}","expires_at":"1/1/2030"},"plain":7}`)
	var got struct {
		Person map[string]any
		Plain  string
	}
	must.Do(t, out.Decode(&got))
	delete(got.Person, "fingerprint")
	given.Same(t, "token object", got.Person, map[string]any{
		"id": "jane", "tenant_id": v.Acme.ID.String(), "type": "token", "data": "XXXXXDoe", "containers": []any{"/pii/"}, "metadata": map[string]any{"k": "v"},
		"search_indexes": []any{"{{ data }}"}, "fingerprint_expression": "{{ data | downcase }}", "expires_at": "2030-01-01T00:00:00Z",
		"created_by": v.Private.ApplicationID().String(), "created_at": "2026-01-01T12:00:00Z",
	})
	given.WantData(t, "data", given.Get(t, v.Owner.Client, "jane").Data, `"Jane Doe"`)
	given.WantData(t, "plain data", given.Get(t, v.Owner.Client, got.Plain).Data, `7`)
}

// A single card request returns its masked card under mask; everywhere else the
// masked data is under data. Neither holds the cvc.
func TestTokenizeCards(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	const request = `{"type":"card","data":{"number":"4242424242424242","expiration_month":7,"expiration_year":2031,"cvc":"987"}}`
	masked := map[string]any{"number": "XXXXXXXXXXXX4242", "expiration_month": 7.0, "expiration_year": 2031.0}
	var single map[string]any
	must.Do(t, given.Tokenize(t, v.Private, request).Decode(&single))
	given.Same[any](t, "mask of a single request", single["mask"], masked)
	if _, there := single["data"]; there {
		t.Error("a single card request has data")
	}
	for _, doc := range []string{`[` + request + `]`, `{"a":{"b":[[` + request + `]]}}`} {
		out := given.Tokenize(t, v.Private, doc)
		text := string(out)
		if strings.Contains(text, `"mask"`) || strings.Contains(text, "cvc") || strings.Contains(text, `"987"`) {
			t.Errorf("a nested card shows its mask or cvc: %s", text)
		}
		if !strings.Contains(text, `"data":{"number":"XXXXXXXXXXXX4242","expiration_month":7,"expiration_year":2031}`) {
			t.Errorf("a nested card does not show its masked data: %s", text)
		}
	}
	given.WantData(t, "data", given.Get(t, v.Owner.Client, single["id"].(string)).Data, `{"number":"4242424242424242","expiration_month":7,"expiration_year":2031,"cvc":"987"}`)
	var bank map[string]any
	must.Do(t, given.Tokenize(t, v.Private, `{"type":"bank","data":{"routing_number":"110000000","account_number":"123456789"}}`).Decode(&bank))
	given.Same[any](t, "data of a single bank request", bank["data"], map[string]any{"routing_number": "110000000", "account_number": "XXXXX6789"})
	var object map[string]any
	must.Do(t, given.Tokenize(t, v.Private, `{"type":"token","data":{"a":"s3cr3t"}}`).Decode(&object))
	if _, there := object["data"]; there {
		t.Error("data without a mask is shown")
	}
}

// All tokens are created, or none; errors name the paths.
func TestTokenizeIsAllOrNothing(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	given.Create(t, v.Private, vault.TokenParams{ID: "taken", Type: vault.TypeGeneric, Data: "x"})
	for doc, fields := range map[string][]string{
		`["ok",{"type":"nope","data":"s3cr3t"}]`:                                                           {"[1].type"},
		`{"a":["ok",{"type":"card","data":{"number":"s3cr3t"}}]}`:                                          {"a[1].data.number"},
		`{"a":{"type":"token","data":"s3cr3t","colour":1}}`:                                                {"a.colour"},
		`{"type":"card","data":{"number":"s3cr3t","x":1},"y":2}`:                                           {"y"},
		`[{"type":"token","data":null},{"type":null,"data":1}]`:                                            {"[0].data", "[1].type"},
		`{"a":{"type":"token","data":"s3cr3t","id":"x"},"b":{"type":"token","data":"s3cr3t","mask":"{{"}}`: {"a.id", "b.mask"},
		`[["ok"],{"type":"token","data":{"n":"s3cr3t"},"id":"{{ data.missing }}"}]`:                        {"[1].id"},
		`{"a":"ok","a":"s3cr3t"}`:                                                                          {"a"},
		`["ok"`:                                                                                            {""},
		`{"type":"token","data":"s3cr3t","search_indexes":["{{ data.x }}"]}`:                               {"search_indexes[0]"},
	} {
		_, err := v.Private.Tokenize(t.Context(), vault.JSON(doc))
		given.WantFields(t, doc, err, fields...)
		given.WantSilent(t, err, "s3cr3t", `"ok"`)
	}
	for _, doc := range []string{
		`["ok",{"type":"token","data":"x","id":"taken"}]`,
		`["ok",{"type":"token","data":"x","id":"twice"},{"type":"token","data":"y","id":"twice"}]`,
	} {
		must.Match(t, doc, must.Err(v.Private.Tokenize(t.Context(), vault.JSON(doc))), vault.ErrConflict)
	}
	only := given.Private(t, v, given.Rule(1, "/general/", vault.TransformReveal, given.Everything...))
	_, err := only.Tokenize(t.Context(), vault.JSON(`["ok",{"type":"card","data":{"number":"4242424242424242"}}]`))
	must.Match(t, "a container without the permission", err, vault.ErrForbidden)
	if found, total := given.List(t, v.Owner.Client, vault.ListTokensParams{}); total != 1 {
		t.Errorf("tokens remain: %v", found)
	}
	given.Same(t, "log entries of creation", len(given.Entries(t, v, vault.ListLogsParams{EntityType: "token"})), 2) // the creation and the list
	given.Tokenize(t, only, `["ok",{"type":"token","data":"x","containers":["/general/low/"]}]`)
}

// With deduplication, equal values become one token.
func TestTokenizeDeduplicates(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	existing := given.Create(t, v.Private, vault.TokenParams{Type: vault.TypeGeneric, Data: "old"})
	const request = `{"type":"token","data":"new","deduplicate_token":true}`
	out := given.Tokenize(t, v.Private, `{"a":`+request+`,"b":`+request+`,"c":{"type":"token","data":"old","deduplicate_token":true},"d":"new"}`)
	given.Same(t, "equal values", given.Field(t, out, "a.id"), given.Field(t, out, "b.id"))
	given.Same(t, "an existing value", given.Field(t, out, "c.id"), existing.ID)
	if given.Field(t, out, "d") == given.Field(t, out, "a.id") {
		t.Error("a plain value was deduplicated without being asked")
	}
	_, total := given.List(t, v.Private, vault.ListTokensParams{})
	given.Same(t, "tokens", total, 3)
	given.Same(t, "the same document again", given.Field(t, given.Tokenize(t, v.Private, request), "id"), given.Field(t, out, "a.id"))
}

// Lists show the tokens of one document in the order of the document.
func TestTokenizeOrder(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	var want []string
	must.Do(t, given.Tokenize(t, v.Private, `["1","2","3","4","5","6","7","8"]`).Decode(&want))
	found, _ := given.List(t, v.Private, vault.ListTokensParams{})
	for i := range want {
		given.Same(t, "listed as", found[len(found)-1-i], want[i])
	}
}

// A thousand values go in one batch, each with its log entry.
func TestTokenizeManyValues(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	out := given.Tokenize(t, v.Private, `[`+strings.Repeat(`"x",`, 999)+`"x"]`)
	var all []string
	must.Do(t, out.Decode(&all))
	distinct := map[string]bool{}
	for _, id := range all {
		distinct[id] = true
	}
	given.Same(t, "distinct ids", len(distinct), 1000)
	_, total := given.List(t, v.Private, vault.ListTokensParams{PageParams: vault.PageParams{Size: 1}})
	given.Same(t, "tokens", total, 1000)
	page := must.Get(v.Owner.ListLogs(t.Context(), vault.ListLogsParams{EntityType: "token", PageParams: vault.PageParams{Size: 1}}))(t)
	given.Same(t, "log entries", page.Pagination.TotalItems, 1001) // with the read of the listed token
}

// wallet creates tokens to be used by name.
func wallet(t *testing.T, v *vaulttest.Vault) {
	t.Helper()
	for id, data := range map[string]string{
		"text": `"s3cr3t"`, "number": `1.10`, "flag": `true`, "tree": `{"z":1,"a":["x",{"b":12345678901234567890}]}`,
		"tricky": `"\"},{{ text }}\n\\\u0000"`, "expression": `"{{ text }}"`, "odd id.~1": `"odd"`,
	} {
		given.Create(t, v.Owner.Client, vault.TokenParams{ID: id, Type: vault.TypeGeneric, Data: vault.JSON(data), Metadata: map[string]string{"color": "red"}})
	}
	given.Create(t, v.Owner.Client, vault.TokenParams{ID: "card", Type: vault.TypeCard, Data: vault.CardData{Number: given.Visa, ExpirationMonth: 7, CVC: "987"}})
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
		`{"{{ text }}":"x"}`:                                `{"{{ text }}":"x"}`, // keys are not searched
		`["{{ tricky }}"]`:                                  `["\"},{{ text }}\n\\\u0000"]`,
		`{"a":"x {{ tricky }}"}`:                            `{"a":"x \"},{{ text }}\n\\\u0000"}`,
		`{"a": 1.10, "b": [1e400] }`:                        `{"a": 1.10, "b": [1e400] }`, // not a byte is changed
		`"}} { { %}"`:                                       `"}} { { %}"`,
	} {
		given.Same(t, doc+" gives", given.Detokenize(t, v.Private, doc), want)
	}
	out := must.Get(v.Private.Detokenize(t.Context(), map[string]string{"pan": "{{ text }}"}))(t)
	given.WantData(t, "a Go value", out, `{"pan":"s3cr3t"}`)
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
		given.WantFields(t, doc, err, fields...)
		given.WantSilent(t, err, "s3cr3t")
	}
	_, err := v.Private.Detokenize(t.Context(), vault.JSON(`["{{ text }}","{{ missing-1 }}","{{ missing-2 }}"]`))
	given.WantFields(t, "unknown ids", err, "[1]", "[2]")
	for _, part := range []string{"Failed to detokenize some tokens: missing-1", "missing-2"} {
		must.Contain(t, "the error", err.Error(), part)
	}
	given.Same(t, "log of a token in a failed request", given.Operations(t, v, "text"), []string{"create", "use"}) // of the filter that failed
}

// At most 100 distinct tokens are used at once.
func TestDetokenizeLimit(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	var parts []string
	for i := range 101 {
		id := fmt.Sprintf("tok%03d", i)
		given.Create(t, v.Owner.Client, vault.TokenParams{ID: id, Type: vault.TypeGeneric, Data: i})
		parts = append(parts, `"{{ `+id+` }}"`, `"{{ token: `+id+` | json: '$.id' }}"`)
	}
	doc := func(n int) string { return `[` + strings.Join(parts[:2*n], ",") + `]` }
	if got := given.Detokenize(t, v.Private, doc(100)); !strings.HasPrefix(got, `[0,"tok000",1,`) {
		t.Errorf("100 tokens: %.50s", got)
	}
	given.WantFields(t, "101 tokens", must.Err(v.Private.Detokenize(t.Context(), vault.JSON(doc(101)))), "")
	given.Same(t, "uses of the first", given.Operations(t, v, "tok000"), []string{"create", "use"})
	given.Same(t, "uses of the last", given.Operations(t, v, "tok100"), []string{"create"})
}

// The total size of the tokens that a request names is limited, but a single token
// can always be used.
func TestDetokenizeBoundsBytes(t *testing.T) {
	t.Parallel()
	v := vaulttest.Open(t, ":memory:", &vault.Config{MaxPageBytes: 30_000})
	for _, id := range []string{"one", "two", "huge"} {
		data := strings.Repeat("x", 20_000)
		if id == "huge" {
			data += data
		}
		given.Create(t, v.Owner.Client, vault.TokenParams{ID: id, Type: vault.TypeGeneric, Data: data})
	}
	given.Detokenize(t, v.Private, `["{{ one }}"]`)
	given.Detokenize(t, v.Private, `["{{ huge }}"]`)
	given.WantFields(t, "two tokens", must.Err(v.Private.Detokenize(t.Context(), vault.JSON(`["{{ one | last4 }}","{{ two | last4 }}"]`))), "")
	given.Same(t, "uses", given.Operations(t, v, "two"), []string{"create"})
}

// token:use is needed on each token, and its transform counts.
func TestDetokenizeUnderRules(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	wallet(t, v)
	given.Create(t, v.Owner.Client, vault.TokenParams{ID: "closed", Type: vault.TypeGeneric, Data: "other", Containers: []string{"/closed/"}})
	general := given.Private(t, v, given.Rule(1, "/general/", vault.TransformReveal, "token:use"))
	given.Same(t, "reveal gives", given.Detokenize(t, general, `"{{ text }}"`), `"s3cr3t"`)
	for _, doc := range []string{`"{{ closed }}"`, `["{{ text }}","{{ card }}"]`, `"{{ token: closed | json: '$.type' }}"`} {
		must.Match(t, doc, must.Err(general.Detokenize(t.Context(), vault.JSON(doc))), vault.ErrForbidden)
	}
	masked := given.Private(t, v, given.Rule(1, "/", vault.TransformMask, "token:use"))
	if got := given.Detokenize(t, masked, `["{{ text }}","{{ card }}"]`); got != `["XXcr3t",{"number":"XXXXXXXXXXXX4242","expiration_month":7}]` {
		t.Errorf("mask gives %s", got)
	}
	if got := given.Detokenize(t, masked, `"{{ token: card }}"`); strings.Contains(got, "4242424") || strings.Contains(got, "enrichments") {
		t.Errorf("mask reveals more than the mask: %s", got)
	}
	_, err := masked.Detokenize(t.Context(), vault.JSON(`"{{ number }}"`))
	must.Match(t, "a value without a mask is shown", err, must.Text("is not available here"))
	given.WantSilent(t, err, "1.10")
	redacted := given.Private(t, v, given.Rule(1, "/", vault.TransformRedact, "token:use"))
	must.Match(t, "redact", must.Err(redacted.Detokenize(t.Context(), vault.JSON(`"{{ text }}"`))), vault.ErrForbidden)
	given.Same(t, "a document without expressions becomes", given.Detokenize(t, redacted, `"nothing to use"`), `"nothing to use"`)
}

func TestCardBrands(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	for number, want := range map[string]string{
		given.Visa:         `{"brand":"visa","bin":"42424242","last4":"4242"}`,
		given.Mastercard:   `{"brand":"mastercard","bin":"55555555","last4":"4444"}`,
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
		tok, err := v.Owner.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeCardNumber, Data: number})
		if err != nil {
			t.Errorf("%s: %v", number, err)
			continue
		}
		given.Same(t, number, given.Detokenize(t, v.Owner.Client, `"{{ token: `+tok.ID+` | json: '$.enrichments.card' }}"`), want)
	}
}

func TestUpdateTokenReturnsTheTokenMasked(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	c := given.Revealing(t, v)
	old := given.Create(t, v.Private, vault.TokenParams{ID: "tok", Type: vault.TypeGeneric, Data: "first secret"})
	v.Clock.Advance(time.Minute)
	got := given.Update(t, c, "tok", `{"data":"second secret"}`)
	want := *old
	want.Data, want.Fingerprint = vault.JSON(`"XXXXXXXXXcret"`), got.Fingerprint
	want.ModifiedBy, want.ModifiedAt = c.ApplicationID(), vaulttest.Start.Add(time.Minute)
	given.Same(t, "updated token", got, &want)
	if got.Fingerprint == old.Fingerprint {
		t.Error("the fingerprint of the old data is still set")
	}
	given.WantData(t, "data", given.Get(t, c, "tok").Data, `"second secret"`)
}

// Data, mask and metadata are merged as RFC 7386 says.
func TestUpdateTokenMerges(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	for _, tt := range []struct{ data, patch, want string }{
		{`{"a":1,"b":{"c":2,"d":3}}`, `{"b":{"c":null,"e":4}}`, `{"a":1,"b":{"d":3,"e":4}}`},
		{`{"a":1}`, `{}`, `{"a":1}`},
		{`{"a":1.10,"z":2}`, `{"z":1e400}`, `{"a":1.10,"z":1e400}`},
		{`{"a":[1,{"b":null}]}`, `{"a":[null]}`, `{"a":[null]}`},
		{`"text"`, `{"a":null,"b":{"c":null,"d":1}}`, `{"b":{"d":1}}`},
		{`{"a":1}`, `"text"`, `"text"`},
		{`{"a":1}`, `[1]`, `[1]`},
		{`{"a":{"b":1}}`, `{"a":7}`, `{"a":7}`},
		{`{"a":null}`, `{"b":1}`, `{"a":null,"b":1}`},
		{`{"z":1,"a":2}`, `{"a":3,"m":4}`, `{"z":1,"a":3,"m":4}`},
		{`{"a":1}`, `{"missing":null}`, `{"a":1}`},
	} {
		tok := given.Create(t, v.Private, vault.TokenParams{Type: vault.TypeGeneric, Data: vault.JSON(tt.data)})
		given.Update(t, v.Private, tok.ID, `{"data":`+tt.patch+`}`)
		given.WantData(t, tt.data+" patched with "+tt.patch, given.Get(t, v.Owner.Client, tok.ID).Data, tt.want)
	}
}

func TestUpdateTokenMergesMaskAndMetadata(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	tok := given.Create(t, v.Owner.Client, vault.TokenParams{Type: vault.TypeCard, Data: vault.CardData{Number: given.Visa, ExpirationYear: 2030},
		Metadata: map[string]string{"a": "1", "b": "2"}})
	got := given.Update(t, v.Owner.Client, tok.ID, `{"mask":{"expiration_year":null,"brand":"visa"},"metadata":{"a":null,"b":"3","c":"4"}}`)
	given.WantData(t, "mask", got.Mask, `{"number":"{{ data.number | reveal_last: 4 }}","brand":"visa"}`)
	given.WantData(t, "masked data", got.Data, `{"number":"XXXXXXXXXXXX4242","brand":"visa"}`)
	given.Same(t, "metadata", got.Metadata, map[string]string{"b": "3", "c": "4"})
	got = given.Update(t, v.Owner.Client, tok.ID, `{"mask":"hidden"}`)
	given.WantData(t, "masked data", got.Data, `"hidden"`)
}

// Containers, indexes, fingerprint expression and expiry are replaced.
func TestUpdateTokenReplaces(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	tok := given.Create(t, v.Owner.Client, vault.TokenParams{Type: vault.TypeGeneric, Data: map[string]string{"a": "x", "b": "y"},
		Containers: []string{"/a/", "/b/"}, SearchIndexes: []string{"{{ data.a }}"}})
	got := given.Update(t, v.Owner.Client, tok.ID, `{"containers":["/C/"],"search_indexes":["{{ data.b }}"],"fingerprint_expression":"{{ data.b }}","expires_at":"2/3/2026"}`)
	given.Same(t, "containers", got.Containers, []string{"/c/"})
	given.Same(t, "indexes", got.SearchIndexes, []string{"{{ data.b }}"})
	given.Same(t, "fingerprint expression", got.FingerprintExpression, "{{ data.b }}")
	given.Same(t, "expiry", got.ExpiresAt, time.Date(2026, 2, 3, 0, 0, 0, 0, time.UTC))
	for query, want := range map[string]int{"data:x": 0, "data:y": 1, "container:/a/": 0, "container:/c/": 1} {
		page := must.Get(v.Owner.SearchTokens(t.Context(), vault.SearchTokensParams{Query: query}))(t)
		given.Same(t, query+" finds", page.Pagination.TotalItems, want)
	}
}

// Null clears fields without a default, and restores the type's default otherwise.
func TestUpdateTokenNullRestoresDefaults(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	tok := given.Create(t, v.Owner.Client, vault.TokenParams{Type: vault.TypeSocialSecurityNumber, Data: "536-22-8726", Mask: "hidden",
		Containers: []string{"/a/"}, Metadata: map[string]string{"a": "1"}, SearchIndexes: []string{"{{ data | last4 }}"},
		FingerprintExpression: "{{ data | last4 }}", ExpiresAt: vaulttest.Start.Add(time.Hour)})
	got := given.Update(t, v.Owner.Client, tok.ID, `{"mask":null,"containers":null,"metadata":null,"search_indexes":null,
		"fingerprint_expression":null,"expires_at":null,"deduplicate_token":null}`)
	given.WantData(t, "mask", got.Mask, `"{{ data | reveal: 0, 4, 'X', '-' }}"`)
	given.WantData(t, "data", got.Data, `"XXX-XX-8726"`)
	given.Same(t, "containers", got.Containers, []string{"/pii/high/"})
	given.Same(t, "metadata", len(got.Metadata), 0)
	given.Same(t, "indexes", len(got.SearchIndexes), 3)
	given.Same(t, "fingerprint expression", got.FingerprintExpression, "{{ data | remove: '-' }}")
	if !got.ExpiresAt.IsZero() {
		t.Errorf("the token expires at %s", got.ExpiresAt)
	}
}

func TestUpdateTokenRefusesBadPatches(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	tok := given.Create(t, v.Owner.Client, vault.TokenParams{Type: vault.TypeCard, Data: vault.CardData{Number: given.Visa, ExpirationMonth: 7}, SearchIndexes: []string{"{{ data.expiration_month }}"}})
	before := given.Get(t, v.Owner.Client, tok.ID)
	for patch, fields := range map[string][]string{
		`[]`: {""}, `"s3cr3t"`: {""}, `{"data":`: {"data"},
		`{"id":"new-id"}`: {"id"}, `{"type":"token"}`: {"type"}, `{"s3":1}`: {"s3"},
		`{"data":null}`: {"data"}, `{"data":"s3cr3t"}`: {"data"},
		`{"data":{"number":"s3cr3t"}}`: {"data.number"}, `{"data":{"number":null}}`: {"data.number"},
		`{"data":{"cvc":"s3cr3t"}}`: {"data.cvc"}, `{"data":{"holder":"s3cr3t"}}`: {"data.holder"},
		`{"data":{"holder":null}}`: {"data.holder"}, `{"data":{"holder":null,"month":7}}`: {"data.holder", "data.month"},
		`{"data":{"cvc":"123","cvc":"124"}}`: {"data.cvc"},
		`{"metadata":"s3cr3t"}`:              {"metadata"}, `{"metadata":{"a":7}}`: {"metadata.a"}, `{"metadata":{"a":"\u0000"}}`: {"metadata.a"},
		`{"containers":[]}`: {"containers"}, `{"containers":["x"]}`: {"containers[0]"}, `{"containers":"x"}`: {"containers"},
		`{"mask":"{{ metadata.a }}"}`: {"mask"}, `{"mask":{"a":"{{ data | append: metadata.a }}"}}`: {"mask"},
		`{"mask":"{{ data"}`: {"mask"}, `{"mask":{"a":"{{ data | nope }}"}}`: {"mask.a"},
		`{"fingerprint_expression":"{{"}`: {"fingerprint_expression"}, `{"fingerprint_expression":"{{ data.nope }}"}`: {"fingerprint_expression"},
		`{"search_indexes":["{{ data.nope }}"]}`: {"search_indexes[0]"}, `{"search_indexes":[7]}`: {"search_indexes[0]"},
		`{"deduplicate_token":"s3cr3t"}`: {"deduplicate_token"},
		`{"expires_at":"1/1/2020"}`:      {"expires_at"}, `{"expires_at":"s3cr3t"}`: {"expires_at"},
		`{"data":{"expiration_month":null}}`: {"search_indexes[0]"}, // the index would be empty
	} {
		_, err := v.Owner.PatchToken(t.Context(), tok.ID, vault.JSON(patch))
		given.WantFields(t, patch, err, fields...)
		given.WantSilent(t, err, "s3cr3t", given.Visa)
	}
	given.Same(t, "the token after refused patches", given.Get(t, v.Owner.Client, tok.ID), before)
	given.Same(t, "log", given.Operations(t, v, tok.ID), []string{"create", "read", "read"})
	must.Match(t, "a missing token", must.Err(v.Owner.PatchToken(t.Context(), "missing", vault.JSON(`{}`))), vault.ErrNotFound)
	_, err := v.Owner.PatchToken(t.Context(), "missing", vault.JSON(`{"nope":1}`))
	must.Match(t, "the body is judged before the entity", err, vault.ErrInvalid)
	_, err = given.Holding(t, v, "token:read").PatchToken(t.Context(), "missing", vault.JSON(`{"nope":1}`))
	must.Match(t, "the permission is judged before the body", err, vault.ErrForbidden)
}

// A mask that compiles but fails on new data shows nothing.
func TestUpdateTokenRedactsWhereTheMaskFails(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	tok := given.Create(t, v.Private, vault.TokenParams{Type: vault.TypeGeneric, Data: map[string]any{"n": 7}, Mask: "{{ data.n | plus: 1 }}"})
	given.WantData(t, "masked data", tok.Data, `8`)
	got := given.Update(t, v.Private, tok.ID, `{"data":{"n":"text"}}`)
	given.WantData(t, "masked data in the answer", got.Data, ``)
	given.WantData(t, "masked data read", given.Get(t, v.Private, tok.ID).Data, ``)
	given.WantData(t, "data", given.Get(t, v.Owner.Client, tok.ID).Data, `{"n":"text"}`)
}

// Expressions over hidden data would reveal it.
func TestUpdateTokenExpressionsNeedReveal(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	updater := given.Private(t, v, given.Rule(1, "/", vault.TransformReveal, "token:update"), given.Rule(2, "/", vault.TransformMask, "token:read"))
	reader := given.Private(t, v, given.Rule(1, "/", vault.TransformMask, "token:update"), given.Rule(2, "/", vault.TransformReveal, "token:read"))
	user := given.Holding(t, v, "token:update", "token:use")
	for patch, allowed := range map[string]bool{
		`{"mask":"{{ data.a }}"}`: false, `{"mask":"constant"}`: false, `{"mask":{"a":"{{ data.a }}"}}`: false,
		`{"search_indexes":["{{ data.a }}"]}`: false, `{"fingerprint_expression":"{{ data.a }}"}`: false,
		`{"data":{"b":"new"},"mask":"{{ data.a }}"}`: false,
		`{"data":"new","mask":"{{ data }}"}`:         true,                                                                           // no old data remains
		`{"mask":null}`:                              true, `{"search_indexes":null}`: true, `{"fingerprint_expression":null}`: true, // no change
		`{"metadata":{"a":"1"}}`: true, `{"data":{"b":"new"}}`: true, `{"expires_at":"1/1/2030"}`: true,
	} {
		secret := map[string]string{"a": "s3cr3t"}
		tok := given.Create(t, v.Owner.Client, vault.TokenParams{Type: vault.TypeGeneric, Data: secret})
		_, err := updater.PatchToken(t.Context(), tok.ID, vault.JSON(patch))
		given.WantAllowed(t, patch, err, allowed)
		if !allowed {
			given.WantData(t, "data", given.Get(t, v.Owner.Client, tok.ID).Data, `{"a":"s3cr3t"}`)
		}
		for _, c := range []*vault.Client{reader, user, v.Owner.Client} {
			tok := given.Create(t, v.Owner.Client, vault.TokenParams{Type: vault.TypeGeneric, Data: secret})
			if _, err := c.PatchToken(t.Context(), tok.ID, vault.JSON(patch)); err != nil {
				t.Errorf("%s by a client that sees the data: %v", patch, err)
			}
		}
	}
	masked := given.Create(t, v.Owner.Client, vault.TokenParams{Type: vault.TypeGeneric, Data: "s3cr3t", Mask: "hidden"})
	_, err := updater.PatchToken(t.Context(), masked.ID, vault.JSON(`{"mask":null}`))
	must.Match(t, "null that brings a laxer default back", err, vault.ErrForbidden)
}

// The result of a patch shows what the caller may read, and never more than the
// mask.
func TestUpdateTokenShowsWhatMayBeRead(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	both := []vault.Permission{"token:read", "token:update"}
	c := given.Private(t, v, given.Rule(1, "/open/", vault.TransformReveal, both...), given.Rule(2, "/half/", vault.TransformMask, both...), given.Rule(3, "/shut/", vault.TransformRedact, both...))
	for _, tt := range []struct{ from, to, want string }{
		{"/open/", "/open/", `"XXcret"`}, {"/half/", "/half/", `"XXcret"`}, {"/shut/", "/shut/", ``}, {"/open/", "/shut/", ``},
	} {
		tok := given.Create(t, v.Owner.Client, vault.TokenParams{Type: vault.TypeGeneric, Data: "secret", Containers: []string{tt.from}})
		got := given.Update(t, c, tok.ID, `{"containers":["`+tt.to+`"],"metadata":{"k":"v"}}`)
		given.WantData(t, tt.from+" to "+tt.to, got.Data, tt.want)
		given.Same(t, "metadata", got.Metadata, map[string]string{"k": "v"})
	}
}

// A caller that may not read a token learns only its name from a patch. With
// token:create, a fingerprint would confirm a guess.
func TestUpdateTokenWithoutReadIsNoOracle(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	tok := given.Create(t, v.Owner.Client, vault.TokenParams{Type: vault.TypeSocialSecurityNumber, Data: "123-45-6789", Metadata: map[string]string{"user": "7"}})
	want := &vault.Token{ID: tok.ID, TenantID: v.Acme.ID, Type: vault.TypeSocialSecurityNumber, Transform: vault.TransformRedact, Containers: []string{"/pii/high/"}}
	for _, patch := range []string{`{}`, `{"metadata":{"a":"b"}}`, `{"expires_at":"2099-01-01"}`} {
		given.Same(t, patch, given.Update(t, v.Public, tok.ID, patch), want)
	}
	elsewhere := given.Private(t, v, given.Rule(1, "/pii/", vault.TransformReveal, "token:update"), given.Rule(2, "/general/", vault.TransformReveal, "token:read"))
	given.Same(t, "for a caller that reads elsewhere", given.Update(t, elsewhere, tok.ID, `{}`), want)
}

// Data cannot be changed to a value that the id contains.
func TestUpdateTokenMustNotMakeTheIDRevealData(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	given.Create(t, v.Owner.Client, vault.TokenParams{ID: "card " + given.Visa, Type: vault.TypeCard, Data: vault.CardData{Number: given.Mastercard}})
	given.Create(t, v.Owner.Client, vault.TokenParams{ID: "s3cr3t", Type: vault.TypeGeneric, Data: "harmless"})
	given.WantFields(t, "card", must.Err(v.Owner.PatchToken(t.Context(), "card "+given.Visa, vault.JSON(`{"data":{"number":"`+given.Visa+`"}}`))), "data")
	given.WantFields(t, "generic", must.Err(v.Owner.PatchToken(t.Context(), "s3cr3t", vault.JSON(`{"data":"s3cr3t"}`))), "data")
	short := given.Create(t, v.Owner.Client, vault.TokenParams{Type: vault.TypeBank, Data: vault.BankData{RoutingNumber: given.Routing, AccountNumber: "123456"}})
	for digit := range 10 { // every UUID contains some of them
		given.Update(t, v.Owner.Client, short.ID, fmt.Sprintf(`{"data":{"account_number":"%d"}}`, digit))
	}
}

// Concurrent updates are not lost.
func TestConcurrentUpdatesAreNotLost(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	tok := given.Create(t, v.Private, vault.TokenParams{Type: vault.TypeGeneric, Data: map[string]int{}})
	var wg sync.WaitGroup
	var want strings.Builder
	for i := range 20 {
		wg.Go(func() { given.Update(t, v.Private, tok.ID, fmt.Sprintf(`{"data":{"k%02d":%d}}`, i, i)) })
	}
	wg.Wait()
	var got map[string]int
	must.Do(t, given.Get(t, v.Owner.Client, tok.ID).Data.Decode(&got))
	for i := range 20 {
		if n, ok := got[fmt.Sprintf("k%02d", i)]; !ok || n != i {
			fmt.Fprintf(&want, " k%02d", i)
		}
	}
	if want.Len() > 0 {
		t.Errorf("lost updates:%s", &want)
	}
}
