package jsruntime_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/jsruntime"
	"github.com/seed-72ea4aab/vault/script"
)

// fakeHost responds to calls with answer and keeps the log.
type fakeHost struct {
	answer func(ctx context.Context, op string, args json.RawMessage) (json.RawMessage, error)

	mu    sync.Mutex
	lines []string
}

func (h *fakeHost) Call(ctx context.Context, op string, args json.RawMessage) (json.RawMessage, error) {
	if h.answer == nil {
		return nil, errors.New("no host")
	}
	return h.answer(ctx, op, args)
}

func (h *fakeHost) Log(line script.Line) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, line.Level+": "+line.Text)
}

const (
	// patience is the time limit for code that should end. It does not depend
	// on how busy the machine is.
	patience = 2 * time.Minute
	// loopTime is the time limit for code that should not end. The worker is
	// ready before it begins.
	loopTime = 300 * time.Millisecond
)

func newWorkers(t testing.TB, o *jsruntime.Options) *jsruntime.Workers {
	t.Helper()
	r := jsruntime.New(o)
	t.Cleanup(func() {
		must.Match(t, "Close", r.Close(), nil)
	})
	must.Do(t, r.Ready(context.Background()))
	return r
}

// blocking returns a host whose calls wait until release is closed, and a
// channel that receives each call that has begun.
func blocking() (host *fakeHost, begun chan string, release chan struct{}) {
	begun, release = make(chan string, 100), make(chan struct{})
	return &fakeHost{answer: func(ctx context.Context, op string, args json.RawMessage) (json.RawMessage, error) {
		begun <- op
		select {
		case <-release:
			return json.RawMessage(`1`), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}, begun, release
}

// explain shows the parts of a script error that its text leaves out.
func explain(err error) string {
	if e, ok := errors.AsType[*script.Error](err); ok {
		return fmt.Sprintf("%s %d %q %s %v %v", e.Kind, e.Status, e.Title, e.Name, e.Messages, e.Frames)
	}
	return fmt.Sprint(err)
}

// scriptError returns the error as a script error, or fails the test.
func scriptError(t *testing.T, err error) *script.Error {
	t.Helper()
	e, ok := errors.AsType[*script.Error](err)
	if !ok {
		t.Fatalf("got error %v, want a *script.Error", err)
	}
	return e
}
