package relay_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/relay"
)

// A body that is nothing but beginnings of delimiters is read once, and not once
// for each of them: that would take minutes.
func TestDelimitersAreFoundInOnePass(t *testing.T) {
	t.Parallel()
	header := http.Header{"Content-Type": {`multipart/form-data; boundary="-"`}}
	start := time.Now()
	_, bad := relay.Scan(header, []byte("{{ x }}"+strings.Repeat("-", 4<<20)))
	if !bad.Any() {
		t.Error("the body is taken for a multipart one")
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("4 MiB took %s", took)
	}
}
