package node

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/dop251/goja"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/jsruntime/internal/compile"
)

// evaluate runs code and returns its result, or the text of its error.
func evaluate(t *testing.T, code string) string {
	t.Helper()
	out, bad := new(Engine).Run(Job{
		Source: code, Hash: sha256.Sum256([]byte(code)),
		Limits: Limits{Timeout: time.Minute, MaxSource: 1 << 20, MaxOutput: 1 << 22},
	}, nil, func(*Execution) {})
	if bad != nil {
		return fmt.Sprint(bad.Messages)
	}
	return string(out)
}

// sameAsPlus compares code with the same code as the engine runs it without
// growTexts, which does not change code that mentions eval.
func sameAsPlus(t *testing.T, body string) {
	t.Helper()
	code := "module.exports = () => { " + body + " }"
	tree, err := compile.Parse("x.js", compile.WrapHead+code+compile.WrapTail)
	must.Do(t, err)
	p, err := compile.Assemble(tree)
	must.Do(t, err)
	if !p.Appends {
		t.Errorf("%s: nothing in it appends", body)
	}
	must.Same(t, body, evaluate(t, code+"// eval"), evaluate(t, code))
}

// TestNobodyNoticesAppends runs code that could see how often a name is looked up, and
// in which order. Most of it must stay as it is.
func TestNobodyNoticesAppends(t *testing.T) {
	t.Parallel()
	const traps = "has: (o, k) => { seen.push(String(k)); return true }, get: (o, k) => k === Symbol.unscopables ? undefined : 'v', set: () => true"
	for _, body := range []string{
		"const seen = []; let s = ''; with (new Proxy({}, { " + traps + " })) { s += 'x' } return seen",
		"let s = ''; with ({ s: 'in' }) { s += 'x'; return s }",
		"let n = 0; Object.defineProperty(globalThis, 'o', { configurable: true, get: () => (n++, { s: '' }) }); o.s += 'x'; return n",
		"let n = 0; Object.defineProperty(globalThis, 'o', { configurable: true, get: () => (n++, { s: '' }) }); { let o } o.s += 'x'; return n",
		"let n = 0; Object.defineProperty(globalThis, 'o', { configurable: true, get: () => (n++, { s: '' }) }); const f = (a = o.s += 'x') => { let o }; f(); return n",
		"let n = 0; Object.defineProperty(globalThis, 'o', { configurable: true, get: () => (n++, { s: '' }) }); for (const o of []); o.s += 'x'; return n",
		"const seen = [], p = new Proxy({}, { get: (o, k) => (seen.push('get ' + k), 'v'), set: (o, k, v) => seen.push('set ' + v) }); p.s += 'x'; return seen",
		"let s = 'x'; \\u0065val('var s = 1; s += 2'); s += 'y'; return s",
		"function* g() { let s = ''; for (;;) s += yield s } const it = g(); it.next(); it.next('a'); return it.next('b').value",
		"let s = ''; const f = async () => { s += await Promise.resolve('a'); s += 'b' }; return f().then(() => s)",
		"class A { #p = 'a'; static t = ''; s = ''; add(x) { this.#p += x; A.t += x; this.s += x; return [this.#p, A.t, this.s] } static { A.t += 'z' } } return new A().add('q')",
		"'use strict'; const o = Object.freeze({ s: '' }); try { o.s += 'x' } catch (err) { return err.message }",
		"function f(s) { s += 'x'; return arguments[0] } return f('a')",
		"let s = ''; s += (() => { try { return s } finally { s += 'in' } })(); return s",
		"const o = { s: '' }; o.s += o.s += 'a'; return o.s",
		"let s = 'x'.repeat(600); const o = { toString() { throw o } }; try { s += o } catch (err) { return err === o }",
		"let s = ''; outer: for (const a of [1, 2]) for (const b of [1, 2]) { if (b === 2) continue outer; s += `${a}${b}` } return s",
	} {
		code := "module.exports = () => { " + body + " }"
		must.Same(t, body, evaluate(t, code+"// eval"), evaluate(t, code))
	}
}

func TestAppendIsPlus(t *testing.T) {
	t.Parallel()
	const long = "let s = ''; s = 'x'.repeat(600); "
	for _, body := range []string{
		long + "s += 1; s += 1.5; s += -0; s += 1e21; s += 10n; s += true; s += null; s += undefined; return s",
		long + "s += [1, [2]]; s += {}; s += { valueOf: () => 7 }; s += { toString: () => 'y' }; s += new Date(NaN); return s",
		long + "s += { [Symbol.toPrimitive]: hint => hint }; return s",
		long + "s += Symbol('z'); return s",
		long + "s += { valueOf() { throw new Error('mine') } }; return s",
		"let s = ''; s = 5; s += 1; return s",
		"let s = ''; s = 5; s += '1'; return s",
		"let s = ''; s = undefined; s += 'x'; return s",
		"let s = ''; s = { valueOf: () => 3 }; s += 4; return s",
		"let s = ''; s = 10n; s += 4; return s",
		"const s = ''; s += 'x'; return s",
		"absent += 'x'; return absent",
		"s += 'x'; let s = ''; return s",
		long + "const f = () => { s += 'inner'; return 'f' }; s += f(); return s",
		long + "s += s; s += s; return s",
		long + "const before = s; s += 'a'; const between = s; s += 'b'; let other = between; other += 'c'; return [before, between, s, other]",
		long + "s += 'é'; const a = s; s += '\\ud83d'; const b = s; s += '\\ude00'; return [a, b, s, s.length]",
		long + "s += '\\ud800'; return s.charCodeAt(600)",
		"let s = 'é'.repeat(600); s += 'a'; const a = s; s += 'b'; s += '日'; return [a, s]",
		"const o = { s: 'x'.repeat(600) }; o.s += 'a'; o.s += 'b'; return o",
		"class A { s = 'x'.repeat(600); t = ''; add(x) { this.s += x + ','; return this } } return new A().add(1).add(2)",
		"const o = { get s() { n += '!'; return 'x' }, set s(v) { n += v } }; let n = ''; o.s += 'y'; return n",
		"let o = { s: '' }; const p = o; const f = () => { o = { s: 'new' }; return 'f' }; o.s += f(); return [o, p]",
		"const o = null; o.s += 'x'; return o",
		"const r = [1, 2].map(function (x) { let s = ''; s += `<${x}>`; return s + arguments.length }); return r",
		"let s = ''; const r = s += 'x'; return [r, s, (s += 'y'), s]",
		"const rows = [{ s: '' }, { s: '' }]; for (const row of rows) { row.s += 'x'; row.s += 'y' } return rows",
		"for (let o = { s: '' }, i = 0; ; i++) { o.s += i; if (i === 3) return o }",
		"const t = {}; t.text = ''; for (const w of ['a', 'b']) t.text += w; return t",
		"let a = 'x'.repeat(600), b = a, c = a, d = a, e = a, f = a; for (const w of ['1', '2', '3']) { a += w; b += w + w; c += w; d += w; e += 'é'; f += w } return [a, b, c, d, e, f]",
	} {
		sameAsPlus(t, body)
	}
}

// TestRandomAppends mixes appending with copies of the variables.
func TestRandomAppends(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	values := []string{"'a'", "'é'", "'\\ud83d'", "'\\ude00'", "7", "x", "y", "z", "'long'.repeat(50)", "'日'.repeat(9)"}
	for range 200 {
		var b strings.Builder
		b.WriteString("let x = 'x'.repeat(520), y = '', z = 'é'.repeat(300); const seen = [];")
		for range 30 {
			v := string("xyz"[r.IntN(3)])
			switch r.IntN(8) {
			case 0:
				fmt.Fprintf(&b, "%s = %c;", v, "xyz"[r.IntN(3)])
			case 1:
				fmt.Fprintf(&b, "seen.push(%s.length, %s.slice(-20));", v, v)
			case 2:
				fmt.Fprintf(&b, "%s = %s.slice(0, 600);", v, v)
			default:
				fmt.Fprintf(&b, "if (%s.length < 5000) %s += %s;", v, v, values[r.IntN(len(values))])
			}
		}
		b.WriteString("return [x, y, z, seen]")
		sameAsPlus(t, b.String())
	}
}

// TestAppendsCopyLittle appends one character after another. With a copy for each,
// that allocates 20 GB and more.
func TestAppendsCopyLittle(t *testing.T) {
	t.Parallel()
	for _, x := range []string{"x", "é"} {
		c := newExecution(&compile.Code{}, nil, Limits{})
		whole, one := c.VM.ToValue(""), c.VM.ToValue(x)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 200_000 {
			whole = c.appended([]goja.Value{whole, one})
		}
		runtime.ReadMemStats(&after)
		must.Same(t, "the text", strings.Repeat(x, 200_000), whole.String())
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 2<<30 {
			t.Errorf("%d MB were allocated", grown>>20)
		}
	}
}
