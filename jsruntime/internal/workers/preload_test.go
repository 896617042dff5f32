//go:build unix

package workers

import (
	"crypto/sha256"
	"strconv"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/jsruntime/internal/modules"
	"github.com/seed-72ea4aab/vault/jsruntime/internal/node"
	"github.com/seed-72ea4aab/vault/script"
)

// TestSparesPreload lets tenants use a package. Spare processes then receive
// the package and its dependencies ahead of time, and nothing else.
func TestSparesPreload(t *testing.T) {
	t.Parallel()
	dir := writePackages(t, map[string]string{
		"often":  "module.exports = require('needed') + 1",
		"needed": "module.exports = 1",
		"never":  "module.exports = 3",
	})
	r := New(&Options{Modules: dir})
	t.Cleanup(func() { _ = r.Close() })
	for tenant := range maxSpare + 2 { // the first tenants take spares that started before any use
		p := script.Program{Tenant: strconv.Itoa(tenant), Source: "module.exports = () => require('often')"}
		if out, err := r.Run(t.Context(), p, nil, noHost{}); err != nil || string(out) != "2" {
			t.Fatalf("got %s, %v, want 2", out, err)
		}
		r.spares.Wait()
	}
	want := map[string]bool{"node_modules/often/index.js": true, "node_modules/needed/index.js": true}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.spare) == 0 {
		t.Error("there is no spare process")
	}
	for _, w := range r.spare {
		got := map[string]bool{}
		for name := range w.units.Range {
			got[name.(string)] = true
		}
		must.Same(t, "a spare process was sent other units", want, got)
	}
}

// TestPreloadedUnits runs code in a worker that was sent a unit ahead of time.
// The worker asks which unit the name stands for, but does not request the
// unit.
func TestPreloadedUnits(t *testing.T) {
	t.Parallel()
	parent := serveParent(t)
	expect, send := parent.expect, parent.send
	unit := []byte("node_modules/often/index.js")
	send(kindUnit, 0, unit, []byte("module.exports = 7"), []byte("{}"))
	source := []byte("module.exports = () => require('often')")
	hash := sha256.Sum256(source)
	l := node.Limits{Timeout: 10 * time.Second, MaxSource: 1000, MaxOutput: 1000, MaxLog: 1000}
	send(kindRun, flagPackages, encodeLimits(l), hash[:], []byte("{}"), source)
	question := expect(kindAsk)
	must.Same(t, "the worker asks for", modules.AskFind, string(question.part(0)))
	send(kindTell, question.id, nil, unit)
	must.Same(t, "the result", "7", string(expect(kindDone).part(0)))
}
