package httpserver

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// wholeToken returns a token with every field set, and text in all string
// fields.
func wholeToken(text string) *vault.Token {
	data, _ := vault.EncodeJSON(text)
	at := time.Date(2026, time.March, 1, 2, 3, 4, 5678000, time.UTC)
	tok := &vault.Token{
		ID: text, TenantID: uuid.New(), Type: vault.TokenType(text), Data: data, Transform: vault.TransformMask, Mask: vault.JSON(`{"a":"{{ data }}"}`),
		Fingerprint: text, Containers: []string{text, "/b/"}, Metadata: map[string]string{"b": text, text: "c", "a": ""},
		SearchIndexes: []string{text}, FingerprintExpression: text,
		ExpiresAt: at, CreatedBy: uuid.New(), CreatedAt: at.Add(time.Second), ModifiedBy: uuid.New(), ModifiedAt: at.In(time.FixedZone("east", 3600)),
		Unreadable: true,
	}
	_ = json.Unmarshal([]byte(`{"card":{"brand":`+string(data)+`}}`), &tok.Enrichments) // the data is JSON
	return tok
}

// plainToken returns a typical token.
func plainToken(modified bool) *vault.Token {
	tok := wholeToken("plain text")
	tok.Enrichments, tok.Unreadable = nil, false
	if !modified {
		tok.ExpiresAt, tok.ModifiedBy, tok.ModifiedAt = time.Time{}, uuid.UUID{}, time.Time{}
	}
	return tok
}

// A token is encoded as encoding/json would encode it, so that no field and
// no escape is missing.
func TestTokensMatchEncodingJSON(t *testing.T) {
	t.Parallel()
	all := reflect.ValueOf(*wholeToken("text"))
	for i := range all.NumField() {
		if all.Field(i).IsZero() {
			t.Errorf("the test does not cover %s", all.Type().Field(i).Name)
		}
	}
	tokens := map[string]*vault.Token{
		"nothing":    {},
		"empty":      {Data: vault.JSON{}, Containers: []string{}, Metadata: map[string]string{}, SearchIndexes: []string{}},
		"whole":      wholeToken("plain text"),
		"plain":      plainToken(true),
		"unmodified": plainToken(false),
		"quotes":     wholeToken(`"\/`),
		"controls":   wholeToken("\x00\t\n\x1f\x7f"),
		"HTML":       wholeToken("<a href='&'>"),
		"separators": wholeToken("\u2028\u2029"),
		"wide":       wholeToken("é日本🙂"),
		"not UTF-8":  wholeToken("\xff\xed\xa0\x80"),
	}
	for name, tok := range tokens {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sameAsEncodingJSON(t, tok)
		})
	}
}

func FuzzTokenText(f *testing.F) {
	f.Add(`a"b`)
	f.Fuzz(func(t *testing.T, text string) { sameAsEncodingJSON(t, wholeToken(text)) })
}

func sameAsEncodingJSON(t *testing.T, tok *vault.Token) {
	t.Helper()
	var want bytes.Buffer
	enc := json.NewEncoder(&want)
	enc.SetEscapeHTML(false)
	must.Do(t, enc.Encode(tok))
	got := must.Get(encode(tok))(t)
	if tok.ID == "plain text" && tok.Enrichments == nil && (len(got) > tokenSize(tok) || len(got) < tokenSize(tok)-50) {
		t.Errorf("%d bytes, more than the estimate of %d", len(got), tokenSize(tok))
	}
	same(t, "the text", string(got)+"\n", want.String())
}

// Tokens have the field transform only if the query requests it.
func TestTransformIsShownOnRequest(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, nil)
	w.do("POST", "/tokens", w.PrivateKey, `{"id":"tok","type":"token","data":"secret"}`).want(t, 201)
	whole := `["{{ token: tok }}"]`
	for _, tt := range []struct{ method, path, body, want string }{
		{"POST", "/tokens", `{"type":"token","data":12}`, "redact"}, {"GET", "/tokens/tok", "", "mask"},
		{"GET", "/tokens?id=tok", "", "mask"}, {"GET", "/v2/tokens?id=tok", "", "mask"},
		{"POST", "/tokens/search", `{"query":"id:tok"}`, "mask"}, {"POST", "/v2/tokens/search", `{"query":"id:tok"}`, "mask"},
		{"POST", "/detokenize", whole, "reveal"},
	} {
		field := `"transform":"` + tt.want + `"`
		separator := "?"
		if strings.Contains(tt.path, "?") {
			separator = "&"
		}
		with := w.do(tt.method, tt.path+separator+"transform=true", w.PrivateKey, tt.body).body
		without := w.do(tt.method, tt.path, w.PrivateKey, tt.body).body
		must.Contain(t, tt.method+" "+tt.path+": with", with, field)
		must.Lack(t, tt.method+" "+tt.path+": without", without, "transform")
	}
}
