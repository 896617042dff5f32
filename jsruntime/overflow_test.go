package jsruntime_test

import (
	"testing"

	"github.com/seed-72ea4aab/vault/jsruntime"
	"github.com/seed-72ea4aab/vault/script"
)

func TestEngineShowsOverflow(t *testing.T) {
	t.Parallel()
	const source = "module.exports = () => { const f = () => f(); try { f() } catch (e) { return e.name } }"
	out, err := jsruntime.NewInProcess(nil).Run(t.Context(), script.Program{Source: source}, nil, &fakeHost{})
	if err != nil || string(out) != `"RangeError"` {
		t.Errorf("got %s, %v: goja no longer reads the names of native functions in (*vm).pushCtx when there are too many calls; overflow.go needs another way to throw", out, err)
	}
}
