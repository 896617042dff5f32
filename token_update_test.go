package vault_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

func TestUpdateTokenAnswersWithTheTokenMasked(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	c := revealing(t, v)
	old := create(t, v.Private, vault.TokenParams{ID: "tok", Type: vault.TypeGeneric, Data: "first secret"})
	v.Clock.Advance(time.Minute)
	got := update(t, c, "tok", `{"data":"second secret"}`)
	want := *old
	want.Data, want.Fingerprint = vault.JSON(`"XXXXXXXXXcret"`), got.Fingerprint
	want.ModifiedBy, want.ModifiedAt = c.ApplicationID(), vaulttest.Start.Add(time.Minute)
	same(t, "updated token", got, &want)
	if got.Fingerprint == old.Fingerprint {
		t.Error("the fingerprint is still that of the old data")
	}
	wantData(t, "data", get(t, c, "tok").Data, `"second secret"`)
}

// Data, mask and metadata are merged as RFC 7386 says.
func TestUpdateTokenMerges(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	for _, tt := range []struct{ data, patch, want string }{
		{`{"a":1,"b":{"c":2,"d":3}}`, `{"b":{"c":null,"e":4}}`, `{"a":1,"b":{"d":3,"e":4}}`},
		{`{"a":1}`, `{}`, `{"a":1}`},
		{`{"a":1.10,"z":2}`, `{"z":1e400}`, `{"a":1.10,"z":1e400}`},
		{`{"a":[1,{"b":null}]}`, `{"a":[null]}`, `{"a":[null]}`},
		{`"text"`, `{"a":null,"b":{"c":null,"d":1}}`, `{"b":{"d":1}}`},
		{`{"a":1}`, `"text"`, `"text"`},
		{`{"a":1}`, `[1]`, `[1]`},
		{`{"a":{"b":1}}`, `{"a":7}`, `{"a":7}`},
		{`{"a":null}`, `{"b":1}`, `{"a":null,"b":1}`},
		{`{"z":1,"a":2}`, `{"a":3,"m":4}`, `{"z":1,"a":3,"m":4}`},
		{`{"a":1}`, `{"missing":null}`, `{"a":1}`},
	} {
		tok := create(t, v.Private, vault.TokenParams{Type: vault.TypeGeneric, Data: vault.JSON(tt.data)})
		update(t, v.Private, tok.ID, `{"data":`+tt.patch+`}`)
		wantData(t, tt.data+" patched with "+tt.patch, get(t, v.Owner, tok.ID).Data, tt.want)
	}
}

func TestUpdateTokenMergesMaskAndMetadata(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	tok := create(t, v.Owner, vault.TokenParams{Type: vault.TypeCard, Data: vault.CardData{Number: visa, ExpirationYear: 2030},
		Metadata: map[string]string{"a": "1", "b": "2"}})
	got := update(t, v.Owner, tok.ID, `{"mask":{"expiration_year":null,"brand":"visa"},"metadata":{"a":null,"b":"3","c":"4"}}`)
	wantData(t, "mask", got.Mask, `{"number":"{{ data.number | reveal_last: 4 }}","brand":"visa"}`)
	wantData(t, "masked data", got.Data, `{"number":"XXXXXXXXXXXX4242","brand":"visa"}`)
	same(t, "metadata", got.Metadata, map[string]string{"b": "3", "c": "4"})
	got = update(t, v.Owner, tok.ID, `{"mask":"hidden"}`)
	wantData(t, "masked data", got.Data, `"hidden"`)
}

// Containers, indexes, fingerprint expression and expiry are replaced.
func TestUpdateTokenReplaces(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	tok := create(t, v.Owner, vault.TokenParams{Type: vault.TypeGeneric, Data: map[string]string{"a": "x", "b": "y"},
		Containers: []string{"/a/", "/b/"}, SearchIndexes: []string{"{{ data.a }}"}})
	got := update(t, v.Owner, tok.ID, `{"containers":["/C/"],"search_indexes":["{{ data.b }}"],"fingerprint_expression":"{{ data.b }}","expires_at":"2/3/2026"}`)
	same(t, "containers", got.Containers, []string{"/c/"})
	same(t, "indexes", got.SearchIndexes, []string{"{{ data.b }}"})
	same(t, "fingerprint expression", got.FingerprintExpression, "{{ data.b }}")
	same(t, "expiry", got.ExpiresAt, time.Date(2026, 2, 3, 0, 0, 0, 0, time.UTC))
	for query, want := range map[string]int{"data:x": 0, "data:y": 1, "container:/a/": 0, "container:/c/": 1} {
		page, err := v.Owner.SearchTokens(t.Context(), vault.SearchTokensParams{Query: query})
		if err != nil || page.Pagination.TotalItems != want {
			t.Errorf("%s finds %d tokens (%v), want %d", query, page.Pagination.TotalItems, err, want)
		}
	}
}

// Null clears what has no default, and brings the type's default back.
func TestUpdateTokenNullBringsDefaultsBack(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	tok := create(t, v.Owner, vault.TokenParams{Type: vault.TypeSocialSecurityNumber, Data: "536-22-8726", Mask: "hidden",
		Containers: []string{"/a/"}, Metadata: map[string]string{"a": "1"}, SearchIndexes: []string{"{{ data | last4 }}"},
		FingerprintExpression: "{{ data | last4 }}", ExpiresAt: vaulttest.Start.Add(time.Hour)})
	got := update(t, v.Owner, tok.ID, `{"mask":null,"containers":null,"metadata":null,"search_indexes":null,
		"fingerprint_expression":null,"expires_at":null,"deduplicate_token":null}`)
	wantData(t, "mask", got.Mask, `"{{ data | reveal: 0, 4, 'X', '-' }}"`)
	wantData(t, "data", got.Data, `"XXX-XX-8726"`)
	same(t, "containers", got.Containers, []string{"/pii/high/"})
	same(t, "metadata", len(got.Metadata), 0)
	same(t, "indexes", len(got.SearchIndexes), 3)
	same(t, "fingerprint expression", got.FingerprintExpression, "{{ data | remove: '-' }}")
	if !got.ExpiresAt.IsZero() {
		t.Errorf("the token expires at %s", got.ExpiresAt)
	}
}

func TestUpdateTokenRefusesBadPatches(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	tok := create(t, v.Owner, vault.TokenParams{Type: vault.TypeCard, Data: vault.CardData{Number: visa, ExpirationMonth: 7}, SearchIndexes: []string{"{{ data.expiration_month }}"}})
	before := get(t, v.Owner, tok.ID)
	for patch, fields := range map[string][]string{
		`[]`: {""}, `"s3cr3t"`: {""}, `{"data":`: {"data"},
		`{"id":"new-id"}`: {"id"}, `{"type":"token"}`: {"type"}, `{"s3":1}`: {"s3"},
		`{"data":null}`: {"data"}, `{"data":"s3cr3t"}`: {"data"},
		`{"data":{"number":"s3cr3t"}}`: {"data.number"}, `{"data":{"number":null}}`: {"data.number"},
		`{"data":{"cvc":"s3cr3t"}}`: {"data.cvc"}, `{"data":{"holder":"s3cr3t"}}`: {"data.holder"},
		`{"data":{"holder":null}}`: {"data.holder"}, `{"data":{"holder":null,"month":7}}`: {"data.holder", "data.month"},
		`{"data":{"cvc":"123","cvc":"124"}}`: {"data.cvc"},
		`{"metadata":"s3cr3t"}`:              {"metadata"}, `{"metadata":{"a":7}}`: {"metadata.a"}, `{"metadata":{"a":"\u0000"}}`: {"metadata.a"},
		`{"containers":[]}`: {"containers"}, `{"containers":["x"]}`: {"containers[0]"}, `{"containers":"x"}`: {"containers"},
		`{"mask":"{{ metadata.a }}"}`: {"mask"}, `{"mask":{"a":"{{ data | append: metadata.a }}"}}`: {"mask"},
		`{"mask":"{{ data"}`: {"mask"}, `{"mask":{"a":"{{ data | nope }}"}}`: {"mask.a"},
		`{"fingerprint_expression":"{{"}`: {"fingerprint_expression"}, `{"fingerprint_expression":"{{ data.nope }}"}`: {"fingerprint_expression"},
		`{"search_indexes":["{{ data.nope }}"]}`: {"search_indexes[0]"}, `{"search_indexes":[7]}`: {"search_indexes[0]"},
		`{"deduplicate_token":"s3cr3t"}`: {"deduplicate_token"},
		`{"expires_at":"1/1/2020"}`:      {"expires_at"}, `{"expires_at":"s3cr3t"}`: {"expires_at"},
		`{"data":{"expiration_month":null}}`: {"search_indexes[0]"}, // the index would be empty
	} {
		_, err := v.Owner.PatchToken(t.Context(), tok.ID, vault.JSON(patch))
		wantFields(t, patch, err, fields...)
		wantSilent(t, err, "s3cr3t", visa)
	}
	same(t, "the token after refused patches", get(t, v.Owner, tok.ID), before)
	same(t, "log", operations(t, v, tok.ID), []string{"create", "read", "read"})
	_, err := v.Owner.PatchToken(t.Context(), "missing", vault.JSON(`{}`))
	wantError(t, "a missing token", err, vault.ErrNotFound)
	_, err = v.Owner.PatchToken(t.Context(), "missing", vault.JSON(`{"nope":1}`))
	wantError(t, "the body is judged before the entity", err, vault.ErrInvalid)
	_, err = holding(t, v, "token:read").PatchToken(t.Context(), "missing", vault.JSON(`{"nope":1}`))
	wantError(t, "the permission is judged before the body", err, vault.ErrForbidden)
}

// A mask that compiles but fails on new data shows nothing.
func TestUpdateTokenRedactsWhereTheMaskFails(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	tok := create(t, v.Private, vault.TokenParams{Type: vault.TypeGeneric, Data: map[string]any{"n": 7}, Mask: "{{ data.n | plus: 1 }}"})
	wantData(t, "masked data", tok.Data, `8`)
	got := update(t, v.Private, tok.ID, `{"data":{"n":"text"}}`)
	wantData(t, "masked data in the answer", got.Data, ``)
	wantData(t, "masked data read", get(t, v.Private, tok.ID).Data, ``)
	wantData(t, "data", get(t, v.Owner, tok.ID).Data, `{"n":"text"}`)
}

// Expressions over data that one may not see are a way to see it.
func TestUpdateTokenExpressionsNeedReveal(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	updater := private(t, v, rule(1, "/", vault.TransformReveal, "token:update"), rule(2, "/", vault.TransformMask, "token:read"))
	reader := private(t, v, rule(1, "/", vault.TransformMask, "token:update"), rule(2, "/", vault.TransformReveal, "token:read"))
	user := holding(t, v, "token:update", "token:use")
	for patch, allowed := range map[string]bool{
		`{"mask":"{{ data.a }}"}`: false, `{"mask":"constant"}`: false, `{"mask":{"a":"{{ data.a }}"}}`: false,
		`{"search_indexes":["{{ data.a }}"]}`: false, `{"fingerprint_expression":"{{ data.a }}"}`: false,
		`{"data":{"b":"new"},"mask":"{{ data.a }}"}`: false,
		`{"data":"new","mask":"{{ data }}"}`:         true,                                                                           // nothing of the old data stays
		`{"mask":null}`:                              true, `{"search_indexes":null}`: true, `{"fingerprint_expression":null}`: true, // no change
		`{"metadata":{"a":"1"}}`: true, `{"data":{"b":"new"}}`: true, `{"expires_at":"1/1/2030"}`: true,
	} {
		secret := map[string]string{"a": "s3cr3t"}
		tok := create(t, v.Owner, vault.TokenParams{Type: vault.TypeGeneric, Data: secret})
		_, err := updater.PatchToken(t.Context(), tok.ID, vault.JSON(patch))
		if allowed && err != nil {
			t.Errorf("%s: %v", patch, err)
		}
		if !allowed {
			wantError(t, patch, err, vault.ErrForbidden)
			wantData(t, "data", get(t, v.Owner, tok.ID).Data, `{"a":"s3cr3t"}`)
		}
		for _, c := range []*vault.Client{reader, user, v.Owner} {
			tok := create(t, v.Owner, vault.TokenParams{Type: vault.TypeGeneric, Data: secret})
			if _, err := c.PatchToken(t.Context(), tok.ID, vault.JSON(patch)); err != nil {
				t.Errorf("%s by who sees the data: %v", patch, err)
			}
		}
	}
	masked := create(t, v.Owner, vault.TokenParams{Type: vault.TypeGeneric, Data: "s3cr3t", Mask: "hidden"})
	_, err := updater.PatchToken(t.Context(), masked.ID, vault.JSON(`{"mask":null}`))
	wantError(t, "null that brings a laxer default back", err, vault.ErrForbidden)
}

// The answer to a patch shows what the caller may read, and never more than the
// mask.
func TestUpdateTokenShowsWhatMayBeRead(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	both := []vault.Permission{"token:read", "token:update"}
	c := private(t, v, rule(1, "/open/", vault.TransformReveal, both...), rule(2, "/half/", vault.TransformMask, both...), rule(3, "/shut/", vault.TransformRedact, both...))
	for _, tt := range []struct{ from, to, want string }{
		{"/open/", "/open/", `"XXcret"`}, {"/half/", "/half/", `"XXcret"`}, {"/shut/", "/shut/", ``}, {"/open/", "/shut/", ``},
	} {
		tok := create(t, v.Owner, vault.TokenParams{Type: vault.TypeGeneric, Data: "secret", Containers: []string{tt.from}})
		got := update(t, c, tok.ID, `{"containers":["`+tt.to+`"],"metadata":{"k":"v"}}`)
		wantData(t, tt.from+" to "+tt.to, got.Data, tt.want)
		same(t, "metadata", got.Metadata, map[string]string{"k": "v"})
	}
}

// A caller that may not read a token learns no more from a patch than its name:
// with token:create a fingerprint would tell which of many guesses is right.
func TestUpdateTokenWithoutReadIsNoOracle(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	tok := create(t, v.Owner, vault.TokenParams{Type: vault.TypeSocialSecurityNumber, Data: "123-45-6789", Metadata: map[string]string{"user": "7"}})
	want := &vault.Token{ID: tok.ID, TenantID: v.Acme.ID, Type: vault.TypeSocialSecurityNumber, Containers: []string{"/pii/high/"}}
	for _, patch := range []string{`{}`, `{"metadata":{"a":"b"}}`, `{"expires_at":"2099-01-01"}`} {
		same(t, patch, update(t, v.Public, tok.ID, patch), want)
	}
	elsewhere := private(t, v, rule(1, "/pii/", vault.TransformReveal, "token:update"), rule(2, "/general/", vault.TransformReveal, "token:read"))
	same(t, "for a caller that reads elsewhere", update(t, elsewhere, tok.ID, `{}`), want)
}

// Data cannot be changed to what the id holds.
func TestUpdateTokenMustNotMakeTheIDTell(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	create(t, v.Owner, vault.TokenParams{ID: "card " + visa, Type: vault.TypeCard, Data: vault.CardData{Number: mastercard}})
	create(t, v.Owner, vault.TokenParams{ID: "s3cr3t", Type: vault.TypeGeneric, Data: "harmless"})
	_, err := v.Owner.PatchToken(t.Context(), "card "+visa, vault.JSON(`{"data":{"number":"`+visa+`"}}`))
	wantFields(t, "card", err, "data")
	_, err = v.Owner.PatchToken(t.Context(), "s3cr3t", vault.JSON(`{"data":"s3cr3t"}`))
	wantFields(t, "generic", err, "data")
	short := create(t, v.Owner, vault.TokenParams{Type: vault.TypeBank, Data: vault.BankData{RoutingNumber: routing, AccountNumber: "123456"}})
	for digit := range 10 { // some of them stand in every UUID
		update(t, v.Owner, short.ID, fmt.Sprintf(`{"data":{"account_number":"%d"}}`, digit))
	}
}

// Updates at the same time do not lose one another.
func TestConcurrentUpdatesAllCount(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	tok := create(t, v.Private, vault.TokenParams{Type: vault.TypeGeneric, Data: map[string]int{}})
	var wg sync.WaitGroup
	var want strings.Builder
	for i := range 20 {
		wg.Go(func() { update(t, v.Private, tok.ID, fmt.Sprintf(`{"data":{"k%02d":%d}}`, i, i)) })
	}
	wg.Wait()
	var got map[string]int
	if err := get(t, v.Owner, tok.ID).Data.Decode(&got); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if n, ok := got[fmt.Sprintf("k%02d", i)]; !ok || n != i {
			fmt.Fprintf(&want, " k%02d", i)
		}
	}
	if want.Len() > 0 {
		t.Errorf("lost updates:%s", &want)
	}
}

func TestDeleteToken(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	tok := create(t, v.Private, vault.TokenParams{Type: vault.TypeGeneric, Data: "x"})
	kept := create(t, v.Private, vault.TokenParams{Type: vault.TypeGeneric, Data: "x"})
	wantError(t, "without the permission", holding(t, v, "token:read").DeleteToken(t.Context(), tok.ID), vault.ErrForbidden)
	only := private(t, v, rule(1, "/pci/", vault.TransformReveal, everything...))
	wantError(t, "without a rule", only.DeleteToken(t.Context(), tok.ID), vault.ErrForbidden)
	if err := v.Private.DeleteToken(t.Context(), tok.ID); err != nil {
		t.Fatal(err)
	}
	wantError(t, "again", v.Private.DeleteToken(t.Context(), tok.ID), vault.ErrNotFound)
	_, err := v.Private.GetToken(t.Context(), tok.ID)
	wantError(t, "get", err, vault.ErrNotFound)
	found, total := list(t, v.Private, vault.ListTokensParams{})
	same(t, "list", found, []string{kept.ID})
	same(t, "total", total, 1)
	same(t, "log", operations(t, v, tok.ID), []string{"create", "delete"})
}
