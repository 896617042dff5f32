package compile

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"strings"

	"github.com/dop251/goja/ast"
	"github.com/evanw/esbuild/pkg/api"
	"github.com/go-sourcemap/sourcemap"

	"github.com/seed-72ea4aab/vault/script"
)

// Lowered code gets an additional object of the prelude, for what the
// compiler's own helpers do not do according to the standard.
const (
	lowHead    = "(function (exports, require, module, __filename, __dirname, __lowered) {"
	asyncHead  = `(async function (exports, require, module, __filename, __dirname, __lowered) {"use strict";`
	lowImport  = "__import"
	importText = "const " + lowImport + " = __lowered.importer(require);"
)

// codeOptions are the options of esbuild for the tenant's code.
var codeOptions = api.TransformOptions{
	Sourcefile: FileName,
	Sourcemap:  api.SourceMapExternal,
	Banner:     lowHead + importText,
	Footer:     WrapTail,
	Supported:  codeSupported(),
}

// codeSupported are the features for the tenant's code. import() stays, because
// it is replaced later.
func codeSupported() map[string]bool {
	out := maps.Clone(supported)
	out["dynamic-import"], out["import-attributes"] = true, true
	return out
}

// awaitOptions are the options for code that uses await at its top level.
// esbuild leaves its imports and exports unchanged.
var awaitOptions = func() api.TransformOptions {
	o := codeOptions
	o.Format = api.FormatESModule
	o.Banner, o.Footer = "", ""
	return o
}()

// lower rewrites the source with esbuild and parses the result.
func (c *Code) lower() (*ast.Program, *script.Error) {
	out := tryLoaders(c.source, codeOptions)
	text := string(out.Code)
	if awaits(out) {
		if module := tryLoaders(c.source, awaitOptions); len(module.Errors) == 0 {
			out, c.Async = module, true
			text = asyncHead + importText + moduleBody(string(out.Code)) + WrapTail
		}
	}
	if len(out.Errors) > 0 {
		return nil, lowerError(out.Errors[0])
	}
	text = ownHelpers(replaceImports(text))
	c.Helpers = strings.Contains(text, "__lowered.")
	tree, err := parseWrapped(text)
	if err != nil {
		return nil, Invalid(0, SyntaxMessage(err))
	}
	if strings.Contains(text, "__yieldStar") {
		plainDelegates(tree)
	}
	if positions, err := sourcemap.Parse("", out.Map); err == nil {
		tree.File.SetSourceMap(positions)
	}
	return tree, nil
}

// tryLoaders treats source as JavaScript and, if that fails, as TypeScript.
func tryLoaders(source string, o api.TransformOptions) api.TransformResult {
	out := Transform(source, api.LoaderJS, o)
	if len(out.Errors) > 0 {
		if ts := Transform(source, api.LoaderTS, o); len(ts.Errors) == 0 || awaits(ts) {
			return ts
		}
	}
	return out
}

// awaits reports whether esbuild rejected code because of an await at its top
// level.
func awaits(out api.TransformResult) bool {
	return len(out.Errors) > 0 && strings.HasPrefix(out.Errors[0].Text, "Top-level await")
}

func lowerError(m api.Message) *script.Error {
	if IsPanic(m.Text) {
		return Invalid(0, errCompiler.Error())
	}
	line := 0
	if m.Location != nil {
		line = m.Location.Line
	}
	return Invalid(line, m.Text)
}

// ownHelpers replaces the helpers that esbuild writes in front of the code with
// helpers of the prelude.
func ownHelpers(text string) string {
	for name, own := range map[string]string{"__await": "Await", "__asyncGenerator": "generator", "__yieldStar": "yieldStar"} {
		text = strings.Replace(text, "\nvar "+name+" = ", "\nvar "+name+" = __lowered."+own+", "+name+"_ = ", 1)
	}
	return text
}

// replaceImports turns every import() into a call of a function.
func replaceImports(text string) string {
	if !strings.Contains(text, "import(") {
		return strings.Replace(text, importText, "", 1)
	}
	var b strings.Builder
	done := 0
	tokens(text, func(start, end, _ int) {
		if text[start:end] == "import" && strings.HasPrefix(text[end:], "(") && !strings.HasSuffix(text[:start], ".") {
			b.WriteString(text[done:start] + lowImport)
			done = end
		}
	})
	return b.String() + text[done:]
}

// tokens calls visit for the tokens of a text, with their nesting depth in
// brackets.
func tokens(text string, visit func(start, end, depth int)) {
	s := &scanner{src: text, line: 1, stack: []level{{}}}
	for s.pos < len(s.src) {
		start, depth := s.pos, len(s.stack)-1
		_ = s.next() // the limits were checked before
		visit(start, s.pos, depth)
	}
}

// plainDelegates removes the helper for yield* from generators that are not
// asynchronous, because esbuild also adds it to some of those.
func plainDelegates(tree *ast.Program) {
	asynchronous := map[any]bool{}
	walk(tree, func(n any) {
		if args := callArguments(n, "__asyncGenerator"); len(args) == 3 {
			asynchronous[args[2]] = true
		}
	})
	walk(tree, func(n any) {
		f, ok := n.(*ast.FunctionLiteral)
		if !ok || !f.Generator || asynchronous[f] {
			return
		}
		within := func(n any) bool { _, ok := n.(*ast.FunctionLiteral); return ok }
		walkUnless(reflect.ValueOf(f.Body.List), within, func(n any) {
			if y, ok := n.(*ast.YieldExpression); ok && y.Delegate {
				if args := callArguments(y.Argument, "__yieldStar"); len(args) == 1 {
					y.Argument = args[0]
				}
			}
		})
	})
}

// callArguments returns the arguments if a node is a call of the named
// function.
func callArguments(n any, name string) []ast.Expression {
	if call, ok := n.(*ast.CallExpression); ok && isIdentifier(call.Callee, name) {
		return call.ArgumentList
	}
	return nil
}

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
