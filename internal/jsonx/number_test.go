package jsonx_test

import (
	"math/big"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

func TestCompareNumbers(t *testing.T) {
	t.Parallel()
	ordered := [][]string{ // each row is less than the next, and its numbers are equal
		{"-1e400"}, {"-12345678901234567891"}, {"-12345678901234567890"}, {"-10", "-1e1"}, {"-0.5", "-5e-1"},
		{"0", "-0", "0.000", "0e999999999999999999999"}, {"1e-400"}, {"0.001", "1e-3", "0.1E-2"}, {"0.01"},
		{"1", "1.0", "10e-1", "0.1e1", "1.000e+0"}, {"1.1"}, {"2"}, {"10"}, {"99"}, {"100", "1e2"},
		{"12345678901234567890"}, {"12345678901234567891"}, {"1e400"}, {"1e99999999999"},
	}
	for i, row := range ordered {
		for j, other := range ordered {
			for _, a := range row {
				for _, b := range other {
					got := jsonx.CompareNumbers(a, b)
					if (i < j) != (got < 0) || (i > j) != (got > 0) {
						t.Errorf("CompareNumbers(%s, %s) = %d", a, b, got)
					}
				}
			}
		}
	}
}

func FuzzCompareNumbers(f *testing.F) {
	f.Add("1.10", "11e-1")
	f.Add("-0", "0.0")
	f.Add("100", "1e3")
	f.Fuzz(func(t *testing.T, a, b string) {
		if len(a) > 8 || len(b) > 8 { // big.Rat is slow on large exponents
			t.Skip("too long for the model")
		}
		if _, err := jsonx.NumberValue(a); err != nil {
			t.Skip("not a number")
		}
		if _, err := jsonx.NumberValue(b); err != nil {
			t.Skip("not a number")
		}
		x, okX := new(big.Rat).SetString(a)
		y, okY := new(big.Rat).SetString(b)
		if !okX || !okY {
			t.Skip("beyond the model")
		}
		if got, want := jsonx.CompareNumbers(a, b), x.Cmp(y); (got < 0) != (want < 0) || (got > 0) != (want > 0) {
			t.Errorf("CompareNumbers(%s, %s) = %d, want %d", a, b, got, want)
		}
	})
}
