package vaultsql_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	htmltemplate "html/template"
	"io"
	"log/slog"
	"strings"
	"testing"
	"text/template"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaultsql"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

const secret = "secret-Jane"

// hidden is a struct of a program that prints too much.
type hidden struct {
	Open   vaultsql.Text
	Ptr    *vaultsql.Text
	List   []vaultsql.Text
	Any    any
	inside vaultsql.Text
	deep   struct{ text *vaultsql.Text }
	Card   vaultsql.Card
	Bytes  vaultsql.Bytes
	Custom vaultsql.Of[map[string]string]
}

func newHidden() *hidden {
	text := vaultsql.NewText(secret)
	h := &hidden{Open: text, Ptr: &text, List: []vaultsql.Text{text}, Any: text, inside: text,
		Card: vaultsql.NewCard(vault.CardData{Number: number}), Bytes: vaultsql.New([]byte(secret)),
		Custom: vaultsql.New(map[string]string{"k": secret})}
	h.deep.text = &text
	return h
}

// printings formats a value in every possible way.
func printings(x any) map[string]string {
	out := map[string]string{}
	for _, verb := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" {
		for _, flags := range []string{"", "+", "#", "-30", "+#", " ", ".2"} {
			format := "%" + flags + string(verb)
			out[format] = fmt.Sprintf(format, x)
		}
	}
	out["Sprint"], out["Errorf"] = fmt.Sprint(x), fmt.Errorf("about %v", x).Error()
	text, err := json.Marshal(x)
	out["json"] = fmt.Sprint(string(text), err)
	text, err = xml.Marshal(x)
	out["xml"] = fmt.Sprint(string(text), err)
	var buf bytes.Buffer
	for name, h := range map[string]slog.Handler{"slog text": slog.NewTextHandler(&buf, nil), "slog json": slog.NewJSONHandler(&buf, nil)} {
		slog.New(h).Info("it", "x", x, slog.Group("g", "y", x), "list", []any{x})
		out[name] = buf.String()
		buf.Reset()
	}
	_ = template.Must(template.New("").Parse(`{{ . }} {{ printf "%s %v %#v %x" . . . . }}`)).Execute(&buf, x)
	out["text/template"] = buf.String()
	buf.Reset()
	_ = htmltemplate.Must(htmltemplate.New("").Parse(`<p title="{{ . }}">{{ . }}</p><script>var x = {{ . }}</script><a href="/?q={{ . }}">`)).Execute(&buf, x)
	out["html/template"] = buf.String()
	return out
}

// forms returns the forms in which a value can be recognized.
func forms(value string) []string {
	return []string{value, fmt.Sprintf("%x", value), fmt.Sprintf("%X", value), fmt.Sprintf("% x", value), fmt.Sprint([]byte(value)),
		fmt.Sprintf("%b", []byte(value)), fmt.Sprintf("%o", []byte(value)), fmt.Sprintf("%c", []byte(value)), "c2VjcmV0LUphbm", fmt.Sprintf("%U", []rune(value))}
}

func TestNothingPrintsTheValue(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	sealed := newHidden()
	seal(t, v.Private, &sealed.Open, sealed.Ptr, sealed.List, &sealed.Card, &sealed.Bytes, &sealed.Custom)
	opened := &hidden{}
	must.Do(t, opened.Open.Scan(sealed.Open.ID()))
	open(t, v.Private, &opened.Open)
	opened.inside, opened.Any, opened.Ptr = opened.Open, opened.Open, &opened.Open
	for name, h := range map[string]*hidden{"new": newHidden(), "sealed": sealed, "opened": opened} {
		for _, x := range []any{h, *h, h.Open, h.Ptr, h.List, h.Card, h.Bytes, h.Custom, h.inside, []hidden{*h}, map[string]any{"h": *h}} {
			for how, text := range printings(x) {
				for _, form := range append(forms(secret), forms(number)...) {
					if strings.Contains(text, form) {
						t.Fatalf("%s: %s of %T shows the value", name, how, x)
					}
				}
			}
		}
	}
}

func TestPrintsTheID(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	text := vaultsql.NewText(secret)
	must.Same(t, "before Seal", "unsealed|", fmt.Sprintf("%v|%s", text, vaultsql.Text{}))
	seal(t, v.Private, &text)
	id := text.ID()
	for how, got := range printings(text) { // fmt itself handles %T, %p and %w
		if !strings.Contains(got, id) && !strings.HasSuffix(how, "T") && !strings.HasSuffix(how, "p") && !strings.HasSuffix(how, "w") {
			t.Errorf("%s shows %q, want %q in it", how, got, id)
		}
	}
	for format, want := range map[string]string{"%v": id, "%d": id, "%x": id, "%q": `"` + id + `"`, "%#v": `"` + id + `"`,
		"%-40s|": id + "    |", "%40v": "    " + id, "%.3s": id} {
		must.Same(t, format+" prints", want, fmt.Sprintf(format, text))
	}
	var out strings.Builder
	slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})).Info("made", "name", text)
	must.Same(t, "what slog wrote", "level=INFO msg=made name="+id+"\n", out.String())
}

func TestJSONOfARequestSetsAValue(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	cust := newCustomer()
	seal(t, v.Private, cust)
	got := cust.reread(t)
	const body = `{"Name":"Jane Roe","Card":{"number":"5555555555554444"},"Email":null}`
	must.Do(t, json.Unmarshal([]byte(body), got))
	if get(t, got.Name) != "Jane Roe" || get(t, got.Card).Number != "5555555555554444" || !got.Email.IsZero() {
		t.Error("the body did not set the values")
	}
	seal(t, v.Private, got)
	must.Same(t, "a changed value has another token", cust.Name.ID(), got.Name.ID())
	var n vaultsql.Of[int8]
	err := json.Unmarshal([]byte("4242424242424242"), &n)
	if err == nil || strings.Contains(err.Error(), number) || !strings.Contains(err.Error(), "int8") {
		t.Errorf("a value that does not fit: %v", err)
	}
}

func TestColumn(t *testing.T) {
	t.Parallel()
	text := vaultsql.NewText(secret)
	if v, err := text.Value(); v != nil || !errors.Is(err, vaultsql.ErrUnsealed) {
		t.Errorf("an unsealed value was written: %v, %v", v, err)
	}
	for _, src := range []any{"tok-1", []byte("tok-1")} {
		if err := text.Scan(src); err != nil || text.ID() != "tok-1" {
			t.Errorf("scanned %q, %v", text.ID(), err)
		}
	}
	must.Fail(text.Get())(t, "the old value is still in memory", vaultsql.ErrSealed)
	text.Set(secret)
	if v, err := text.Value(); v != nil || !errors.Is(err, vaultsql.ErrUnsealed) {
		t.Errorf("a changed value was written: %v, %v", v, err)
	}
	if err := text.Scan(nil); err != nil || !text.IsZero() {
		t.Errorf("NULL: %v", err)
	}
	must.Same(t, "NULL reads as", "", must.Get(text.Get())(t))
	for _, src := range []any{"", []byte{}, 5, 4242424242424242, true, io.EOF} {
		if err := text.Scan(src); err == nil || strings.Contains(err.Error(), number) {
			t.Errorf("scan of a %T: %v", src, err)
		}
	}
}
