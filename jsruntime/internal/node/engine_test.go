package node

import (
	"errors"
	"testing"

	"github.com/dop251/goja"
	"github.com/google/go-cmp/cmp"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/jsruntime/internal/compile"
	"github.com/seed-72ea4aab/vault/script"
)

// These tests guard undocumented behavior of goja and esbuild that this package
// relies on. A failure after an upgrade shows what has changed.

func TestEngineMakesRangeErrors(t *testing.T) {
	t.Parallel()
	c := newExecution(&compile.Code{}, nil, Limits{})
	must.Same(t, "got a", "RangeError", c.newRangeError("x").Get("name").String())
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
		must.Same(t, source+": goja words it "+text+"; nodeMessage in failure.go makes", want, nodeMessage(text))
	}
	_, err := vm.RunScript(compile.FileName, "\n  throwing = () => { throw new Error('x') }; throwing()")
	thrown, ok := errors.AsType[*goja.Exception](err)
	if !ok {
		t.Fatal(err)
	}
	trace := thrown.Value().ToObject(vm).Get("stack").String()
	c := &Execution{code: &compile.Code{Lowered: true}}
	if diff := cmp.Diff([]script.Frame{{Function: "throwing", Line: 2, Column: 28}, {Line: 2, Column: 54}}, c.parseTrace(trace)); diff != "" {
		t.Errorf("goja writes the stack %q; traceLine in failure.go reads other places (-want +got):\n%s", trace, diff)
	}
}

// TestEveryPatchIsNeeded checks that every patch is still needed, because it repairs
// something that goja gets wrong.
func TestEveryPatchIsNeeded(t *testing.T) {
	t.Parallel()
	vm := goja.New()
	for patch, check := range map[string]string{
		"patch_annexb":     "typeof ''.anchor === 'function' && typeof ({}).__defineGetter__ === 'function'",
		"patch_array":      "Array.prototype[Symbol.unscopables].at === true",
		"patch_error":      "typeof Error.captureStackTrace === 'function'",
		"patch_symbol":     "typeof Symbol.asyncIterator === 'symbol'",
		"patch_wellformed": "typeof ''.isWellFormed === 'function'",
	} {
		v := must.Get(vm.RunString(check))(t)
		if v.ToBoolean() {
			t.Errorf("goja now has what %s adds; remove the patch", patch)
		}
	}
}
