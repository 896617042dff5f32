//go:build long

package search

import (
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// repeated returns a text over and over, and looks at the heap now and then.
type repeated struct {
	text string
	left int
	peak uint64
}

func (r *repeated) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, io.EOF
	}
	if r.left>>26 != (r.left-len(r.text))>>26 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		r.peak = max(r.peak, m.HeapAlloc)
	}
	r.left -= len(r.text)
	return copy(p, r.text), nil
}

// A stream of 1 GiB takes as much memory as a short one.
func TestMemoryOfALongStream(t *testing.T) {
	for name, text := range map[string]string{
		"JSON":    strings.Repeat(`{"id":"ch_1A2b3C","amount":4200,"card":{"last4":"4242"},"url":"https:\/\/example.com\/a%20b"},`+"\n", 100),
		"secrets": strings.Repeat("4242424242424242", 500),
		"starts":  strings.Repeat(`\u0034242424242424`, 400),
	} {
		var before runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		from := &repeated{text: text, left: 1 << 30}
		must.Get(io.Copy(io.Discard, filterOf("4242424242424242", "Jane Doe").Reader(from)))(t)
		grown := int64(from.peak) - int64(before.HeapAlloc)
		t.Logf("%s: %d kB", name, grown>>10)
		if grown > 1<<20 {
			t.Errorf("%s: %d bytes of heap", name, grown)
		}
	}
}
