package jsruntime_test

import (
	"testing"
	"time"
)

// TestDeepCalls calls functions within functions thousands deep.
func TestDeepCalls(t *testing.T) {
	t.Parallel()
	r := newWorkers(t, nil)
	for body, want := range map[string]string{
		"const f=(n)=>n?1+f(n-1):0; return f(3900)":             "3900",
		"await null; const f=(n)=>n?1+f(n-1):0; return f(3900)": "3900",
		"const f=(a)=>a.map((x)=>Array.isArray(x)?f(x):x); let a=[1]; for(let i=0;i<1000;i++)a=[a]; return JSON.stringify(f(a)).length": "2003",
	} {
		t.Run(body, func(t *testing.T) {
			t.Parallel()
			if got, err := runBody(r, body, body, 10*time.Second); err != nil || got != want {
				t.Errorf("got %s, %s, want %s", got, explain(err), want)
			}
		})
	}
}
