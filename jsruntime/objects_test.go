package jsruntime_test

import (
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/jsruntime"
	"github.com/seed-72ea4aab/vault/script"
)

// TestObjectsPerRun limits the objects that a run allocates, which is most of
// the cost of starting it. A run pays for the modules that it uses, and little
// for the rest.
func TestObjectsPerRun(t *testing.T) { //nolint:paralleltest // it counts the objects of this process
	r := jsruntime.NewInProcess(nil)
	for _, c := range []struct {
		name, body string
		most       float64
	}{
		{"nothing", "return 1", 346},
		{"JSON", "return JSON.stringify({ a: 1 })", 530},
		{"a regular expression", "return /a/.test('a')", 870},
		{"setTimeout", "await new Promise((done) => setTimeout(done, 0)); return 1", 1_016},
		{"URL", "return new URL('https://a.example/x?y=1').href", 1_450},
		{"Buffer", "return Buffer.from('a').toString('hex')", 1_980},
		{"createHmac", "return require('crypto').createHmac('sha256', 'k').update('x').digest('hex')", 3_150},
		{"subtle.digest", "return (await crypto.subtle.digest('SHA-256', new Uint8Array(3))).byteLength", 5_130},
	} {
		p := script.Program{Tenant: "t", Source: "module.exports = async () => {" + c.body + "}"}
		got := testing.AllocsPerRun(20, func() {
			must.Get(r.Run(t.Context(), p, nil, &fakeHost{}))(t)
		})
		t.Logf("%s: %.0f objects", c.name, got)
		if got > c.most {
			t.Errorf("%s: a run allocates %.0f objects, want at most %.0f", c.name, got, c.most)
		}
	}
}
