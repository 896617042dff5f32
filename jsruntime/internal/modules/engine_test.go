package modules

import (
	"strings"
	"testing"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/seed-72ea4aab/vault/jsruntime/internal/compile"
)

// These tests guard undocumented behavior of goja and esbuild that this package
// relies on. A failure after an upgrade shows what has changed.

func TestCompilerWritesCommonJS(t *testing.T) {
	t.Parallel()
	unit := string(compile.Transform("import d from \"a\";\nexport default require(\"b\") + d;", api.LoaderJS, unitOptions).Code)
	for what, found := range map[string]bool{
		"defaultImport":                    defaultImport.MatchString(unit),
		"requireCall":                      len(requireCall.FindAllString(unit, -1)) == 2,
		"__toCommonJS, which build() sees": strings.Contains(unit, "__toCommonJS("),
	} {
		if !found {
			t.Errorf("esbuild writes CommonJS in another form; %s in build.go finds nothing in %s", what, unit)
		}
	}
}
