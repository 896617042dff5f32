package vault

import (
	"slices"
	"strings"

	"github.com/seed-72ea4aab/vault/internal/expr"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

// TokenType says what a token holds, and with it how data is validated, masked
// and fingerprinted by default.
type TokenType string

// The types of tokens.
const (
	Generic              TokenType = "token"                  // any JSON but null
	Card                 TokenType = "card"                   // see CardData
	Bank                 TokenType = "bank"                   // see BankData
	CardNumber           TokenType = "card_number"            // a string of 12 to 19 digits
	USBankAccountNumber  TokenType = "us_bank_account_number" // a string of 3 to 17 digits
	USBankRoutingNumber  TokenType = "us_bank_routing_number" // a string of 9 digits
	SocialSecurityNumber TokenType = "social_security_number" // a string of 9 digits, with dashes or without
	EmployerIDNumber     TokenType = "employer_id_number"     // likewise
)

// CardData is the data of a Card token.
type CardData struct {
	Number          string `json:"number"` // without separators
	ExpirationMonth int    `json:"expiration_month,omitempty"`
	ExpirationYear  int    `json:"expiration_year,omitempty"`
	CVC             string `json:"cvc,omitempty"` // deleted an hour after it was given
}

// value is what encoding/json makes of the card, without its reflection.
func (d CardData) value() jsonx.Value {
	members := append(make([]jsonx.Member, 0, 4), jsonx.Member{Name: "number", Value: jsonx.StringValue(d.Number)})
	if d.ExpirationMonth != 0 {
		members = append(members, jsonx.Member{Name: "expiration_month", Value: jsonx.IntValue(int64(d.ExpirationMonth))})
	}
	if d.ExpirationYear != 0 {
		members = append(members, jsonx.Member{Name: "expiration_year", Value: jsonx.IntValue(int64(d.ExpirationYear))})
	}
	if d.CVC != "" {
		members = append(members, jsonx.Member{Name: "cvc", Value: jsonx.StringValue(d.CVC)})
	}
	return jsonx.ObjectValue(members...)
}

// BankData is the data of a Bank token.
type BankData struct {
	RoutingNumber string `json:"routing_number"`
	AccountNumber string `json:"account_number"`
}

// tokenSpec is what a type brings with it.
type tokenSpec struct {
	container   string
	fingerprint typeExpression
	indexes     []string
	check       func(bad *form.Problems, path string, data jsonx.Value)
	// mask returns nil where there is none, and the data is redacted.
	mask func(data jsonx.Value) *typeMask
	// secret returns the number that must not stand in the token's id.
	secret func(data jsonx.Value) string
}

const (
	revealLast4 = "{{ data | reveal_last: 4 }}"
	stringified = "{{ data | stringify }}"
	plainData   = "{{ data }}"
	noDashes    = "{{ data | remove: '-' }}"
	numberLast4 = "{{ data.number | reveal_last: 4 }}"
	plainMonth  = "{{ data.expiration_month }}"
	plainYear   = "{{ data.expiration_year }}"
)

var tokenSpecs = map[TokenType]*tokenSpec{
	Generic: {container: "/general/high/", fingerprint: newTypeExpression(stringified), check: checkGeneric, mask: maskGeneric},
	Card: {container: "/pci/high/", fingerprint: newTypeExpression("{{ data.number }}"), check: checkCard, mask: maskCard,
		secret: func(d jsonx.Value) string { return d.Get("number").Text() }},
	Bank: {container: "/bank/high/", fingerprint: newTypeExpression("{{ data.account_number }}|{{ data.routing_number }}"), check: checkBank, mask: maskBank,
		secret: func(d jsonx.Value) string { return d.Get("account_number").Text() }},
	CardNumber:           numberSpec("/pci/high/", checkCardNumber),
	USBankAccountNumber:  numberSpec("/bank/high/", digitsCheck(3, 17)),
	USBankRoutingNumber:  {container: "/bank/low/", fingerprint: newTypeExpression(plainData), check: checkRoutingNumber, mask: maskLast4},
	SocialSecurityNumber: nineDigitSpec(),
	EmployerIDNumber:     nineDigitSpec(),
}

func numberSpec(container string, check func(*form.Problems, string, jsonx.Value)) *tokenSpec {
	return &tokenSpec{container: container, fingerprint: newTypeExpression(plainData), check: check, mask: maskLast4,
		secret: func(d jsonx.Value) string { return d.Text() }}
}

func nineDigitSpec() *tokenSpec {
	return &tokenSpec{
		container: "/pii/high/", fingerprint: newTypeExpression(noDashes), check: checkNineDigits,
		indexes: []string{plainData, noDashes, "{{ data | last4 }}"},
		mask:    func(jsonx.Value) *typeMask { return nineDigitMask },
		secret:  func(d jsonx.Value) string { return strings.ReplaceAll(d.Text(), "-", "") },
	}
}

// typeExpression is an expression that a type brings with it, ready to be
// evaluated.
type typeExpression struct {
	source   string
	template *expr.Template
}

func newTypeExpression(source string) typeExpression {
	template, err := expr.Compile(source)
	if err != nil {
		panic("vault: a type's own expression: " + err.Error()) // unreachable: the expressions are above
	}
	return typeExpression{source, template}
}

// typeMask is the mask that a type brings with it, ready to be evaluated and to
// be shown.
type typeMask struct {
	value jsonx.Value
	tree  *expr.Tree
	text  []byte
}

func newTypeMask(v jsonx.Value) *typeMask {
	tree, err := expr.CompileTree(v)
	if err != nil {
		panic("vault: a type's own mask: " + err.Error()) // unreachable: the masks are below
	}
	return &typeMask{v, tree, v.JSON()}
}

var (
	last4Mask     = newTypeMask(jsonx.StringValue(revealLast4))
	nineDigitMask = newTypeMask(jsonx.StringValue("{{ data | reveal: 0, 4, 'X', '-' }}"))
	bankMask      = newTypeMask(maskObject("{{ data.routing_number }}", "routing_number",
		"{{ data.account_number | reveal_last: 4 }}", "account_number"))
	// cardMasks are by whether the card has a month and a year.
	cardMasks = map[[2]bool]*typeMask{
		{false, false}: newTypeMask(maskObject(numberLast4, "number")),
		{true, false}:  newTypeMask(maskObject(numberLast4, "number", plainMonth, "expiration_month")),
		{false, true}:  newTypeMask(maskObject(numberLast4, "number", plainYear, "expiration_year")),
		{true, true}: newTypeMask(maskObject(numberLast4, "number", plainMonth, "expiration_month",
			plainYear, "expiration_year")),
	}
)

// maskObject returns an object of expressions, each before the name of its
// member.
func maskObject(pairs ...string) jsonx.Value {
	var members []jsonx.Member
	for i := 0; i < len(pairs); i += 2 {
		members = append(members, jsonx.Member{Name: pairs[i+1], Value: jsonx.StringValue(pairs[i])})
	}
	return jsonx.ObjectValue(members...)
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

func maskLast4(jsonx.Value) *typeMask { return last4Mask }

// maskGeneric masks text; anything else has no mask and is redacted.
func maskGeneric(data jsonx.Value) *typeMask {
	if data.Kind() == jsonx.String {
		return last4Mask
	}
	return nil
}

// maskCard shows the last digits and when the card ends, never the cvc.
func maskCard(data jsonx.Value) *typeMask {
	month, year := data.Get("expiration_month"), data.Get("expiration_year")
	return cardMasks[[2]bool{!month.IsZero(), !year.IsZero()}]
}

func maskBank(jsonx.Value) *typeMask { return bankMask }

func checkGeneric(*form.Problems, string, jsonx.Value) {}

func checkCard(bad *form.Problems, path string, data jsonx.Value) {
	var names [4]string
	r := form.NewReader(data, path, bad, names[:0]) // form.Read would put it on the heap
	if !r.IsObject() {
		return
	}
	if number := r.Value("number"); number.IsZero() {
		bad.Add(r.At("number"), "is required")
	} else {
		checkCardNumber(bad, jsonx.JoinPath(path, "number"), number)
	}
	if month, ok := r.Int("expiration_month"); ok && (month < 1 || month > 12) {
		bad.Add(r.At("expiration_month"), "must be a month from 1 to 12")
	}
	if year, ok := r.Int("expiration_year"); ok && (year < 1000 || year > 9999) {
		bad.Add(r.At("expiration_year"), "must be a year of four digits")
	}
	if cvc := r.Value("cvc"); !cvc.IsZero() {
		digitsCheck(3, 4)(bad, r.At("cvc"), cvc)
	}
	r.RefuseOthers()
}

func checkBank(bad *form.Problems, path string, data jsonx.Value) {
	form.Read(data, path, bad, func(r *form.Reader) {
		for name, check := range map[string]func(*form.Problems, string, jsonx.Value){
			"routing_number": checkRoutingNumber, "account_number": digitsCheck(1, 17),
		} {
			if v := r.Value(name); v.IsZero() {
				bad.Add(r.At(name), "is required")
			} else {
				check(bad, r.At(name), v)
			}
		}
	})
}

func checkCardNumber(bad *form.Problems, path string, data jsonx.Value) {
	digitsCheck(12, 19)(bad, path, data)
	if isDigits(data.Text()) && !luhn(data.Text()) {
		bad.Add(path, "must have a valid check digit (Luhn)")
	}
}

func checkRoutingNumber(bad *form.Problems, path string, data jsonx.Value) {
	digits := data.Text()
	if data.Kind() != jsonx.String || len(digits) != 9 || !isDigits(digits) {
		bad.Add(path, "must be a string of 9 digits")
		return
	}
	sum := 0
	for i, weight := range [9]int{3, 7, 1, 3, 7, 1, 3, 7, 1} {
		sum += weight * int(digits[i]-'0')
	}
	if sum%10 != 0 {
		bad.Add(path, "must have a valid checksum (ABA)")
	}
}

func checkNineDigits(bad *form.Problems, path string, data jsonx.Value) {
	digits := strings.ReplaceAll(data.Text(), "-", "")
	if data.Kind() != jsonx.String || len(digits) != 9 || !isDigits(digits) || len(data.Text()) > 11 {
		bad.Add(path, "must be a string of 9 digits, in which '-' is allowed")
	}
}

// digitsCheck asks for a string of digits of a length.
func digitsCheck(least, most int) func(*form.Problems, string, jsonx.Value) {
	return func(bad *form.Problems, path string, data jsonx.Value) {
		s := data.Text()
		if data.Kind() != jsonx.String || len(s) < least || len(s) > most || !isDigits(s) {
			bad.Add(path, "must be a string of %d to %d digits", least, most)
		}
	}
}

func isDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
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
