package token

import "strconv"

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
