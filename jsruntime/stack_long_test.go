//go:build long

package jsruntime_test

import (
	"testing"

	"github.com/seed-72ea4aab/vault/script"
)

// TestTooDeepGeneratorsEndTheRun nests generators too deep. The engine needs a
// minute of CPU for it, so most runs would end by their timeout first.
func TestTooDeepGeneratorsEndTheRun(t *testing.T) {
	t.Parallel()
	body := "function* g(){for (const x of g()) yield x}; try{[...g()]}catch(e){return e.name}"
	out, err := runBody(newWorkers(t, nil), body, body, patience)
	if err == nil && out == `"RangeError"` {
		return
	}
	if e := scriptError(t, err); e.Kind != script.Stack && e.Kind != script.Timeout {
		t.Errorf("got %s, %s, want the end of the run", out, explain(err))
	}
}
