package jsruntime

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/dop251/goja"
	"github.com/dop251/goja/ast"
	"github.com/evanw/esbuild/pkg/api"
	"github.com/google/go-cmp/cmp"

	"github.com/seed-72ea4aab/vault/script"
)

// These tests guard what this package takes from goja and esbuild without a promise
// of theirs. One that fails after an upgrade says what has changed.

func TestEngineShowsOverflow(t *testing.T) {
	t.Parallel()
	const source = "module.exports = () => { const f = () => f(); try { f() } catch (e) { return e.name } }"
	out, err := NewInProcess(nil).Run(t.Context(), script.Program{Source: source}, nil, noHost{})
	if err != nil || string(out) != `"RangeError"` {
		t.Errorf("got %s, %v: goja no longer reads the names of native functions in (*vm).pushCtx when there are too many calls; overflow.go needs another way to throw", out, err)
	}
}

func TestEngineMakesRangeErrors(t *testing.T) {
	t.Parallel()
	c := newExecution(&compiled{}, nil, limits{})
	if name := c.newRangeError("x").Get("name").String(); name != "RangeError" {
		t.Errorf("got a %s: goja no longer throws a RangeError for new Array(-1); newRangeError in overflow.go needs another way", name)
	}
}

// everySyntax has an identifier named after each place where an expression can stand.
const everySyntax = `(function (parameter = parameterDefault, { key: pattern = patternDefault, [computedPattern]: p2 }, ...rest) {
	var declared = initializer, [element = elementDefault] = list;
	let lexical; const constant = constantValue;
	if (test) { consequent } else alternate;
	for (let i = loopInit; loopTest; loopUpdate) loopBody;
	for (const k in inObject) inBody; for (const v of ofObject) ofBody;
	while (whileTest) whileBody; do doBody; while (doTest);
	switch (discriminant) { case caseTest: caseBody; break; default: defaultBody }
	try { tried } catch ({ caught = caughtDefault }) { handler } finally { finalizer }
	label: labelled;
	with (withObject) withBody;
	throw thrown;
	return returned ? yes : no, sequenceItem;
	function inner(innerParameter) { innerBody }
	(arrowParameter = arrowDefault) => arrowBody; async () => { await awaited; };
	function* generator() { yield yielded; yield* delegated; }
	class Named extends Parent { [computedMethod](m = methodDefault) { methodBody } field = fieldValue; static [computedField] = staticValue; static { staticBody } get accessor() { return accessorBody } #secret = privateValue; }
	({ shorthand, [computedKey]: keyed, spread: 1, ...spreadObject, method() { objectMethod } });
	[arrayItem, ...arraySpread]; call(argument, ...argumentSpread); new Constructor(constructorArgument);
	object[member].property; optional?.[optionalMember]?.(optionalArgument);
	` + "tag`${tagged}`; `${templated}`" + `;
	left + right; !operand; assigned = value; ({ a: assignedPattern = assignedDefault } = source); counter++;
})`

func TestEngineTree(t *testing.T) {
	t.Parallel()
	tree, err := parse("x.js", everySyntax)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	walk(tree, func(n any) {
		switch n := n.(type) {
		case *ast.Identifier:
			seen[n.Name.String()] = true
		case *ast.PropertyShort:
			seen[n.Name.Name.String()] = true
		}
	})
	want := wordSet(`parameterDefault patternDefault computedPattern initializer elementDefault list constantValue test consequent alternate
		loopInit loopTest loopUpdate loopBody inObject inBody ofObject ofBody whileTest whileBody doTest doBody discriminant caseTest caseBody defaultBody
		tried caughtDefault handler finalizer labelled withObject withBody thrown returned yes no sequenceItem innerBody arrowDefault arrowBody awaited
		yielded delegated Parent computedMethod methodDefault methodBody fieldValue computedField staticValue staticBody accessorBody privateValue
		shorthand computedKey keyed spreadObject objectMethod arrayItem arraySpread argument argumentSpread Constructor constructorArgument object member
		optional optionalMember optionalArgument tag tagged templated left right operand assigned value assignedDefault source counter`)
	var missing []string
	for name := range want {
		if !seen[name] {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	if len(missing) > 0 {
		t.Errorf("walk in tree.go does not reach %s: goja's syntax tree has nodes that it does not know, so that patches and regular expressions there are missed", strings.Join(missing, ", "))
	}
}

func TestEngineMessages(t *testing.T) {
	t.Parallel()
	vm := goja.New()
	for source, want := range map[string]string{
		"undefined.x":    "Cannot read properties of undefined (reading 'x')",
		"({}).missing()": "missing is not a function",
	} {
		_, err := vm.RunString(source)
		thrown, ok := errors.AsType[*goja.Exception](err)
		if !ok {
			t.Fatalf("%s: got %v", source, err)
		}
		text := thrown.Value().ToObject(vm).Get("message").String()
		if got := nodeMessage(text); got != want {
			t.Errorf("%s: goja words it %q; nodeMessage in failure.go makes %q of it, want %q", source, text, got, want)
		}
	}
	for source, want := range map[string]string{"a b": "Unexpected identifier", "let x; let x": "Identifier 'x' has already been declared"} {
		_, err := goja.Compile("index.js", source, false)
		if got := cleanSyntaxError(err); got != want {
			t.Errorf("%s: goja words it %q; cleanSyntaxError in compile.go makes %q of it, want %q", source, err, got, want)
		}
	}
	_, err := vm.RunScript(fileName, "\n  throwing = () => { throw new Error('x') }; throwing()")
	thrown, ok := errors.AsType[*goja.Exception](err)
	if !ok {
		t.Fatal(err)
	}
	trace := thrown.Value().ToObject(vm).Get("stack").String()
	c := &execution{code: &compiled{lowered: true}}
	if diff := cmp.Diff([]script.Frame{{Function: "throwing", Line: 2, Column: 28}, {Line: 2, Column: 54}}, c.parseTrace(trace)); diff != "" {
		t.Errorf("goja writes the stack %q; traceLine in failure.go reads other places (-want +got):\n%s", trace, diff)
	}
}

func TestCompilerOutput(t *testing.T) {
	t.Parallel()
	module := transform("import d, { n as m } from \"a\";\nimport * as w from \"b\";\nimport \"c\";\nexport * from \"d\";\nexport * as e from \"e\";\nexport { f as g } from \"f\";\nconst x = await 1;\nexport { x as y };\nexport default 2;", api.LoaderJS, awaitOptions)
	if text := moduleBody(string(module.Code)); strings.Contains(text, "import ") || strings.Contains(text, "export ") || len(module.Errors) > 0 {
		t.Errorf("esbuild writes imports and exports in another form than the expressions of lower_module.go read: %s, %v", text, module.Errors)
	}
	unit := string(transform("import d from \"a\";\nexport default require(\"b\") + d;", api.LoaderJS, unitOptions).Code)
	for what, found := range map[string]bool{
		"defaultImport":                    defaultImport.MatchString(unit),
		"requireCall":                      len(requireCall.FindAllString(unit, -1)) == 2,
		"__toCommonJS, which build() sees": strings.Contains(unit, "__toCommonJS("),
	} {
		if !found {
			t.Errorf("esbuild writes CommonJS in another form; %s in build.go finds nothing in %s", what, unit)
		}
	}
	lowered := ownHelpers(string(transform("async function* f() { yield* g(); for await (const x of y) await x }", api.LoaderJS, codeOptions).Code))
	for _, helper := range []string{"__lowered.Await", "__lowered.generator", "__lowered.yieldStar"} {
		if !strings.Contains(lowered, helper) {
			t.Errorf("esbuild names its helpers otherwise; ownHelpers in lower.go does not put %s in place: %s", helper, lowered)
		}
	}
	if text := transform("await 1; module.exports = 1", api.LoaderJS, codeOptions); !awaits(text) {
		t.Errorf("esbuild words its refusal of await otherwise, which awaits in lower.go looks for: %v", text.Errors)
	}
	if text := string(transform("{ function f() {} }", api.LoaderJS, unitOptions).Code); !strings.Contains(text, nameCall+"(") {
		t.Errorf("esbuild keeps names in another way than names.go undoes: %s", text)
	}
}

// TestPatchedNames makes sure that no patch is without effect: each repairs something
// that goja still gets wrong.
func TestPatchedNames(t *testing.T) {
	t.Parallel()
	vm := goja.New()
	for patch, check := range map[string]string{
		"patch_annexb":     "typeof ''.anchor === 'function' && typeof ({}).__defineGetter__ === 'function'",
		"patch_array":      "Array.prototype[Symbol.unscopables].at === true",
		"patch_error":      "typeof Error.captureStackTrace === 'function'",
		"patch_symbol":     "typeof Symbol.asyncIterator === 'symbol'",
		"patch_wellformed": "typeof ''.isWellFormed === 'function'",
	} {
		v, err := vm.RunString(check)
		if err != nil {
			t.Fatal(err)
		}
		if v.ToBoolean() {
			t.Errorf("goja has what %s adds: take the patch out", patch)
		}
	}
	if want := slices.Sorted(maps.Keys(patches)); len(want) < 5 {
		t.Errorf("there are only the patches %v", want)
	}
}
