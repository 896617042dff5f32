package vault_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// FuzzTokenize gives Tokenize any document: what comes out has its structure,
// and its ids lead back to its values, byte for byte.
func FuzzTokenize(f *testing.F) {
	for _, doc := range []string{
		`null`, `"text"`, `1.10`, `[1e400,{"z":true,"a":[null,"\ud800"]},[]]`, `{"type":"token","data":{"a":[1]}}`,
		`{"a":{"type":"card","data":{"number":"4242424242424242","cvc":"123"}},"b":"x"}`, `{"type":"x"}`, `{"":""}`, `{"a":1,"a":2}`, `[`, `{"type":"token","data":"x","id":"{{ data }}"}`,
	} {
		f.Add([]byte(doc))
	}
	v := vaulttest.New(f)
	f.Fuzz(func(t *testing.T, doc []byte) {
		out, err := v.Tenant.Tokenize(t.Context(), vault.JSON(doc))
		if err != nil {
			if !errors.Is(err, vault.ErrInvalid) && !errors.Is(err, vault.ErrConflict) {
				t.Errorf("%v", err)
			}
			return
		}
		in, err := jsonx.Parse(doc, jsonx.Limits{})
		if err != nil {
			t.Fatalf("tokenized what is no JSON: %v", err)
		}
		got, err := jsonx.Parse(out, jsonx.Limits{Depth: 1000})
		if err != nil {
			t.Fatalf("the answer is no JSON: %v", err)
		}
		resolve(t, v.Tenant, in, got)
	})
}

// resolve checks that a tokenized value leads back to the value.
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
			if out.Members()[i].Name != m.Name {
				t.Fatal("a key has changed")
			}
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
	tok, err := c.GetToken(t.Context(), id)
	if err != nil {
		t.Fatalf("get: %v", err)
	}
	if string(tok.Data) != string(want.JSON()) {
		t.Errorf("read %s, stored %s", tok.Data, want.JSON())
	}
	used, err := c.Detokenize(t.Context(), []string{"{{ " + id + " }}"})
	if err != nil {
		t.Fatalf("detokenize: %v", err)
	}
	if string(used) != "["+string(want.JSON())+"]" {
		t.Errorf("used %s, stored %s", used, want.JSON())
	}
}

// naiveMerge is RFC 7386 in the words of its authors, on Go values.
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
		tok, err := v.Tenant.CreateToken(t.Context(), vault.TokenParams{Type: vault.Generic, Data: vault.JSON(data)})
		if err != nil {
			return
		}
		_, err = v.Tenant.UpdateToken(t.Context(), tok.ID, vault.JSON(`{"data":`+string(patch)+`}`))
		got := get(t, v.Tenant, tok.ID).Data
		want, ok := modelOf(data)
		if err != nil {
			if !errors.Is(err, vault.ErrInvalid) {
				t.Errorf("%v", err)
			}
		} else if change, patchOK := modelOf(patch); patchOK {
			want = naiveMerge(want, change)
		} else {
			return // not by itself a JSON text, though it is one where it stands
		}
		if !ok {
			return
		}
		model, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		result, ok := modelOf(got)
		if !ok {
			t.Fatalf("the data is no JSON: %s", got)
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
