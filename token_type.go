package vault

import (
	"slices"
	"strings"

	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

// TokenType says what a token holds, and with it how data is validated, masked
// and fingerprinted by default.
type TokenType string

// The types of tokens.
const (
	Generic              TokenType = "token" // any JSON but null
	Card                 TokenType = "card"  // see CardData
	Bank                 TokenType = "bank"  // see BankData
	CardNumber           TokenType = "card_number"
	USBankAccountNumber  TokenType = "us_bank_account_number"
	USBankRoutingNumber  TokenType = "us_bank_routing_number"
	SocialSecurityNumber TokenType = "social_security_number"
	EmployerIDNumber     TokenType = "employer_id_number"
)

// CardData is the data of a Card token.
type CardData struct {
	Number          string `json:"number"` // without separators
	ExpirationMonth int    `json:"expiration_month,omitempty"`
	ExpirationYear  int    `json:"expiration_year,omitempty"`
	CVC             string `json:"cvc,omitempty"` // deleted an hour after it was given
}

// BankData is the data of a Bank token.
type BankData struct {
	RoutingNumber string `json:"routing_number"`
	AccountNumber string `json:"account_number"`
}

// tokenSpec is what a type brings with it.
type tokenSpec struct {
	container   string
	fingerprint string
	indexes     []string
	// check validates data; a nil-kinded mask means that the data is redacted.
	check func(bad *InvalidError, path string, data jsonx.Value)
	mask  func(data jsonx.Value) jsonx.Value
	// secret returns the number that must not stand in the token's id.
	secret func(data jsonx.Value) string
}

const (
	revealLast4 = "{{ data | reveal_last: 4 }}"
	stringified = "{{ data | stringify }}"
	plainData   = "{{ data }}"
	noDashes    = "{{ data | remove: '-' }}"
)

var tokenSpecs = map[TokenType]*tokenSpec{
	Generic: {container: "/general/high/", fingerprint: stringified, check: checkGeneric, mask: maskGeneric},
	Card: {container: "/pci/high/", fingerprint: "{{ data.number }}", check: checkCard, mask: maskCard,
		secret: func(d jsonx.Value) string { return d.Get("number").Text() }},
	Bank: {container: "/bank/high/", fingerprint: "{{ data.account_number }}|{{ data.routing_number }}", check: checkBank, mask: maskBank,
		secret: func(d jsonx.Value) string { return d.Get("account_number").Text() }},
	CardNumber:           numberSpec("/pci/high/", checkCardNumber),
	USBankAccountNumber:  numberSpec("/bank/high/", digitsCheck(3, 17)),
	USBankRoutingNumber:  {container: "/bank/low/", fingerprint: plainData, check: checkRoutingNumber, mask: maskLast4},
	SocialSecurityNumber: nineDigitSpec(),
	EmployerIDNumber:     nineDigitSpec(),
}

func numberSpec(container string, check func(*InvalidError, string, jsonx.Value)) *tokenSpec {
	return &tokenSpec{container: container, fingerprint: plainData, check: check, mask: maskLast4,
		secret: func(d jsonx.Value) string { return d.Text() }}
}

func nineDigitSpec() *tokenSpec {
	return &tokenSpec{
		container: "/pii/high/", fingerprint: noDashes, check: checkNineDigits,
		indexes: []string{plainData, noDashes, "{{ data | last4 }}"},
		mask:    func(jsonx.Value) jsonx.Value { return jsonx.StringValue("{{ data | reveal: 0, 4, 'X', '-' }}") },
	}
}

// isTokenType reports whether a name is that of a token type.
func isTokenType(name string) bool { return tokenSpecs[TokenType(name)] != nil }

// typeNames lists the types for messages.
func typeNames() string {
	var names []string
	for t := range tokenSpecs {
		names = append(names, string(t))
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func maskLast4(jsonx.Value) jsonx.Value { return jsonx.StringValue(revealLast4) }

// maskGeneric masks text; anything else has no mask and is redacted.
func maskGeneric(data jsonx.Value) jsonx.Value {
	if data.Kind() == jsonx.String {
		return jsonx.StringValue(revealLast4)
	}
	return jsonx.Value{}
}

// maskCard shows the last digits and when the card ends, never the cvc.
func maskCard(data jsonx.Value) jsonx.Value {
	members := []jsonx.Member{{Name: "number", Value: jsonx.StringValue("{{ data.number | reveal_last: 4 }}")}}
	for _, name := range []string{"expiration_month", "expiration_year"} {
		if !data.Get(name).IsZero() {
			members = append(members, jsonx.Member{Name: name, Value: jsonx.StringValue("{{ data." + name + " }}")})
		}
	}
	return jsonx.ObjectValue(members...)
}

func maskBank(jsonx.Value) jsonx.Value {
	return jsonx.ObjectValue(
		jsonx.Member{Name: "routing_number", Value: jsonx.StringValue("{{ data.routing_number }}")},
		jsonx.Member{Name: "account_number", Value: jsonx.StringValue("{{ data.account_number | reveal_last: 4 }}")},
	)
}

func checkGeneric(*InvalidError, string, jsonx.Value) {}

func checkCard(bad *InvalidError, path string, data jsonx.Value) {
	readFields(data, path, bad, func(r *fieldReader) {
		if number := r.value("number"); number.IsZero() {
			bad.add(r.at("number"), "is required")
		} else {
			checkCardNumber(bad, r.at("number"), number)
		}
		if month, ok := r.integer("expiration_month"); ok && (month < 1 || month > 12) {
			bad.add(r.at("expiration_month"), "must be a month from 1 to 12")
		}
		if year, ok := r.integer("expiration_year"); ok && (year < 1000 || year > 9999) {
			bad.add(r.at("expiration_year"), "must be a year of four digits")
		}
		if cvc := r.value("cvc"); !cvc.IsZero() {
			digitsCheck(3, 4)(bad, r.at("cvc"), cvc)
		}
	})
}

func checkBank(bad *InvalidError, path string, data jsonx.Value) {
	readFields(data, path, bad, func(r *fieldReader) {
		for name, check := range map[string]func(*InvalidError, string, jsonx.Value){
			"routing_number": checkRoutingNumber, "account_number": digitsCheck(1, 17),
		} {
			if v := r.value(name); v.IsZero() {
				bad.add(r.at(name), "is required")
			} else {
				check(bad, r.at(name), v)
			}
		}
	})
}

func checkCardNumber(bad *InvalidError, path string, data jsonx.Value) {
	digitsCheck(12, 19)(bad, path, data)
	if isDigits(data.Text()) && !luhn(data.Text()) {
		bad.add(path, "must have a valid check digit (Luhn)")
	}
}

func checkRoutingNumber(bad *InvalidError, path string, data jsonx.Value) {
	digits := data.Text()
	if data.Kind() != jsonx.String || len(digits) != 9 || !isDigits(digits) {
		bad.add(path, "must be a string of 9 digits")
		return
	}
	sum := 0
	for i, weight := range [9]int{3, 7, 1, 3, 7, 1, 3, 7, 1} {
		sum += weight * int(digits[i]-'0')
	}
	if sum%10 != 0 {
		bad.add(path, "must have a valid checksum (ABA)")
	}
}

func checkNineDigits(bad *InvalidError, path string, data jsonx.Value) {
	digits := strings.ReplaceAll(data.Text(), "-", "")
	if data.Kind() != jsonx.String || len(digits) != 9 || !isDigits(digits) || len(data.Text()) > 11 {
		bad.add(path, "must be a string of 9 digits, in which '-' is allowed")
	}
}

// digitsCheck asks for a string of digits of a length.
func digitsCheck(least, most int) func(*InvalidError, string, jsonx.Value) {
	return func(bad *InvalidError, path string, data jsonx.Value) {
		s := data.Text()
		if data.Kind() != jsonx.String || len(s) < least || len(s) > most || !isDigits(s) {
			bad.add(path, "must be a string of %d to %d digits", least, most)
		}
	}
}

func isDigits(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r < '0' || r > '9' })
}

// luhn reports whether the last digit is the check digit of the others.
func luhn(digits string) bool {
	sum := 0
	for i := range len(digits) {
		d := int(digits[len(digits)-1-i] - '0')
		if i%2 == 1 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return sum%10 == 0
}
