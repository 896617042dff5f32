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
	if name := c.newRangeError("x").Get("name").String(); name != "RangeError" {
		t.Errorf("got a %s: goja no longer throws a RangeError for new Array(-1); newRangeError in overflow.go needs another way", name)
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
