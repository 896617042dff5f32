package vault_test

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

const withCVC = `{"cvc":"987","number":"4242424242424242"}`

// A cvc is shown in clear for an hour, and not a moment longer, swept or not.
func TestCVCLivesForAnHour(t *testing.T) {
	t.Parallel()
	v, store := spied(t)
	tok := create(t, v.Private, vault.TokenParams{Type: vault.Card, Data: vault.JSON(withCVC)})
	use := func() string {
		out, err := v.Private.Detokenize(t.Context(), vault.JSON(`"{{ `+tok.ID+` }}"`))
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	v.Clock.Advance(time.Hour - time.Microsecond)
	wantData(t, "data before the hour is over", get(t, v.Tenant, tok.ID).Data, withCVC)
	same(t, "data in use before the hour is over", use(), withCVC)
	if swept, err := v.Sweep(t.Context()); err != nil || swept.CVCs != 0 {
		t.Errorf("a sweep before the hour is over deletes %d cvcs (%v)", swept.CVCs, err)
	}
	v.Clock.Advance(time.Microsecond)
	const without = `{"number":"4242424242424242"}`
	wantData(t, "data after an hour", get(t, v.Tenant, tok.ID).Data, without)
	same(t, "data in use after an hour", use(), without)
	page, err := v.Tenant.ListTokens(t.Context(), vault.ListTokensParams{})
	if err != nil {
		t.Fatal(err)
	}
	wantData(t, "data in a list after an hour", page.Data[0].Data, without)
	if row := store.rows(t, v.Acme.ID, tok.ID)[0]; row.CVC == nil {
		t.Fatal("the cvc is gone before the sweep, so the test proves nothing")
	}
	swept, err := v.Sweep(t.Context())
	if err != nil || swept.CVCs != 1 || swept.Tokens != 0 {
		t.Errorf("the sweep deletes %+v (%v)", swept, err)
	}
	if row := store.rows(t, v.Acme.ID, tok.ID)[0]; row.CVC != nil || !row.CVCExpiresAt.IsZero() {
		t.Error("the cvc is still stored after the sweep")
	}
	wantData(t, "data after the sweep", get(t, v.Tenant, tok.ID).Data, without)
}

// The cvc is stored apart from the rest, where it was given.
func TestCVCIsStoredApart(t *testing.T) {
	t.Parallel()
	v, store := spied(t)
	for _, data := range []string{
		withCVC, `{"number":"4242424242424242","cvc":"987"}`,
		`{"number":"4242424242424242","expiration_month":7,"cvc":"987","expiration_year":2030}`,
	} {
		tok := create(t, v.Private, vault.TokenParams{Type: vault.Card, Data: vault.JSON(data)})
		wantData(t, "data", get(t, v.Tenant, tok.ID).Data, data)
		row := store.rows(t, v.Acme.ID, tok.ID)[0]
		if row.CVC == nil || strings.Contains(string(row.Body), visa) {
			t.Error("the row is not sealed, or has no cvc")
		}
	}
	bare := create(t, v.Private, vault.TokenParams{Type: vault.Card, Data: vault.CardData{Number: visa}})
	if row := store.rows(t, v.Acme.ID, bare.ID)[0]; row.CVC != nil || !row.CVCExpiresAt.IsZero() {
		t.Error("a card without cvc has one")
	}
}

func TestPatchAndCVC(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		after time.Duration // since creation, when the patch comes
		patch string
		at    time.Duration // since creation, when the token is read
		want  string
	}{
		"set anew, the hour starts again": {50 * time.Minute, `{"cvc":"123"}`, 109 * time.Minute, "123"},
		"the new hour ends too":           {50 * time.Minute, `{"cvc":"123"}`, 110 * time.Minute, ""},
		"the same cvc is a new one":       {50 * time.Minute, `{"cvc":"987"}`, 109 * time.Minute, "987"},
		"set after the first is gone":     {2 * time.Hour, `{"cvc":"123"}`, 2 * time.Hour, "123"},
		"null removes it":                 {time.Minute, `{"cvc":null}`, time.Minute, ""},
		"another field does not touch it": {50 * time.Minute, `{"expiration_month":7}`, 59 * time.Minute, "987"},
		"nor lengthen its life":           {50 * time.Minute, `{"expiration_month":7}`, 60 * time.Minute, ""},
		"nor bring it back":               {2 * time.Hour, `{"expiration_month":7}`, 2 * time.Hour, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := vaulttest.New(t)
			tok := create(t, v.Private, vault.TokenParams{Type: vault.Card, Data: vault.JSON(withCVC)})
			v.Clock.Advance(tt.after)
			got := update(t, v.Tenant, tok.ID, `{"data":`+tt.patch+`}`)
			if strings.Contains(string(got.Data), "cvc") {
				t.Errorf("the answer has a cvc: %s", got.Data)
			}
			v.Clock.Advance(tt.at - tt.after)
			var data vault.CardData
			if err := get(t, v.Tenant, tok.ID).Data.Decode(&data); err != nil {
				t.Fatal(err)
			}
			same(t, "cvc", data.CVC, tt.want)
		})
	}
}

// Moving a token or letting it expire later leaves its cvc readable.
func TestCVCSurvivesOtherPatches(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	tok := create(t, v.Private, vault.TokenParams{Type: vault.Card, Data: vault.JSON(withCVC)})
	for _, patch := range []string{`{"containers":["/elsewhere/"]}`, `{"expires_at":"1/1/2030"}`, `{"metadata":{"a":"b"}}`, `{"data":{}}`} {
		update(t, v.Private, tok.ID, patch)
		wantData(t, "data after "+patch, get(t, v.Tenant, tok.ID).Data, withCVC)
	}
}

// No expression sees the cvc, and no log entry or answer holds it.
func TestExpressionsDoNotSeeTheCVC(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	for _, p := range []vault.TokenParams{
		{SearchIndexes: []string{"{{ data.cvc }}"}}, {FingerprintExpression: "{{ data.cvc }}"},
		{ID: "{{ data.cvc }}"}, {Mask: "{{ data | json: '$.cvc' }}"},
	} {
		p.Type, p.Data = vault.Card, vault.JSON(withCVC)
		_, err := v.Tenant.CreateToken(t.Context(), p)
		wantError(t, "an expression over the cvc", err, vault.ErrInvalid)
		wantSilent(t, err, "987")
	}
	tok := create(t, v.Tenant, vault.TokenParams{Type: vault.Card, Data: vault.JSON(withCVC),
		Mask: map[string]string{"all": "{{ data | stringify }}", "cvc": "{{ data.cvc }}"}})
	wantData(t, "masked data", tok.Data, `{"all":"{\"number\":\"4242424242424242\"}","cvc":null}`)
	got := update(t, v.Tenant, tok.ID, `{"data":{"cvc":"654"}}`)
	wantData(t, "masked data after a patch", got.Data, `{"all":"{\"number\":\"4242424242424242\"}","cvc":null}`)
	same(t, "the fingerprint does not depend on the cvc", got.Fingerprint, tok.Fingerprint)
	for _, e := range entries(t, v, vault.ListLogsParams{}) {
		if strings.Contains(e.Message, "987") || strings.Contains(e.Message, "654") {
			t.Errorf("a log entry tells the cvc: %s", e.Message)
		}
	}
}
