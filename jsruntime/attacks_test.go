package jsruntime_test

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/jsruntime"
	"github.com/seed-72ea4aab/vault/script"
)

// residentBytes returns the memory of this process as the operating system
// counts it.
func residentBytes(t *testing.T) int64 {
	t.Helper()
	runtime.GC()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip("this system does not tell the memory of a process")
	}
	for _, line := range strings.Split(string(status), "\n") {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kb << 10
		}
	}
	t.Fatal("no VmRSS")
	return 0
}

// attackLimit is the time that an attack is given.
const attackLimit = 500 * time.Millisecond

// TestAttacks runs code that hangs or kills a plain engine. The process lives,
// the answer comes in time, and the next tenant notices nothing. It does not
// run beside other tests, because it measures time; on a machine that is busy
// with other things an attack has a few tries to be seen contained in time.
func TestAttacks(t *testing.T) {
	r := newWorkers(t, nil)
	if _, err := runBody(r, "other", "return 1", attackLimit); err != nil {
		t.Fatal(explain(err))
	}
	before := residentBytes(t)
	for _, s := range readCorpus(t, "attacks.jsonl") {
		t.Run(s.Name, func(t *testing.T) {
			late := ""
			for range 5 {
				if late = attack(t, r, s.Body); late == "" {
					return
				}
			}
			t.Error(late)
		})
	}
	if grown := residentBytes(t) - before; grown > 20<<20 {
		t.Errorf("this process grew by %d MB, want less than 20", grown>>20)
	}
}

// attack runs one attack and then an innocent tenant's code. It returns what
// took too long.
func attack(t *testing.T, r script.Runtime, body string) (late string) {
	t.Helper()
	start := time.Now()
	_, err := runBody(r, "attacker", body, attackLimit)
	took := time.Since(start)
	start = time.Now()
	out, otherErr := runBody(r, "other", "return 1", attackLimit)
	next := time.Since(start)
	if otherErr != nil || out != "1" {
		t.Errorf("the next tenant got %q, %s", out, explain(otherErr))
	}
	t.Logf("after %v: %s; the next tenant after %v", took, explain(err), next)
	switch {
	case took > attackLimit+150*time.Millisecond:
		return fmt.Sprintf("the answer took %v, want at most %v", took, attackLimit+150*time.Millisecond)
	case next > 20*time.Millisecond:
		return fmt.Sprintf("the next tenant waited %v, want at most 20ms", next)
	}
	return ""
}

// TestAttacksInProcess runs what the engine contains by itself.
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
			if out, err := runBody(r, body, body, 300*time.Millisecond); err == nil {
				t.Errorf("got %s, want an error", out)
			} else {
				t.Log(explain(err))
			}
		})
	}
}
