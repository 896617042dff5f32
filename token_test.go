package vault_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/given"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// Every type has its own container, fingerprint expression, mask and indexes.
func TestTypeDefaults(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	nine := []string{"{{ data }}", "{{ data | remove: '-' }}", "{{ data | last4 }}"}
	for _, tt := range []struct {
		typ                          vault.TokenType
		data, container, fingerprint string
		mask, masked                 string
		indexes                      []string
	}{
		{typ: vault.TypeGeneric, data: `"secret"`, container: "/general/high/", fingerprint: "{{ data | stringify }}",
			mask: `"{{ data | reveal_last: 4 }}"`, masked: `"XXcret"`},
		{typ: vault.TypeGeneric, data: `{"a":"secret"}`, container: "/general/high/", fingerprint: "{{ data | stringify }}"},
		{typ: vault.TypeGeneric, data: `12345678`, container: "/general/high/", fingerprint: "{{ data | stringify }}"},
		{typ: vault.TypeGeneric, data: `true`, container: "/general/high/", fingerprint: "{{ data | stringify }}"},
		{typ: vault.TypeGeneric, data: `["secret"]`, container: "/general/high/", fingerprint: "{{ data | stringify }}"},
		{typ: vault.TypeCard, data: `{"number":"4242424242424242","expiration_month":7,"expiration_year":2031,"cvc":"123"}`,
			container: "/pci/high/", fingerprint: "{{ data.number }}",
			mask:   `{"number":"{{ data.number | reveal_last: 4 }}","expiration_month":"{{ data.expiration_month }}","expiration_year":"{{ data.expiration_year }}"}`,
			masked: `{"number":"XXXXXXXXXXXX4242","expiration_month":7,"expiration_year":2031}`},
		{typ: vault.TypeCard, data: `{"cvc":"1234","number":"4242424242424242"}`, container: "/pci/high/", fingerprint: "{{ data.number }}",
			mask: `{"number":"{{ data.number | reveal_last: 4 }}"}`, masked: `{"number":"XXXXXXXXXXXX4242"}`},
		{typ: vault.TypeBank, data: `{"routing_number":"110000000","account_number":"000123456789"}`,
			container: "/bank/high/", fingerprint: "{{ data.account_number }}|{{ data.routing_number }}",
			mask:   `{"routing_number":"{{ data.routing_number }}","account_number":"{{ data.account_number | reveal_last: 4 }}"}`,
			masked: `{"routing_number":"110000000","account_number":"XXXXXXXX6789"}`},
		{typ: vault.TypeCardNumber, data: `"4242424242424242"`, container: "/pci/high/", fingerprint: "{{ data }}",
			mask: `"{{ data | reveal_last: 4 }}"`, masked: `"XXXXXXXXXXXX4242"`},
		{typ: vault.TypeUSBankAccountNumber, data: `"12345678"`, container: "/bank/high/", fingerprint: "{{ data }}",
			mask: `"{{ data | reveal_last: 4 }}"`, masked: `"XXXX5678"`},
		{typ: vault.TypeUSBankRoutingNumber, data: `"110000000"`, container: "/bank/low/", fingerprint: "{{ data }}",
			mask: `"{{ data | reveal_last: 4 }}"`, masked: `"XXXXX0000"`},
		{typ: vault.TypeSocialSecurityNumber, data: `"536-22-8726"`, container: "/pii/high/", fingerprint: "{{ data | remove: '-' }}",
			mask: `"{{ data | reveal: 0, 4, 'X', '-' }}"`, masked: `"XXX-XX-8726"`, indexes: nine},
		{typ: vault.TypeEmployerIDNumber, data: `"12-3456789"`, container: "/pii/high/", fingerprint: "{{ data | remove: '-' }}",
			mask: `"{{ data | reveal: 0, 4, 'X', '-' }}"`, masked: `"XX-XXX6789"`, indexes: nine},
	} {
		tok := given.Create(t, v.Private, vault.TokenParams{Type: tt.typ, Data: vault.JSON(tt.data)})
		name := string(tt.typ)
		given.Same(t, name+": containers", tok.Containers, []string{tt.container})
		given.Same(t, name+": fingerprint expression", tok.FingerprintExpression, tt.fingerprint)
		given.Same(t, name+": indexes", tok.SearchIndexes, tt.indexes)
		given.WantData(t, name+": mask", tok.Mask, tt.mask)
		given.WantData(t, name+": masked data", tok.Data, tt.masked)
		given.WantData(t, name+": masked data read", given.Get(t, v.Private, tok.ID).Data, tt.masked)
		given.WantData(t, name+": data", given.Get(t, v.Owner.Client, tok.ID).Data, tt.data)
	}
}

// Callers may change the defaults in a returned token without affecting other
// tokens.
func TestCallersCannotChangeTypeDefaults(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	params := vault.TokenParams{Type: vault.TypeSocialSecurityNumber, Data: "536-22-8726", Metadata: map[string]string{"a": "b"}}
	tok := given.Create(t, v.Private, params)
	mask, indexes := tok.Mask.String(), slices.Clone(tok.SearchIndexes)
	clear(tok.Mask)
	clear(tok.SearchIndexes)
	clear(tok.Containers)
	clear(tok.Metadata)
	for what, again := range map[string]*vault.Token{"the same token": given.Get(t, v.Private, tok.ID), "another": given.Create(t, v.Private, params)} {
		given.WantData(t, what+": mask", again.Mask, mask)
		given.Same(t, what+": indexes", again.SearchIndexes, indexes)
		given.Same(t, what+": containers", again.Containers, []string{"/pii/high/"})
		given.Same(t, what+": metadata", again.Metadata, map[string]string{"a": "b"})
	}
}

// A value that is no longer than the part a mask reveals is masked completely.
func TestShortValueIsMaskedCompletely(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	for data, want := range map[string]string{`"abcd"`: `"XXXX"`, `"abc"`: `"XXX"`, `"abcde"`: `"Xbcde"`, `""`: `""`, `"äöüß"`: `"XXXX"`} {
		tok := given.Create(t, v.Private, vault.TokenParams{Type: vault.TypeGeneric, Data: vault.JSON(data)})
		given.WantData(t, "mask of "+data, tok.Data, want)
	}
}

func TestTypeRefusesInvalidData(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	for _, tt := range []struct {
		typ, data string
		fields    []string
	}{
		{"token", `null`, []string{"data"}},
		{"card", `"4242424242424242"`, []string{"data"}},
		{"card", `{}`, []string{"data.number"}},
		{"card", `{"number":null}`, []string{"data.number"}},
		{"card", `{"number":4242424242424242}`, []string{"data.number"}},
		{"card", `{"number":"4242424242424241"}`, []string{"data.number"}},
		{"card", `{"number":"4242 4242 4242 4242"}`, []string{"data.number"}},
		{"card", `{"number":"42424242420"}`, []string{"data.number"}},
		{"card", `{"number":"42424242424242424242"}`, []string{"data.number"}},
		{"card", `{"number":"４２４２424242424242"}`, []string{"data.number"}},
		{"card", `{"number":"4242424242424242","expiration_month":0}`, []string{"data.expiration_month"}},
		{"card", `{"number":"4242424242424242","expiration_month":13}`, []string{"data.expiration_month"}},
		{"card", `{"number":"4242424242424242","expiration_month":"07"}`, []string{"data.expiration_month"}},
		{"card", `{"number":"4242424242424242","expiration_month":7.0}`, []string{"data.expiration_month"}},
		{"card", `{"number":"4242424242424242","expiration_year":31}`, []string{"data.expiration_year"}},
		{"card", `{"number":"4242424242424242","expiration_year":20310}`, []string{"data.expiration_year"}},
		{"card", `{"number":"4242424242424242","cvc":123}`, []string{"data.cvc"}},
		{"card", `{"number":"4242424242424242","cvc":"12"}`, []string{"data.cvc"}},
		{"card", `{"number":"4242424242424242","cvc":"12345"}`, []string{"data.cvc"}},
		{"card", `{"number":"4242424242424242","cvc":"12a"}`, []string{"data.cvc"}},
		{"card", `{"number":"4242424242424242","cvc":""}`, []string{"data.cvc"}},
		{"card", `{"number":"4242424242424242","holder":"Jane"}`, []string{"data.holder"}},
		{"card", `{"number":"4242424242424242","holder":null}`, []string{"data.holder"}},
		{"card", `{"number":"1","cvc":"x","expiration_month":99}`, []string{"data.number", "data.cvc", "data.expiration_month"}},
		{"bank", `{}`, []string{"data.routing_number", "data.account_number"}},
		{"bank", `{"routing_number":"110000001","account_number":"1"}`, []string{"data.routing_number"}},
		{"bank", `{"routing_number":"11000000","account_number":"1"}`, []string{"data.routing_number"}},
		{"bank", `{"routing_number":110000000,"account_number":"1"}`, []string{"data.routing_number"}},
		{"bank", `{"routing_number":"110000000","account_number":""}`, []string{"data.account_number"}},
		{"bank", `{"routing_number":"110000000","account_number":"123456789012345678"}`, []string{"data.account_number"}},
		{"bank", `{"routing_number":"110000000","account_number":"1","name":"x"}`, []string{"data.name"}},
		{"bank", `{"routing_number":"110000000","account_number":"1","name":null}`, []string{"data.name"}},
		{"card_number", `"4242424242424241"`, []string{"data"}},
		{"card_number", `{"number":"4242424242424242"}`, []string{"data"}},
		{"us_bank_account_number", `"12"`, []string{"data"}},
		{"us_bank_account_number", `"123456789012345678"`, []string{"data"}},
		{"us_bank_routing_number", `"110000001"`, []string{"data"}},
		{"social_security_number", `"12345678"`, []string{"data"}},
		{"social_security_number", `"1234567890"`, []string{"data"}},
		{"social_security_number", `"123 45 6789"`, []string{"data"}},
		{"social_security_number", `123456789`, []string{"data"}},
		{"employer_id_number", `"1-2-3-4-5-6-7-8-9"`, []string{"data"}},
		{"passport", `"x"`, []string{"type"}},
		{"", `"x"`, []string{"type"}},
	} {
		_, err := given.CreateJSON(t, v.Private, `{"type":"`+tt.typ+`","data":`+tt.data+`}`)
		given.WantFields(t, tt.typ+" "+tt.data, err, tt.fields...)
		for _, value := range []string{"4242", "1100", "12345", "Jane"} {
			if strings.Contains(tt.data, value) {
				given.WantSilent(t, err, value)
			}
		}
	}
	if found, total := given.List(t, v.Private, vault.ListTokensParams{}); total != 0 {
		t.Errorf("refused tokens exist: %v", found)
	}
}

func TestTypeAcceptsValidData(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	for _, tt := range []struct {
		typ  vault.TokenType
		data string
	}{
		{vault.TypeCard, `{"number":"424242424242"}`},        // 12 digits
		{vault.TypeCard, `{"number":"4242424242424242428"}`}, // 19 digits
		{vault.TypeCard, `{"number":"4242424242424242","expiration_month":12,"expiration_year":1999,"cvc":"1234"}`},
		{vault.TypeBank, `{"account_number":"1","routing_number":"110000000"}`},
		{vault.TypeBank, `{"routing_number":"021000021","account_number":"12345678901234567"}`},
		{vault.TypeUSBankAccountNumber, `"123"`},
		{vault.TypeSocialSecurityNumber, `"536228726"`},
		{vault.TypeEmployerIDNumber, `"123456789"`},
		{vault.TypeGeneric, `false`}, {vault.TypeGeneric, `0`}, {vault.TypeGeneric, `[]`}, {vault.TypeGeneric, `{}`}, {vault.TypeGeneric, `""`},
	} {
		tok, err := v.Private.CreateToken(t.Context(), vault.TokenParams{Type: tt.typ, Data: vault.JSON(tt.data)})
		if err != nil {
			t.Errorf("%s %s: %v", tt.typ, tt.data, err)
			continue
		}
		given.WantData(t, "data", given.Get(t, v.Owner.Client, tok.ID).Data, tt.data)
	}
}

// Null in card data is the same as absent.
func TestNullInCardDataIsAbsent(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	tok := given.Create(t, v.Private, vault.TokenParams{Type: vault.TypeCard,
		Data: vault.JSON(`{"cvc":null,"number":"4242424242424242","expiration_month":null}`)})
	given.WantData(t, "data", given.Get(t, v.Owner.Client, tok.ID).Data, `{"number":"4242424242424242"}`)
}

// Stored JSON is returned byte for byte, except for white space.
func TestJSONIsExact(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	for _, data := range []string{
		`1.10`, `12345678901234567890`, `1e400`, `-0`, `1E+2`, `0.000000000000000000000000000000000001`,
		`{"z":1,"a":2,"m":{"y":1.0,"b":[1.10,12345678901234567890,1e400]}}`,
		`"\ud800"`, `"a\udfffb"`, `{"\ud834":"\udd1e"}`,
		`"日本語 🔐 ñ ͏"`, `"\u0000\u001f"`, `"</script>&\u2028"`, `{"":{"":[[],{}]}}`, `{"a":null}`, `"{{ data }}"`,
	} {
		tok := given.Create(t, v.Private, vault.TokenParams{Type: vault.TypeGeneric, Data: vault.JSON(data)})
		want := strings.ReplaceAll(data, `\u2028`, "\u2028")
		given.WantData(t, "data", given.Get(t, v.Owner.Client, tok.ID).Data, want)
		out := must.Get(v.Owner.Detokenize(t.Context(), vault.JSON(`["{{ `+tok.ID+` }}"]`)))(t)
		given.WantData(t, "detokenized data", out, "["+want+"]")
	}
}

// Data given as a Go value is the JSON that the value encodes to.
func TestDataFromGoValues(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	for _, tt := range []struct {
		data any
		want string
	}{
		{"text", `"text"`}, {7, `7`}, {true, `true`}, {[]string{"a"}, `["a"]`}, {map[string]int{"b": 1, "a": 2}, `{"a":2,"b":1}`},
		{json.RawMessage(`{"b": 1.10}`), `{"b":1.10}`}, {json.Number("1e400"), `1e400`},
		{struct {
			A string `json:"a"`
		}{"<&>"}, `{"a":"<&>"}`},
	} {
		tok := given.Create(t, v.Private, vault.TokenParams{Type: vault.TypeGeneric, Data: tt.data})
		given.WantData(t, "data", given.Get(t, v.Owner.Client, tok.ID).Data, tt.want)
	}
	_, err := v.Private.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: make(chan int)})
	given.WantFields(t, "a channel", err, "data")
	given.WantFields(t, "no data", must.Err(v.Private.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric})), "data")
}

// Text that JSON cannot express is refused rather than changed.
func TestTextMustBeUTF8(t *testing.T) {
	t.Parallel()
	_, err := vaulttest.New(t).Owner.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: "a\xff"})
	given.WantFields(t, "invalid UTF-8", err, "data")
}

const withCVC = `{"cvc":"987","number":"4242424242424242"}`

// A cvc is shown in plaintext for exactly an hour, swept or not.
func TestCVCLivesForAnHour(t *testing.T) {
	t.Parallel()
	v, store := given.Spied(t)
	tok := given.Create(t, v.Private, vault.TokenParams{Type: vault.TypeCard, Data: vault.JSON(withCVC)})
	use := func() string {
		out := must.Get(v.Private.Detokenize(t.Context(), vault.JSON(`"{{ `+tok.ID+` }}"`)))(t)
		return string(out)
	}
	v.Clock.Advance(time.Hour - time.Microsecond)
	given.WantData(t, "data before the hour is over", given.Get(t, v.Owner.Client, tok.ID).Data, withCVC)
	given.Same(t, "data in use before the hour is over", use(), withCVC)
	given.Same(t, "a sweep before the hour is over deletes", must.Get(v.Sweep(t.Context()))(t).CVCs, 0)
	v.Clock.Advance(time.Microsecond)
	const without = `{"number":"4242424242424242"}`
	given.WantData(t, "data after an hour", given.Get(t, v.Owner.Client, tok.ID).Data, without)
	given.Same(t, "data in use after an hour", use(), without)
	page := must.Get(v.Owner.ListTokens(t.Context(), vault.ListTokensParams{}))(t)
	given.WantData(t, "data in a list after an hour", page.Data[0].Data, without)
	if row := store.Rows(t, v.Acme.ID, tok.ID)[0]; row.CVC == nil {
		t.Fatal("the cvc was deleted before the sweep, so the test proves nothing")
	}
	swept := must.Get(v.Sweep(t.Context()))(t)
	given.Same(t, "codes that the sweep deletes", swept.CVCs, 1)
	given.Same(t, "tokens that the sweep deletes", swept.Tokens, 0)
	if row := store.Rows(t, v.Acme.ID, tok.ID)[0]; row.CVC != nil || !row.CVCExpiresAt.IsZero() {
		t.Error("the cvc is still stored after the sweep")
	}
	given.WantData(t, "data after the sweep", given.Get(t, v.Owner.Client, tok.ID).Data, without)
}

// A cvc is stored separately from the rest of the data.
func TestCVCIsStoredSeparately(t *testing.T) {
	t.Parallel()
	v, store := given.Spied(t)
	for _, data := range []string{
		withCVC, `{"number":"4242424242424242","cvc":"987"}`,
		`{"number":"4242424242424242","expiration_month":7,"cvc":"987","expiration_year":2030}`,
	} {
		tok := given.Create(t, v.Private, vault.TokenParams{Type: vault.TypeCard, Data: vault.JSON(data)})
		given.WantData(t, "data", given.Get(t, v.Owner.Client, tok.ID).Data, data)
		row := store.Rows(t, v.Acme.ID, tok.ID)[0]
		if row.CVC == nil || strings.Contains(string(row.Body), given.Visa) {
			t.Error("the row is not sealed, or has no cvc")
		}
	}
	bare := given.Create(t, v.Private, vault.TokenParams{Type: vault.TypeCard, Data: vault.CardData{Number: given.Visa}})
	if row := store.Rows(t, v.Acme.ID, bare.ID)[0]; row.CVC != nil || !row.CVCExpiresAt.IsZero() {
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
			tok := given.Create(t, v.Private, vault.TokenParams{Type: vault.TypeCard, Data: vault.JSON(withCVC)})
			v.Clock.Advance(tt.after)
			got := given.Update(t, v.Owner.Client, tok.ID, `{"data":`+tt.patch+`}`)
			must.Lack(t, "the response", string(got.Data), "cvc")
			v.Clock.Advance(tt.at - tt.after)
			var data vault.CardData
			must.Do(t, given.Get(t, v.Owner.Client, tok.ID).Data.Decode(&data))
			given.Same(t, "cvc", data.CVC, tt.want)
		})
	}
}

// Moving a token or extending its expiry leaves its cvc readable.
func TestCVCSurvivesOtherPatches(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	tok := given.Create(t, v.Private, vault.TokenParams{Type: vault.TypeCard, Data: vault.JSON(withCVC)})
	for _, patch := range []string{`{"containers":["/elsewhere/"]}`, `{"expires_at":"1/1/2030"}`, `{"metadata":{"a":"b"}}`, `{"data":{}}`} {
		given.Update(t, v.Private, tok.ID, patch)
		given.WantData(t, "data after "+patch, given.Get(t, v.Owner.Client, tok.ID).Data, withCVC)
	}
}

// No expression sees the cvc, and no log entry or response holds it.
func TestExpressionsDoNotSeeTheCVC(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	for _, p := range []vault.TokenParams{
		{SearchIndexes: []string{"{{ data.cvc }}"}}, {FingerprintExpression: "{{ data.cvc }}"},
		{ID: "{{ data.cvc }}"}, {Mask: "{{ data | json: '$.cvc' }}"},
	} {
		p.Type, p.Data = vault.TypeCard, vault.JSON(withCVC)
		_, err := v.Owner.CreateToken(t.Context(), p)
		must.Match(t, "an expression over the cvc", err, vault.ErrInvalid)
		given.WantSilent(t, err, "987")
	}
	tok := given.Create(t, v.Owner.Client, vault.TokenParams{Type: vault.TypeCard, Data: vault.JSON(withCVC),
		Mask: map[string]string{"all": "{{ data | stringify }}", "cvc": "{{ data.cvc }}"}})
	given.WantData(t, "masked data", tok.Data, `{"all":"{\"number\":\"4242424242424242\"}","cvc":null}`)
	got := given.Update(t, v.Owner.Client, tok.ID, `{"data":{"cvc":"654"}}`)
	given.WantData(t, "masked data after a patch", got.Data, `{"all":"{\"number\":\"4242424242424242\"}","cvc":null}`)
	given.Same(t, "the fingerprint does not depend on the cvc", got.Fingerprint, tok.Fingerprint)
	for _, e := range given.Entries(t, v, vault.ListLogsParams{}) {
		must.Lack(t, "a log entry", e.Message, "987")
		must.Lack(t, "a log entry", e.Message, "654")
	}
}

// A token expires at an ISO 8601 date or date-time, or at one in the US form. A session
// and an application end at an ISO 8601 date-time.
func TestExpiryFormats(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	for text, want := range map[string]struct{ token, end string }{ // "" is refused
		"8/26/2030":                       {"2030-08-26T00:00:00Z", ""},
		"08/06/2030":                      {"2030-08-06T00:00:00Z", ""},
		"8/26/2030 7:23:57 PM -07:00":     {"2030-08-27T02:23:57Z", ""},
		"8/26/2030 7:23:57 AM +05:30":     {"2030-08-26T01:53:57Z", ""},
		"8/26/2030 12:00:00 AM +00:00":    {"2030-08-26T00:00:00Z", ""},
		"8/26/2030 12:00:00 PM":           {"2030-08-26T12:00:00Z", ""},
		"8/26/2030 7:23:57 PM":            {"2030-08-26T19:23:57Z", ""},
		"2030-08-26T19:23:57Z":            {"2030-08-26T19:23:57Z", "2030-08-26T19:23:57Z"},
		"2030-08-26T19:23:57+02:00":       {"2030-08-26T17:23:57Z", "2030-08-26T17:23:57Z"},
		"2030-08-26T19:23:57.1234567Z":    {"2030-08-26T19:23:57.123456Z", "2030-08-26T19:23:57.123456Z"},
		"2030-08-26T19:23:57.1234567":     {"2030-08-26T19:23:57.123456Z", "2030-08-26T19:23:57.123456Z"},
		"2030-08-26T19:23:57":             {"2030-08-26T19:23:57Z", "2030-08-26T19:23:57Z"},
		"2030-08-26":                      {"2030-08-26T00:00:00Z", ""},
		"2030-08-26T19:23:57-07":          {"2030-08-27T02:23:57Z", "2030-08-27T02:23:57Z"},
		"2030-08-26T19:23-07:00":          {"2030-08-27T02:23:00Z", "2030-08-27T02:23:00Z"},
		"2030-08-26T19:23+02":             {"2030-08-26T17:23:00Z", "2030-08-26T17:23:00Z"},
		"2030-08-26T19:23":                {"2030-08-26T19:23:00Z", "2030-08-26T19:23:00Z"},
		"20300826T192357Z":                {"2030-08-26T19:23:57Z", "2030-08-26T19:23:57Z"},
		"20300826T192357+0200":            {"2030-08-26T17:23:57Z", "2030-08-26T17:23:57Z"},
		"20300826T192357.5-0700":          {"2030-08-27T02:23:57.5Z", "2030-08-27T02:23:57.5Z"},
		"20300826T1923":                   {"2030-08-26T19:23:00Z", "2030-08-26T19:23:00Z"},
		"20300826":                        {"2030-08-26T00:00:00Z", ""},
		"":                                {},
		"soon":                            {},
		"2030-08-26T19:23:57+0200":        {},
		"2030-08-26T19:23:57.123456+0200": {},
		"20300826T192357+02:00":           {},
		"20300826192357":                  {},
		"13/1/2030":                       {},
		"2/30/2030":                       {},
		"8/26/30":                         {},
		"8/26/2030 19:23:57 PM":           {},
		"1893456000":                      {},
		"8/26/2030 7:23:57 PM UTC":        {},
	} {
		tok, err := given.CreateJSON(t, v.Private, `{"type":"token","data":"x","expires_at":"`+text+`"}`)
		if err == nil {
			given.Same(t, text+" read", given.Get(t, v.Private, tok.ID).ExpiresAt, tok.ExpiresAt)
		} else {
			tok = &vault.Token{}
		}
		var g vault.SessionGrant
		var a vault.ApplicationParams
		doc := []byte(`{"expires_at":"` + text + `"}`)
		ofGrant, ofApplication := g.UnmarshalJSON(doc), a.UnmarshalJSON(doc)
		for what, got := range map[string]struct {
			err  error
			at   time.Time
			want string
		}{
			"token": {err, tok.ExpiresAt, want.token}, "grant": {ofGrant, g.ExpiresAt, want.end},
			"application": {ofApplication, a.ExpiresAt, want.end},
		} {
			if got.want == "" {
				given.WantFields(t, what+" "+text, got.err, "expires_at")
				continue
			}
			must.Match(t, what+" "+text, got.err, nil)
			given.Same(t, what+" "+text, got.at.Format(time.RFC3339Nano), got.want)
		}
	}
}

func TestPastExpiryIsRefused(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	for _, at := range []time.Time{vaulttest.Start, vaulttest.Start.Add(-time.Second), {}} {
		_, err := v.Private.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: "x", ExpiresAt: at})
		if at.IsZero() {
			must.Match(t, "a zero time means none", err, nil)
			continue
		}
		given.WantFields(t, at.String(), err, "expires_at")
	}
	_, err := given.CreateJSON(t, v.Private, `{"type":"token","data":"x","expires_at":"1/1/2026"}`)
	given.WantFields(t, "midnight of today", err, "expires_at")
}

// From its expiry on a token is invisible to every operation, swept or not.
func TestExpiredTokensAreInvisible(t *testing.T) {
	t.Parallel()
	v, store := given.Spied(t)
	tok := given.Create(t, v.Private, vault.TokenParams{ID: "short", Type: vault.TypeGeneric, Data: "secret", SearchIndexes: []string{"{{ data }}"},
		Metadata: map[string]string{"k": "v"}, ExpiresAt: vaulttest.Start.Add(time.Hour)})
	kept := given.Create(t, v.Private, vault.TokenParams{Type: vault.TypeGeneric, Data: "secret"})
	v.Clock.Advance(time.Hour - time.Microsecond)
	given.Get(t, v.Private, tok.ID)
	v.Clock.Advance(time.Microsecond)
	for name, err := range map[string]error{
		"GetToken":    must.Err(v.Owner.GetToken(t.Context(), tok.ID)),
		"PatchToken":  must.Err(v.Owner.PatchToken(t.Context(), tok.ID, vault.JSON(`{"expires_at":null}`))),
		"DeleteToken": v.Owner.DeleteToken(t.Context(), tok.ID),
	} {
		must.Match(t, name, err, vault.ErrNotFound)
	}
	must.Match(t, "Detokenize", must.Err(v.Owner.Detokenize(t.Context(), vault.JSON(`"{{ short }}"`))), vault.ErrInvalid)
	found, total := given.List(t, v.Owner.Client, vault.ListTokensParams{})
	given.Same(t, "list", found, []string{kept.ID})
	given.Same(t, "total", total, 1)
	for _, q := range []string{"id:short", "data:secret", "metadata.k:v", "type:token AND -id:" + kept.ID} {
		page := must.Get(v.Owner.SearchTokens(t.Context(), vault.SearchTokensParams{Query: q}))(t)
		given.Same(t, q+" finds", []any{page.Pagination.TotalItems, len(page.Data)}, []any{0, 0})
	}
	for tok, err := range v.Owner.AllTokens(t.Context(), vault.ListTokensParams{}) {
		if err != nil || tok.ID != kept.ID {
			t.Errorf("AllTokens: %v %v", tok, err)
		}
	}
	if len(store.Rows(t, v.Acme.ID, "short")) != 1 {
		t.Fatal("the row was deleted before the sweep, so the test proves nothing")
	}
	given.Same(t, "the sweep deletes", must.Get(v.Sweep(t.Context()))(t).Tokens, 1)
	given.Same(t, "rows after the sweep", len(store.Rows(t, v.Acme.ID, "short")), 0)
	given.Same(t, "log", given.Operations(t, v, "short"), []string{"create", "read", "expire"})
}

// The id of an expired token is free, even before the sweep.
func TestIDOfAnExpiredTokenIsFree(t *testing.T) {
	t.Parallel()
	short := vault.TokenParams{ID: "same", Type: vault.TypeGeneric, Data: "old", ExpiresAt: vaulttest.Start.Add(time.Hour)}
	for name, again := range map[string]func(t *testing.T, c *vault.Client) error{
		"CreateToken": func(t *testing.T, c *vault.Client) error {
			return must.Err(c.CreateToken(t.Context(), vault.TokenParams{ID: "same", Type: vault.TypeGeneric, Data: "new"}))
		},
		"Tokenize": func(t *testing.T, c *vault.Client) error {
			return must.Err(c.Tokenize(t.Context(), vault.JSON(`["x",{"id":"same","type":"token","data":"new"}]`)))
		},
		"Once": func(t *testing.T, c *vault.Client) error {
			_, _, err := c.Once(t.Context(), vault.IdempotencyKey{Key: "k"}, func(ctx context.Context, c *vault.Client) (vault.StoredResponse, error) {
				return vault.StoredResponse{}, must.Err(c.CreateToken(ctx, vault.TokenParams{ID: "same", Type: vault.TypeGeneric, Data: "new"}))
			})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := vaulttest.New(t)
			given.Create(t, v.Private, short)
			must.Match(t, "while it lives", again(t, v.Private), vault.ErrConflict)
			v.Clock.Advance(time.Hour)
			must.Do(t, again(t, v.Private))
			given.WantData(t, "data", given.Get(t, v.Owner.Client, "same").Data, `"new"`)
			given.Same(t, "log", given.Operations(t, v, "same"), []string{"create", "expire", "create", "read"})
		})
	}
}
