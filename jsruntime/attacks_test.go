package jsruntime_test

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/long"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/jsruntime"
	"github.com/seed-72ea4aab/vault/script"
)

// residentBytes returns the resident memory of this process.
func residentBytes(t *testing.T) int64 {
	t.Helper()
	runtime.GC()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip("this system does not report the memory of a process")
	}
	for _, line := range strings.Split(string(status), "\n") {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb := must.Get(strconv.ParseInt(strings.Fields(rest)[0], 10, 64))(t)
			return kb << 10
		}
	}
	t.Fatal("no VmRSS")
	return 0
}

// attacks returns the attacks of this run. The short run has one for each way in
// which code takes an engine down.
func attacks(t *testing.T) []snippet {
	t.Helper()
	all := readCorpus(t, "attacks.jsonl")
	if !long.Run {
		all = slices.DeleteFunc(all, func(s snippet) bool { return !s.Short })
	}
	if len(all) < 10 {
		t.Fatalf("only %d attacks", len(all))
	}
	return all
}

// contained runs one attack, whatever its result, and then code of an innocent
// tenant, which must not be affected.
func contained(t *testing.T, r script.Runtime, attack, innocent, want string) {
	t.Helper()
	out, err := runBody(r, "attacker", attack, loopTime)
	t.Logf("got %.20s, %s", out, explain(err))
	must.Same(t, "the next tenant", want, must.Get(runBody(r, "other", innocent, patience))(t))
}

// TestAttacks runs code that hangs or kills a plain engine. The process
// survives, and the next tenant is not affected. It does not run in parallel
// with other tests, because it measures memory.
func TestAttacks(t *testing.T) {
	r := newWorkers(t, nil)
	before := residentBytes(t)
	for _, s := range attacks(t) {
		t.Run(s.Name, func(t *testing.T) { contained(t, r, s.Body, "return 1", "1") })
	}
	if grown := residentBytes(t) - before; grown > 20<<20 {
		t.Errorf("this process grew by %d MB, want less than 20", grown>>20)
	}
}

// TestAttacksWithPackages runs attacks together with packages: from the code of
// a tenant that has loaded one, and from inside a package.
func TestAttacksWithPackages(t *testing.T) {
	t.Parallel()
	files := map[string]string{"node_modules/helper/index.js": "exports.twice = (n) => 2 * n;"}
	all := attacks(t)
	if !long.Run {
		all = all[:3]
	}
	for i, s := range all {
		files[fmt.Sprintf("node_modules/attack%d/index.js", i)] = asFunction(s.Body)
	}
	r := newWorkers(t, &jsruntime.Options{Modules: writeFolder(t, files)})
	for i, s := range all {
		for where, body := range map[string]string{
			"beside a package": "require('helper').twice(1);" + s.Body,
			"in a package":     fmt.Sprintf("return await require('attack%d')({});", i),
		} {
			t.Run(s.Name+"/"+where, func(t *testing.T) {
				t.Parallel()
				contained(t, r, body, "return require('helper').twice(21)", "42")
			})
		}
	}
}

// TestAttacksInProcess runs the attacks that the engine itself contains.
func TestAttacksInProcess(t *testing.T) {
	t.Parallel()
	r := jsruntime.NewInProcess(nil)
	for _, body := range []string{
		"while(true){}",
		"(function f(){Promise.resolve().then(f)})(); await new Promise(()=>{})",
		"await new Promise(()=>{})",
		"let a=[1];for(let i=0;i<28;i++)a=[a,a];return a",
		"return {toJSON(){for(;;){}}}",
		"const f=()=>[1].forEach(f);return f()",
		"return eval(\"1\\n//# sourceMappingURL=file:///etc/hostname\") === 1 ? undefined.x : 0",
		"const a={};a.a=a;return a",
		"for(;;) console.log('x')",
		"setInterval(()=>{},1); await new Promise(()=>{})",
	} {
		t.Run(body, func(t *testing.T) {
			t.Parallel()
			if out, err := runBody(r, body, body, loopTime); err == nil {
				t.Errorf("got %s, want an error", out)
			} else {
				t.Log(explain(err))
			}
		})
	}
}
