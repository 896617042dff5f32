package compile

import (
	"slices"
	"strings"
	"testing"

	"github.com/dop251/goja"
	"github.com/dop251/goja/ast"
	"github.com/evanw/esbuild/pkg/api"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// These tests guard undocumented behavior of goja and esbuild that this package
// relies on. A failure after an upgrade shows what has changed.

// everySyntax has an identifier named after each place where an expression can
// occur.
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
	tree := must.Get(Parse("x.js", everySyntax))(t)
	seen := map[string]bool{}
	walk(tree, func(n any) {
		switch n := n.(type) {
		case *ast.Identifier:
			seen[n.Name.String()] = true
		case *ast.PropertyShort:
			seen[n.Name.Name.String()] = true
		}
	})
	want := Words(`parameterDefault patternDefault computedPattern initializer elementDefault list constantValue test consequent alternate
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
		t.Errorf("walk in tree.go does not reach %s: goja's syntax tree has unknown nodes, so that patches and regular expressions there are missed", strings.Join(missing, ", "))
	}
}

func TestEngineSyntaxErrors(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{"a b": "Unexpected identifier", "let x; let x": "Identifier 'x' has already been declared"} {
		_, err := goja.Compile("index.js", source, false)
		if got := SyntaxMessage(err); got != want {
			t.Errorf("%s: goja words it %q; cleanSyntaxError in compile.go makes %q of it, want %q", source, err, got, want)
		}
	}
}

func TestCompilerOutput(t *testing.T) {
	t.Parallel()
	module := Transform("import d, { n as m } from \"a\";\nimport * as w from \"b\";\nimport \"c\";\nexport * from \"d\";\nexport * as e from \"e\";\nexport { f as g } from \"f\";\nconst x = await 1;\nexport { x as y };\nexport default 2;", api.LoaderJS, awaitOptions)
	if text := moduleBody(string(module.Code)); strings.Contains(text, "import ") || strings.Contains(text, "export ") || len(module.Errors) > 0 {
		t.Errorf("esbuild writes imports and exports in another form than the expressions of lower.go read: %s, %v", text, module.Errors)
	}
	lowered := ownHelpers(string(Transform("async function* f() { yield* g(); for await (const x of y) await x }", api.LoaderJS, codeOptions).Code))
	for _, helper := range []string{"__lowered.Await", "__lowered.generator", "__lowered.yieldStar"} {
		if !strings.Contains(lowered, helper) {
			t.Errorf("esbuild uses other names for its helpers; ownHelpers in lower.go does not put %s in place: %s", helper, lowered)
		}
	}
	if text := Transform("await 1; module.exports = 1", api.LoaderJS, codeOptions); !awaits(text) {
		t.Errorf("esbuild rejects await with another message than awaits in lower.go looks for: %v", text.Errors)
	}
	if text := string(Transform("{ function f() {} }", api.LoaderJS, api.TransformOptions{}).Code); !strings.Contains(text, nameCall+"(") {
		t.Errorf("esbuild keeps names in another way than names.go undoes: %s", text)
	}
}
