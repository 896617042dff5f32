package compile_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/jsruntime"
	"github.com/seed-72ea4aab/vault/jsruntime/internal/compile"
	"github.com/seed-72ea4aab/vault/script"
)

// withPatches uses classes of the prelude that build on intrinsics.
const withPatches = `module.exports = async () => {
  const out = [];
  const a = new AbortController();
  a.signal.onabort = (e) => out.push(e.type);
  a.abort();
  out.push(a.signal.reason.name, a.signal.reason instanceof Error, a.signal.reason.stack.split('\n')[0]);
  await new Promise((done) => { AbortSignal.timeout(1).onabort = done; setTimeout(() => {}, 60000); });
  const e = new DOMException('m', 'DataCloneError');
  out.push(e.name, e.code, String(e));
  const key = await crypto.subtle.importKey('raw', new Uint8Array(16), 'AES-GCM', true, ['encrypt']);
  try { await crypto.subtle.exportKey('spki', key); } catch (err) { out.push(err.name); }
  out.push(Buffer.from(await crypto.subtle.digest('SHA-256', Buffer.from('a'))).toString('hex').slice(0, 8));
  try { null.x; } catch (err) { out.push(err instanceof TypeError, new TypeError('t') instanceof Error, /^TypeError: t/.test(new TypeError('t').stack)); }
  return out;
};`

// TestComputedNames uses names created at run time to reach what patches
// repair.
func TestComputedNames(t *testing.T) {
	t.Parallel()
	r := jsruntime.NewInProcess(nil)
	for body, want := range map[string]string{
		`return new (/x/.constructor)('\\p{Lu}', 'u').test('A')`:                                                     "true",
		`return (function () { const k = ['Reg', 'Exp'].join(''); return new this[k]('\\p{Lu}', 'u').test('A') })()`: "true",
		`const k = ['to', 'LocaleString'].join(''); return (1234.5)[k]('en-US')`:                                     `"1,234.5"`,
		`return 'a\u2028b'[args]('a.b')`:                                                                             "null",
		`const k = ['capture', 'StackTrace'].join(''); return typeof Error[k]`:                                       `"function"`,
	} {
		p := script.Program{Tenant: "t", Source: "module.exports = ({ args }) => {" + body + "}"}
		must.Same(t, body, want, string(must.Get(r.Run(t.Context(), p, json.RawMessage(`{"args":"match"}`), nil))(t)))
	}
}

// TestPatchesTogether runs the same code with each patch, and with all of them.
func TestPatchesTogether(t *testing.T) {
	t.Parallel()
	r := jsruntime.NewInProcess(nil)
	const want = `["abort","AbortError",true,"AbortError: This operation was aborted","DataCloneError",25,"DataCloneError: m","NotSupportedError","ca978112",true,true,true]`
	sources := map[string]string{"none": "", "all": "globalThis;"}
	for patch, names := range compile.Patches {
		sources[patch] = "[" + "'" + strings.Join(append(strings.Fields(names), compile.Companions[patch]), "','") + "'];"
	}
	for name, source := range sources {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := r.Run(t.Context(), script.Program{Tenant: "t", Source: source + withPatches}, nil, nil)
			must.Same(t, fmt.Sprintf("%v", err), want, string(out))
		})
	}
}
