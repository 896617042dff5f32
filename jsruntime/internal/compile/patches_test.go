package compile

import (
	"slices"
	"testing"
)

// TestNeededPatches checks programs that reach intrinsics in different ways.
func TestNeededPatches(t *testing.T) {
	t.Parallel()
	for source, want := range map[string][]string{
		"// prepareStackTrace, RegExp, JSON\nexports.f = (a, i) => a[i] + a[0] + a[i + 1]": nil,
		"JSON.stringify(1)":                   {"patch_json"},
		"const { Proxy: P } = x":              {"patch_proxy"},
		"module.exports = { Proxy }":          {"patch_proxy"},
		"x['Proxy']":                          {"patch_proxy"},
		"const k = 'toLocaleString'; x[k]":    {"patch_locale"},
		"/a/.test(b)":                         {RegexpPatch},
		"'a'.match('b')":                      {RegexpPatch},
		"Uint8Array.of(1)":                    nil,
		"Uint8Array.from(x)":                  {"patch_typed"},
		"const m = new WeakMap()":             nil,
		"x['Pro' + 'xy']":                     {"all"},
		"x[`Proxy`]":                          {"all"},
		"x[f()]":                              {"all"},
		"eval(x)":                             {"all"},
		"(() => {}).constructor('x')":         {"all"},
		"class A { constructor() {} }":        nil,
		"x[k]":                                nil,
		"x[k](1)":                             {"patch_locale", RegexpPatch},
		"x?.[req.method](1)":                  {"patch_locale", RegexpPatch},
		"''[k](1)":                            {"patch_locale", RegexpPatch},
		"const x = { a() {} }; x[k](1)":       nil,
		"let x = { a() {} }; x = ''; x[k](1)": {"patch_locale", RegexpPatch},
		"((x) => x[k](1))({})":                {"patch_locale", RegexpPatch},
		"const x = {}; for (const x of list) x[k](1)":   {"patch_locale", RegexpPatch},
		"const x = {}; { const [x] = list; x[k](1) }":   {"patch_locale", RegexpPatch},
		"const x = {}; { const { a: x } = y; x[k](1) }": {"patch_locale", RegexpPatch},
		"new this[k]()":         {"all"},
		"Symbol[k]":             {"all"},
		"String.prototype[k]":   {"all"},
		"const { [k]: f } = ''": {"all"},
	} {
		code, bad := Compile(source, 1000)
		if bad != nil {
			t.Fatal(bad)
		}
		if len(want) == 1 && want[0] == "all" {
			if len(code.Patches) != len(patches) {
				t.Errorf("%s: got %v, want all", source, code.Patches)
			}
		} else if !slices.Equal(code.Patches, want) {
			t.Errorf("%s: got %v, want %v", source, code.Patches, want)
		}
	}
}
