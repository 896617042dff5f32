package jsruntime

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

// fileName is what the tenant's code is called in stack traces and __filename.
const fileName = "/app/index.js"

// The code is the body of a function, as in Node: what it declares stays its
// own, and it may use return. The head shares the first line with the code, so
// that lines need no correction.
const (
	wrapHead = "(function (exports, require, module, __filename, __dirname) {"
	wrapTail = "\n})"
)

// compiled is code that is ready to run in any number of runtimes. It is
// immutable.
type compiled struct {
	source   string
	program  *goja.Program
	names    []literal // that it requires
	patches  []string  // of intrinsics, that the code might need
	patterns *patterns // in its text
	lowered  bool      // esbuild rewrote it; columns of line 1 are right as they are
	helpers  bool      // it uses helpers of the prelude
	async    bool      // it awaits something at its top level
}

// compile turns source into a program. goja compiles most code as it is, which
// keeps the text of functions and the columns of errors exact. What goja does
// not know (modules, TypeScript, asynchronous generators) or gets wrong
// (functions declared in blocks) is lowered first.
func compile(source string, maxSource int) (*compiled, *script.Error) {
	if len(source) > maxSource {
		return nil, invalidCode(0, fmt.Sprintf("the code is longer than %d bytes", maxSource))
	}
	if err := scan(source); err != nil {
		return nil, invalidCode(err.line, err.text)
	}
	if strings.HasPrefix(source, "#!") {
		source = "//" + source[2:]
	}
	c := &compiled{source: source}
	var err error
	tree, err := parseWrapped(wrapHead + source + wrapTail)
	if err == nil && !needsLowering(tree) {
		if c.program, c.patterns, err = assemble(tree); err == nil {
			c.names, c.patches = requiredNames(tree), neededPatches(tree)
			return c, nil
		}
		if bad, ok := errors.AsType[*literalError](err); ok {
			return nil, invalidCode(bad.line, bad.Error())
		}
	}
	c.lowered = true
	tree, bad := c.lower()
	if bad != nil {
		return nil, bad
	}
	if c.program, c.patterns, err = assemble(tree); err != nil {
		return nil, invalidCode(0, cleanSyntaxError(err))
	}
	c.names, c.patches = requiredNames(tree), neededPatches(tree)
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

// parse parses a text.
func parse(name, text string) (tree *ast.Program, err error) {
	defer recoverCompiler(&err)
	return goja.Parse(name, text, parser.WithDisableSourceMaps)
}

// assemble makes a program out of a tree.
func assemble(tree *ast.Program) (_ *goja.Program, _ *patterns, err error) {
	defer recoverCompiler(&err)
	dropNames(tree)
	repairNewTarget(tree)
	nameClasses(tree)
	htmlComments(tree)
	patterns, err := takePatterns(tree)
	if err != nil {
		return nil, nil, err
	}
	p, err := goja.CompileAST(tree, false)
	return p, patterns, err
}

// invalidCode is the error for code that cannot be used.
func invalidCode(line int, text string) *script.Error {
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

// parseWrapped parses code within its wrapper, and makes sure that the code
// did not close the wrapper by itself.
func parseWrapped(text string) (*ast.Program, error) {
	tree, err := parse(fileName, text)
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

// transform lowers what goja cannot compile, and nothing else: goja's own
// async functions are better than esbuild's. The options have what differs from
// use to use.
func transform(source string, loader api.Loader, o api.TransformOptions) api.TransformResult {
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
	"regexp-set-notation": true, // package regex has it
	"async-generator":     false,
	"for-await":           false,
	"dynamic-import":      false,
	"import-meta":         false,
	"decorators":          false,
	"using":               false,
}

// isPanic tells whether a message of esbuild is that of a panic, with which it
// reports its own mistakes. Its text is of no use to those whose code it is.
func isPanic(text string) bool { return strings.HasPrefix(text, "panic:") }

// parserPosition is what goja's parser and compiler put around their messages.
var parserPosition = regexp.MustCompile(`^SyntaxError:\s*|^\S*index\.js: Line \d+:\d+\s*|\s*\(and \d+ more errors\)$|\s+at \S+:\d+:\d+$`)

// cleanSyntaxError returns the bare message of a parser or compiler error.
func cleanSyntaxError(err error) string {
	text := err.Error()
	if i := strings.IndexByte(text, '\n'); i >= 0 {
		text = text[:i]
	}
	for range 3 {
		text = parserPosition.ReplaceAllString(text, "")
	}
	return text
}
