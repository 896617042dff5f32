package vault_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// TestParamsSurviveTheirJSONForm writes parameters and reads them back: what
// comes over HTTP is what was given.
func TestParamsSurviveTheirJSONForm(t *testing.T) {
	t.Parallel()
	yes := true
	at := time.Date(2030, 1, 2, 3, 4, 5, 6000, time.UTC)
	for want, given := range map[string]vault.TokenParams{
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
		wantJSON(t, given, want)
		var read vault.TokenParams
		if err := read.UnmarshalJSON([]byte(want)); err != nil {
			t.Fatal(err)
		}
		given.Data, read.Data, given.Mask, read.Mask = nil, nil, nil, nil // compared as text above
		if diff := cmp.Diff(given, read); diff != "" {
			t.Errorf("%s (given -, read +): %s", want, diff)
		}
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

func wantJSON(t *testing.T, given json.Marshaler, want string) {
	t.Helper()
	text, err := given.MarshalJSON()
	if err != nil || string(text) != want {
		t.Errorf("%T is written as %s, %v, want %s", given, text, err, want)
	}
}

// TestParamsThatAreNotJSON finds that raw JSON is checked before it becomes a
// part of something larger, where it could pass for other fields.
func TestParamsThatAreNotJSON(t *testing.T) {
	t.Parallel()
	for field, given := range map[string]json.Marshaler{
		"data": vault.TokenParams{Type: vault.TypeGeneric, Data: vault.JSON(`1,"id":"chosen"`)},
		"mask": vault.TokenParams{Type: vault.TypeGeneric, Data: 1, Mask: math.NaN()},
		"args": vault.ReactParams{Args: json.RawMessage(`}`)},
	} {
		_, err := given.MarshalJSON()
		wantFields(t, field, err, field)
	}
}

func TestEncodeJSON(t *testing.T) {
	t.Parallel()
	for want, given := range map[string]any{
		"null": nil, `"<a>"`: "<a>", `{"a":1.10}`: vault.JSON(` { "a" : 1.10 } `), "1e400": json.RawMessage("1e400"),
	} {
		if got, err := vault.EncodeJSON(given); err != nil || string(got) != want {
			t.Errorf("%v is %s, %v, want %s", given, got, err, want)
		}
	}
	for _, given := range []any{make(chan int), vault.JSON("{"), vault.JSON(nil)} {
		if _, err := vault.EncodeJSON(given); !errors.Is(err, vault.ErrInvalid) {
			t.Errorf("%T: %v", given, err)
		}
	}
}

const secret = "S3cr3t"

// secrets returns a value of each type that must not print, with a secret in
// every field that is not a name or an id.
func secrets() []printable {
	id := uuid.MustParse("11111111-2222-3333-4444-555555555555")
	card := vault.CardData{Number: secret, ExpirationMonth: 1, ExpirationYear: 2030, CVC: secret}
	some, all := map[string]string{secret: secret}, []string{secret}
	app, code := &vault.ApplicationRef{ID: id}, &vault.ProxyTransform{Code: secret}
	return []printable{
		of(vault.TokenParams{ID: "shown", Type: vault.TypeCard, Data: card, Mask: secret, Containers: all, Metadata: some,
			SearchIndexes: all, FingerprintExpression: secret}, `vault.TokenParams{id:"shown" type:"card"}`),
		of(card, `vault.CardData{card:"hidden"}`),
		of(vault.BankData{RoutingNumber: secret, AccountNumber: secret}, `vault.BankData{account:"hidden"}`),
		of(vault.Token{ID: "shown", TenantID: id, Type: vault.TypeCard, Data: vault.JSON(`"S3cr3t"`), Mask: vault.JSON(`"S3cr3t"`),
			Enrichments: &vault.Enrichments{Card: &vault.CardEnrichment{BIN: secret, Last4: secret}}, Fingerprint: secret,
			Containers: all, Metadata: some, SearchIndexes: all, FingerprintExpression: secret},
			`vault.Token{id:"shown" tenant_id:"`+id.String()+`" type:"card"}`),
		of(vault.Application{ID: id, Name: "line\nbreak", Type: vault.ApplicationPublic, Key: secret, Permissions: []vault.Permission{secret}},
			`vault.Application{id:"`+id.String()+`" name:"line\nbreak" type:"public"}`),
		of(vault.Session{SessionKey: secret, Nonce: secret}, `vault.Session{session_key:"hidden"}`),
		of(vault.Tenant{ID: id, Name: "shown", WebhookSecret: secret}, `vault.Tenant{id:"`+id.String()+`" name:"shown"}`),
		of(vault.Reactor{ID: id, TenantID: id, Name: "shown", Code: secret, Configuration: some, Application: app},
			`vault.Reactor{id:"`+id.String()+`" tenant_id:"`+id.String()+`" name:"shown"}`),
		of(vault.ReactorParams{Name: "shown", Code: secret, Configuration: some}, `vault.ReactorParams{name:"shown"}`),
		of(vault.Proxy{ID: id, Name: "shown", Key: secret, DestinationURL: "https://x/?key=" + secret, RequestTransform: code,
			ResponseTransform: code, Configuration: some}, `vault.Proxy{id:"`+id.String()+`" name:"shown"}`),
		of(vault.ProxyParams{Name: "shown", DestinationURL: secret, RequestTransform: code, ResponseTransform: code, Configuration: some},
			`vault.ProxyParams{name:"shown"}`),
		of(vault.Grant{Nonce: secret, Permissions: []vault.Permission{secret}}, `vault.Grant{nonce:"hidden"}`),
		of(vault.SearchTokensParams{Query: "data:" + secret}, `vault.SearchTokensParams{query:"hidden"}`),
		of(vault.CursorSearch{Query: "data:" + secret}, `vault.CursorSearch{query:"hidden"}`),
		of(vault.ReactParams{Args: card, CallbackURL: "https://x/?key=" + secret}, `vault.ReactParams{args:"hidden"}`),
		of(vault.ReactResult{Tokens: vault.JSON(`"S3cr3t"`), Raw: vault.JSON(`"S3cr3t"`)}, `vault.ReactResult{result:"hidden"}`),
		of(vault.ProxyCall{Key: secret, URL: secret, Path: secret, Query: secret, Header: http.Header{"Authorization": {secret}},
			Body: strings.NewReader(secret), KeepAlive: secret}, `vault.ProxyCall{method:"GET"}`),
		of(vault.Answer{Status: 201, Header: http.Header{"Location": {secret}}, Body: []byte(secret)}, `vault.Answer{status:"201"}`),
	}
}

// printable is a value in everything that it may be held by.
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
				same(t, verb, fmt.Sprintf(verb, tt.value), tt.want)
				same(t, verb+" of a pointer", fmt.Sprintf(verb, tt.pointer), tt.want)
				for what, x := range tt.held {
					leaksNot(t, what+" under "+verb, fmt.Sprintf(verb, x))
				}
			}
			same(t, "an error", fmt.Errorf("failed: %v", tt.value).Error(), "failed: "+tt.want)
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
			same(t, "With", line.W, line.X)
		})
	}
}

// Programs read data through JSON, and tests compare it: both work as ever.
func TestValuesStillEncodeAndCompare(t *testing.T) {
	t.Parallel()
	tok := vault.Token{ID: "a", Data: vault.JSON(`"S3cr3t"`)}
	text, err := json.Marshal(tok)
	if err != nil || !strings.Contains(string(text), secret) {
		t.Errorf("JSON: %s, %v", text, err)
	}
	other := tok
	other.Data = vault.JSON(`"other"`)
	if diff := cmp.Diff(tok, other); !strings.Contains(diff, secret) {
		t.Errorf("the difference does not say what differs:\n%s", diff)
	}
	same(t, "a nil pointer", fmt.Sprint((*vault.Token)(nil)), "<nil>")
	same(t, "data itself", fmt.Sprint(tok.Data), `"S3cr3t"`)
}

func leaksNot(t *testing.T, what, printed string) {
	t.Helper()
	for _, form := range []string{secret, fmt.Sprintf("%x", secret), fmt.Sprintf("%X", secret), fmt.Sprintf("%d", []byte(secret))} {
		if strings.Contains(printed, form) {
			t.Errorf("%s shows the secret: %s", what, printed)
		}
	}
}

// A []byte may be JSON text, other text or neither, so every operation that takes
// a value refuses it and says what to write instead.
func TestBytesAreRefused(t *testing.T) {
	t.Parallel()
	v, ctx, raw := vaulttest.New(t), t.Context(), []byte(`"4242"`)
	for name, c := range map[string]struct {
		path string
		do   func() error
	}{
		"data": {"data", func() error {
			_, err := v.Private.CreateToken(ctx, vault.TokenParams{Type: vault.TypeGeneric, Data: raw})
			return err
		}},
		"mask": {"mask", func() error {
			_, err := v.Private.CreateToken(ctx, vault.TokenParams{Type: vault.TypeGeneric, Data: 1, Mask: raw})
			return err
		}},
		"document": {"", func() error { _, err := v.Private.Tokenize(ctx, raw); return err }},
		"patch":    {"", func() error { _, err := v.Private.PatchToken(ctx, "any", raw); return err }},
		"encoding": {"", func() error { _, err := vault.EncodeJSON(raw); return err }},
	} {
		err := c.do()
		wantFields(t, name, err, c.path)
		if text := fmt.Sprint(err); !strings.Contains(text, "use vault.JSON") || strings.Contains(text, "4242") {
			t.Errorf("%s: %s", name, text)
		}
	}
}
