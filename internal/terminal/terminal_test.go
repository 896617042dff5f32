package terminal

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

func TestProgressLine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text        string
		done, total int
		width       int
		want        string
	}{
		{"Rotating keys", 250, 1000, 80, "Rotating keys  [=======                       ]  250 of 1000  3s"},
		{"Rotating keys", 1000, 1000, 52, "Rotating keys  [================]  1000 of 1000  3s"},
		{"Rotating keys", 1200, 1000, 0, "Rotating keys  [==============================]  1000 of 1000  3s"},
		{"Rotating keys", 250, 1000, 40, "Rotating keys  250 of 1000  3s"},
		{"Rotating keys", 250, 1000, 20, "Rotating keys  250 "},
		{"Rotating keys", 0, 0, 80, "Rotating keys  3s"},
		{"Rotating keys", 0, 0, 1, ""},
	} {
		p := NewProgress(io.Discard)
		p.Set(c.text, c.done, c.total)
		must.Same(t, fmt.Sprintf("%d columns", c.width), c.want, p.line(c.width, 3*time.Second))
	}
}
