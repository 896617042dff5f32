package jsruntime_test

import (
	"testing"
)

// TestDeepCalls calls functions within functions thousands deep, and deeper than that.
func TestDeepCalls(t *testing.T) {
	t.Parallel()
	r := newWorkers(t, nil)
	for body, want := range map[string]string{
		"const f=(n)=>n?1+f(n-1):0; return f(3900)":             "3900",
		"await null; const f=(n)=>n?1+f(n-1):0; return f(3900)": "3900",
		"const f=(a)=>a.map((x)=>Array.isArray(x)?f(x):x); let a=[1]; for(let i=0;i<1000;i++)a=[a]; return JSON.stringify(f(a)).length":   "2003",
		"const f=()=>f(); try{f()}catch(e){return [e instanceof RangeError,e.message,e.stack.split('\\n')[0]]}":                           `[true,"Maximum call stack size exceeded","RangeError: Maximum call stack size exceeded"]`,
		"const f=()=>f(); return new Promise((r)=>setTimeout(()=>{try{f()}catch(e){r(e.name)}finally{}},1))":                              `"RangeError"`,
		"const f=(a)=>a.map(f); const a=[]; a.push(a); try{f(a)}catch(e){return e.name}":                                                  `"RangeError"`,
		"await null; let n=0; const f=()=>{n++; f()}; for(let i=0;i<3;i++){await i; try{f()}catch(e){}} return n>3*3900":                  `true`,
		"return Promise.resolve().then(()=>{const f=()=>f(); f()}).catch((e)=>e.name)":                                                    `"RangeError"`,
		"const o=[]; const a=async(n)=>{for(let i=0;i<2;i++){await i; o.push(n+i)}}; await Promise.all([a('a'),a('b')]); return o.join()": `"a0,b0,a1,b1"`,
		"await null; const f=()=>f(); try{f()}catch(e){return e.name}":                                                                    `"RangeError"`,
	} {
		t.Run(body, func(t *testing.T) {
			t.Parallel()
			if got, err := runBody(r, body, body, patience); err != nil || got != want {
				t.Errorf("got %s, %s, want %s", got, explain(err), want)
			}
		})
	}
}
