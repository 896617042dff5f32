package relay

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"testing"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/relay/search"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// The search takes the tenant's turn, pays for the text that it holds back, and gives
// all back in the end.
func TestSearchIsChargedToTheTenant(t *testing.T) {
	t.Parallel()
	process := admission.New(1 << 30)
	var busy []*admission.Room
	for range runtime.GOMAXPROCS(0) {
		room := process.Enter(uuid.New(), uuid.UUID{}, false, nil)
		must.Do(t, room.Turn(t.Context()))
		busy = append(busy, room)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	room := process.Enter(uuid.New(), uuid.UUID{}, false, nil)
	e := &Echo{filters: []*search.Filter{search.New([]search.Secret{{Text: "secret"}}, search.SignsAlike)}, ctx: ctx, room: room}
	work := e.worker()
	if err := work(0); !errors.Is(err, context.Canceled) {
		t.Errorf("while others have all turns: %v", err)
	}
	bomb := &http.Response{StatusCode: 200, Header: http.Header{"Content-Encoding": {"gzip, gzip"}}, Body: io.NopCloser(bytes.NewReader(emptyInside(t)))}
	if err := (&cleanBody{raw: bomb.Body, echo: e}).open(bomb); !errors.Is(err, context.Canceled) {
		t.Errorf("a body that is large in the middle, while others have all turns: %v", err)
	}
	for _, other := range busy {
		other.Leave()
	}
	must.Do(t, work(0))
	must.Do(t, work(core.LargeBody))
	must.Same(t, "bytes for a large response", copies*core.LargeBody, room.Held())
	e.Close()
	must.Same(t, "bytes at the end", 0, room.Held())
	if err := work(0); !errors.Is(err, http.ErrBodyReadAfterClose) {
		t.Errorf("after the end: %v", err)
	}
}

// emptyInside returns nothing, compressed twice. Between both it has 50,000 bytes.
func emptyInside(t *testing.T) []byte {
	t.Helper()
	var middle, body bytes.Buffer
	z := gzip.NewWriter(&middle)
	for range 10_000 {
		must.Do(t, z.Flush())
	}
	must.Do(t, z.Close())
	z = gzip.NewWriter(&body)
	must.Get(z.Write(middle.Bytes()))(t)
	must.Do(t, z.Close())
	return body.Bytes()
}
