package vault

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A body that is nothing but beginnings of delimiters is read once, and not once
// for each of them: that would take minutes.
func TestDelimitersAreFoundInOnePass(t *testing.T) {
	t.Parallel()
	header := http.Header{"Content-Type": {`multipart/form-data; boundary="-"`}}
	start := time.Now()
	_, err := scanBody(header, []byte("{{ x }}"+strings.Repeat("-", 4<<20)))
	if !errors.Is(err, ErrInvalid) {
		t.Errorf("%v", err)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("4 MiB took %s", took)
	}
}
