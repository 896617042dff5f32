package expr

import (
	"math/big"
	"strconv"
	"strings"

	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

func numberFilters() []*filter {
	return []*filter{
		binary("plus", func(a, b decimal) decimal { return sum(a, b, (*big.Int).Add) }),
		binary("minus", func(a, b decimal) decimal { return sum(a, b, (*big.Int).Sub) }),
		binary("times", times),
		binary("divided_by", dividedBy),
		binary("modulo", modulo),
		unary("floor", func(a decimal) decimal { return decimal{coef: floorQuotient(a.coef, powerOfTen(a.scale))} }),
		unary("ceil", func(a decimal) decimal {
			below := floorQuotient(new(big.Int).Neg(a.coef), powerOfTen(a.scale))
			return decimal{coef: below.Neg(below)}
		}),
		unary("abs", func(a decimal) decimal { a.coef = new(big.Int).Abs(a.coef); return a }),
		{name: "round", params: []param{or("places", countParam, 0)}, apply: round},
	}
}

// numberCost is the cost of arithmetic, in addition to one step for each digit
// of both numbers. Digits that an exponent stands for count too.
const numberCost = 12

// spendDigits pays for arithmetic with a number.
func (ev *evaluator) spendDigits(v jsonx.Value) {
	digits := len(v.Text())
	if strings.ContainsAny(v.Text(), "eE") {
		digits = maxNumberDigits
	}
	ev.spend(numberCost + min(digits, maxNumberDigits))
}

func readInput(ev *evaluator, in jsonx.Value) decimal {
	ev.spendDigits(in)
	if k := in.Kind(); k != jsonx.Number && k != jsonx.String {
		panic(needs("a number", in))
	}
	d, ok := readDecimal(in)
	if !ok {
		panic(faultf("needs a number of at most %d digits", maxNumberDigits))
	}
	return d
}

func unary(name string, compute func(a decimal) decimal) *filter {
	return &filter{name: name, apply: func(ev *evaluator, in jsonx.Value, _ []arg) jsonx.Value {
		return compute(readInput(ev, in)).value()
	}}
}

func binary(name string, compute func(a, b decimal) decimal) *filter {
	params := []param{required("operand", numberParam)}
	return &filter{name: name, params: params, apply: func(ev *evaluator, in jsonx.Value, args []arg) jsonx.Value {
		a := readInput(ev, in)
		ev.spendDigits(args[0].value)
		return compute(a, args[0].decimal).value()
	}}
}

func sum(a, b decimal, op func(z, x, y *big.Int) *big.Int) decimal {
	scale := max(a.scale, b.scale)
	return decimal{coef: op(new(big.Int), a.at(scale), b.at(scale)), scale: scale, isPoint: a.isPoint || b.isPoint}
}

func times(a, b decimal) decimal {
	return decimal{
		coef:    new(big.Int).Mul(a.coef, b.coef),
		scale:   a.scale + b.scale,
		isPoint: a.isPoint || b.isPoint,
	}
}

const quotientDigits = 20

// dividedBy rounds down for integers, and to 20 digits after the point otherwise.
func dividedBy(a, b decimal) decimal {
	if b.coef.Sign() == 0 {
		panic(faultf("division by zero"))
	}
	isPoint := a.isPoint || b.isPoint
	scale := max(a.scale, b.scale)
	if !isPoint {
		return decimal{coef: floorQuotient(a.coef, b.coef)}
	}
	dividend := new(big.Int).Mul(a.at(scale), powerOfTen(quotientDigits))
	return decimal{coef: nearestQuotient(dividend, b.at(scale)), scale: quotientDigits, isPoint: true}
}

// nearestQuotient returns x / y rounded to the nearest integer, and halves away
// from zero.
func nearestQuotient(x, y *big.Int) *big.Int {
	quotient, remainder := new(big.Int).QuoRem(x, y, new(big.Int))
	if remainder.Lsh(remainder, 1).CmpAbs(y) >= 0 {
		quotient.Add(quotient, big.NewInt(int64(x.Sign()*y.Sign())))
	}
	return quotient
}

// floorQuotient returns x / y rounded towards negative infinity.
func floorQuotient(x, y *big.Int) *big.Int {
	quotient, remainder := new(big.Int).QuoRem(x, y, new(big.Int))
	if remainder.Sign()*y.Sign() < 0 {
		quotient.Sub(quotient, big.NewInt(1))
	}
	return quotient
}

// modulo returns a remainder with the sign of the divisor, as in Liquid.
func modulo(a, b decimal) decimal {
	if b.coef.Sign() == 0 {
		panic(faultf("division by zero"))
	}
	scale := max(a.scale, b.scale)
	x, y := a.at(scale), b.at(scale)
	remainder := x.Sub(x, new(big.Int).Mul(floorQuotient(x, y), y))
	return decimal{coef: remainder, scale: scale, isPoint: a.isPoint || b.isPoint}
}

// round returns an integer, or a number with at most that many digits after the
// point. It rounds halves away from zero.
func round(ev *evaluator, in jsonx.Value, args []arg) jsonx.Value {
	digits, a := args[0].n, readInput(ev, in)
	if a.scale > digits {
		a.coef, a.scale = nearestQuotient(a.coef, powerOfTen(a.scale-digits)), digits
	}
	a.isPoint = a.isPoint && digits > 0
	return a.value()
}

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
