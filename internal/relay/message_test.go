package relay

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// A body that is compressed twice may have a large form between two small ones: the
// compressed form of nothing, in many blocks.
func TestEveryFormOfABodyIsLimited(t *testing.T) {
	t.Parallel()
	const limit = 1000
	for name, test := range map[string]struct {
		blocks int
		want   string
	}{
		"small": {10, ""},
		"large": {10_000, "too large"},
	} {
		var middle, body bytes.Buffer
		z := gzip.NewWriter(&middle)
		for range test.blocks {
			must.Do(t, z.Flush())
		}
		must.Do(t, z.Close())
		z = gzip.NewWriter(&body)
		must.Get(z.Write(middle.Bytes()))(t)
		must.Do(t, z.Close())
		m := &Message{Header: http.Header{"Content-Encoding": {"gzip, gzip"}}, Body: body.Bytes()}
		if err := m.Decode(limit, uncharged); (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: a form of %d bytes: %v, want %q", name, middle.Len(), err, test.want)
		}
	}
}
