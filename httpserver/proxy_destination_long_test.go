//go:build long

package httpserver

import (
	"io"
	"net/http"
	"runtime"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// TestProxyStreamsResponsesInConstantMemory sends 1 GiB.
func TestProxyStreamsResponsesInConstantMemory(t *testing.T) {
	const size = 1 << 30
	w := newProxyVault(t, nil, &Options{MaxBody: 1000}, func(rw http.ResponseWriter, _ *http.Request) {
		body := endless(size)
		_, _ = io.CopyBuffer(struct{ io.Writer }{rw}, &body, make([]byte, 1<<20))
	})
	x := w.proxy(nil)
	res := must.Get(w.http.Do(w.request("GET", "/proxy", "", "SVC-API-KEY", w.PrivateKey, "SVC-PROXY-KEY", x.Key)))(t)
	defer res.Body.Close()
	peak, n, piece := uint64(0), int64(0), make([]byte, 1<<20)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	base := m.HeapInuse
	for i := 0; ; i++ {
		got, err := res.Body.Read(piece)
		n += int64(got)
		if err == io.EOF {
			break
		}
		must.Do(t, err)
		if i%2000 == 0 {
			runtime.ReadMemStats(&m)
			peak = max(peak, m.HeapInuse)
		}
	}
	same(t, "n", n, size)
	if peak > base+64<<20 {
		t.Errorf("the heap grew from %d to %d MiB", base>>20, peak>>20)
	}
}
