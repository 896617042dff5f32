package vault_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// Every type brings its container, its fingerprint expression, its mask and
// its indexes.
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
		{typ: vault.Generic, data: `"secret"`, container: "/general/high/", fingerprint: "{{ data | stringify }}",
			mask: `"{{ data | reveal_last: 4 }}"`, masked: `"XXcret"`},
		{typ: vault.Generic, data: `{"a":"secret"}`, container: "/general/high/", fingerprint: "{{ data | stringify }}"},
		{typ: vault.Generic, data: `12345678`, container: "/general/high/", fingerprint: "{{ data | stringify }}"},
		{typ: vault.Generic, data: `true`, container: "/general/high/", fingerprint: "{{ data | stringify }}"},
		{typ: vault.Generic, data: `["secret"]`, container: "/general/high/", fingerprint: "{{ data | stringify }}"},
		{typ: vault.Card, data: `{"number":"4242424242424242","expiration_month":7,"expiration_year":2031,"cvc":"123"}`,
			container: "/pci/high/", fingerprint: "{{ data.number }}",
			mask:   `{"number":"{{ data.number | reveal_last: 4 }}","expiration_month":"{{ data.expiration_month }}","expiration_year":"{{ data.expiration_year }}"}`,
			masked: `{"number":"XXXXXXXXXXXX4242","expiration_month":7,"expiration_year":2031}`},
		{typ: vault.Card, data: `{"cvc":"1234","number":"4242424242424242"}`, container: "/pci/high/", fingerprint: "{{ data.number }}",
			mask: `{"number":"{{ data.number | reveal_last: 4 }}"}`, masked: `{"number":"XXXXXXXXXXXX4242"}`},
		{typ: vault.Bank, data: `{"routing_number":"110000000","account_number":"000123456789"}`,
			container: "/bank/high/", fingerprint: "{{ data.account_number }}|{{ data.routing_number }}",
			mask:   `{"routing_number":"{{ data.routing_number }}","account_number":"{{ data.account_number | reveal_last: 4 }}"}`,
			masked: `{"routing_number":"110000000","account_number":"XXXXXXXX6789"}`},
		{typ: vault.CardNumber, data: `"4242424242424242"`, container: "/pci/high/", fingerprint: "{{ data }}",
			mask: `"{{ data | reveal_last: 4 }}"`, masked: `"XXXXXXXXXXXX4242"`},
		{typ: vault.USBankAccountNumber, data: `"12345678"`, container: "/bank/high/", fingerprint: "{{ data }}",
			mask: `"{{ data | reveal_last: 4 }}"`, masked: `"XXXX5678"`},
		{typ: vault.USBankRoutingNumber, data: `"110000000"`, container: "/bank/low/", fingerprint: "{{ data }}",
			mask: `"{{ data | reveal_last: 4 }}"`, masked: `"XXXXX0000"`},
		{typ: vault.SocialSecurityNumber, data: `"536-22-8726"`, container: "/pii/high/", fingerprint: "{{ data | remove: '-' }}",
			mask: `"{{ data | reveal: 0, 4, 'X', '-' }}"`, masked: `"XXX-XX-8726"`, indexes: nine},
		{typ: vault.EmployerIDNumber, data: `"12-3456789"`, container: "/pii/high/", fingerprint: "{{ data | remove: '-' }}",
			mask: `"{{ data | reveal: 0, 4, 'X', '-' }}"`, masked: `"XX-XXX6789"`, indexes: nine},
	} {
		tok := create(t, v.Private, vault.TokenParams{Type: tt.typ, Data: vault.JSON(tt.data)})
		name := string(tt.typ)
		same(t, name+": containers", tok.Containers, []string{tt.container})
		same(t, name+": fingerprint expression", tok.FingerprintExpression, tt.fingerprint)
		same(t, name+": indexes", tok.SearchIndexes, tt.indexes)
		wantData(t, name+": mask", tok.Mask, tt.mask)
		wantData(t, name+": masked data", tok.Data, tt.masked)
		wantData(t, name+": masked data read", get(t, v.Private, tok.ID).Data, tt.masked)
		wantData(t, name+": data", get(t, v.Tenant, tok.ID).Data, tt.data)
	}
}

// What a token shows of its type's defaults is the caller's to change.
func TestTypeDefaultsAreNotTheCallers(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	params := vault.TokenParams{Type: vault.SocialSecurityNumber, Data: "536-22-8726", Metadata: map[string]string{"a": "b"}}
	tok := create(t, v.Private, params)
	mask, indexes := tok.Mask.String(), slices.Clone(tok.SearchIndexes)
	clear(tok.Mask)
	clear(tok.SearchIndexes)
	clear(tok.Containers)
	clear(tok.Metadata)
	for what, again := range map[string]*vault.Token{"the same token": get(t, v.Private, tok.ID), "another": create(t, v.Private, params)} {
		wantData(t, what+": mask", again.Mask, mask)
		same(t, what+": indexes", again.SearchIndexes, indexes)
		same(t, what+": containers", again.Containers, []string{"/pii/high/"})
		same(t, what+": metadata", again.Metadata, map[string]string{"a": "b"})
	}
}

// A value no longer than what a mask reveals is masked wholly.
func TestShortValueIsMaskedWholly(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	for data, want := range map[string]string{`"abcd"`: `"XXXX"`, `"abc"`: `"XXX"`, `"abcde"`: `"Xbcde"`, `""`: `""`, `"äöüß"`: `"XXXX"`} {
		tok := create(t, v.Private, vault.TokenParams{Type: vault.Generic, Data: vault.JSON(data)})
		wantData(t, "mask of "+data, tok.Data, want)
	}
}

func TestTypeRefusesBadData(t *testing.T) {
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
		_, err := createJSON(t, v.Private, `{"type":"`+tt.typ+`","data":`+tt.data+`}`)
		wantFields(t, tt.typ+" "+tt.data, err, tt.fields...)
		for _, value := range []string{"4242", "1100", "12345", "Jane"} {
			if strings.Contains(tt.data, value) {
				wantSilent(t, err, value)
			}
		}
	}
	if found, total := list(t, v.Private, vault.ListTokensParams{}); total != 0 {
		t.Errorf("refused tokens are there: %v", found)
	}
}

func TestTypeTakesGoodData(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	for _, tt := range []struct {
		typ  vault.TokenType
		data string
	}{
		{vault.Card, `{"number":"424242424242"}`},        // 12 digits
		{vault.Card, `{"number":"4242424242424242428"}`}, // 19 digits
		{vault.Card, `{"number":"4242424242424242","expiration_month":12,"expiration_year":1999,"cvc":"1234"}`},
		{vault.Bank, `{"account_number":"1","routing_number":"110000000"}`},
		{vault.Bank, `{"routing_number":"021000021","account_number":"12345678901234567"}`},
		{vault.USBankAccountNumber, `"123"`},
		{vault.SocialSecurityNumber, `"536228726"`},
		{vault.EmployerIDNumber, `"123456789"`},
		{vault.Generic, `false`}, {vault.Generic, `0`}, {vault.Generic, `[]`}, {vault.Generic, `{}`}, {vault.Generic, `""`},
	} {
		tok, err := v.Private.CreateToken(t.Context(), vault.TokenParams{Type: tt.typ, Data: vault.JSON(tt.data)})
		if err != nil {
			t.Errorf("%s %s: %v", tt.typ, tt.data, err)
			continue
		}
		wantData(t, "data", get(t, v.Tenant, tok.ID).Data, tt.data)
	}
}

// Null in card data is the same as absent.
func TestNullInCardDataIsAbsent(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	tok := create(t, v.Private, vault.TokenParams{Type: vault.Card,
		Data: vault.JSON(`{"cvc":null,"number":"4242424242424242","expiration_month":null}`)})
	wantData(t, "data", get(t, v.Tenant, tok.ID).Data, `{"number":"4242424242424242"}`)
}

// What was stored comes back byte for byte, but for white space.
func TestJSONIsExact(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	for _, data := range []string{
		`1.10`, `12345678901234567890`, `1e400`, `-0`, `1E+2`, `0.000000000000000000000000000000000001`,
		`{"z":1,"a":2,"m":{"y":1.0,"b":[1.10,12345678901234567890,1e400]}}`,
		`"\ud800"`, `"a\udfffb"`, `{"\ud834":"\udd1e"}`,
		`"日本語 🔐 ñ ͏"`, `"\u0000\u001f"`, `"</script>&\u2028"`, `{"":{"":[[],{}]}}`, `{"a":null}`, `"{{ data }}"`,
	} {
		tok := create(t, v.Private, vault.TokenParams{Type: vault.Generic, Data: vault.JSON(data)})
		want := strings.ReplaceAll(data, `\u2028`, "\u2028")
		wantData(t, "data", get(t, v.Tenant, tok.ID).Data, want)
		out, err := v.Tenant.Detokenize(t.Context(), vault.JSON(`["{{ `+tok.ID+` }}"]`))
		if err != nil {
			t.Fatal(err)
		}
		wantData(t, "detokenized data", out, "["+want+"]")
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
		tok := create(t, v.Private, vault.TokenParams{Type: vault.Generic, Data: tt.data})
		wantData(t, "data", get(t, v.Tenant, tok.ID).Data, tt.want)
	}
	_, err := v.Private.CreateToken(t.Context(), vault.TokenParams{Type: vault.Generic, Data: make(chan int)})
	wantFields(t, "a channel", err, "data")
	_, err = v.Private.CreateToken(t.Context(), vault.TokenParams{Type: vault.Generic})
	wantFields(t, "no data", err, "data")
}

// Text that JSON cannot carry is refused rather than changed.
func TestTextMustBeUTF8(t *testing.T) {
	t.Parallel()
	_, err := vaulttest.New(t).Tenant.CreateToken(t.Context(), vault.TokenParams{Type: vault.Generic, Data: "a\xff"})
	wantFields(t, "invalid UTF-8", err, "data")
}
