package jsruntime_test

import (
	"testing"

	"github.com/seed-72ea4aab/vault/script"
)

// TestEndlessRegexpTimesOut uses a pattern that takes exponential time. The run ends at
// its deadline, in a worker and in process.
func TestEndlessRegexpTimesOut(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, r script.Runtime) {
		if out, err := runBody(r, "t", "return 7", patience); err != nil || out != "7" {
			t.Fatalf("got %s, %s", out, explain(err))
		}
		for _, body := range []string{`return /^(a+)+$/.test('a'.repeat(60) + 'b')`, `return 'a'.repeat(60).replace(/(?:(?:a|a)*)*b/g, '')`} {
			_, err := runBody(r, "t", body, loopTime)
			if e := scriptError(t, err); e.Kind != script.Timeout {
				t.Errorf("%s: got %s, want a timeout", body, explain(err))
			}
		}
	})
}
