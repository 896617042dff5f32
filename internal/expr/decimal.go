package expr

import (
	"math/big"
	"strconv"
	"strings"

	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

// decimal is the exact number coef / 10^scale. A number written without a point
// or exponent is an integer (scale 0), and stays one in arithmetic with
// integers.
type decimal struct {
	coef    *big.Int
	scale   int
	isPoint bool // written with a point or exponent
}

const maxNumberDigits = 1000

// readDecimal reads a JSON number, or text that is one.
func readDecimal(v jsonx.Value) (decimal, bool) {
	s := v.Text()
	if v.Kind() == jsonx.String {
		s = plainNumber(s)
		if _, err := jsonx.NumberValue(s); err != nil {
			return decimal{}, false
		}
	} else if v.Kind() != jsonx.Number {
		return decimal{}, false
	}
	mantissa, exponent, hasExponent := strings.Cut(strings.ToLower(s), "e")
	whole, fraction, hasPoint := strings.Cut(mantissa, ".")
	d := decimal{scale: len(fraction), isPoint: hasPoint || hasExponent}
	if hasExponent {
		e, err := strconv.Atoi(exponent)
		if err != nil || e < -maxNumberDigits || e > maxNumberDigits {
			return decimal{}, false
		}
		d.scale -= e
	}
	if len(whole)+len(fraction) > maxNumberDigits {
		return decimal{}, false
	}
	d.coef, _ = new(big.Int).SetString(whole+fraction, 10)
	if d.scale < 0 {
		d.coef.Mul(d.coef, powerOfTen(-d.scale))
		d.scale = 0
	}
	return d, true
}

func powerOfTen(n int) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }

// at returns the coefficient of d at a scale that is not less than its own.
func (d decimal) at(scale int) *big.Int {
	return new(big.Int).Mul(d.coef, powerOfTen(scale-d.scale))
}

// value returns d as JSON: an integer as such, otherwise with a point and at
// least one digit after it, without further trailing zeros.
func (d decimal) value() jsonx.Value {
	s := d.coef.String()
	if d.isPoint {
		sign := ""
		if d.coef.Sign() < 0 {
			sign, s = "-", s[1:]
		}
		if missing := d.scale + 1 - len(s); missing > 0 {
			s = strings.Repeat("0", missing) + s
		}
		whole, fraction := s[:len(s)-d.scale], strings.TrimRight(s[len(s)-d.scale:], "0")
		if fraction == "" {
			fraction = "0"
		}
		s = sign + whole + "." + fraction
	}
	v, err := jsonx.NumberValue(s)
	if err != nil {
		panic(faultf("%v", err))
	}
	return v
}

// rescale returns d with at most places digits after the point. adjust rounds,
// given the quotient and remainder of the coefficient.
func (d decimal) rescale(places int, adjust func(quotient, remainder, divisor *big.Int)) decimal {
	if d.scale <= places {
		return d
	}
	divisor := powerOfTen(d.scale - places)
	quotient, remainder := new(big.Int).QuoRem(d.coef, divisor, new(big.Int))
	adjust(quotient, remainder, divisor)
	return decimal{coef: quotient, scale: places, isPoint: d.isPoint}
}

// halfAway rounds to the nearest number, and halves away from zero.
func halfAway(quotient, remainder, divisor *big.Int) {
	twice := new(big.Int).Lsh(remainder, 1)
	if twice.CmpAbs(divisor) >= 0 {
		quotient.Add(quotient, big.NewInt(int64(remainder.Sign())))
	}
}

// down rounds towards negative infinity.
func down(quotient, remainder, _ *big.Int) {
	if remainder.Sign() < 0 {
		quotient.Sub(quotient, big.NewInt(1))
	}
}

// up rounds towards positive infinity.
func up(quotient, remainder, _ *big.Int) {
	if remainder.Sign() > 0 {
		quotient.Add(quotient, big.NewInt(1))
	}
}

// integer returns d without the point. d must have no digits after it.
func (d decimal) integer() decimal { return decimal{coef: d.coef, scale: d.scale} }
