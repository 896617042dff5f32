package vault_test

import (
	"sync"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

func dedup(data any) vault.TokenParams {
	return vault.TokenParams{Type: vault.TypeGeneric, Data: data, DeduplicateToken: ptr(true)}
}

func setDeduplication(t *testing.T, v *vaulttest.Vault, on bool) {
	t.Helper()
	_, err := v.Owner.ReplaceTenant(t.Context(), vault.TenantParams{Name: "Acme", Settings: vault.TenantSettings{DeduplicateTokens: on}})
	if err != nil {
		t.Fatal(err)
	}
}

func TestDeduplicationReturnsTheExistingToken(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	first := create(t, v.Private, dedup("secret"))
	v.Clock.Advance(time.Minute)
	second := create(t, v.Private, vault.TokenParams{ID: "other", Type: vault.TypeGeneric, Data: "secret", DeduplicateToken: ptr(true),
		Metadata: map[string]string{"a": "b"}})
	same(t, "the duplicate", second, first)
	if _, total := list(t, v.Private, vault.ListTokensParams{}); total != 1 {
		t.Errorf("%d tokens are stored, want 1", total)
	}
	_, err := v.Private.GetToken(t.Context(), "other")
	wantError(t, "the id that was asked for", err, vault.ErrNotFound)
}

func TestDeduplicationMatches(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		first, second vault.TokenParams
		want          bool
	}{
		"equal":                          {dedup("a"), dedup("a"), true},
		"a token without the flag":       {vault.TokenParams{Type: vault.TypeGeneric, Data: "a"}, dedup("a"), true},
		"a token that refuses the flag":  {vault.TokenParams{Type: vault.TypeGeneric, Data: "a", DeduplicateToken: ptr(false)}, dedup("a"), true},
		"the second without the flag":    {dedup("a"), vault.TokenParams{Type: vault.TypeGeneric, Data: "a"}, false},
		"another value":                  {dedup("a"), dedup("b"), false},
		"another type":                   {dedup("110000000"), vault.TokenParams{Type: vault.TypeUSBankRoutingNumber, Data: "110000000", DeduplicateToken: ptr(true)}, false},
		"other containers and metadata":  {dedup("a"), vault.TokenParams{Type: vault.TypeGeneric, Data: "a", DeduplicateToken: ptr(true), Containers: []string{"/x/"}, Metadata: map[string]string{"k": "v"}}, true},
		"another text of the expression": {dedup("a"), vault.TokenParams{Type: vault.TypeGeneric, Data: "a", DeduplicateToken: ptr(true), FingerprintExpression: "{{ data }}"}, false},
		"a constant expression captures its own kind only": {
			vault.TokenParams{Type: vault.TypeGeneric, Data: "a", FingerprintExpression: "{{ 'b' }}"}, dedup("b"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := vaulttest.New(t)
			first, second := create(t, v.Owner, tt.first), create(t, v.Owner, tt.second)
			if got := first.ID == second.ID; got != tt.want {
				t.Errorf("matches: %v, want %v", got, tt.want)
			}
			_, total := list(t, v.Owner, vault.ListTokensParams{})
			if want := map[bool]int{true: 1, false: 2}[tt.want]; total != want {
				t.Errorf("%d tokens are stored, want %d", total, want)
			}
		})
	}
}

func TestDeduplicationByTenantSetting(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	plain := vault.TokenParams{Type: vault.TypeGeneric, Data: "a"}
	first := create(t, v.Private, plain)
	if second := create(t, v.Private, plain); second.ID == first.ID {
		t.Error("tokens are deduplicated by default")
	}
	setDeduplication(t, v, true)
	if third := create(t, v.Private, plain); third.ID != first.ID {
		t.Error("the setting does not match the oldest token")
	}
	no := vault.TokenParams{Type: vault.TypeGeneric, Data: "a", DeduplicateToken: ptr(false)}
	if fourth := create(t, v.Private, no); fourth.ID == first.ID {
		t.Error("false in the call does not beat the setting")
	}
	out, err := v.Private.Tokenize(t.Context(), vault.JSON(`["a","b","b"]`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	if err := out.Decode(&got); err != nil {
		t.Fatal(err)
	}
	if got[0] != first.ID || got[1] != got[2] || got[1] == got[0] {
		t.Errorf("Tokenize does not deduplicate: %v", got)
	}
	_, other := v.NewTenant(t, "Other")
	if a, b := create(t, other, plain), create(t, other, plain); a.ID == b.ID {
		t.Error("the setting of one tenant counts for another")
	}
}

func TestDeduplicationRedactsForWhoMayNotRead(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	first := create(t, v.Owner, vault.TokenParams{ID: "first", Type: vault.TypeGeneric, Data: "secret", Containers: []string{"/x/"},
		Metadata: map[string]string{"user": "7"}, SearchIndexes: []string{"{{ data }}"}})
	want := &vault.Token{ID: "first", TenantID: v.Acme.ID, Type: vault.TypeGeneric, Fingerprint: first.Fingerprint, Containers: []string{"/x/"}}
	same(t, "for a public application", create(t, v.Public, dedup("secret")), want)
	elsewhere := private(t, v, rule(1, "/general/", vault.TransformReveal, everything...))
	same(t, "for who may read elsewhere", create(t, elsewhere, dedup("secret")), want)

	other := create(t, v.Owner, vault.TokenParams{Type: vault.TypeGeneric, Data: "other"})
	got, err := v.Public.PatchToken(t.Context(), other.ID, vault.JSON(`{"data":"secret","deduplicate_token":true}`))
	if err != nil {
		t.Fatal(err)
	}
	bare := *want
	bare.Fingerprint = ""
	same(t, "after a patch", got, &bare)
	out, err := v.Public.Tokenize(t.Context(), vault.JSON(`{"type":"token","data":"secret","deduplicate_token":true}`))
	if err != nil {
		t.Fatal(err)
	}
	var tokenized vault.Token
	if err := out.Decode(&tokenized); err != nil {
		t.Fatal(err)
	}
	same(t, "in Tokenize", &tokenized, want)

	wantData(t, "for who may read masked", create(t, v.Private, dedup("secret")).Data, `"XXcret"`)
	wantData(t, "for who may read in clear", create(t, v.Owner, dedup("secret")).Data, `"XXcret"`)
	blind := private(t, v, rule(1, "/", vault.TransformRedact, "token:create", "token:read"))
	got = create(t, blind, dedup("secret"))
	wantData(t, "for who reads redacted", got.Data, ``)
	same(t, "metadata for who reads redacted", got.Metadata, map[string]string{"user": "7"})
}

// A patch that turns a token into a duplicate changes nothing.
func TestPatchToDuplicateChangesNothing(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	first := create(t, v.Private, dedup("first"))
	second := create(t, v.Private, dedup("second"))
	before := get(t, v.Owner, second.ID)
	got := update(t, v.Private, second.ID, `{"data":"first","metadata":{"a":"b"}}`)
	same(t, "the answer", got, first)
	same(t, "the token", get(t, v.Owner, second.ID), before)

	loose := create(t, v.Private, vault.TokenParams{Type: vault.TypeGeneric, Data: "first"})
	got = update(t, v.Private, loose.ID, `{"deduplicate_token":true}`)
	same(t, "the answer when the flag is set", got.ID, first.ID)
	got = update(t, v.Private, second.ID, `{"data":"first","deduplicate_token":false}`)
	same(t, "a patch that refuses deduplication", got.ID, second.ID)
}

// A patch that does not touch the content finds no duplicate, even where one
// has been there all along.
func TestPatchOfOtherFieldsIsNoDuplicate(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	first := create(t, v.Private, dedup("a"))
	twin := create(t, v.Private, vault.TokenParams{Type: vault.TypeGeneric, Data: "a", DeduplicateToken: ptr(false)})
	setDeduplication(t, v, true)
	loose := create(t, v.Private, vault.TokenParams{Type: vault.TypeGeneric, Data: "b"})
	setDeduplication(t, v, false)
	looseTwin := create(t, v.Private, vault.TokenParams{Type: vault.TypeGeneric, Data: "b"})
	setDeduplication(t, v, true)
	for _, tok := range []*vault.Token{first, twin, loose, looseTwin} {
		got := update(t, v.Private, tok.ID, `{"metadata":{"k":"v"}}`)
		same(t, "id", got.ID, tok.ID)
		same(t, "metadata", get(t, v.Private, tok.ID).Metadata, map[string]string{"k": "v"})
	}
	if again := create(t, v.Private, dedup("a")); again.ID != first.ID {
		t.Error("the patched token is no longer found as a duplicate")
	}
}

// Expired tokens are nobody's duplicates.
func TestDeduplicationPassesOverExpiredTokens(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	soon := dedup("a")
	soon.ExpiresAt = vaulttest.Start.Add(time.Minute)
	first := create(t, v.Private, soon)
	v.Clock.Advance(time.Minute)
	second := create(t, v.Private, dedup("a"))
	if second.ID == first.ID {
		t.Fatal("the expired token was returned")
	}
	if third := create(t, v.Private, dedup("a")); third.ID != second.ID {
		t.Error("the new token is not found as a duplicate")
	}
	soon.ExpiresAt = vaulttest.Start.Add(2 * time.Minute)
	soon.Data = "b"
	create(t, v.Private, soon)
	v.Clock.Advance(time.Minute)
	patched := update(t, v.Private, second.ID, `{"data":"b"}`)
	same(t, "a patch to the content of an expired token", patched.ID, second.ID)
}

// However many create the same value at once, there is one token.
func TestConcurrentDuplicatesYieldOneToken(t *testing.T) {
	t.Parallel()
	vaults, _ := nodes(t)
	c := tenantOf(t, vaults[0])
	const callers = 16
	got := make([]string, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			tok, err := vaults[i%2].Tenant(c.TenantID()).CreateToken(t.Context(), dedup("a"))
			if err != nil {
				t.Error(err)
				return
			}
			got[i] = tok.ID
		})
	}
	wg.Wait()
	for _, id := range got {
		if id != got[0] {
			t.Fatalf("several tokens: %v", got)
		}
	}
	if _, total := list(t, c, vault.ListTokensParams{}); total != 1 {
		t.Errorf("%d tokens are stored, want 1", total)
	}
}

// Two tokens that become the same at once do not both succeed.
func TestConcurrentPatchesToOneContent(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	tokens := []*vault.Token{create(t, v.Private, dedup("a")), create(t, v.Private, dedup("b"))}
	answers := make([]string, len(tokens))
	var wg sync.WaitGroup
	for i, tok := range tokens {
		wg.Go(func() { answers[i] = update(t, v.Private, tok.ID, `{"data":"c"}`).ID })
	}
	wg.Wait()
	same(t, "the token that both answers name", answers[0], answers[1])
	changed := 0
	for _, tok := range tokens {
		if string(get(t, v.Owner, tok.ID).Data) == `"c"` {
			changed++
		}
	}
	same(t, "changed tokens", changed, 1)
}
