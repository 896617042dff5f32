package jsruntime_test

import (
	"testing"

	"github.com/seed-72ea4aab/vault/script"
)

// TestDeepCalls nests function calls thousands deep, and too deep.
func TestDeepCalls(t *testing.T) {
	t.Parallel()
	r := newWorkers(t, nil)
	for body, want := range map[string]string{
		"const f=(n)=>n?1+f(n-1):0; return f(9900)":                                                 "9900",
		"await null; const f=(n)=>n?1+f(n-1):0; return f(9900)":                                     "9900",
		"const f=(n,a,b,c,d)=>{const o={n,a}; return n?o.n-n+1+f(n-1,o,[a],b,c):0}; return f(9900)": "9900",
		"const f=(a)=>a.map((x)=>Array.isArray(x)?f(x):x); let a=[1]; for(let i=0;i<3000;i++)a=[a]; let n=0; for(a=f(a);Array.isArray(a);a=a[0])n++; return n": "3001",
		"const f=(a)=>a.map((x)=>Array.isArray(x)?f(x):x); let a=[1]; for(let i=0;i<1000;i++)a=[a]; return JSON.stringify(f(a)).length":                        "2003",
		"const f=()=>f(); try{f()}catch(e){return [e instanceof RangeError,e.message,e.stack.split('\\n')[0]]}":                                                `[true,"Maximum call stack size exceeded","RangeError: Maximum call stack size exceeded"]`,
		"const f=()=>f(); return new Promise((r)=>setTimeout(()=>{try{f()}catch(e){r(e.name)}finally{}},1))":                                                   `"RangeError"`,
		"const f=(a)=>a.map(f); const a=[]; a.push(a); try{f(a)}catch(e){return e.name}":                                                                       `"RangeError"`,
		"await null; let n=0; const f=()=>{n++; f()}; for(let i=0;i<3;i++){await i; try{f()}catch(e){}} return n>3*9900":                                       `true`,
		"return Promise.resolve().then(()=>{const f=()=>f(); f()}).catch((e)=>e.name)":                                                                         `"RangeError"`,
		"const o=[]; const a=async(n)=>{for(let i=0;i<2;i++){await i; o.push(n+i)}}; await Promise.all([a('a'),a('b')]); return o.join()":                      `"a0,b0,a1,b1"`,
		"await null; const f=()=>f(); try{f()}catch(e){return e.name}":                                                                                         `"RangeError"`,
		"const o={get x(){return this.x}}; try{o.x}catch(e){return e.name}":                                                                                    `"RangeError"`,
		"const o={set x(v){this.x=v}}; try{o.x=1}catch(e){return e.name}":                                                                                      `"RangeError"`,
		"class A{constructor(){new A}}; try{new A}catch(e){return e.name}":                                                                                     `"RangeError"`,
		"class A{#p=new A()}; try{new A}catch(e){return e.name}":                                                                                               `"RangeError"`,
		"function F(){new F}; try{new F}catch(e){return e.name}":                                                                                               `"RangeError"`,
		"const o={toString(){return ''+this}}; try{''+o}catch(e){return e.name}":                                                                               `"RangeError"`,
		"const o={valueOf(){return +this}}; try{+o}catch(e){return e.name}":                                                                                    `"RangeError"`,
		"const o={toJSON(){return JSON.stringify(o)}}; try{JSON.stringify(o)}catch(e){return e.name}":                                                          `"RangeError"`,
		"const p=new Proxy({},{get(t,k,r){return r[k]}}); try{p.x}catch(e){return e.name}":                                                                     `"RangeError"`,
		"const f=new Proxy(function(){},{apply(){return f()}}); try{f()}catch(e){return e.name}":                                                               `"RangeError"`,
		"const f=()=>'a'.replace(/a/,f); try{f()}catch(e){return e.name}":                                                                                      `"RangeError"`,
		"const f=()=>eval('f()'); try{f()}catch(e){return e.name}":                                                                                             `"RangeError"`,
		"const it={[Symbol.iterator](){return [...it]}}; try{[...it]}catch(e){return e.name}":                                                                  `"RangeError"`,
		"const o={get then(){return o.then}}; try{await o}catch(e){return e.name}":                                                                             `"RangeError"`,
		"const f=()=>[2,1].sort(f); try{f()}catch(e){return e.name}":                                                                                           `"RangeError"`,
		"const f=()=>Reflect.construct(f,[],function(){}); try{(function g(){Reflect.apply(g,null,[])})()}catch(e){return e.name}":                             `"RangeError"`,
		"const f=()=>JSON.parse('[1]',f); try{f()}catch(e){return e.name}":                                                                                     `"RangeError"`,
		"const f=()=>new Map([[1,1]]).forEach(f); try{f()}catch(e){return e.name}":                                                                             `"RangeError"`,
		"const f=()=>Uint8Array.from([1],f); try{f()}catch(e){return e.name}":                                                                                  `"RangeError"`,
		"const f=()=>[1].reduce(f,0)+[1].flatMap(f); try{f()}catch(e){return e.name}":                                                                          `"RangeError"`,
		"const o={[Symbol.toPrimitive](){return `${o}`}}; try{o+1}catch(e){return e.name}":                                                                     `"RangeError"`,
		"const f=()=>{try{f()}catch(e){throw e}}; try{f()}catch(e){return e.name}":                                                                             `"RangeError"`,
	} {
		t.Run(body, func(t *testing.T) {
			t.Parallel()
			if got, err := runBody(r, body, body, patience); err != nil || got != want {
				t.Errorf("got %s, %s, want %s", got, explain(err), want)
			}
		})
	}
}

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
