package identity_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/identity"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

const issuer = "https://ci.example.com"

// decode returns claims as a verifier does.
func decode(t testing.TB, payload string) map[string]any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(payload))
	d.UseNumber()
	var claims map[string]any
	must.Do(t, d.Decode(&claims))
	return claims
}

// known has issuers with and without a slash at the end, and an issuer with its own
// list.
func known(name string) ([]string, bool) {
	list, ok := map[string][]string{
		issuer: nil, "https://slash.example.com/": nil, "https://lists.example.com": {"repository_id", "/kubernetes.io/uid"},
	}[name]
	return list, ok
}

func TestMatch(t *testing.T) {
	t.Parallel()
	sub := func(value any) map[string]any { return map[string]any{"sub": value} }
	for name, c := range map[string]struct {
		claims  map[string]any // of the identity, whose audience is vault
		payload string         // without iss and aud, unless it has them
		want    string         // the reason; "" if it matches
	}{
		"equal":                     {sub("repo:acme/shop"), `"sub":"repo:acme/shop"`, ""},
		"a longer name":             {sub("repo:acme/shop"), `"sub":"repo:acme/shop-evil"`, "the claim sub has another value"},
		"a shorter name":            {sub("repo:acme/shop"), `"sub":"repo:acme/sho"`, "another value"},
		"another case":              {sub("repo:acme/shop"), `"sub":"repo:acme/Shop"`, "another value"},
		"another case of the name":  {sub("a"), `"Sub":"a"`, "there is no claim sub"},
		"a space":                   {sub("a"), `"sub":"a "`, "another value"},
		"a NUL":                     {sub("a"), `"sub":"a\u0000"`, "another value"},
		"composed and decomposed":   {sub("caf\u00e9"), `"sub":"cafe\u0301"`, "another value"},
		"an escape of a character":  {sub("é"), `"sub":"\u00e9"`, ""},
		"a letter that looks alike": {sub("acme"), `"sub":"\u0430cme"`, "another value"},
		"an empty claim":            {sub("a"), `"sub":""`, "another value"},
		"null":                      {sub("a"), `"sub":null`, "the claim sub is null, and the identity has a string"},
		"no claim":                  {sub("a"), `"x":"a"`, "there is no claim sub"},

		"a star":                      {sub("repo:acme/*"), `"sub":"repo:acme/shop"`, ""},
		"a star after a colon":        {sub("repo:acme/shop:*"), `"sub":"repo:acme/shop:ref:refs/heads/main"`, ""},
		"a star and a longer name":    {sub("repo:acme/shop:*"), `"sub":"repo:acme/shop-evil:ref:x"`, "another value"},
		"a star is not a star inside": {sub("repo:acme/*"), `"sub":"repo:acme*"`, "another value"},
		"a star and an array":         {sub("repo:acme/*"), `"sub":["x","repo:acme/shop"]`, ""},
		"a star and a number":         {sub("1:*"), `"sub":1`, "the claim sub is a number, and the identity has a string"},
		"a star in the JWT":           {sub("repo:acme/shop"), `"sub":"repo:acme/*"`, "another value"},

		"the text of a number":     {sub(json.Number("1")), `"sub":1`, ""},
		"1 is not 1.0":             {sub(json.Number("1")), `"sub":1.0`, "another value"},
		"1 is not 1e0":             {sub(json.Number("1")), `"sub":1e0`, "another value"},
		"1 is not a string":        {sub(json.Number("1")), `"sub":"1"`, "the claim sub is a string, and the identity has a number"},
		"a string is not a number": {sub("1"), `"sub":1`, "the claim sub is a number, and the identity has a string"},
		"a large number":           {sub(json.Number("9007199254740993")), `"sub":9007199254740992`, "another value"},
		"true":                     {sub(true), `"sub":true`, ""},
		"true is not false":        {sub(true), `"sub":false`, "another value"},
		"true is not a string":     {sub(true), `"sub":"true"`, "the claim sub is a string, and the identity has a boolean"},

		"an element":              {sub("a"), `"sub":["b","a"]`, ""},
		"no element":              {sub("a"), `"sub":["b",1,null,{"a":"a"}]`, "no element of the claim sub has the value"},
		"a nested array":          {sub("a"), `"sub":[["a"]]`, "no element"},
		"an empty array":          {sub("a"), `"sub":[]`, "no element"},
		"an object":               {sub("a"), `"sub":{"sub":"a"}`, "the claim sub is an object"},
		"all claims are required": {map[string]any{"sub": "a", "env": "prod"}, `"sub":"a","env":"test"`, "the claim env has another value"},
		"identity without claims": {nil, `"sub":"a"`, "the identity names no claim"},

		"a pointer":                {map[string]any{"/k/pod/uid": "7"}, `"k":{"pod":{"uid":"7"}}`, ""},
		"a pointer with escapes":   {map[string]any{"/kubernetes.io~1x~0/uid": "7"}, `"kubernetes.io/x~":{"uid":"7"}`, ""},
		"a pointer into an array":  {map[string]any{"/k/0": "7"}, `"k":["7"]`, "there is no claim /k/0"},
		"a pointer over an array":  {map[string]any{"/k/0/uid": "7"}, `"k":[{"uid":"7"}]`, "there is no claim /k/0/uid"},
		"a pointer to an array":    {map[string]any{"/k/groups": "a"}, `"k":{"groups":["b","a"]}`, ""},
		"a pointer into a string":  {map[string]any{"/k/x": "7"}, `"k":"7"`, "there is no claim /k/x"},
		"a pointer to a parent":    {map[string]any{"/k": "7"}, `"k":{"k":"7"}`, "the claim /k is an object"},
		"a claim with dots":        {map[string]any{"a.b": "7"}, `"a":{"b":"7"}`, "there is no claim a.b"},
		"a claim with a slash":     {map[string]any{"/a~1b": "7"}, `"a":{"b":"7"},"a/b":"8"`, "the claim /a~1b has another value"},
		"a claim named as pointer": {map[string]any{"/k/uid": "7"}, `"/k/uid":"7"`, "there is no claim /k/uid"},

		"aud as an array":               {sub("a"), `"sub":"a","aud":["x","vault"]`, ""},
		"another aud":                   {sub("a"), `"sub":"a","aud":"vault2"`, "the claim aud does not have the audience"},
		"another case of aud":           {sub("a"), `"sub":"a","aud":"Vault"`, "aud"},
		"aud in a nested array":         {sub("a"), `"sub":"a","aud":[["vault"]]`, "aud"},
		"aud in an object":              {sub("a"), `"sub":"a","aud":{"vault":"vault"}`, "aud"},
		"aud in one text":               {sub("a"), `"sub":"a","aud":"x vault"`, "aud"},
		"no aud":                        {sub("a"), `"sub":"a","aud":null`, "aud"},
		"an issuer with a slash":        {sub("a"), `"sub":"a","iss":"https://ci.example.com/"`, "the claim iss is not the issuer"},
		"an issuer in capitals":         {sub("a"), `"sub":"a","iss":"https://CI.example.com"`, "iss"},
		"an issuer with a port":         {sub("a"), `"sub":"a","iss":"https://ci.example.com:443"`, "iss"},
		"an issuer in a list":           {sub("a"), `"sub":"a","iss":["https://ci.example.com"]`, "iss"},
		"an issuer that is longer":      {sub("a"), `"sub":"a","iss":"https://ci.example.com.evil.example"`, "iss"},
		"an issuer that is not a text":  {sub("a"), `"sub":"a","iss":7`, "iss"},
		"issuer and audience are empty": {sub("a"), `"sub":"a","iss":"","aud":""`, "iss"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			payload := "{" + c.payload
			for _, claim := range []string{`"iss":"` + issuer + `"`, `"aud":"vault"`} {
				if !strings.Contains(payload, claim[:6]) {
					payload += "," + claim
				}
			}
			err := identity.Match(identity.Identity{Issuer: issuer, Audience: "vault", Claims: c.claims}, decode(t, payload+"}"))
			if c.want == "" {
				must.Match(t, "an identity that fits", err, nil)
				return
			}
			must.Match(t, "an identity that does not fit", err, must.Text(c.want))
		})
	}
}

// An identity without an issuer or an audience, which Check refuses, matches nothing.
func TestMatchWithoutIssuerOrAudience(t *testing.T) {
	t.Parallel()
	claims := decode(t, `{"iss":"","aud":"","sub":"a"}`)
	id := identity.Identity{Claims: map[string]any{"sub": "a"}}
	must.Match(t, "no issuer", identity.Match(id, claims), must.Text("iss"))
	claims["iss"], id.Issuer = issuer, issuer
	must.Match(t, "no audience", identity.Match(id, claims), must.Text("aud"))
}

func TestCheck(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 1001)
	for name, c := range map[string]struct {
		text string // one identity, whose issuer and audience may be left out
		want map[string][]string
	}{
		"exact":                   {`"claims":{"sub":"repo:acme/shop"}`, nil},
		"a star beside":           {`"claims":{"sub":"a","repo":"acme/*","env":true,"run":1.0}`, nil},
		"another spelling of sub": {`"claims":{"/sub":"a"}`, nil},
		"a list of its own":       {`"issuer":"https://lists.example.com","claims":{"repository_id":"1"}`, nil},
		"a pointer of the list":   {`"issuer":"https://lists.example.com","claims":{"/kubernetes.io/uid":"1"}`, nil},
		"a number is exact":       {`"issuer":"https://lists.example.com","claims":{"repository_id":1}`, nil},

		"nothing": {`"issuer":null,"audience":null`, map[string][]string{"identities[0].issuer": {"is required"}, "identities[0].audience": {"is required"}}},
		"no claims": {`"x":null`, map[string][]string{
			"identities[0].claims": {"must have an exact value, without a star, for sub"}, "identities[0].x": {"is not a field of this object"},
		}},
		"only a star":  {`"claims":{"sub":"repo:acme/*"}`, map[string][]string{"identities[0].claims": {"must have an exact value, without a star, for sub"}}},
		"an empty sub": {`"claims":{"sub":""}`, map[string][]string{"identities[0].claims": {"must have an exact value, without a star, for sub"}}},
		"sub does not count": {`"issuer":"https://lists.example.com","claims":{"sub":"a"}`, map[string][]string{
			"identities[0].claims": {"must have an exact value, without a star, for one of repository_id, /kubernetes.io/uid"}}},
		"stars": {`"claims":{"sub":"a","b":"*","c":"a*","d":"a*b","e":"a:**","f":"a/*/*"}`, map[string][]string{
			"identities[0].claims.b": {`may have a star only as its last character, after ":" or "/"`},
			"identities[0].claims.c": {`may have a star only as its last character, after ":" or "/"`},
			"identities[0].claims.d": {`may have a star only as its last character, after ":" or "/"`},
			"identities[0].claims.e": {`may have a star only as its last character, after ":" or "/"`},
			"identities[0].claims.f": {`may have a star only as its last character, after ":" or "/"`},
		}},
		"forbidden": {`"claims":{"sub":"a","iss":"a","/aud":"a","/aud/0":"a","exp":1}`, map[string][]string{
			"identities[0].claims.iss": {forbidden}, "identities[0].claims./aud": {forbidden},
			"identities[0].claims./aud/0": {forbidden}, "identities[0].claims.exp": {forbidden},
		}},
		"names": {`"claims":{"sub":"a","":"a","/a~":"a","/a~2":"a","/a~01":"a"}`, map[string][]string{
			"identities[0].claims":      {"must have names of 1 to 200 characters"},
			"identities[0].claims./a~":  {`is not a JSON Pointer: "~" may only stand before 0 or 1`},
			"identities[0].claims./a~2": {`is not a JSON Pointer: "~" may only stand before 0 or 1`},
		}},
		"values": {`"claims":{"sub":"a","n":null,"l":["a"],"o":{}}`, map[string][]string{
			"identities[0].claims.n": {"must be a string, a number or a boolean"},
			"identities[0].claims.l": {"must be a string, a number or a boolean"},
			"identities[0].claims.o": {"must be a string, a number or a boolean"},
		}},
		"texts": {`"audience":"` + long + `","claims":{"sub":"\ud800","b":"\ufffd","c":"a\u0000","\ufffd":1,"d":"` + long + `","e":1` + strings.Repeat("0", 1000) + `}`, map[string][]string{
			"identities[0].audience":      {"must have at most 1000 characters"},
			"identities[0].claims.sub":    {"must be valid Unicode text"},
			"identities[0].claims.b":      {"must not contain the character U+FFFD"},
			"identities[0].claims.c":      {"must not contain control characters"},
			"identities[0].claims.\ufffd": {"must not contain the character U+FFFD"},
			"identities[0].claims.d":      {"must have at most 1000 characters"},
			"identities[0].claims.e":      {"must have at most 1000 characters"},
		}},
		"claims are no object": {`"claims":"sub"`, map[string][]string{
			"identities[0].claims": {"must be of type object", "must have an exact value, without a star, for sub"}}},
		"http":            {`"issuer":"http://ci.example.com","claims":{"sub":"a"}`, issuerProblem("must be an https URL without a user name, a query and a fragment")},
		"a query":         {`"issuer":"https://ci.example.com?","claims":{"sub":"a"}`, issuerProblem("must be an https URL without a user name, a query and a fragment")},
		"not a URL":       {`"issuer":"ci.example.com","claims":{"sub":"a"}`, issuerProblem("must be an https URL without a user name, a query and a fragment")},
		"unknown":         {`"issuer":"https://evil.example.com","claims":{"sub":"a"}`, issuerProblem("is not an issuer of this server; its operator adds it with --issuer")},
		"a slash more":    {`"issuer":"https://ci.example.com/","claims":{"sub":"a"}`, issuerProblem("must not end with a slash, because the issuer of this server has none")},
		"a slash missing": {`"issuer":"https://slash.example.com","claims":{"sub":"a"}`, issuerProblem("must end with a slash, as the issuer of this server does")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := "{" + c.text
			for field, usual := range map[string]string{"issuer": issuer, "audience": "vault"} {
				if !strings.Contains(text, `"`+field+`"`) {
					text += fmt.Sprintf(",%q:%q", field, usual)
				}
			}
			list, bad := read(`{"identities":[` + text + `}]}`)
			identity.Check("identities", list, known, bad)
			must.Same(t, "problems", c.want, bad.Fields)
		})
	}
}

const forbidden = "is not permitted here: iss, aud, exp, nbf, iat, jti describe the JWT and are checked by the vault"

func issuerProblem(message string) map[string][]string {
	return map[string][]string{"identities[0].issuer": {message}}
}

// read reads the field identities of an object.
func read(text string) ([]identity.Identity, *form.Problems) {
	var list []identity.Identity
	bad := form.ReadText([]byte(text), func(r *form.Reader) {
		r.Each("identities", func(r *form.Reader) { list = append(list, identity.Read(r)) })
	})
	return list, bad
}

func TestLimits(t *testing.T) {
	t.Parallel()
	bad := &form.Problems{}
	identity.Check("identities", make([]identity.Identity, 11), known, bad)
	claims := map[string]any{}
	for i := range 21 {
		claims[fmt.Sprint(i)] = true
	}
	identity.Check("x", []identity.Identity{{Issuer: issuer, Audience: "a", Claims: claims}}, known, bad)
	must.Same(t, "problems", map[string][]string{"identities": {"must have at most 10 entries"}, "x[0].claims": {"must have at most 20 entries"}}, bad.Fields)
}

// Values that a Go program sets take the form that a JWT has.
func TestCheckedForm(t *testing.T) {
	t.Parallel()
	bad := &form.Problems{}
	got := identity.Check("", []identity.Identity{{Issuer: issuer, Audience: "a", Claims: map[string]any{
		"sub": "a", "int": 7, "float": 1.5, "json": json.Number("1.0"), "bool": false, "text": named("b"),
	}}}, known, bad)
	must.Same(t, "problems", map[string][]string(nil), bad.Fields)
	want := []identity.Identity{{Issuer: issuer, Audience: "a", Claims: map[string]any{
		"sub": "a", "int": json.Number("7"), "float": json.Number("1.5"), "json": json.Number("1.0"), "bool": false, "text": "b",
	}}}
	must.Same(t, "identities", want, got)

	var stored []identity.Identity
	must.Do(t, json.Unmarshal(must.Get(json.Marshal(got))(t), &stored))
	must.Same(t, "stored and read", want, stored)

	changed := identity.Clone(stored)
	if !identity.Same(stored, changed) {
		t.Error("a clone is not the same")
	}
	changed[0].Claims["json"] = json.Number("1")
	if identity.Same(stored, changed) || len(stored[0].Claims) != 6 || stored[0].Claims["json"] != json.Number("1.0") {
		t.Error("another number is the same, or a clone shares claims")
	}
	other := identity.Identity{Issuer: issuer, Audience: "b"}
	if !identity.Same([]identity.Identity{stored[0], other}, []identity.Identity{other, stored[0]}) || identity.Same([]identity.Identity{other, other}, []identity.Identity{other, stored[0]}) {
		t.Error("the order counts, or a double hides another identity")
	}
}

type named string

// jwt encodes a header, a payload and a signature.
func jwt(payload string) string {
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"RS256"}`)) + "." + encode([]byte(payload)) + "." + encode([]byte("signature"))
}

// payloadOf decodes the payload of a JWT.
func payloadOf(t testing.TB, jwt string) []byte {
	t.Helper()
	return must.Get(base64.RawURLEncoding.DecodeString(strings.Split(jwt, ".")[1]))(t)
}

func TestPeek(t *testing.T) {
	t.Parallel()
	good := jwt(`{"iss":"https://ci.example.com","sub":"a"}`)
	head, rest, _ := strings.Cut(good, ".")
	payload, signature, _ := strings.Cut(rest, ".")
	for name, c := range map[string]struct{ jwt, want string }{
		"a JWT":                  {good, issuer},
		"an issuer with escapes": {jwt(`{"iss":"https:\/\/ci.example.com"}`), issuer},
		"nothing":                {"", ""},
		"an API key":             {"key_prv_7sQuAHmKzJ9Zs5mXy3oJcQ", ""},
		"two parts":              {head + "." + payload, ""},
		"four parts":             {good + ".x", ""},
		"five parts":             {good + ".x.y", ""},
		"an empty header":        {"." + payload + "." + signature, ""},
		"an empty signature":     {head + "." + payload + ".", ""},
		"padding":                {head + "." + payload + "=." + signature, ""},
		"a line break":           {head + "." + payload[:4] + "\n" + payload[4:] + "." + signature, ""},
		"the other alphabet":     {head + "." + payload + "." + "+/", ""},
		"bits at the end":        {head + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"a"} `))[:14] + "B." + signature, ""},
		"a space":                {good + " ", ""},
		"iss twice":              {jwt(`{"iss":"https://ci.example.com","iss":"https://ci.example.com"}`), ""},
		"a claim twice":          {jwt(`{"iss":"https://ci.example.com","a":{"b":1,"b":2}}`), ""},
		"a claim twice, escaped": {jwt(`{"iss":"https://ci.example.com","sub":1,"su\u0062":2}`), ""},
		"no iss":                 {jwt(`{"sub":"a"}`), ""},
		"an empty iss":           {jwt(`{"iss":""}`), ""},
		"iss in a list":          {jwt(`{"iss":["https://ci.example.com"]}`), ""},
		"iss in capitals":        {jwt(`{"ISS":"https://ci.example.com"}`), ""},
		"not an object":          {jwt(`["iss"]`), ""},
		"not JSON":               {jwt(`iss`), ""},
		"two values":             {jwt(`{"iss":"a"}{}`), ""},
		"invalid UTF-8":          {jwt("{\"iss\":\"\xff\"}"), ""},
		"deep":                   {jwt(`{"iss":"a","b":` + strings.Repeat("[", 20) + strings.Repeat("]", 20) + `}`), ""},
		"long":                   {jwt(`{"iss":"a","b":"` + strings.Repeat("b", 8<<10) + `"}`), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := identity.Peek(c.jwt)
			if got != c.want || (err == nil) != (c.want != "") {
				t.Errorf("%q, %v; want %q", got, err, c.want)
			}
		})
	}
}
