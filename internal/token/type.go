package token

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-72ea4aab/vault/internal/expr"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

// The token types, as named in the API.
const (
	Generic              = "token"
	Card                 = "card"
	Bank                 = "bank"
	CardNumber           = "card_number"
	USBankAccountNumber  = "us_bank_account_number"
	USBankRoutingNumber  = "us_bank_routing_number"
	SocialSecurityNumber = "social_security_number"
	EmployerIDNumber     = "employer_id_number"
)

// Type holds the rules and defaults of a token type.
type Type struct {
	// Name is one of the constants above.
	Name string
	// Container is the default container of tokens.
	Container string

	fingerprint typeExpression
	indexes     []string
	check       func(bad *form.Problems, path string, data jsonx.Value)
	// mask returns nil if there is no mask. The data is then redacted.
	mask func(data jsonx.Value) *typeMask
	// secret returns the number that must not be in the token's id.
	secret func(data jsonx.Value) string
}

// TypeOf returns the type with a name, or nil.
func TypeOf(name string) *Type { return types[name] }

// TypeNames lists the types for messages.
func TypeNames() string {
	return strings.Join(slices.Sorted(maps.Keys(types)), ", ")
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

var types = named(map[string]*Type{
	Generic: {Container: "/general/high/", fingerprint: newTypeExpression(stringified), check: checkGeneric, mask: maskGeneric},
	Card: {Container: "/pci/high/", fingerprint: newTypeExpression("{{ data.number }}"), check: checkCard, mask: maskCard,
		secret: func(d jsonx.Value) string { return d.Get("number").Text() }},
	Bank: {Container: "/bank/high/", fingerprint: newTypeExpression("{{ data.account_number }}|{{ data.routing_number }}"), check: checkBank,
		mask:   func(jsonx.Value) *typeMask { return bankMask },
		secret: func(d jsonx.Value) string { return d.Get("account_number").Text() }},
	CardNumber:           number("/pci/high/", checkCardNumber),
	USBankAccountNumber:  number("/bank/high/", checkAccountNumber),
	USBankRoutingNumber:  {Container: "/bank/low/", fingerprint: newTypeExpression(plainData), check: checkRoutingNumber, mask: maskLast4},
	SocialSecurityNumber: nineDigits(),
	EmployerIDNumber:     nineDigits(),
})

// named sets the names of types.
func named(types map[string]*Type) map[string]*Type {
	for name, t := range types {
		t.Name = name
	}
	return types
}

func number(container string, check func(*form.Problems, string, jsonx.Value)) *Type {
	return &Type{Container: container, fingerprint: newTypeExpression(plainData), check: check, mask: maskLast4,
		secret: func(d jsonx.Value) string { return d.Text() }}
}

func nineDigits() *Type {
	return &Type{
		Container: "/pii/high/", fingerprint: newTypeExpression(noDashes), check: checkNineDigits,
		indexes: []string{plainData, noDashes, "{{ data | last4 }}"},
		mask:    func(jsonx.Value) *typeMask { return nineDigitMask },
		secret:  func(d jsonx.Value) string { return strings.ReplaceAll(d.Text(), "-", "") },
	}
}

// typeExpression is a compiled default expression of a type.
type typeExpression struct {
	source   string
	template *expr.Template
}

func newTypeExpression(source string) typeExpression {
	template, err := expr.Compile(source)
	if err != nil {
		panic("token: a type's own expression: " + err.Error()) // unreachable, because the expressions are above
	}
	return typeExpression{source, template}
}

// typeMask is a default mask of a type, compiled and as text.
type typeMask struct {
	value jsonx.Value
	tree  *expr.Tree
	text  []byte
}

func newTypeMask(v jsonx.Value) *typeMask {
	tree, err := expr.CompileTree(v)
	if err != nil {
		panic("token: a type's own mask: " + err.Error()) // unreachable, because the masks are below
	}
	return &typeMask{v, tree, v.JSON()}
}

var (
	last4Mask     = newTypeMask(jsonx.StringValue(revealLast4))
	nineDigitMask = newTypeMask(jsonx.StringValue("{{ data | reveal: 0, 4, 'X', '-' }}"))
	bankMask      = newTypeMask(maskObject("{{ data.routing_number }}", "routing_number",
		"{{ data.account_number | reveal_last: 4 }}", "account_number"))
	// cardMasks has the masks by whether the card has a month and a year.
	cardMasks = map[[2]bool]*typeMask{
		{false, false}: newTypeMask(maskObject(numberLast4, "number")),
		{true, false}:  newTypeMask(maskObject(numberLast4, "number", plainMonth, "expiration_month")),
		{false, true}:  newTypeMask(maskObject(numberLast4, "number", plainYear, "expiration_year")),
		{true, true}: newTypeMask(maskObject(numberLast4, "number", plainMonth, "expiration_month",
			plainYear, "expiration_year")),
	}
)

// maskObject returns an object of expressions. The arguments are pairs of an
// expression and a member name.
func maskObject(pairs ...string) jsonx.Value {
	var members []jsonx.Member
	for i := 0; i < len(pairs); i += 2 {
		members = append(members, jsonx.Member{Name: pairs[i+1], Value: jsonx.StringValue(pairs[i])})
	}
	return jsonx.ObjectValue(members...)
}

// IsDefaultMask reports whether a mask is the default of a type with fixed masks, which
// is every type but the generic one.
func IsDefaultMask(typ string, mask []byte) bool {
	if typ != Card {
		return bytes.Equal(mask, TypeOf(typ).mask(jsonx.Value{}).text)
	}
	for _, m := range cardMasks {
		if bytes.Equal(mask, m.text) {
			return true
		}
	}
	return false
}

func maskLast4(jsonx.Value) *typeMask { return last4Mask }

// maskGeneric masks text. Other data has no mask and is redacted.
func maskGeneric(data jsonx.Value) *typeMask {
	if data.Kind() == jsonx.String {
		return last4Mask
	}
	return nil
}

// maskCard shows the last digits and the expiry, never the cvc.
func maskCard(data jsonx.Value) *typeMask {
	month, year := data.Get("expiration_month"), data.Get("expiration_year")
	return cardMasks[[2]bool{!month.IsZero(), !year.IsZero()}]
}

func checkGeneric(*form.Problems, string, jsonx.Value) {}

func checkCard(bad *form.Problems, path string, data jsonx.Value) {
	var names [4]string
	r := form.NewReader(data, path, bad, names[:0]) // form.Read would allocate it on the heap
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
		checkDigits(bad, r.At("cvc"), cvc, 3, 4)
	}
	r.RefuseOthers()
}

func checkBank(bad *form.Problems, path string, data jsonx.Value) {
	form.Read(data, path, bad, func(r *form.Reader) {
		for _, name := range []string{"routing_number", "account_number"} {
			switch v := r.Value(name); {
			case v.IsZero():
				bad.Add(r.At(name), "is required")
			case name == "routing_number":
				checkRoutingNumber(bad, r.At(name), v)
			default:
				checkDigits(bad, r.At(name), v, 1, 17)
			}
		}
	})
}

func checkCardNumber(bad *form.Problems, path string, data jsonx.Value) {
	checkDigits(bad, path, data, 12, 19)
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
		bad.Add(path, "must be a string of 9 digits, with or without '-'")
	}
}

func checkAccountNumber(bad *form.Problems, path string, data jsonx.Value) {
	checkDigits(bad, path, data, 3, 17)
}

// checkDigits requires a string of digits with a length in the given range.
func checkDigits(bad *form.Problems, path string, data jsonx.Value, least, most int) {
	s := data.Text()
	if data.Kind() != jsonx.String || len(s) < least || len(s) > most || !isDigits(s) {
		bad.Add(path, "must be a string of %d to %d digits", least, most)
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

// Limits on the fields of a token.
const (
	MaxMetadata      = 50
	maxMetadataKey   = 100
	maxMetadataValue = 1000
	maxIndexes       = 10
)

// Check checks all fields of a body except the data, which SetData checks.
// Index checks what only an evaluation can show.
func (b *Body) Check(bad *form.Problems) {
	checkMetadata(b.Metadata, bad)
	if len(b.Indexes) > maxIndexes {
		bad.Add("search_indexes", "must have at most %d expressions", maxIndexes)
	}
	b.checkMask(bad)
	if _, err := b.fingerprintTemplate(); err != nil {
		bad.AddErr("fingerprint_expression", err)
	}
}

// CheckIndexes checks that the index expressions compile. It does not
// evaluate them.
func CheckIndexes(indexes []string, bad *form.Problems) {
	for i, e := range indexes {
		if _, err := expr.Compile(e); err != nil {
			bad.AddErr(jsonx.JoinIndex("search_indexes", i), err)
		}
	}
}

// checkMask rejects a mask that does not compile, or refers to more than
// data.
func (b *Body) checkMask(bad *form.Problems) {
	tree, err := b.maskTree()
	switch {
	case err != nil:
		bad.AddErr("mask", err)
	case b.Mask.IsZero(): // the type's default
	case slices.ContainsFunc(tree.Refs(), func(r expr.Ref) bool { return r.ID != "data" }):
		bad.Add("mask", "must refer only to data")
	}
}

func checkMetadata(metadata map[string]string, bad *form.Problems) {
	if len(metadata) > MaxMetadata {
		bad.Add("metadata", "must have at most %d pairs", MaxMetadata)
		return
	}
	for key, value := range metadata {
		if key == "" || form.Longer(key, maxMetadataKey) {
			bad.Add("metadata", "must have keys of 1 to %d characters", maxMetadataKey)
			continue
		}
		if form.Longer(value, maxMetadataValue) {
			bad.Add(jsonx.JoinName("metadata", key), "must have at most %d characters", maxMetadataValue)
		}
		if msg := form.TextProblem(key); msg != "" {
			bad.Add("metadata", "%s", msg)
		} else if msg := form.TextProblem(value); msg != "" {
			bad.Add(jsonx.JoinName("metadata", key), "%s", msg)
		}
	}
}

// CardNumber returns the card number, and whether the token is a card.
func (b *Body) CardNumber() (string, bool) {
	if b.Type.Name != Card && b.Type.Name != CardNumber {
		return "", false
	}
	return b.Type.secret(b.Data), true
}

// BIN returns the digits that identify the issuer of a card: 8 digits if the
// number has at least 16, and 6 otherwise.
func BIN(number string) string {
	if len(number) >= 16 {
		return number[:8]
	}
	return number[:6]
}

// iinRange is a range of the first six digits that belongs to a brand.
type iinRange struct {
	from, to int
	brand    string
}

// iinRanges lists the ranges. Narrow ranges come before the wider ranges that
// contain them.
var iinRanges = []iinRange{
	{340000, 349999, "american-express"},
	{370000, 379999, "american-express"},
	{300000, 305999, "diners-club"},
	{309500, 309599, "diners-club"},
	{360000, 369999, "diners-club"},
	{380000, 399999, "diners-club"},
	{352800, 358999, "jcb"},
	{220000, 220499, "mir"},
	{222100, 272099, "mastercard"},
	{510000, 559999, "mastercard"},
	{606282, 606282, "hipercard"},
	{401178, 401179, "elo"},
	{431274, 431274, "elo"},
	{438935, 438935, "elo"},
	{451416, 451416, "elo"},
	{457393, 457393, "elo"},
	{504175, 504175, "elo"},
	{506699, 506778, "elo"},
	{509000, 509999, "elo"},
	{627780, 627780, "elo"},
	{636297, 636297, "elo"},
	{636368, 636368, "elo"},
	{650031, 650033, "elo"},
	{650035, 650051, "elo"},
	{400000, 499999, "visa"},
	{601100, 601199, "discover"},
	{622126, 622925, "discover"},
	{644000, 649999, "discover"},
	{650000, 659999, "discover"},
	{620000, 629999, "unionpay"},
	{810000, 817199, "unionpay"},
	{500000, 509999, "maestro"},
	{560000, 589999, "maestro"},
	{600000, 699999, "maestro"},
}

// Brand returns the brand of a card from its first digits, such as visa or
// mastercard, or unknown.
func Brand(number string) string {
	iin, err := strconv.Atoi(number[:6])
	if err != nil {
		return "unknown"
	}
	for _, r := range iinRanges {
		if r.from <= iin && iin <= r.to {
			return r.brand
		}
	}
	return "unknown"
}
