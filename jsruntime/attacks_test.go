package jsruntime_test

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/jsruntime"
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

// TestAttacks runs code that hangs or kills a plain engine. The process lives,
// the answer comes in time, and the next tenant notices nothing. It runs by
// itself, because it measures time.
func TestAttacks(t *testing.T) {
	const limit = 500 * time.Millisecond
	r := newWorkers(t, nil)
	if _, err := runBody(r, "other", "return 1", limit); err != nil {
		t.Fatal(err)
	}
	before := residentBytes(t)
	for _, s := range readCorpus(t, "attacks.jsonl") {
		t.Run(s.Name, func(t *testing.T) {
			start := time.Now()
			_, err := runBody(r, "attacker", s.Body, limit)
			if took := time.Since(start); took > limit+150*time.Millisecond {
				t.Errorf("the answer took %v, want at most %v", took, limit+150*time.Millisecond)
			}
			took := time.Since(start)
			start = time.Now()
			out, otherErr := runBody(r, "other", "return 1", limit)
			if otherErr != nil || out != "1" {
				t.Errorf("the next tenant got %q, %s", out, explain(otherErr))
			}
			if took := time.Since(start); took > 20*time.Millisecond {
				t.Errorf("the next tenant waited %v, want at most 20ms", took)
			}
			t.Logf("%v then %v: %s", took, time.Since(start), explain(err))
		})
	}
	if grown := residentBytes(t) - before; grown > 20<<20 {
		t.Errorf("this process grew by %d MB, want less than 20", grown>>20)
	}
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
