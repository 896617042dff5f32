package vault_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	htmltemplate "html/template"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"text/template"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/test/given"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// TestParamsSurviveTheirJSONForm encodes parameters and decodes them again, so that
// HTTP does not change them.
func TestParamsSurviveTheirJSONForm(t *testing.T) {
	t.Parallel()
	yes := true
	at := time.Date(2030, 1, 2, 3, 4, 5, 6000, time.UTC)
	for want, params := range map[string]vault.TokenParams{
		`{}`: {},
		`{"id":"a","type":"card","data":{"number":"4242"},"mask":"<{{ data }}>","containers":["/a/"],"metadata":{"k":"v"},` +
			`"search_indexes":["x"],"fingerprint_expression":"{{ data }}","deduplicate_token":true,"expires_at":"2030-01-02T03:04:05.000006Z"}`: {
			ID: "a", Type: vault.TypeCard, Data: vault.CardData{Number: "4242"}, Mask: "<{{ data }}>", Containers: []string{"/a/"},
			Metadata: map[string]string{"k": "v"}, SearchIndexes: []string{"x"}, FingerprintExpression: "{{ data }}",
			DeduplicateToken: &yes, ExpiresAt: at},
		`{"data":{"b":1e400,"a":1.10},"containers":[],"metadata":{},"search_indexes":[]}`: {
			Data: vault.JSON(`{"b": 1e400, "a": 1.10}`), Containers: []string{}, Metadata: map[string]string{}, SearchIndexes: []string{}},
		`{"data":null}`: {Data: json.RawMessage(nil)},
	} {
		wantJSON(t, params, want)
		var read vault.TokenParams
		must.Do(t, read.UnmarshalJSON([]byte(want)))
		params.Data, read.Data, params.Mask, read.Mask = nil, nil, nil, nil // compared as text above
		given.Same(t, want+" (params -, read +)", read, params)
	}
	wantJSON(t, vault.TokenParams{}, `{}`)
	wantJSON(t, vault.SearchTokensParams{Query: "a:b"}, `{"query":"a:b"}`)
	wantJSON(t, vault.SearchTokensParams{PageParams: vault.PageParams{Page: 2, Size: -3}}, `{"page":2,"size":-3}`)
	wantJSON(t, vault.ReactParams{}, `{}`)
	wantJSON(t, vault.ReactParams{Args: vault.JSON(`{"a": 1}`), CallbackURL: "https://x", Timeout: 20 * time.Second},
		`{"args":{"a":1},"callback_url":"https://x","timeout_ms":20000}`)
	wantJSON(t, vault.ReactParams{Timeout: 1}, `{"timeout_ms":-1}`)
	wantJSON(t, vault.ReactParams{Timeout: -time.Second}, `{"timeout_ms":-1000}`)
	for _, text := range []string{`{"timeout_ms":0}`, `{"timeout_ms":-1}`, `{"timeout_ms":210001}`, `{"timeout_ms":9223372036854775}`} {
		var p vault.ReactParams
		if err := p.UnmarshalJSON([]byte(text)); err != nil || p.Timeout >= 0 {
			t.Errorf("%s: %v, %v, want a timeout that is out of bounds", text, p.Timeout, err)
		}
	}
}

func wantJSON(t *testing.T, value json.Marshaler, want string) {
	t.Helper()
	text := must.Get(value.MarshalJSON())(t)
	given.Same(t, fmt.Sprintf("%T is written as", value), string(text), want)
}

// TestParamsThatAreNotJSON checks that raw JSON is validated before it becomes part
// of a larger document, where it could inject other fields.
func TestParamsThatAreNotJSON(t *testing.T) {
	t.Parallel()
	for field, value := range map[string]json.Marshaler{
		"data": vault.TokenParams{Type: vault.TypeGeneric, Data: vault.JSON(`1,"id":"chosen"`)},
		"mask": vault.TokenParams{Type: vault.TypeGeneric, Data: 1, Mask: math.NaN()},
		"args": vault.ReactParams{Args: json.RawMessage(`}`)},
	} {
		given.WantFields(t, field, must.Err(value.MarshalJSON()), field)
	}
}

func TestEncodeJSON(t *testing.T) {
	t.Parallel()
	for want, value := range map[string]any{
		"null": nil, `"<a>"`: "<a>", `{"a":1.10}`: vault.JSON(` { "a" : 1.10 } `), "1e400": json.RawMessage("1e400"),
	} {
		given.Same(t, fmt.Sprintf("%v", value), string(must.Get(vault.EncodeJSON(value))(t)), want)
	}
	for _, value := range []any{make(chan int), vault.JSON("{"), vault.JSON(nil)} {
		must.Match(t, fmt.Sprintf("%T", value), must.Err(vault.EncodeJSON(value)), vault.ErrInvalid)
	}
}

const secret = "S3cr3t"

// secrets returns a value of each type that must not print, with a secret in every
// field except names and ids.
func secrets() []printable {
	id := uuid.MustParse("11111111-2222-3333-4444-555555555555")
	card := vault.CardData{Number: secret, ExpirationMonth: 1, ExpirationYear: 2030, CVC: secret}
	some, all := map[string]string{secret: secret}, []string{secret}
	app, code := id, &vault.ProxyTransform{Code: secret}
	return []printable{
		of(vault.TokenParams{ID: "shown", Type: vault.TypeCard, Data: card, Mask: secret, Containers: all, Metadata: some,
			SearchIndexes: all, FingerprintExpression: secret}, `vault.TokenParams{id:"shown" type:"card"}`),
		of(card, `vault.CardData{card:"hidden"}`),
		of(vault.BankData{RoutingNumber: secret, AccountNumber: secret}, `vault.BankData{account:"hidden"}`),
		of(vault.Token{ID: "shown", TenantID: id, Type: vault.TypeCard, Data: vault.JSON(`"S3cr3t"`), Mask: vault.JSON(`"S3cr3t"`),
			Fingerprint: secret, Containers: all, Metadata: some, SearchIndexes: all, FingerprintExpression: secret},
			`vault.Token{id:"shown" tenant_id:"`+id.String()+`" type:"card"}`),
		of(vault.Application{ID: id, Name: "line\nbreak", Type: vault.ApplicationPublic, Key: secret, Permissions: []vault.Permission{secret}},
			`vault.Application{id:"`+id.String()+`" name:"line\nbreak" type:"public"}`),
		of(vault.Session{SessionKey: secret, Nonce: secret}, `vault.Session{session_key:"hidden"}`),
		of(vault.Tenant{ID: id, Name: "shown", WebhookSecret: secret}, `vault.Tenant{id:"`+id.String()+`" name:"shown"}`),
		of(vault.Reactor{ID: id, TenantID: id, Name: "shown", Code: secret, Configuration: some, ApplicationID: app},
			`vault.Reactor{id:"`+id.String()+`" tenant_id:"`+id.String()+`" name:"shown"}`),
		of(vault.ReactorParams{Name: "shown", Code: secret, Configuration: some}, `vault.ReactorParams{name:"shown"}`),
		of(vault.Proxy{ID: id, Name: "shown", Key: secret, DestinationURL: "https://x/?key=" + secret, RequestTransform: code,
			ResponseTransform: code, Configuration: some}, `vault.Proxy{id:"`+id.String()+`" name:"shown"}`),
		of(vault.ProxyParams{Name: "shown", DestinationURL: secret, RequestTransform: code, ResponseTransform: code, Configuration: some},
			`vault.ProxyParams{name:"shown"}`),
		of(vault.SessionGrant{Nonce: secret, Permissions: []vault.Permission{secret}}, `vault.SessionGrant{nonce:"hidden"}`),
		of(vault.SearchTokensParams{Query: "data:" + secret}, `vault.SearchTokensParams{query:"hidden"}`),
		of(vault.ReactParams{Args: card, CallbackURL: "https://x/?key=" + secret}, `vault.ReactParams{args:"hidden"}`),
		of(vault.ReactResult{Tokens: vault.JSON(`"S3cr3t"`), Raw: vault.JSON(`"S3cr3t"`)}, `vault.ReactResult{result:"hidden"}`),
		of(vault.ProxyCall{Key: secret, URL: secret, Path: secret, Query: secret, Header: http.Header{"Authorization": {secret}},
			Body: strings.NewReader(secret), KeepAlive: secret}, `vault.ProxyCall{method:"GET"}`),
		of(vault.StoredResponse{Status: 201, Header: http.Header{"Location": {secret}}, Body: []byte(secret)}, `vault.StoredResponse{status:"201"}`),
	}
}

// printable is a value inside everything that may hold it.
type printable struct {
	value, pointer any
	held           map[string]any
	want           string
}

func of[T any](v T, want string) printable {
	type holder struct {
		Value   T
		Pointer *T
		Any     any
	}
	return printable{v, &v, map[string]any{
		"a slice": []T{v}, "a slice of pointers": []*T{&v}, "an array": [1]T{v}, "a map": map[string]T{"k": v},
		"a map of pointers": map[string]*T{"k": &v}, "a field": holder{v, &v, v}, "a pointer to a struct": &holder{v, &v, &v},
		"a slice of any": []any{v, &v}, "a page": vault.Page[T]{Data: []T{v}},
	}, want}
}

func TestValuesDoNotPrint(t *testing.T) {
	t.Parallel()
	for _, tt := range secrets() {
		t.Run(fmt.Sprintf("%T", tt.value), func(t *testing.T) {
			t.Parallel()
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%20.3v"} {
				given.Same(t, verb, fmt.Sprintf(verb, tt.value), tt.want)
				given.Same(t, verb+" of a pointer", fmt.Sprintf(verb, tt.pointer), tt.want)
				for what, x := range tt.held {
					leaksNot(t, what+" under "+verb, fmt.Sprintf(verb, x))
				}
			}
			given.Same(t, "an error", fmt.Errorf("failed: %v", tt.value).Error(), "failed: "+tt.want)
		})
	}
}

func TestValuesDoNotLog(t *testing.T) {
	t.Parallel()
	for _, tt := range secrets() {
		t.Run(fmt.Sprintf("%T", tt.value), func(t *testing.T) {
			t.Parallel()
			var text, structured bytes.Buffer
			inText, inJSON := slog.New(slog.NewTextHandler(&text, nil)), slog.New(slog.NewJSONHandler(&structured, nil))
			for _, x := range []any{tt.value, tt.pointer} {
				inText.Info("m", "x", x, slog.Group("g", "x", x))
				inJSON.With("w", x).Info("m", "x", x, slog.Group("g", "x", x))
			}
			for what, x := range tt.held {
				inText.Info(what, "x", x)
			}
			leaksNot(t, "the text handler", text.String())
			leaksNot(t, "the JSON handler", structured.String())
			var line struct{ X, W map[string]string }
			if err := json.Unmarshal(bytes.SplitN(structured.Bytes(), []byte("\n"), 2)[0], &line); err != nil || len(line.X) == 0 {
				t.Errorf("the JSON handler wrote %s (%v)", structured.Bytes(), err)
			}
			given.Same(t, "With", line.W, line.X)
		})
	}
}

// Programs can still read data through JSON, and tests can still compare it.
func TestValuesStillEncodeAndCompare(t *testing.T) {
	t.Parallel()
	tok := vault.Token{ID: "a", Data: vault.JSON(`"S3cr3t"`)}
	text := must.Get(json.Marshal(tok))(t)
	must.Contain(t, "JSON", string(text), secret)
	other := tok
	other.Data = vault.JSON(`"other"`)
	if diff := cmp.Diff(tok, other); !strings.Contains(diff, secret) {
		t.Errorf("the difference does not say what differs:\n%s", diff)
	}
	given.Same(t, "a nil pointer", fmt.Sprint((*vault.Token)(nil)), "<nil>")
	given.Same(t, "data itself", fmt.Sprint(tok.Data), `"S3cr3t"`)
}

func leaksNot(t *testing.T, what, printed string) {
	t.Helper()
	for _, form := range []string{secret, fmt.Sprintf("%x", secret), fmt.Sprintf("%X", secret), fmt.Sprintf("%d", []byte(secret))} {
		must.Lack(t, what+" shows the secret", printed, form)
	}
}

// A []byte may be JSON text, other text or neither. So every operation that takes a
// value refuses it, and the error names the alternatives.
func TestBytesAreRefused(t *testing.T) {
	t.Parallel()
	v, ctx, raw := vaulttest.New(t), t.Context(), []byte(`"4242"`)
	for name, c := range map[string]struct {
		path string
		do   func() error
	}{
		"data": {"data", func() error {
			return must.Err(v.Private.CreateToken(ctx, vault.TokenParams{Type: vault.TypeGeneric, Data: raw}))
		}},
		"mask": {"mask", func() error {
			return must.Err(v.Private.CreateToken(ctx, vault.TokenParams{Type: vault.TypeGeneric, Data: 1, Mask: raw}))
		}},
		"document": {"", func() error { return must.Err(v.Private.Tokenize(ctx, raw)) }},
		"patch":    {"", func() error { return must.Err(v.Private.PatchToken(ctx, "any", raw)) }},
		"encoding": {"", func() error { return must.Err(vault.EncodeJSON(raw)) }},
	} {
		err := c.do()
		given.WantFields(t, name, err, c.path)
		if text := fmt.Sprint(err); !strings.Contains(text, "use vault.JSON") || strings.Contains(text, "4242") {
			t.Errorf("%s: %s", name, text)
		}
	}
}

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

// gone is a context that ends after a number of checks.
type gone struct {
	context.Context
	after atomic.Int64
}

func (g *gone) Err() error {
	if g.after.Add(-1) < 0 {
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
		p.Type, p.Data = vault.TypeGeneric, ones
		given.WantFields(t, field, must.Err(v.Public.CreateToken(t.Context(), p)), field)
	}
}

// TestTokensOfADocumentShareABudget creates 40 tokens that exceed a budget which 5
// do not. The error names the first token over the budget, and later tokens are not
// evaluated.
func TestTokensOfADocumentShareABudget(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	data := strings.Replace(string(repeated("1", 120)), "1", "7", 1)
	request := `{"type":"token","data":` + data + `,"fingerprint_expression":"{{ data | json: '$[?count($[?@==2])==0 && @==7]' }}"}`
	must.Match(t, "five", must.Err(v.Public.Tokenize(t.Context(), repeated(request, 5))), nil)
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
	given.WantFields(t, "the third", err, "[2].fingerprint_expression")
}

// Each token of a batch adds to the budget.
func TestALargeBatchOfExpressionsPasses(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	request := `{"type":"token","data":{"number":"4242424242424242","name":"Jane Doe"},"mask":{"number":"{{ data.number | card_mask: true, true }}","name":"{{ data.name | reveal: 1, 1 }}"},` +
		`"fingerprint_expression":"{{ data.number }}|{{ data.name | downcase }}","search_indexes":["{{ data.number | last4 }}","{{ data.name | downcase }}","{{ data | json: '$.name' }}"]}`
	must.Get(v.Private.Tokenize(t.Context(), repeated(request, 4000)))(t)
}

func TestMasksAreCheckedWhenTheyAreWritten(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	heavy := repeated(`{"k":1}`, 900)
	_, err := v.Private.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: heavy, Mask: counted})
	given.WantFields(t, "create", err, "mask")
	c := given.Revealing(t, v)
	tok := given.Create(t, c, vault.TokenParams{Type: vault.TypeGeneric, Data: heavy})
	given.WantFields(t, "a new mask", must.Err(c.PatchToken(t.Context(), tok.ID, map[string]any{"mask": counted})), "mask")
	mask := map[string]any{"a": "x", "b": "{{ data | size }}"}
	tok = given.Create(t, c, vault.TokenParams{Type: vault.TypeGeneric, Data: repeated(`{"k":1}`, 3), Mask: mask})
	_, err = c.PatchToken(t.Context(), tok.ID, map[string]any{"mask": map[string]any{"b": counted}, "data": heavy})
	given.WantFields(t, "a new mask and new data", err, "mask.b")
	must.Match(t, "new data under a light mask", must.Err(c.PatchToken(t.Context(), tok.ID, map[string]any{"data": heavy})), nil)
}

func TestWorkEndsWhenTheContextEnds(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	tok := given.Create(t, v.Private, vault.TokenParams{Type: vault.TypeGeneric, Data: ones})
	deep := strings.Replace(nested, "data", tok.ID, 1)
	create := func(ctx context.Context) error {
		return must.Err(v.Private.CreateToken(ctx, vault.TokenParams{Type: vault.TypeGeneric, Data: ones, FingerprintExpression: nested}))
	}
	tokenize := func(ctx context.Context) error {
		return must.Err(v.Private.Tokenize(ctx, vault.JSON(`[{"type":"token","data":`+string(ones)+`,"search_indexes":["`+nested+`"]}]`)))
	}
	detokenize := func(ctx context.Context) error { return must.Err(v.Private.Detokenize(ctx, []string{deep})) }
	c := given.Revealing(t, v)
	update := func(ctx context.Context) error {
		return must.Err(c.PatchToken(ctx, tok.ID, map[string]any{"search_indexes": []string{nested}}))
	}
	for what, do := range map[string]func(ctx context.Context) error{
		"create": create, "tokenize": tokenize, "detokenize": detokenize, "update": update,
	} {
		caller := &gone{Context: t.Context()}
		caller.after.Store(1 << 30)
		must.Match(t, what, do(caller), vault.ErrInvalid)
		looks := 1<<30 - caller.after.Load()
		if looks < 300 {
			t.Errorf("%s checks its context only %d times", what, looks)
		}
		caller.after.Store(looks - 100) // in the middle of the evaluation
		if err := do(caller); !errors.Is(err, context.Canceled) || errors.Is(err, vault.ErrInvalid) {
			t.Errorf("%s, after the context ended: %v", what, err)
		}
		if after := caller.after.Load(); after < -10 {
			t.Errorf("%s continued for %d checks", what, -after)
		}
	}
}

// FuzzTokenize tokenizes arbitrary documents. The result has the structure of the
// document, and its ids resolve to the values, byte for byte.
func FuzzTokenize(f *testing.F) {
	for _, doc := range []string{
		`null`, `"text"`, `1.10`, `[1e400,{"z":true,"a":[null,"\ud800"]},[]]`, `{"type":"token","data":{"a":[1]}}`,
		`{"a":{"type":"card","data":{"number":"4242424242424242","cvc":"123"}},"b":"x"}`, `{"type":"x"}`, `{"":""}`, `{"a":1,"a":2}`, `[`, `{"type":"token","data":"x","id":"{{ data }}"}`,
	} {
		f.Add([]byte(doc))
	}
	v := vaulttest.New(f)
	f.Fuzz(func(t *testing.T, doc []byte) {
		out, err := v.Owner.Tokenize(t.Context(), vault.JSON(doc))
		if err != nil {
			if !errors.Is(err, vault.ErrInvalid) && !errors.Is(err, vault.ErrConflict) {
				t.Errorf("%v", err)
			}
			return
		}
		in := must.Get(jsonx.Parse(doc, jsonx.Limits{}))(t)
		got := must.Get(jsonx.Parse(out, jsonx.Limits{Depth: 1000}))(t)
		resolve(t, v.Owner.Client, in, got)
	})
}

// resolve checks that a tokenized value resolves to the original value.
func resolve(t *testing.T, c *vault.Client, in, out jsonx.Value) {
	t.Helper()
	request := in.Kind() == jsonx.Object && !in.Get("type").IsZero() && !in.Get("data").IsZero()
	switch {
	case request:
		if isCard := in.Get("type").Text() == "card" || in.Get("type").Text() == "bank"; !isCard { // in those null is absent
			reveals(t, c, out.Get("id").Text(), in.Get("data"))
		}
	case in.IsNull():
		if !out.IsNull() {
			t.Errorf("null became %s", out.Kind())
		}
	case in.Kind() == jsonx.Object:
		if in.Len() != out.Len() {
			t.Fatalf("%d members became %d", in.Len(), out.Len())
		}
		for i, m := range in.Members() {
			given.Same(t, "a key has changed", out.Members()[i].Name, m.Name)
			resolve(t, c, m.Value, out.Members()[i].Value)
		}
	case in.Kind() == jsonx.Array:
		if out.Kind() != jsonx.Array || in.Len() != out.Len() {
			t.Fatalf("an array of %d became a %s of %d", in.Len(), out.Kind(), out.Len())
		}
		for i, e := range in.Elems() {
			resolve(t, c, e, out.Index(i))
		}
	default:
		reveals(t, c, out.Text(), in)
	}
}

// reveals checks what reading and using a token give.
func reveals(t *testing.T, c *vault.Client, id string, want jsonx.Value) {
	t.Helper()
	tok := must.Get(c.GetToken(t.Context(), id))(t)
	given.Same(t, "read", string(tok.Data), string(want.JSON()))
	used := must.Get(c.Detokenize(t.Context(), []string{"{{ " + id + " }}"}))(t)
	given.Same(t, "used", string(used), "["+string(want.JSON())+"]")
}

// naiveMerge is the pseudocode of RFC 7386 on Go values.
func naiveMerge(target, patch any) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	t, ok := target.(map[string]any)
	if !ok {
		t = map[string]any{}
	}
	for name, value := range p {
		if value == nil {
			delete(t, name)
		} else {
			t[name] = naiveMerge(t[name], value)
		}
	}
	return t
}

// FuzzMergePatch updates the data of a token by any patch and compares it with
// a naive model.
func FuzzMergePatch(f *testing.F) {
	for _, pair := range [][2]string{
		{`{"a":1,"b":{"c":2}}`, `{"b":{"c":null,"d":3}}`}, {`"x"`, `{"a":null}`}, {`{"a":1}`, `[null]`}, {`{"a":[1]}`, `{"a":{"b":null,"c":{"d":null}}}`}, {`1`, `true`},
		{`{"a":{"b":1}}`, `{"a":null,"z":""}`}, {`{}`, `null`},
	} {
		f.Add([]byte(pair[0]), []byte(pair[1]))
	}
	v := vaulttest.New(f)
	f.Fuzz(func(t *testing.T, data, patch []byte) {
		tok, err := v.Owner.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: vault.JSON(data)})
		if err != nil {
			return
		}
		_, err = v.Owner.PatchToken(t.Context(), tok.ID, vault.JSON(`{"data":`+string(patch)+`}`))
		got := given.Get(t, v.Owner.Client, tok.ID).Data
		want, ok := modelOf(data)
		if err != nil {
			if !errors.Is(err, vault.ErrInvalid) {
				t.Errorf("%v", err)
			}
		} else if change, patchOK := modelOf(patch); patchOK {
			want = naiveMerge(want, change)
		} else {
			return // not a JSON text alone, but valid in its place
		}
		if !ok {
			return
		}
		model := must.Get(json.Marshal(want))(t)
		result, ok := modelOf(got)
		if !ok {
			t.Fatalf("the data is not JSON: %s", got)
		}
		if text, _ := json.Marshal(result); string(text) != string(model) {
			t.Errorf("%s patched with %s is %s, want %s", data, patch, text, model)
		}
	})
}

// modelOf reads JSON with the numbers as they are written. It reports false for
// what encoding/json does not keep: lone surrogates.
func modelOf(text []byte) (any, bool) {
	dec := json.NewDecoder(strings.NewReader(string(text)))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil || dec.More() {
		return nil, false
	}
	return v, !strings.Contains(string(text), `\u`)
}

// settings is a configuration that a program prints.
type settings struct {
	Addr   string
	APIKey vault.Secret[string]
	Ptr    *vault.Secret[string]
	Keys   []vault.Secret[[]byte]
	inner  vault.Secret[string]
	nested struct{ key vault.Secret[string] }
	None   vault.Secret[int]
}

func TestSecretDoesNotPrint(t *testing.T) {
	t.Parallel()
	const value = "hunter2-value"
	key := vault.NewSecret(value)
	s := settings{Addr: "here", APIKey: key, Ptr: &key, Keys: []vault.Secret[[]byte]{vault.NewSecret([]byte(value))}, inner: key}
	s.nested.key = key
	var out bytes.Buffer
	for _, x := range []any{s, &s, key, &key, []any{key}, map[string]any{"k": key}, s.Keys} {
		for _, verb := range "abcdefghijklmnopqrstuvwxyzTXUGEFO" {
			for _, flags := range []string{"", "+", "#", "20", "-", " "} {
				fmt.Fprintf(&out, "%"+flags+string(verb)+"\n", x)
			}
		}
		text := must.Get(json.Marshal(x))(t)
		out.Write(text)
		for _, h := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
			slog.New(h).Info("m", "x", x, slog.Group("g", "x", x))
		}
		must.Do(t, template.Must(template.New("").Parse(`{{ . }}`)).Execute(&out, x))
		must.Do(t, htmltemplate.Must(htmltemplate.New("").Parse(`{{ . }}<script>{{ . }}</script>`)).Execute(&out, x))
	}
	for _, form := range []string{value, fmt.Sprintf("%x", value), fmt.Sprintf("%X", value), fmt.Sprint([]byte(value)), "aHVudGVy"} {
		must.Lack(t, "the value is printed as", out.String(), form)
	}
	given.Same(t, "it prints as", fmt.Sprintf("%v %s %+v %#v [%v]", key, key, key, key, s.None), "hidden hidden hidden hidden []")
	given.Same(t, "key", key.Reveal(), value)
	given.Same(t, "first key", string(s.Keys[0].Reveal()), value)
}

func TestSecretReadsJSON(t *testing.T) {
	t.Parallel()
	var s settings
	must.Do(t, json.Unmarshal([]byte(`{"Addr":"here","APIKey":"hunter2","Ptr":null,"None":42}`), &s))
	if s.APIKey.Reveal() != "hunter2" || s.None.Reveal() != 42 || s.None.IsZero() || s.Ptr != nil {
		t.Error("the values are others")
	}
	err := json.Unmarshal([]byte(`{"None":"hunter2"}`), &s)
	must.Match(t, "a value of another type", err, vault.ErrInvalid)
	must.Lack(t, "its error", err.Error(), "hunter2")
	if err := json.Unmarshal([]byte(`null`), &s.APIKey); err != nil || !s.APIKey.IsZero() || s.APIKey.Reveal() != "" {
		t.Errorf("null: %v", err)
	}
	text, err := json.Marshal(struct {
		Key vault.Secret[string] `json:"key,omitzero"`
	}{})
	if string(text) != "{}" || err != nil {
		t.Errorf("no value is written as %s, %v", text, err)
	}
}

func TestSecretReadsText(t *testing.T) {
	t.Parallel()
	var text vault.Secret[string]
	var binary vault.Secret[[]byte]
	var number vault.Secret[int]
	source := []byte("hunter2")
	must.Do(t, errors.Join(text.UnmarshalText(source), binary.UnmarshalText(source)))
	source[0] = 'p'
	given.Same(t, "text", text.Reveal(), "hunter2")
	given.Same(t, "binary", string(binary.Reveal()), "hunter2")
	must.Match(t, "a number from text", number.UnmarshalText([]byte("42")), vault.ErrInvalid)
}
