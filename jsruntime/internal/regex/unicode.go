package regex

import (
	_ "embed" // for unicodeTable
	"slices"
	"strconv"
	"strings"
	"sync"
)

// unicodeTable has the characters of each property. Go's own tables are of an
// older Unicode version and lack some properties.
//
//go:embed unicode.txt
var unicodeTable string

// propertyKinds are the names before the equals sign.
var propertyKinds = map[string]string{
	"gc": "gc", "General_Category": "gc", "sc": "sc", "Script": "sc", "scx": "scx", "Script_Extensions": "scx",
}

// properties caches the ranges of each property, as written.
var properties sync.Map

// propertyRanges returns the characters with a property, written as in
// ECMAScript: Name, Name=Value. ok is false if there is no such property.
func propertyRanges(property string) (ranges []runeRange, ok bool) {
	if known, ok := properties.Load(property); ok {
		return known.([]runeRange), true
	}
	text, ok := findProperty(property)
	if !ok {
		return nil, false
	}
	ranges = parseRanges(text)
	properties.Store(property, ranges)
	return ranges, true
}

// findProperty returns the ranges of a property in the format of the table.
func findProperty(property string) (string, bool) {
	kind, name, pair := strings.Cut(property, "=")
	if !pair {
		if text, ok := tableLine("-", property); ok {
			return text, true
		}
		return tableLine("gc", property)
	}
	kind = propertyKinds[kind]
	text, ok := tableLine(kind, name)
	if !ok && kind == "scx" { // only scripts whose extensions differ have a separate line
		return tableLine("sc", name)
	}
	return text, ok
}

func tableLine(kind, name string) (string, bool) {
	for line := range strings.Lines(unicodeTable) {
		rest, ok := strings.CutPrefix(line, kind+" ")
		if !ok {
			continue
		}
		names, text, _ := strings.Cut(strings.TrimSuffix(rest, "\n"), " ")
		if slices.Contains(strings.Split(names, ","), name) {
			return text, true
		}
	}
	return "", false
}

// parseRanges reads ranges in the format of the table.
func parseRanges(text string) []runeRange {
	var out []runeRange
	last := rune(0)
	for field := range strings.FieldsSeq(text) {
		gap, more, _ := strings.Cut(field, "+")
		lo, _ := strconv.ParseInt(gap, 36, 32)
		length, _ := strconv.ParseInt("0"+more, 36, 32)
		r := runeRange{last + rune(lo), last + rune(lo+length)}
		out = append(out, r)
		last = r.hi
	}
	return out
}
