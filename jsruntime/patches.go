package jsruntime

import (
	"slices"
	"strings"
)

// patches repair intrinsics of goja. Each is a file of the prelude, run before
// code that mentions one of the words. In longer code they are often there in
// vain, which costs a run little; what matters is that none is missed.
var patches = map[string]string{
	"asyncIterator":     "patch_symbol",
	"captureStackTrace": "patch_error",
	"stackTraceLimit":   "patch_error",
	"prepareStackTrace": "patch_prepare",
	"JSON":              "patch_json",
	"Proxy":             "patch_proxy",
	"RegExp":            "patch_regexp",
	"__defineGetter__":  "patch_annexb",
	"__defineSetter__":  "patch_annexb",
	"__lookupGetter__":  "patch_annexb",
	"__lookupSetter__":  "patch_annexb",
	"getYear":           "patch_annexb",
	"setYear":           "patch_annexb",
	"toGMTString":       "patch_annexb",
	"trimLeft":          "patch_annexb",
	"trimRight":         "patch_annexb",
	"unscopables":       "patch_array",
	"isWellFormed":      "patch_wellformed",
	"toWellFormed":      "patch_wellformed",
}

// htmlMethods are methods of strings that only old code uses, and whose names
// are too common to look for them without the dot in front.
var htmlMethods = wordSet("anchor big blink bold fixed fontcolor fontsize italics link small strike sub sup")

var typedArrays = wordSet("Uint8Array Int8Array Uint8ClampedArray Uint16Array Int16Array Uint32Array Int32Array " +
	"Float32Array Float64Array BigInt64Array BigUint64Array")

func wordSet(words string) map[string]bool {
	out := map[string]bool{}
	for _, word := range strings.Fields(words) {
		out[word] = true
	}
	return out
}

// codePatches returns the patches for the tenant's own code. Symbols are keys of weak
// collections only in code that is new; packages would pay for it in vain.
func codePatches(source string) []string {
	out := neededPatches(source)
	if strings.Contains(source, "Symbol") && (strings.Contains(source, "WeakMap") || strings.Contains(source, "WeakSet")) {
		out = append(out, "patch_weak")
	}
	return out
}

// neededPatches returns the patches that a source might need. It reads the
// source once, word by word: code may have a million characters.
func neededPatches(source string) []string {
	needed := map[string]bool{}
	previous := ""
	for pos := 0; pos < len(source); {
		if !isWordByte(source[pos]) {
			pos++
			continue
		}
		start := pos
		for pos < len(source) && isWordByte(source[pos]) {
			pos++
		}
		word := source[start:pos]
		if file := patchFor(source, start, previous, word); file != "" {
			needed[file] = true
		}
		previous = word
	}
	out := []string{}
	for file := range needed {
		out = append(out, file)
	}
	slices.Sort(out)
	return out
}

// patchFor returns the patch that a word calls for where it stands, or nothing.
func patchFor(source string, start int, previous, word string) string {
	switch {
	case patches[word] != "":
		return patches[word]
	case word == "await" && previous == "for", word == "async" && isGenerator(source[start+len(word):]):
		return "patch_symbol"
	case word == "from" && typedArrays[previous]:
		return "patch_typed"
	case previous == "RegExp" && (word[0] == '$' || strings.HasPrefix(word, "last") || word == "input"):
		return "patch_regexp_last"
	case strings.HasPrefix(word, "toLocale"):
		return "patch_locale"
	case htmlMethods[word] && strings.HasSuffix(strings.TrimRight(source[max(0, start-8):start], " \t\r\n"), "."):
		return "patch_annexb"
	}
	return ""
}

// isGenerator tells whether what follows the word async makes it an asynchronous
// generator.
func isGenerator(rest string) bool {
	rest = rest[:min(len(rest), 64)]
	rest = strings.TrimLeft(rest, " \t\r\n")
	rest = strings.TrimLeft(strings.TrimPrefix(rest, "function"), " \t\r\n")
	return strings.HasPrefix(rest, "*")
}
