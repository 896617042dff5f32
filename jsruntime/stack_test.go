package jsruntime_test

import (
	"testing"

	"github.com/seed-72ea4aab/vault/script"
)

// TestTooDeepAsyncCallsEndTheRun nests calls of asynchronous functions and
// generators too deep, which no catch can see. The run ends with the right
// error, and never with a crash.
func TestTooDeepAsyncCallsEndTheRun(t *testing.T) {
	t.Parallel()
	r := newWorkers(t, nil)
	for _, body := range []string{
		"const f=async()=>{await f()}; try{await f()}catch(e){return e.name}",
		"const f=async()=>f(); try{await f()}catch(e){return e.name}",
		"const g=()=>f(); const f=async()=>g(); try{await f()}catch(e){return e.name}",
		"await null; const f=async()=>f(); try{await f()}catch(e){return e.name}",
		"function* g(){yield* g()}; try{[...g()]}catch(e){return e.name}",
		"let a=[]; for(let i=0;i<1e5;i++)a=[a]; try{return String(a).length}catch(e){return e.name}",
		"const o={get then(){return o.then}}; return o",
	} {
		t.Run(body, func(t *testing.T) {
			t.Parallel()
			out, err := runBody(r, body, body, patience)
			if err == nil && out == `"RangeError"` {
				return // the engine was between two calls
			}
			if e := scriptError(t, err); e.Kind != script.Stack {
				t.Errorf("got %s, %s, want a RangeError or the end of the run", out, explain(err))
			}
		})
	}
}
