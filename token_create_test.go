package vault_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/given"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

func TestCreateTokenReturnsTheTokenMasked(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	c := given.Revealing(t, v)
	expires := vaulttest.Start.Add(time.Hour)
	got := given.Create(t, c, vault.TokenParams{
		ID: "my-token", Type: vault.TypeGeneric, Data: map[string]string{"name": "Jane Doe"},
		Mask:       map[string]string{"name": "{{ data.name | reveal_last: 3 }}", "kind": "person"},
		Containers: []string{"/PII/High/", "/general/"}, Metadata: map[string]string{"user": "7"},
		SearchIndexes: []string{"{{ data.name }}"}, FingerprintExpression: "{{ data.name | downcase }}", ExpiresAt: expires,
	})
	if got.Fingerprint == "" {
		t.Error("no fingerprint")
	}
	want := &vault.Token{
		ID: "my-token", TenantID: v.Acme.ID, Type: vault.TypeGeneric,
		Data: vault.JSON(`{"kind":"person","name":"XXXXXDoe"}`), Transform: vault.TransformMask, Mask: vault.JSON(`{"kind":"person","name":"{{ data.name | reveal_last: 3 }}"}`),
		Fingerprint: got.Fingerprint, Containers: []string{"/pii/high/", "/general/"}, Metadata: map[string]string{"user": "7"},
		SearchIndexes: []string{"{{ data.name }}"}, FingerprintExpression: "{{ data.name | downcase }}", ExpiresAt: expires,
		CreatedBy: c.ApplicationID(), CreatedAt: vaulttest.Start,
	}
	given.Same(t, "created token", got, want)
	want.Data, want.Transform = vault.JSON(`{"name":"Jane Doe"}`), vault.TransformReveal
	given.Same(t, "token read with reveal", given.Get(t, c, got.ID), want)
}

func TestCreateTokenAssignsUUID(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	tok := given.Create(t, v.Private, vault.TokenParams{Type: vault.TypeGeneric, Data: "x"})
	must.Match(t, "the id as a UUID", must.Err(uuid.Parse(tok.ID)), nil)
}

func TestCreateTokenReadsItsJSONStrictly(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	for body, fields := range map[string][]string{
		`{"type":"token","data":"s3cr3t","colour":"x"}`:                        {"colour"},
		`{"type":"token","data":"s3cr3t","data":"s3cr3t"}`:                     {"data"},
		`{"type":"token","data":{"a":{"b":"s3cr3t","b":"s3cr3t"}}}`:            {"data.a.b"},
		`{"type":7,"data":"s3cr3t"}`:                                           {"type"},
		`{"type":"token","data":"s3cr3t","metadata":{"a":1}}`:                  {"metadata.a"},
		`{"type":"token","data":"s3cr3t","metadata":"x"}`:                      {"metadata"},
		`{"type":"token","data":"s3cr3t","containers":"/a/"}`:                  {"containers"},
		`{"type":"token","data":"s3cr3t","containers":["/a/",1]}`:              {"containers[1]"},
		`{"type":"token","data":"s3cr3t","search_indexes":[{}]}`:               {"search_indexes[0]"},
		`{"type":"token","data":"s3cr3t","deduplicate_token":"yes"}`:           {"deduplicate_token"},
		`{"type":"token","data":"s3cr3t","expires_at":7}`:                      {"expires_at"},
		`{"type":"token","data":"s3cr3t","fingerprint_expression":["s3cr3t"]}`: {"fingerprint_expression"},
		`["s3cr3t"]`:                        {""},
		`{"type":"token","data":"s3cr3t"`:   {""},
		`{"type":"token","data":"s3cr3t"}x`: {""},
	} {
		_, err := given.CreateJSON(t, v.Private, body)
		given.WantFields(t, body, err, fields...)
		given.WantSilent(t, err, "s3cr3t")
	}
	tok := must.Get(given.CreateJSON(t, v.Private, `{"type":"token","data":"secret","id":null,"mask":null,"containers":null,"metadata":null,
		"search_indexes":null,"fingerprint_expression":null,"deduplicate_token":null,"expires_at":null}`))(t)
	given.WantData(t, "data", tok.Data, `"XXcret"`)
}

func TestTokenIDRules(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	for _, id := range []string{
		"ab", strings.Repeat("a", 401), "a b\x00c", "abc\n", " abc", "abc ", "search", "abc\xff",
		"a#b", "a/b", `a\b`, "a+b", "a?b", "a[b", "a]b", "a|b", "a&b", "a=b", "a%b", "a<b", "a>b", "a{b", "a}b", "a^b",
		"a'b", `a"b`, "a`b", "a:b", "\u00a0abc",
	} {
		_, err := v.Private.CreateToken(t.Context(), vault.TokenParams{ID: id, Type: vault.TypeGeneric, Data: "data"})
		given.WantFields(t, "id "+id, err, "id")
	}
	for _, id := range []string{"abc", strings.Repeat("ä", 400), "a b.c-d_e~f,g;h@i!j$k*(l)", "日本語", "Search", "searching"} {
		tok, err := v.Private.CreateToken(t.Context(), vault.TokenParams{ID: id, Type: vault.TypeGeneric, Data: "data"})
		if err != nil {
			t.Errorf("id %s: %v", id, err)
			continue
		}
		given.Same(t, "id", given.Get(t, v.Private, tok.ID).ID, id)
	}
}

// Of several concurrent creates with one id, one succeeds.
func TestConcurrentCreatesOfOneID(t *testing.T) {
	t.Parallel()
	vaults, _ := given.Nodes(t)
	tenant := given.TenantOf(t, vaults[0])
	var wins, conflicts atomic.Int32
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			_, err := vaults[i%2].Tenant(tenant.TenantID()).CreateToken(t.Context(), vault.TokenParams{ID: "same", Type: vault.TypeGeneric, Data: i})
			switch {
			case err == nil:
				wins.Add(1)
			case errors.Is(err, vault.ErrConflict):
				conflicts.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	given.Same(t, "winners", wins.Load(), 1)
	given.Same(t, "conflicts", conflicts.Load(), 7)
}

// The JSON of a token omits absent fields.
func TestTokenJSONOmitsAbsentFields(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	tok := given.Create(t, v.Owner.Client, vault.TokenParams{Type: vault.TypeGeneric, Data: 1234567890, FingerprintExpression: "{{ data }}"})
	for what, tt := range map[string]struct {
		tok  *vault.Token
		want string
	}{
		"redacted":  {given.Get(t, v.Private, tok.ID), "containers created_at created_by fingerprint fingerprint_expression id tenant_id transform type"},
		"duplicate": {given.Create(t, v.Public, vault.TokenParams{Type: vault.TypeGeneric, Data: 1234567890, FingerprintExpression: "{{ data }}", DeduplicateToken: new(true)}), "containers fingerprint id tenant_id transform type"},
	} {
		text := must.Get(json.Marshal(tt.tok))(t)
		var fields map[string]any
		must.Do(t, json.Unmarshal(text, &fields))
		given.Same(t, what, strings.Join(slices.Sorted(maps.Keys(fields)), " "), tt.want)
	}
}

// Ids appear in URLs and logs, so they must not reveal the data.
func TestTokenIDMustNotRevealData(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	card := vault.CardData{Number: given.Visa}
	bank := vault.BankData{RoutingNumber: given.Routing, AccountNumber: "123456789"}
	for _, tt := range []struct {
		id   string
		typ  vault.TokenType
		data any
	}{
		{"secret", vault.TypeGeneric, "secret"},
		{"12345", vault.TypeGeneric, 12345},
		{"true", vault.TypeGeneric, true},
		{"536-22-8726", vault.TypeSocialSecurityNumber, "536-22-8726"},
		{"536-22-8726", vault.TypeSocialSecurityNumber, "536228726"},
		{"536228726", vault.TypeEmployerIDNumber, "536-22-8726"},
		{"user 536-22-8726", vault.TypeEmployerIDNumber, "536-22-8726"},
		{given.Visa, vault.TypeCardNumber, given.Visa},
		{"card-" + given.Visa + "-x", vault.TypeCardNumber, given.Visa},
		{"card-" + given.Visa, vault.TypeCard, card},
		{"4242-4242-4242-4242", vault.TypeCard, card},
		{"acct.123456789", vault.TypeBank, bank},
		{"acct.123456789", vault.TypeUSBankAccountNumber, "123456789"},
		{"{{ data }}", vault.TypeGeneric, "secret"},
		{"{{ data.number }}", vault.TypeCard, card},
		{"card-{{ data.number }}", vault.TypeCard, card},
	} {
		_, err := v.Private.CreateToken(t.Context(), vault.TokenParams{ID: tt.id, Type: tt.typ, Data: tt.data})
		given.WantFields(t, "id "+tt.id, err, "id")
		given.WantSilent(t, err, "secret", given.Visa, "123456789", "536-22", "536228726")
	}
	for _, id := range []string{"card-4242", "secretly"} {
		given.Create(t, v.Private, vault.TokenParams{ID: id, Type: vault.TypeCard, Data: card})
	}
}

func TestTokenIDExpression(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	tok := given.Create(t, v.Private, vault.TokenParams{ID: "{{ data.number | alias_card: false, true }}", Type: vault.TypeCard, Data: vault.CardData{Number: given.Visa}})
	if len(tok.ID) != 16 || !strings.HasSuffix(tok.ID, "4242") || tok.ID == given.Visa {
		t.Errorf("the alias of a card is %d characters long, ending in %s", len(tok.ID), tok.ID[len(tok.ID)-4:])
	}
	tok = given.Create(t, v.Private, vault.TokenParams{ID: "order {{ data.n }}", Type: vault.TypeGeneric, Data: map[string]int{"n": 17}})
	given.Same(t, "id with text around the expression", tok.ID, "order 17")
	for _, id := range []string{"{{ data", "{{ nothing }}", "{{ data | no_such_filter }}", "{{ data.missing }}", "{{ data.list }}", "{{ data.x | slice: 0, 2 }}"} {
		_, err := v.Private.CreateToken(t.Context(), vault.TokenParams{ID: id, Type: vault.TypeGeneric,
			Data: map[string]any{"x": "s3cr3t", "list": []int{1}}})
		given.WantFields(t, "id "+id, err, "id")
		given.WantSilent(t, err, "s3cr3t")
	}
}

// An id expression that finds no free alias falls back to a UUID.
func TestTokenIDExpressionFallsBackToUUID(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	p := vault.TokenParams{ID: "{{ 'constant' }}", Type: vault.TypeGeneric, Data: "x"}
	given.Same(t, "the first id", given.Create(t, v.Private, p).ID, "constant")
	const request = `{"type":"token","data":"x","id":"{{ 'constant' }}"}`
	createIn := map[string]func() (string, error){
		"CreateToken": func() (string, error) {
			tok, err := v.Private.CreateToken(t.Context(), p)
			return tok.ID, err
		},
		"Tokenize": func() (string, error) {
			out, err := v.Private.Tokenize(t.Context(), vault.JSON(request))
			return given.Field(t, out, "id"), err
		},
		"CreateToken in Once": func() (id string, err error) {
			_, _, err = v.Private.Once(t.Context(), vault.IdempotencyKey{Key: "1"}, func(ctx context.Context, c *vault.Client) (vault.StoredResponse, error) {
				tok, err := c.CreateToken(ctx, p)
				id = tok.ID
				return vault.StoredResponse{}, err
			})
			return id, err
		},
		"Tokenize in Once": func() (id string, err error) {
			_, _, err = v.Private.Once(t.Context(), vault.IdempotencyKey{Key: "2"}, func(ctx context.Context, c *vault.Client) (vault.StoredResponse, error) {
				out, err := c.Tokenize(ctx, vault.JSON(request))
				id = given.Field(t, out, "id")
				return vault.StoredResponse{}, err
			})
			return id, err
		},
	}
	for name, do := range createIn {
		id, err := do()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		must.Match(t, name+": the id is "+id, must.Err(uuid.Parse(id)), nil)
		given.WantData(t, name, given.Get(t, v.Owner.Client, id).Data, `"x"`)
	}
}

func TestMetadataBounds(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	many := map[string]string{}
	for i := range 51 {
		many[strings.Repeat("k", i+1)] = "v"
	}
	for _, tt := range []struct {
		name     string
		metadata map[string]string
		field    string
	}{
		{"51 pairs", many, "metadata"},
		{"an empty key", map[string]string{"": "v"}, "metadata"},
		{"a long key", map[string]string{strings.Repeat("k", 101): "v"}, "metadata"},
		{"a long value", map[string]string{"k": strings.Repeat("v", 1001)}, "metadata.k"},
		{"NUL in a value", map[string]string{"k": "a\x00"}, "metadata.k"},
		{"a line end in a value", map[string]string{"k": "a\n"}, "metadata.k"},
		{"invalid UTF-8 in a value", map[string]string{"k": "a\xff"}, "metadata.k"},
		{"NUL in a key", map[string]string{"k\x00": "a"}, "metadata"},
		{"invalid UTF-8 in a key", map[string]string{"k\xff": "a"}, "metadata"},
	} {
		_, err := v.Private.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: "x", Metadata: tt.metadata})
		given.WantFields(t, tt.name, err, tt.field)
	}
	_, err := given.CreateJSON(t, v.Private, `{"type":"token","data":"x","metadata":{"k":"\ud800"}}`)
	given.WantFields(t, "a lone surrogate", err, "metadata.k")
	delete(many, strings.Repeat("k", 51))
	many["k"] = strings.Repeat("ä", 1000)
	many[strings.Repeat("ä", 100)] = ""
	delete(many, "kk")
	tok := given.Create(t, v.Private, vault.TokenParams{Type: vault.TypeGeneric, Data: "x", Metadata: many})
	given.Same(t, "metadata", given.Get(t, v.Private, tok.ID).Metadata, many)
}

func TestContainerRules(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	for _, bad := range []string{"", "a", "/a", "a/", "//", "/a//b/", "/a b/", "/ä/", "/a/../b/", "/a.b/", "/a\x00/"} {
		_, err := v.Private.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: "x", Containers: []string{"/ok/", bad}})
		given.WantFields(t, "container "+bad, err, "containers[1]")
	}
	eleven := strings.Split(strings.Repeat("/a/ ", 10)+"/a/", " ")
	for i := range eleven {
		eleven[i] = "/" + strings.Repeat("a", i+1) + "/"
	}
	for name, bad := range map[string][]string{"none": {}, "eleven": eleven} {
		_, err := v.Private.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: "x", Containers: bad})
		given.WantFields(t, name, err, "containers")
	}
	tok := given.Create(t, v.Private, vault.TokenParams{Type: vault.TypeGeneric, Data: "x", Containers: eleven[:10]})
	given.Same(t, "ten containers", len(tok.Containers), 10)
	tok = given.Create(t, v.Private, vault.TokenParams{Type: vault.TypeGeneric, Data: "x", Containers: []string{"/PCI/Low-1_x/", "/pci/low-1_x/", "/"}})
	given.Same(t, "containers", tok.Containers, []string{"/pci/low-1_x/", "/"})
}

func TestSearchIndexRules(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	data := map[string]any{"s": "s3cr3t", "empty": "", "list": []string{"s3cr3t"}, "n": 7}
	for _, bad := range []string{"{{ data.missing }}", "{{ data.empty }}", "{{ data.list }}", "{{ data }}", "{{ data.s | plus: 1 }}", "{{ data.s", "{{ data.s | nope }}", ""} {
		_, err := v.Private.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: data, SearchIndexes: []string{"{{ data.s }}", bad}})
		given.WantFields(t, "index "+bad, err, "search_indexes[1]")
		given.WantSilent(t, err, "s3cr3t")
	}
	eleven := strings.Split(strings.Repeat("{{ data.s }},", 10)+"{{ data.s }}", ",")
	_, err := v.Private.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: data, SearchIndexes: eleven})
	given.WantFields(t, "eleven indexes", err, "search_indexes")
	tok := given.Create(t, v.Private, vault.TokenParams{Type: vault.TypeSocialSecurityNumber, Data: "536-22-8726", SearchIndexes: []string{}})
	given.Same(t, "an empty list restores the default", len(tok.SearchIndexes), 0)
}

func TestMaskRules(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	data := map[string]any{"name": "s3cr3t", "n": 7}
	for mask, path := range map[string]string{
		`"{{ data.name"`: "mask", `{"a":["x","{{ data | nope }}"]}`: "mask.a[1]", `"{{ data.name | plus: 1 }}"`: "mask",
		`{"a":"{{ data | json: '$.nothing' }}"}`: "mask.a",
	} {
		_, err := v.Private.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: data, Mask: vault.JSON(mask)})
		given.WantFields(t, "mask "+mask, err, path)
		given.WantSilent(t, err, "s3cr3t")
	}
	for mask, want := range map[string]string{
		`"hidden"`: `"hidden"`, `7`: `7`, `false`: `false`, `[]`: `[]`,
		`{"n":"{{ data.n }}","name":"{{ data.name | reveal_last: 2 }}!"}`: `{"n":7,"name":"XXXX3t!"}`,
		`["{{ data.n }}","n={{ data.n }}"]`:                               `[7,"n=7"]`,
	} {
		tok := given.Create(t, v.Private, vault.TokenParams{Type: vault.TypeGeneric, Data: data, Mask: vault.JSON(mask)})
		given.WantData(t, "data under mask "+mask, tok.Data, want)
		given.WantData(t, "mask", tok.Mask, mask)
	}
}

func TestSizeIsBounded(t *testing.T) {
	t.Parallel()
	v := vaulttest.Open(t, ":memory:", &vault.Config{MaxBytes: 1000, MaxTokens: 3})
	_, err := v.Private.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: strings.Repeat("x", 1000)})
	must.Match(t, "CreateToken", err, vault.ErrTooLarge)
	text, half := `"`+strings.Repeat("x", 1000)+`"`, strings.Repeat("x", 499)
	for _, document := range []any{vault.JSON(text), json.RawMessage(text), []string{half, half}} {
		must.Match(t, fmt.Sprintf("Tokenize of a %T", document), must.Err(v.Private.Tokenize(t.Context(), document)), vault.ErrTooLarge)
		must.Match(t, fmt.Sprintf("Detokenize of a %T", document), must.Err(v.Private.Detokenize(t.Context(), document)), vault.ErrTooLarge)
	}
	must.Match(t, "1000 bytes of JSON", must.Err(v.Private.Detokenize(t.Context(), []string{half, strings.Repeat("x", 494)})), nil)
	tok := given.Create(t, v.Private, vault.TokenParams{Type: vault.TypeGeneric, Data: map[string]string{"a": strings.Repeat("x", 700)}})
	if _, err := v.Private.PatchToken(t.Context(), tok.ID, vault.JSON(`{"data":{"b":"`+strings.Repeat("x", 500)+`"}}`)); err == nil {
		t.Error("an update makes the token larger than the limit")
	}
	deep := strings.Repeat("[", 201) + strings.Repeat("]", 201)
	_, err = v.Private.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: vault.JSON(deep)})
	must.Match(t, "deep JSON", err, vault.ErrInvalid)
	if _, err = v.Private.Tokenize(t.Context(), vault.JSON(`["a","b","c"]`)); err != nil {
		t.Errorf("as many tokens as allowed: %v", err)
	}
	given.WantFields(t, "one token too many", must.Err(v.Private.Tokenize(t.Context(), vault.JSON(`["a","b","c","d"]`))), "")
	if _, total := given.List(t, v.Private, vault.ListTokensParams{}); total != 4 {
		t.Errorf("%d tokens are stored, want 4", total)
	}
}

func TestFingerprint(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	print := func(c *vault.Client, p vault.TokenParams) string { return given.Create(t, c, p).Fingerprint }
	number := print(v.Private, vault.TokenParams{Type: vault.TypeCardNumber, Data: given.Visa})
	given.Same(t, "same type and value", print(v.Owner.Client, vault.TokenParams{Type: vault.TypeCardNumber, Data: given.Visa}), number)
	_, other := v.NewTenant(t, "Other")
	for name, f := range map[string]string{
		"another value":  print(v.Private, vault.TokenParams{Type: vault.TypeCardNumber, Data: given.Mastercard}),
		"another type":   print(v.Private, vault.TokenParams{Type: vault.TypeGeneric, Data: given.Visa}),
		"another tenant": print(other.Client, vault.TokenParams{Type: vault.TypeCardNumber, Data: given.Visa}),
	} {
		if f == number || f == "" {
			t.Errorf("%s has fingerprint %q", name, f)
		}
	}
	given.Same(t, "a card's expiry does not count",
		print(v.Private, vault.TokenParams{Type: vault.TypeCard, Data: vault.CardData{Number: given.Visa, ExpirationYear: 2030}}),
		print(v.Private, vault.TokenParams{Type: vault.TypeCard, Data: vault.CardData{Number: given.Visa, CVC: "999"}}))
	given.Same(t, "dashes do not count",
		print(v.Private, vault.TokenParams{Type: vault.TypeSocialSecurityNumber, Data: "536-22-8726"}),
		print(v.Private, vault.TokenParams{Type: vault.TypeSocialSecurityNumber, Data: "536228726"}))
	byUser := vault.TokenParams{Type: vault.TypeGeneric, Data: "a", Metadata: map[string]string{"user": "7"}, FingerprintExpression: "{{ metadata.user }}"}
	first := print(v.Private, byUser)
	byUser.Data = "b"
	given.Same(t, "an expression over metadata", print(v.Private, byUser), first)
	for _, bad := range []string{"{{ data.x", "{{ data | plus: 1 }}", "{{ data.missing }}", "{{ data | nope }}"} {
		_, err := v.Private.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: "s3cr3t", FingerprintExpression: bad})
		given.WantFields(t, bad, err, "fingerprint_expression")
		given.WantSilent(t, err, "s3cr3t")
	}
}

// Errors of several fields are reported together.
func TestCreateTokenReportsAllErrors(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	_, err := given.CreateJSON(t, v.Private, `{"type":"card","data":{"number":"1"},"id":"x","mask":"{{","containers":["x"],
		"metadata":{"k":"\n"},"fingerprint_expression":"{{","expires_at":"1/1/1999"}`)
	given.WantFields(t, "all", err, "data.number", "id", "mask", "containers[0]", "metadata.k", "fingerprint_expression", "expires_at")
}

func setDeduplication(t *testing.T, v *vaulttest.Vault, on bool) {
	t.Helper()
	must.Get(v.Owner.ReplaceTenant(t.Context(), vault.TenantParams{Name: "Acme", Settings: vault.TenantSettings{DeduplicateTokens: on}}))(t)
}

func TestDeduplicationReturnsTheExistingToken(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		first, second vault.TokenParams
		want          bool
	}{
		"equal":                          {given.Deduplicated("a"), given.Deduplicated("a"), true},
		"a token without the flag":       {vault.TokenParams{Type: vault.TypeGeneric, Data: "a"}, given.Deduplicated("a"), true},
		"a token that refuses the flag":  {vault.TokenParams{Type: vault.TypeGeneric, Data: "a", DeduplicateToken: new(false)}, given.Deduplicated("a"), true},
		"the second without the flag":    {given.Deduplicated("a"), vault.TokenParams{Type: vault.TypeGeneric, Data: "a"}, false},
		"another value":                  {given.Deduplicated("a"), given.Deduplicated("b"), false},
		"another type":                   {given.Deduplicated("110000000"), vault.TokenParams{Type: vault.TypeUSBankRoutingNumber, Data: "110000000", DeduplicateToken: new(true)}, false},
		"other id, containers, metadata": {given.Deduplicated("a"), vault.TokenParams{ID: "other", Type: vault.TypeGeneric, Data: "a", DeduplicateToken: new(true), Containers: []string{"/x/"}, Metadata: map[string]string{"k": "v"}}, true},
		"another text of the expression": {given.Deduplicated("a"), vault.TokenParams{Type: vault.TypeGeneric, Data: "a", DeduplicateToken: new(true), FingerprintExpression: "{{ data }}"}, false},
		"a constant expression captures its own kind only": {
			vault.TokenParams{Type: vault.TypeGeneric, Data: "a", FingerprintExpression: "{{ 'b' }}"}, given.Deduplicated("b"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := vaulttest.New(t)
			first := given.Create(t, v.Private, tt.first)
			v.Clock.Advance(time.Minute)
			second := given.Create(t, v.Private, tt.second)
			given.Same(t, "matches", cmp.Equal(first, second), tt.want)
			_, total := given.List(t, v.Private, vault.ListTokensParams{})
			given.Same(t, "tokens are stored", total, map[bool]int{true: 1, false: 2}[tt.want])
		})
	}
}

func TestDeduplicationByTenantSetting(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	plain := vault.TokenParams{Type: vault.TypeGeneric, Data: "a"}
	first := given.Create(t, v.Private, plain)
	if second := given.Create(t, v.Private, plain); second.ID == first.ID {
		t.Error("tokens are deduplicated by default")
	}
	setDeduplication(t, v, true)
	given.Same(t, "the setting does not match the oldest token", given.Create(t, v.Private, plain).ID, first.ID)
	no := vault.TokenParams{Type: vault.TypeGeneric, Data: "a", DeduplicateToken: new(false)}
	if fourth := given.Create(t, v.Private, no); fourth.ID == first.ID {
		t.Error("false in the call does not override the setting")
	}
	out := must.Get(v.Private.Tokenize(t.Context(), vault.JSON(`["a","b","b"]`)))(t)
	var got []string
	must.Do(t, out.Decode(&got))
	if got[0] != first.ID || got[1] != got[2] || got[1] == got[0] {
		t.Errorf("Tokenize does not deduplicate: %v", got)
	}
	_, other := v.NewTenant(t, "Other")
	if a, b := given.Create(t, other.Client, plain), given.Create(t, other.Client, plain); a.ID == b.ID {
		t.Error("the setting of one tenant applies to another")
	}
}

func TestDeduplicationRedactsForClientsWithoutRead(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	first := given.Create(t, v.Owner.Client, vault.TokenParams{ID: "first", Type: vault.TypeGeneric, Data: "secret", Containers: []string{"/x/"},
		Metadata: map[string]string{"user": "7"}, SearchIndexes: []string{"{{ data }}"}})
	want := &vault.Token{ID: "first", TenantID: v.Acme.ID, Type: vault.TypeGeneric, Transform: vault.TransformRedact, Fingerprint: first.Fingerprint, Containers: []string{"/x/"}}
	given.Same(t, "for a public application", given.Create(t, v.Public, given.Deduplicated("secret")), want)
	elsewhere := given.Private(t, v, given.Rule(1, "/general/", vault.TransformReveal, given.Everything...))
	given.Same(t, "for who may read elsewhere", given.Create(t, elsewhere, given.Deduplicated("secret")), want)

	other := given.Create(t, v.Owner.Client, vault.TokenParams{Type: vault.TypeGeneric, Data: "other"})
	got := must.Get(v.Public.PatchToken(t.Context(), other.ID, vault.JSON(`{"data":"secret","deduplicate_token":true}`)))(t)
	bare := *want
	bare.Fingerprint = ""
	given.Same(t, "after a patch", got, &bare)
	out := must.Get(v.Public.Tokenize(t.Context(), vault.JSON(`{"type":"token","data":"secret","deduplicate_token":true}`)))(t)
	var tokenized vault.Token
	must.Do(t, out.Decode(&tokenized))
	bare = *want
	bare.Transform = "" // as in the REST API
	given.Same(t, "in Tokenize", &tokenized, &bare)

	given.WantData(t, "for who may read masked", given.Create(t, v.Private, given.Deduplicated("secret")).Data, `"XXcret"`)
	given.WantData(t, "for who may read in clear", given.Create(t, v.Owner.Client, given.Deduplicated("secret")).Data, `"XXcret"`)
	blind := given.Private(t, v, given.Rule(1, "/", vault.TransformRedact, "token:create", "token:read"))
	got = given.Create(t, blind, given.Deduplicated("secret"))
	given.WantData(t, "for who reads redacted", got.Data, ``)
	given.Same(t, "metadata for who reads redacted", got.Metadata, map[string]string{"user": "7"})
}

// A patch that turns a token into a duplicate changes nothing.
func TestPatchToDuplicateChangesNothing(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	first := given.Create(t, v.Private, given.Deduplicated("first"))
	second := given.Create(t, v.Private, given.Deduplicated("second"))
	before := given.Get(t, v.Owner.Client, second.ID)
	got := given.Update(t, v.Private, second.ID, `{"data":"first","metadata":{"a":"b"}}`)
	given.Same(t, "the answer", got, first)
	given.Same(t, "the token", given.Get(t, v.Owner.Client, second.ID), before)

	loose := given.Create(t, v.Private, vault.TokenParams{Type: vault.TypeGeneric, Data: "first"})
	got = given.Update(t, v.Private, loose.ID, `{"deduplicate_token":true}`)
	given.Same(t, "the answer when the flag is set", got.ID, first.ID)
	got = given.Update(t, v.Private, second.ID, `{"data":"first","deduplicate_token":false}`)
	given.Same(t, "a patch that refuses deduplication", got.ID, second.ID)
}

// A patch that does not touch the content reports no duplicate, even if one has
// existed all along.
func TestPatchOfOtherFieldsIsNoDuplicate(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	first := given.Create(t, v.Private, given.Deduplicated("a"))
	twin := given.Create(t, v.Private, vault.TokenParams{Type: vault.TypeGeneric, Data: "a", DeduplicateToken: new(false)})
	setDeduplication(t, v, true)
	loose := given.Create(t, v.Private, vault.TokenParams{Type: vault.TypeGeneric, Data: "b"})
	setDeduplication(t, v, false)
	looseTwin := given.Create(t, v.Private, vault.TokenParams{Type: vault.TypeGeneric, Data: "b"})
	setDeduplication(t, v, true)
	for _, tok := range []*vault.Token{first, twin, loose, looseTwin} {
		got := given.Update(t, v.Private, tok.ID, `{"metadata":{"k":"v"}}`)
		given.Same(t, "id", got.ID, tok.ID)
		given.Same(t, "metadata", given.Get(t, v.Private, tok.ID).Metadata, map[string]string{"k": "v"})
	}
	given.Same(t, "the patched token is no longer found as a duplicate", given.Create(t, v.Private, given.Deduplicated("a")).ID, first.ID)
}

// Deduplication ignores expired tokens.
func TestDeduplicationIgnoresExpiredTokens(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	soon := given.Deduplicated("a")
	soon.ExpiresAt = vaulttest.Start.Add(time.Minute)
	first := given.Create(t, v.Private, soon)
	v.Clock.Advance(time.Minute)
	second := given.Create(t, v.Private, given.Deduplicated("a"))
	if second.ID == first.ID {
		t.Fatal("the expired token was returned")
	}
	given.Same(t, "the new token is not found as a duplicate", given.Create(t, v.Private, given.Deduplicated("a")).ID, second.ID)
	soon.ExpiresAt, soon.Data = v.Clock.Now().Add(time.Minute), "once"
	given.Create(t, v.Private, soon)
	v.Clock.Advance(time.Minute)
	var runs atomic.Int32
	made := replays(t, "inside Once", false)(v.Private.Once(t.Context(), vault.IdempotencyKey{Key: "abc"}, creating(&runs, given.Deduplicated("once"))))
	given.Get(t, v.Private, made.Header.Get("Location"))
	soon.ExpiresAt, soon.Data = v.Clock.Now().Add(time.Minute), "b"
	given.Create(t, v.Private, soon)
	v.Clock.Advance(time.Minute)
	patched := given.Update(t, v.Private, second.ID, `{"data":"b"}`)
	given.Same(t, "a patch to the content of an expired token", patched.ID, second.ID)
}

// Concurrent creates of the same value yield one token.
func TestConcurrentDuplicatesYieldOneToken(t *testing.T) {
	t.Parallel()
	vaults, _ := given.Nodes(t)
	c := given.TenantOf(t, vaults[0])
	const callers = 16
	got := make([]string, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			tok, err := vaults[i%2].Tenant(c.TenantID()).CreateToken(t.Context(), given.Deduplicated("a"))
			if err != nil {
				t.Error(err)
				return
			}
			got[i] = tok.ID
		})
	}
	wg.Wait()
	for _, id := range got {
		given.Same(t, "several tokens", id, got[0])
	}
	if _, total := given.List(t, c, vault.ListTokensParams{}); total != 1 {
		t.Errorf("%d tokens are stored, want 1", total)
	}
}

// Of two concurrent patches that would make two tokens equal, one succeeds, and
// both return the same token.
func TestConcurrentPatchesToOneContent(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	tokens := []*vault.Token{given.Create(t, v.Private, given.Deduplicated("a")), given.Create(t, v.Private, given.Deduplicated("b"))}
	answers := make([]string, len(tokens))
	var wg sync.WaitGroup
	for i, tok := range tokens {
		wg.Go(func() { answers[i] = given.Update(t, v.Private, tok.ID, `{"data":"c"}`).ID })
	}
	wg.Wait()
	given.Same(t, "the token that both answers name", answers[0], answers[1])
	changed := 0
	for _, tok := range tokens {
		if string(given.Get(t, v.Owner.Client, tok.ID).Data) == `"c"` {
			changed++
		}
	}
	given.Same(t, "changed tokens", changed, 1)
}
