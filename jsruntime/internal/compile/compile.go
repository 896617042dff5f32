// Package compile makes goja programs from the code of tenants and packages. It
// checks limits, lowers with esbuild what goja does not support, and repairs in
// the syntax tree what goja gets wrong.
package compile

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/dop251/goja"
	"github.com/dop251/goja/ast"
	"github.com/dop251/goja/parser"
	"github.com/evanw/esbuild/pkg/api"

	"github.com/seed-72ea4aab/vault/script"
)

// FileName is the name of the tenant's code in stack traces and __filename.
const FileName = "/app/index.js"

// The code is the body of a function, as in Node. Its declarations are local,
// and it may use return. The head shares the first line with the code, so that
// line numbers need no correction.
const (
	WrapHead = "(function (exports, require, module, __filename, __dirname) {"
	WrapTail = "\n})"
)

// Code is code that is ready to run in any number of runtimes. It is immutable.
type Code struct {
	source  string
	Program *Program
	Names   []Literal // names that it requires
	Patches []string  // patches of intrinsics that the code might need
	Lowered bool      // esbuild rewrote it; columns of line 1 need no correction
	Helpers bool      // uses helpers of the prelude
	Async   bool      // uses await at its top level
}

// Compile compiles source into a program. goja compiles most code as it is,
// which keeps the text of functions and the columns of errors exact. Code that
// goja does not support (modules, TypeScript, asynchronous generators) or gets
// wrong (functions declared in blocks) is lowered first.
func Compile(source string, maxSource int) (*Code, *script.Error) {
	if len(source) > maxSource {
		return nil, Invalid(0, fmt.Sprintf("the code is longer than %d bytes", maxSource))
	}
	if err := scan(source); err != nil {
		return nil, Invalid(err.line, err.text)
	}
	if strings.HasPrefix(source, "#!") {
		source = "//" + source[2:]
	}
	c := &Code{source: source}
	var err error
	tree, err := parseWrapped(WrapHead + source + WrapTail)
	if err == nil && !needsLowering(tree) {
		if c.Program, err = Assemble(tree); err == nil {
			c.Names, c.Patches = requiredNames(tree), NeededPatches(tree)
			return c, nil
		}
		if bad, ok := errors.AsType[*literalError](err); ok {
			return nil, Invalid(bad.line, bad.Error())
		}
	}
	c.Lowered = true
	tree, bad := c.lower()
	if bad != nil {
		return nil, bad
	}
	if c.Program, err = Assemble(tree); err != nil {
		return nil, Invalid(0, SyntaxMessage(err))
	}
	c.Names, c.Patches = requiredNames(tree), NeededPatches(tree)
	return c, nil
}

// errCompiler means that the parser or the compiler of goja panicked.
var errCompiler = errors.New("the code cannot be compiled: something in it is too much for the compiler")

// recoverCompiler turns a panic of goja's parser or compiler into an error.
func recoverCompiler(err *error) {
	if p := recover(); p != nil {
		*err = errCompiler
	}
}

// Parse parses a text.
func Parse(name, text string) (tree *ast.Program, err error) {
	defer recoverCompiler(&err)
	return goja.Parse(name, text, parser.WithDisableSourceMaps)
}

// Assemble makes a program from a tree.
func Assemble(tree *ast.Program) (_ *Program, err error) {
	defer recoverCompiler(&err)
	dropNames(tree)
	repairNewTarget(tree)
	nameClasses(tree)
	htmlComments(tree)
	repairFinally(tree)
	p := &Program{Appends: growTexts(tree)}
	if p.patterns, err = TakePatterns(tree); err != nil {
		return nil, err
	}
	p.Program, err = goja.CompileAST(tree, false)
	return p, err
}

// Invalid returns the error for code that cannot be used.
func Invalid(line int, text string) *script.Error {
	e := &script.Error{
		Kind:     script.Invalid,
		Status:   http.StatusUnprocessableEntity,
		Title:    "Invalid Code",
		Name:     "SyntaxError",
		Messages: map[string][]string{"code": {text}},
	}
	if line > 0 {
		e.Frames = []script.Frame{{Line: line, Column: 1}}
		e.Messages = map[string][]string{"code": {fmt.Sprintf("line %d: %s", line, text)}}
	}
	return e
}

// parseWrapped parses code within its wrapper, and checks that the code did not
// close the wrapper.
func parseWrapped(text string) (*ast.Program, error) {
	tree, err := Parse(FileName, text)
	if err != nil {
		return nil, err
	}
	if len(tree.Body) == 1 {
		if st, ok := tree.Body[0].(*ast.ExpressionStatement); ok {
			if _, ok := st.Expression.(*ast.FunctionLiteral); ok {
				return tree, nil
			}
		}
	}
	return nil, fmt.Errorf("SyntaxError: Unexpected token }")
}

// Transform lowers what goja cannot compile, and nothing else, because goja's
// async functions are better than esbuild's. The options contain what differs
// between uses.
func Transform(source string, loader api.Loader, o api.TransformOptions) api.TransformResult {
	o.Loader = loader
	o.Format = cmp.Or(o.Format, api.FormatCommonJS)
	o.Target = api.ES2022
	o.Platform = api.PlatformNode
	o.LegalComments = api.LegalCommentsNone
	o.LogLevel = api.LogLevelSilent
	o.LogLimit = 1
	o.KeepNames = true
	o.Charset = api.CharsetUTF8 // goja cannot read all escapes that esbuild writes
	if o.Supported == nil {
		o.Supported = supported
	}
	return api.Transform(source, o)
}

// supported lists the features in which goja differs from the target.
var supported = map[string]bool{
	"regexp-set-notation": true, // package regex supports it
	"async-generator":     false,
	"for-await":           false,
	"dynamic-import":      false,
	"import-meta":         false,
	"decorators":          false,
	"using":               false,
}

// IsPanic reports whether a message of esbuild describes a panic, by which it
// reports its own bugs. The text is useless to the authors of the code.
func IsPanic(text string) bool { return strings.HasPrefix(text, "panic:") }

// parserPosition matches what goja's parser and compiler add to their messages.
var parserPosition = regexp.MustCompile(`^SyntaxError:\s*|^\S*index\.js: Line \d+:\d+\s*|\s*\(and \d+ more errors\)$|\s+at \S+:\d+:\d+$`)

// SyntaxMessage returns the bare message of a parser or compiler error.
func SyntaxMessage(err error) string {
	text := err.Error()
	if i := strings.IndexByte(text, '\n'); i >= 0 {
		text = text[:i]
	}
	for range 3 {
		text = parserPosition.ReplaceAllString(text, "")
	}
	return text
}
