package vault_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
)

const secret = "S3cr3t"

// secrets returns a value of each type that must not print, with a secret in
// every field that is not a name or an id.
func secrets() []printable {
	id := uuid.MustParse("11111111-2222-3333-4444-555555555555")
	card := vault.CardData{Number: secret, ExpirationMonth: 1, ExpirationYear: 2030, CVC: secret}
	some, all := map[string]string{secret: secret}, []string{secret}
	app, code := &vault.ApplicationRef{ID: id}, &vault.ProxyTransform{Code: secret}
	return []printable{
		of(vault.TokenParams{ID: "shown", Type: vault.Card, Data: card, Mask: secret, Containers: all, Metadata: some,
			SearchIndexes: all, FingerprintExpression: secret}, `vault.TokenParams{id:"shown" type:"card"}`),
		of(card, `vault.CardData{card:"hidden"}`),
		of(vault.BankData{RoutingNumber: secret, AccountNumber: secret}, `vault.BankData{account:"hidden"}`),
		of(vault.Token{ID: "shown", TenantID: id, Type: vault.Card, Data: vault.JSON(`"S3cr3t"`), Mask: vault.JSON(`"S3cr3t"`),
			Enrichments: &vault.Enrichments{Card: &vault.CardEnrichment{BIN: secret, Last4: secret}}, Fingerprint: secret,
			Containers: all, Metadata: some, SearchIndexes: all, FingerprintExpression: secret},
			`vault.Token{id:"shown" tenant_id:"`+id.String()+`" type:"card"}`),
		of(vault.Application{ID: id, Name: "line\nbreak", Type: vault.Public, Key: secret, Permissions: all},
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
