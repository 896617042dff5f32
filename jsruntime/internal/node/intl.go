package node

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // a worker cannot open files

	"github.com/dop251/goja"

	"github.com/seed-72ea4aab/vault/jsruntime/internal/native"
)

// intlNatives serve the prelude's Intl: exact decimal rounding and time zones.
var intlNatives = map[string]nativeFunc{
	"intl.round": (*Execution).intlRound,
	// intl.time takes milliseconds and a time zone. It returns year, month, day,
	// weekday, hour, minute, second, millisecond, the zone's abbreviation and its
	// offset in minutes.
	"intl.time": func(c *Execution, args []goja.Value) goja.Value {
		t := time.UnixMilli(native.Arg(args, 0).ToInteger()).In(c.location(native.Arg(args, 1).String()))
		zone, offset := t.Zone()
		return c.VM.NewArray(t.Year(), int(t.Month()), t.Day(), int(t.Weekday()), t.Hour(), t.Minute(), t.Second(),
			t.Nanosecond()/1e6, zone, offset/60)
	},
	// intl.zone checks the name of a time zone and returns its canonical form.
	"intl.zone": func(c *Execution, args []goja.Value) goja.Value {
		return c.VM.ToValue(c.location(native.Arg(args, 0).String()).String())
	},
}

// intlRound takes a number and the minimum and maximum of fraction
// digits or, if the last argument is true, of significant digits. It returns
// the digits of the absolute value, rounded half away from zero in decimal.
func (c *Execution) intlRound(args []goja.Value) goja.Value {
	digits := strings.TrimPrefix(native.Arg(args, 0).String(), "-")
	if f, ok := native.Arg(args, 0).Export().(float64); ok {
		if math.IsInf(f, 0) { // the prelude has multiplied it by 100
			return c.VM.ToValue("∞")
		}
		digits = strconv.FormatFloat(math.Abs(f), 'f', -1, 64)
	}
	least, most := int(native.Arg(args, 1).ToInteger()), int(native.Arg(args, 2).ToInteger())
	if native.Arg(args, 3).ToBoolean() {
		return c.VM.ToValue(roundSignificant(digits, least, most))
	}
	return c.VM.ToValue(roundFraction(digits, least, most))
}

// roundFraction rounds a decimal to a number of fraction digits.
func roundFraction(digits string, least, most int) string {
	number, _ := new(big.Rat).SetString(digits)
	whole, fraction, _ := strings.Cut(number.FloatString(most), ".") // rounds halves away from zero
	for len(fraction) > least && strings.HasSuffix(fraction, "0") {
		fraction = fraction[:len(fraction)-1]
	}
	fraction += strings.Repeat("0", max(0, least-len(fraction)))
	if fraction == "" {
		return whole
	}
	return whole + "." + fraction
}

// roundSignificant rounds a decimal to a number of significant digits.
func roundSignificant(digits string, least, most int) string {
	whole, fraction, _ := strings.Cut(digits, ".")
	if whole != "0" && len(whole) >= most {
		shifted := whole[:most] + "." + whole[most:] + fraction + "0"
		return roundFraction(shifted, 0, 0) + strings.Repeat("0", len(whole)-most)
	}
	lead, shown := 0, len(whole)
	if whole == "0" {
		shown = 0
		lead = len(fraction) - len(strings.TrimLeft(fraction, "0"))
	}
	return roundFraction(digits, max(0, lead+least-shown), lead+most-shown)
}

// location returns a time zone by name, or throws.
func (c *Execution) location(name string) *time.Location {
	if name == "" || strings.EqualFold(name, "utc") {
		return time.UTC
	}
	loc, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		panic(c.NewError("RangeError", "", "Invalid time zone specified: "+native.Clip(name)))
	}
	return loc
}
