package compile

import (
	"testing"

	"github.com/seed-72ea4aab/vault/script"
)

// FuzzScan checks that the scan ends, and that code which passes it compiles or
// fails without a panic.
func FuzzScan(f *testing.F) {
	for _, s := range []string{
		"a=>b=>c", "`${`${1}`}`", "/[/]/.test(x)/2", "'\\'", "/*", "//", "`", "`${", "}}}", "({[", "a\n++\nb", "!!!x", "'a\\\nb'", "x = /=/", "#!x",
		"export default 1", "class A { #x; static {} }", "async function* f() {}", "\u2028", "\xff",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, source string) {
		if len(source) > 2000 {
			return
		}
		if _, err := Compile(source, 2000); err != nil && err.Kind != script.Invalid {
			t.Errorf("got %v", err)
		}
	})
}
