package expr

import (
	"strings"
	"unicode"

	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

func textFilters() []*filter {
	return append(trimmingFilters(), []*filter{
		textFilter("append", func(ev *evaluator, in string, args []arg) string {
			return concat(ev, in, args[0].text)
		}, required("text", textParam)),
		textFilter("prepend", func(ev *evaluator, in string, args []arg) string {
			return concat(ev, args[0].text, in)
		}, required("text", textParam)),
		textFilter("remove", replace(-1), required("search", textParam)),
		textFilter("remove_first", replace(1), required("search", textParam)),
		textFilter("replace", replace(-1), required("search", textParam), or("replacement", textParam, "")),
		textFilter("replace_first", replace(1), required("search", textParam), or("replacement", textParam, "")),
		textFilter("truncate", truncate, or("length", countParam, 50), or("ellipsis", textParam, "...")),
		textFilter("pad_left", func(ev *evaluator, in string, args []arg) string {
			return padding(ev, in, args) + in
		}, required("length", countParam), or("char", charParam, " ")),
		textFilter("pad_right", func(ev *evaluator, in string, args []arg) string {
			return in + padding(ev, in, args)
		}, required("length", countParam), or("char", charParam, " ")),
		{name: "slice", params: []param{required("offset", offsetParam), or("length", countParam, 1)}, apply: slice},
		{name: "split", params: []param{required("separator", textParam)}, apply: split},
	}...)
}

const changedPerStep = 4 // bytes that are read one by one

// trimmingFilters are filters without arguments that change letters and space.
func trimmingFilters() []*filter {
	simple := func(name string, change func(string) string) *filter {
		return textFilter(name, func(ev *evaluator, in string, _ []arg) string {
			ev.spend(len(in) / changedPerStep)
			out := change(in)
			ev.fits(len(out), len(in))
			return out
		})
	}
	return []*filter{
		textFilter("upcase", func(ev *evaluator, in string, _ []arg) string { return changeCase(ev, in, strings.ToUpper) }),
		textFilter("downcase", func(ev *evaluator, in string, _ []arg) string { return changeCase(ev, in, strings.ToLower) }),
		textFilter("capitalize", capitalize),
		simple("strip", strings.TrimSpace),
		simple("lstrip", func(s string) string { return strings.TrimLeftFunc(s, unicode.IsSpace) }),
		simple("rstrip", func(s string) string { return strings.TrimRightFunc(s, unicode.IsSpace) }),
		simple("strip_newlines", func(s string) string {
			return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", ""), "\n", "")
		}),
	}
}

// changeCase changes all letters of a text in pieces, because that takes long
// for a large text that is not ASCII.
func changeCase(ev *evaluator, in string, change func(string) string) string {
	const piece = 64 << 10
	var b strings.Builder
	for rest := in; len(rest) > 0; {
		cut := min(piece, len(rest))
		for cut < len(rest) && !startsChar(rest[cut]) {
			cut++
		}
		ev.spend(cut / changedPerStep)
		b.WriteString(change(rest[:cut]))
		rest = rest[cut:]
	}
	ev.fits(b.Len(), len(in))
	return b.String()
}

func capitalize(ev *evaluator, in string, _ []arg) string {
	first := prefix(in, 1)
	return strings.ToUpper(first) + changeCase(ev, in[len(first):], strings.ToLower)
}

func concat(ev *evaluator, a, b string) string {
	ev.fits(len(a)+len(b), 0)
	return a + b
}

// replace returns a filter that replaces the first n occurrences, or all if n is
// negative. As in Liquid, empty text occurs before every character and at the end.
func replace(n int) func(ev *evaluator, in string, args []arg) string {
	return func(ev *evaluator, in string, args []arg) string {
		search, replacement := args[0].text, ""
		if len(args) > 1 {
			replacement = args[1].text
		}
		ev.spendText(len(in) + len(search))
		found := strings.Count(in, search)
		if n >= 0 {
			found = min(found, n)
		}
		ev.spend(found)
		ev.fits(len(in)+found*(len(replacement)-len(search)), len(in))
		return strings.Replace(in, search, replacement, n)
	}
}

// truncate shortens text to a length that includes the ellipsis.
func truncate(ev *evaluator, in string, args []arg) string {
	length, ellipsis := args[0].n, args[1].text
	if charCount(in) <= length {
		return in
	}
	return concat(ev, prefix(in, max(length-charCount(ellipsis), 0)), ellipsis)
}

func padding(ev *evaluator, in string, args []arg) string {
	missing, char := args[0].n-charCount(in), args[1].text
	if missing <= 0 {
		return ""
	}
	ev.fits(len(in)+missing*len(char), 0)
	return strings.Repeat(char, missing)
}

// slice takes characters of text or elements of an array. A negative offset
// counts from the end.
func slice(ev *evaluator, in jsonx.Value, args []arg) jsonx.Value {
	s, isText := scalarText(in)
	if !isText && in.Kind() != jsonx.Array {
		panic(needs("text or an array", in))
	}
	size := in.Len()
	if isText {
		ev.spendText(2 * len(s))
		size = charCount(s)
	}
	from := args[0].n
	if from < 0 {
		from += size
	}
	if from < 0 || from > size {
		from, size = 0, 0
	}
	to := min(from+args[1].n, size)
	if !isText {
		ev.spend(to - from)
		return jsonx.ArrayValue(in.Elems()[from:to]...)
	}
	tail := s[len(prefix(s, from)):]
	return jsonx.StringValue(prefix(tail, to-from))
}

const (
	splitCost  = 3 // per part, paid before it is cut off
	wordLength = 8 // average length of parts between white space
)

// split splits text into an array. As in Liquid, empty parts at the end are
// dropped, a single space splits at every run of white space, and empty text
// splits between all characters.
func split(ev *evaluator, in jsonx.Value, args []arg) jsonx.Value {
	s, ok := scalarText(in)
	if !ok && !in.IsNull() {
		panic(needs("text", in))
	}
	separator := args[0].text
	ev.spendText(len(s))
	count := 1 + strings.Count(s, separator)
	if separator == " " {
		count = 1 + len(s)/wordLength
	}
	ev.spend(splitCost * count)
	var parts []string
	switch separator {
	case "":
		for ; len(s) > 0; s = s[charWidth(s):] {
			parts = append(parts, prefix(s, 1))
		}
	case " ":
		parts = strings.Fields(s)
	default:
		parts = strings.Split(s, separator)
	}
	for len(parts) > 0 && parts[len(parts)-1] == "" {
		parts = parts[:len(parts)-1]
	}
	elems := make([]jsonx.Value, len(parts))
	for i, part := range parts {
		elems[i] = jsonx.StringValue(part)
	}
	return jsonx.ArrayValue(elems...)
}
