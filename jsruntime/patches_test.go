package jsruntime

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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

// TestPatchesTogether runs the same code under each patch, and under all of them.
func TestPatchesTogether(t *testing.T) {
	t.Parallel()
	r := NewInProcess(nil)
	const want = `["abort","AbortError",true,"AbortError: This operation was aborted","DataCloneError",25,"DataCloneError: m","NotSupportedError","ca978112",true,true,true]`
	sources := map[string]string{"none": "", "all": "globalThis;"}
	for patch, names := range patches {
		sources[patch] = "[" + "'" + strings.Join(append(strings.Fields(names), companions[patch]), "','") + "'];"
	}
	for name, source := range sources {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := r.Run(t.Context(), script.Program{Tenant: "t", Source: source + withPatches}, nil, noHost{})
			if diff := cmp.Diff(want, string(out)); diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// TestNeededPatches looks at programs that reach intrinsics in different ways.
func TestNeededPatches(t *testing.T) {
	t.Parallel()
	for source, want := range map[string][]string{
		"// prepareStackTrace, RegExp, JSON\nexports.f = (a, i) => a[i] + a[0] + a[i + 1]": nil,
		"JSON.stringify(1)":                  {"patch_json"},
		"const { Proxy: P } = x":             {"patch_proxy"},
		"module.exports = { Proxy }":         {"patch_proxy"},
		"x['Proxy']":                         {"patch_proxy"},
		"const k = 'toLocaleString'; x[k]()": {"patch_locale"},
		"/a/.test(b)":                        {regexpPatch},
		"'a'.match('b')":                     {regexpPatch},
		"Uint8Array.of(1)":                   nil,
		"Uint8Array.from(x)":                 {"patch_typed"},
		"const m = new WeakMap()":            nil,
		"x['Pro' + 'xy']":                    {"all"},
		"x[`Proxy`]":                         {"all"},
		"x[f()]":                             {"all"},
		"eval(x)":                            {"all"},
		"(() => {}).constructor('x')":        {"all"},
		"class A { constructor() {} }":       nil,
	} {
		code, bad := compile(source, 1000)
		if bad != nil {
			t.Fatal(bad)
		}
		if len(want) == 1 && want[0] == "all" {
			if len(code.patches) != len(patches) {
				t.Errorf("%s: got %v, want all", source, code.patches)
			}
		} else if !slices.Equal(code.patches, want) {
			t.Errorf("%s: got %v, want %v", source, code.patches, want)
		}
	}
}
