package compile

import (
	"fmt"
	"regexp"
	"strings"
)

// moduleBody turns the imports and exports of a module, as esbuild writes them,
// into calls. Imports come first, wherever they are.
func moduleBody(text string) string {
	var imports, body strings.Builder
	done, start := 0, -1
	tokens(text, func(from, to, depth int) {
		switch word := text[from:to]; {
		case depth > 0:
		case start >= 0 && word == ";":
			body.WriteString(text[done:start])
			first, here := moduleStatement(text[start:to])
			imports.WriteString(first)
			body.WriteString(here + strings.Repeat("\n", strings.Count(text[start:to], "\n"))) // keep line numbers
			done, start = to, -1
		case start < 0 && (word == "export" || word == "import") && (from == 0 || text[from-1] == '\n') && text[to] != '(' && text[to] != '.':
			start = from
		}
	})
	return imports.String() + body.String() + text[done:]
}

// The statements that esbuild writes. Strings are quoted as in JSON.
var (
	plainImport  = regexp.MustCompile(`^import (".*?");$`)
	wholeImport  = regexp.MustCompile(`^import (?:([^\s,{*]+), )?\* as (\S+) from (".*?");$`)
	namedImport  = regexp.MustCompile(`(?s)^import (?:([^\s,{]+))?(?:, )?(?:\{(.*)\})? from (".*?");$`)
	exportAll    = regexp.MustCompile(`^export \* from (".*?");$`)
	exportWhole  = regexp.MustCompile(`^export \* as (\S+) from (".*?");$`)
	exportNames  = regexp.MustCompile(`(?s)^export \{(.*)\}(?: from (".*?"))?;$`)
	importedPart = regexp.MustCompile(`^(\S+)(?: as (\S+))?$`)
)

// moduleStatement returns the replacement of an import or an export: calls that
// come first, and calls that stay in place.
func moduleStatement(text string) (first, here string) {
	const whole = "__lowered.toESM(require(%s))"
	if m := plainImport.FindStringSubmatch(text); m != nil {
		return fmt.Sprintf("require(%s);", m[1]), ""
	}
	if m := wholeImport.FindStringSubmatch(text); m != nil {
		first = fmt.Sprintf("const %s = "+whole+";", m[2], m[3])
		if m[1] != "" {
			first += fmt.Sprintf("const %s = %s.default;", m[1], m[2])
		}
		return first, ""
	}
	if m := exportAll.FindStringSubmatch(text); m != nil {
		return "", fmt.Sprintf("__lowered.exportAll(exports, "+whole+");", m[1])
	}
	if m := exportWhole.FindStringSubmatch(text); m != nil {
		return "", fmt.Sprintf("__lowered.export(exports, %q, () => "+whole+");", strings.Trim(m[1], `"`), m[2])
	}
	if m := exportNames.FindStringSubmatch(text); m != nil {
		return "", exportedNames(m[1], m[2])
	}
	m := namedImport.FindStringSubmatch(text)
	if m == nil {
		return "", text // the parser rejects it
	}
	names := []string{}
	if m[1] != "" {
		names = append(names, "default: "+m[1])
	}
	for _, part := range parts(m[2]) {
		names = append(names, part[0]+": "+part[1])
	}
	return fmt.Sprintf("const { %s } = "+whole+";", strings.Join(names, ", "), m[3]), ""
}

// exportedNames exports local names, or names of another module.
func exportedNames(list, from string) string {
	var b strings.Builder
	prefix := ""
	if from != "" {
		prefix = "__lowered.toESM(require(" + from + "))"
	}
	for _, part := range parts(list) {
		value := part[0]
		if from != "" {
			value = fmt.Sprintf("%s[%q]", prefix, strings.Trim(part[0], `"`))
		}
		fmt.Fprintf(&b, "__lowered.export(exports, %q, () => %s);", strings.Trim(part[1], `"`), value)
	}
	return b.String()
}

// parts reads "a as b, c".
func parts(list string) [][2]string {
	var out [][2]string
	for item := range strings.SplitSeq(list, ",") {
		m := importedPart.FindStringSubmatch(strings.TrimSpace(item))
		if m == nil {
			continue
		}
		if m[2] == "" {
			m[2] = m[1]
		}
		out = append(out, [2]string{m[1], m[2]})
	}
	return out
}
