package identity_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/identity"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

// FuzzMatch compares Match with a second reading of the same claims, which compares
// JSON text. It also looks for a workload that takes the place of another one.
func FuzzMatch(f *testing.F) {
	for _, c := range [][4]string{
		{`{"sub":"repo:acme/shop"}`, `{"sub":"repo:acme/shop-evil"}`, "sub", `"repo:acme/shop"`},
		{`{"sub":"repo:acme/shop:ref"}`, `{"sub":"repo:acme/shop-evil:ref"}`, "sub", `"repo:acme/shop:*"`},
		{`{"sub":"a"}`, `{"sub":"A"}`, "Sub", `"a"`},
		{`{"sub":"caf\u00e9"}`, `{"sub":"cafe\u0301"}`, "sub", `"café"`},
		{`{"sub":"\ud800"}`, `{"sub":"\ud801"}`, "sub", `"\ufffd"`},
		{`{"sub":"\ud800:a"}`, `{"sub":"\ud801:a"}`, "sub", `"\ufffd:*"`},
		{`{"\ud800":"a"}`, `{"\ud801":"a"}`, "\ufffd", `"a"`},
		{`{"sub":1}`, `{"sub":1.0}`, "sub", `1`},
		{`{"sub":"1"}`, `{"sub":1}`, "/sub", `"1"`},
		{`{"sub":9007199254740993}`, `{"sub":9007199254740992}`, "sub", `9007199254740993`},
		{`{"sub":true}`, `{"sub":"true"}`, "sub", `true`},
		{`{"sub":["a",["b"]]}`, `{"sub":[["a"]]}`, "sub", `"b"`},
		{`{"a":{"b":["c"]}}`, `{"a":["b"]}`, "/a/b", `"c"`},
		{`{"a":[{"b":"c"}]}`, `{"a":{"0":{"b":"c"}}}`, "/a/0/b", `"c"`},
		{`{"a/b":{"~":"c"}}`, `{"a":{"b":"c"}}`, "/a~1b/~0", `"c"`},
		{`{"sub":"a","sub":"b"}`, `{"sub":"b","su\u0062":"a"}`, "sub", `"a"`},
		{`{"sub":"","x":null}`, `{}`, "", `""`},
		{`{"sub":{"sub":"a"}}`, `{"sub":[]}`, "/sub/sub", `"a"`},
		{`{"sub":"a*"}`, `{"sub":"a/*"}`, "sub", `"a/*"`},
	} {
		f.Add(c[0], c[1], c[2], c[3])
	}
	f.Fuzz(func(t *testing.T, one, other, name, value string) {
		want, err := jsonx.Parse([]byte(value), jsonx.Limits{Depth: 20})
		if err != nil {
			return
		}
		var decoded any
		switch want.Kind() {
		case jsonx.String, jsonx.Bool:
			err = json.Unmarshal([]byte(value), &decoded)
		case jsonx.Number:
			decoded = json.Number(want.Text())
		default:
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		id := identity.Identity{Issuer: issuer, Audience: "vault", Claims: map[string]any{name: decoded}}
		if text, ok := checked(id, name); ok {
			for _, payload := range []string{one, other} {
				tree, claims, ok := both(t, payload)
				if got := ok && identity.Match(text, claims) == nil; got != (ok && fits(tree, name, want)) {
					t.Fatalf("%q is %s: match %v on %s", name, value, got, payload)
				}
			}
		}
		replaces(t, one, other)
	})
}

// replaces fails if an identity for the subject of one workload matches another one
// that does not have this subject.
func replaces(t *testing.T, one, other string) {
	tree, claims, ok := both(t, one)
	stranger, strange, ok2 := both(t, other)
	subject, isText := claims["sub"].(string)
	if !ok || !ok2 || !isText {
		return
	}
	id, ok := checked(identity.Identity{Issuer: issuer, Audience: "vault", Claims: map[string]any{"sub": subject}}, "sub")
	if !ok {
		return
	}
	if err := identity.Match(id, claims); err != nil {
		t.Fatalf("a workload does not match its own subject in %s: %v", one, err)
	}
	if identity.Match(id, strange) == nil && !fits(stranger, "sub", tree.Get("sub")) {
		t.Fatalf("the identity of %s matches %s", one, other)
	}
}

// checked returns an identity as Check stores it, and whether Check accepts it. It
// requires only the given claim. Stars are accepted too.
func checked(id identity.Identity, claim string) (identity.Identity, bool) {
	bad := &form.Problems{}
	out := identity.Check("i", []identity.Identity{id}, func(string) ([]string, bool) { return []string{claim}, true }, bad)
	delete(bad.Fields, "i[0].claims") // no exact value
	return out[0], !bad.Any() && claim != ""
}

// both reads claims in two ways, and adds the issuer and the audience. It refuses
// what a verifier refuses: a member that occurs twice.
func both(t *testing.T, payload string) (jsonx.Value, map[string]any, bool) {
	tree, err := jsonx.Parse([]byte(payload), jsonx.Limits{Depth: 20})
	if err != nil || tree.Kind() != jsonx.Object {
		return jsonx.Value{}, nil, false
	}
	claims := decode(t, payload)
	claims["iss"], claims["aud"] = issuer, "vault"
	return tree, claims, true
}

// fits is the second comparison: of JSON text, along the path of a claim.
func fits(tree jsonx.Value, name string, want jsonx.Value) bool {
	path := []string{name}
	if strings.HasPrefix(name, "/") {
		path = strings.Split(name[1:], "/")
	}
	for _, step := range path {
		if strings.HasPrefix(name, "/") {
			step = strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~")
		}
		if tree = tree.Get(step); tree.IsZero() {
			return false
		}
	}
	values := []jsonx.Value{tree}
	if tree.Kind() == jsonx.Array {
		values = tree.Elems()
	}
	text := string(want.JSON())
	open := strings.HasSuffix(text, `:*"`) || strings.HasSuffix(text, `/*"`)
	for _, v := range values {
		got := string(v.JSON())
		if got == text || open && v.Kind() == jsonx.String && strings.HasPrefix(got, text[:len(text)-2]) {
			return true
		}
	}
	return false
}

// FuzzPeek checks that Peek and a JSON decoder read the same issuer of a JWT.
func FuzzPeek(f *testing.F) {
	for _, payload := range []string{`{"iss":"https://ci.example.com"}`, `{"iss":"a","iss":"b"}`, `{"iss":"\ud800"}`, `{"ISS":"a"}`, `[`} {
		f.Add(jwt(payload))
	}
	f.Add("a.b.c")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := identity.Peek(text)
		if err != nil {
			return
		}
		claims := decode(t, string(payloadOf(t, text)))
		if iss, ok := claims["iss"].(string); !ok || iss != strings.ToValidUTF8(got, "\ufffd") && !strings.Contains(iss, "\ufffd") {
			t.Fatalf("%q, but a decoder reads %v", got, claims["iss"])
		}
	})
}
