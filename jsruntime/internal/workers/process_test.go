package workers

import (
	"bytes"
	"context"
	"encoding/json"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/jsruntime/internal/modules"
	"github.com/seed-72ea4aab/vault/jsruntime/internal/node"
	"github.com/seed-72ea4aab/vault/script"
)

// recording is a link to a worker that sends everything at once, whatever it
// receives, and then closes.
type recording struct{ *bytes.Reader }

func (recording) Write(p []byte) (int, error) { return len(p), nil }
func (recording) Close() error                { return nil }

// said returns a link that delivers these frames.
func said(t *testing.T, frames ...frame) *link {
	t.Helper()
	var all bytes.Buffer
	out := &link{rw: written{&all}}
	for _, f := range frames {
		must.Do(t, out.send(f.kind, f.id, f.parts...))
	}
	return newLink(recording{bytes.NewReader(all.Bytes())})
}

type written struct{ *bytes.Buffer }

func (written) Close() error { return nil }

// slowLog is a host that accepts a line of the console only after the worker
// has died.
type slowLog struct {
	w     *worker
	begun func()
}

func (h slowLog) Call(context.Context, string, json.RawMessage) (json.RawMessage, error) {
	return nil, nil
}

func (h slowLog) Log(script.Line) {
	h.begun()
	<-h.w.dead
}

// TestKilledWorkerIsNotReused kills a worker whose result has arrived but has not
// been read yet, because its caller has gone or its time is up. The result
// counts, but the worker is not used again.
func TestKilledWorkerIsNotReused(t *testing.T) {
	t.Parallel()
	r := New(nil)
	t.Cleanup(func() { _ = r.Close() })
	for name, c := range map[string]struct {
		timeout time.Duration
		leaves  bool
	}{"caller gone": {time.Minute, true}, "time up": {time.Millisecond, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := must.Get(r.starter.start(t.Context()))(t)
			w.link = said(t, frame{kind: kindLog}, frame{kind: kindDone, parts: [][]byte{[]byte("1")}})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			begun := func() {}
			if c.leaves {
				begun = cancel
			}
			out, healthy, err := w.run(ctx, node.Job{Limits: node.Limits{Timeout: c.timeout}}, slowLog{w, begun}, &modules.Store{}, func(string, string) {})
			if string(out) != "1" || err != nil || healthy {
				t.Errorf("got %q, %v, healthy: %v", out, err, healthy)
			}
		})
	}
}

// fleeting is a host whose log ends the goroutine that calls it.
type fleeting struct{ noHost }

func (fleeting) Log(script.Line) { runtime.Goexit() }

// TestWorkerIsReleasedIfLogEndsItsGoroutine uses a console that ends the goroutine of the run.
// The worker is not leaked, and its place is free.
func TestWorkerIsReleasedIfLogEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	r := New(&Options{Workers: 1})
	t.Cleanup(func() { _ = r.Close() })
	p := script.Program{Tenant: "t", Name: "n", Source: "module.exports = () => { console.log(1); return 1 }"}
	var ended sync.WaitGroup
	ended.Go(func() { _, _ = r.Run(context.Background(), p, nil, fleeting{}) })
	ended.Wait()
	must.Same(t, "workers are left behind", 0, len(r.busy))
	must.Same(t, "afterwards", "1", string(must.Get(r.Run(t.Context(), p, nil, noHost{}))(t)))
}

func TestCauseOfDeath(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]script.ErrorKind{
		"fatal error: runtime: out of memory\n\nruntime stack:": script.Memory,
		"fatal error: runtime: cannot allocate memory":          script.Memory,
		"SIGSEGV: segmentation violation\nPC=0x439bbd m=4 sigcode=1 addr=0x0\n\ngoroutine 0 gp=0x1baed2d47860 m=4 mp=0x1baed2d97808 [idle]:\nruntime.(*spanQueue).tryDrain(0x470003)": script.Memory,
		"SIGSEGV: segmentation violation\nPC=0x439bbd m=4 sigcode=1 addr=0x10\n\ngoroutine 0 gp=0x1baed2d47860 m=4":                                                                   script.Crash,
		"panic: runtime error: invalid memory address or nil pointer dereference\n[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x1]\n\ngoroutine 1 [running]:":        script.Crash,
		"runtime: goroutine stack exceeds 67108864-byte limit": script.Stack,
		"": script.Crash,
	} {
		must.Same(t, words, want, causeOfDeath(words))
	}
}
