package jsonx

import (
	"cmp"
	"math"
	"strings"
)

// CompareNumbers compares two JSON numbers, given as text, by their exact
// values: 1, 1.0 and 10e-1 are equal, and no size or precision is too large. It
// returns a negative number if a is less, 0 if they are equal, and a positive
// number if a is greater.
func CompareNumbers(a, b string) int {
	if a == b {
		return 0
	}
	x, y := readDecimal(a), readDecimal(b)
	if x.sign != y.sign || x.sign == 0 {
		return cmp.Compare(x.sign, y.sign)
	}
	if c := cmp.Compare(x.magnitude, y.magnitude); c != 0 {
		return c * x.sign
	}
	return strings.Compare(x.digits, y.digits) * x.sign
}

// decimal is a number as sign * 0.digits * 10^magnitude. digits neither starts
// nor ends with a zero, so that equal numbers are equal decimals.
type decimal struct {
	sign      int
	magnitude int64
	digits    string
}

func readDecimal(text string) decimal {
	d := decimal{sign: 1}
	if strings.HasPrefix(text, "-") {
		d.sign, text = -1, text[1:]
	}
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		d.magnitude = readExponent(text[i+1:])
		text = text[:i]
	}
	whole, fraction, _ := strings.Cut(text, ".")
	all := whole
	if fraction != "" {
		all += fraction
	}
	digits := strings.TrimLeft(all, "0")
	d.magnitude += int64(len(whole) - (len(all) - len(digits)))
	d.digits = strings.TrimRight(digits, "0")
	if d.digits == "" {
		return decimal{}
	}
	return d
}

// readExponent reads a signed run of digits. Beyond any text that fits in
// memory, it stays at a limit where the order no longer depends on it.
func readExponent(text string) int64 {
	const bound = math.MaxInt64 / 100
	sign, n := int64(1), int64(0)
	for _, c := range []byte(text) {
		switch {
		case c == '-':
			sign = -1
		case c >= '0' && n < bound:
			n = n*10 + int64(c-'0')
		}
	}
	return sign * n
}
