package given

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/script"
)

// Code is code that a runtime accepts.
const Code = "module.exports = async (req) => ({raw: 1})"

// Runtime runs a Go function in place of code, so that these tests cover what
// happens around it.
type Runtime func(ctx context.Context, input map[string]any, host script.Host) (any, error)

// Run implements [script.Runtime].
func (run Runtime) Run(ctx context.Context, _ script.Program, input json.RawMessage, host script.Host) (json.RawMessage, error) {
	var in map[string]any
	if err := json.Unmarshal(input, &in); err != nil {
		return nil, err
	}
	ctx, cancel := withoutDeadline(ctx)
	defer cancel()
	out, err := run(ctx, in, host)
	if err != nil {
		return nil, err
	}
	return json.Marshal(out)
}

// Receiver is a server that receives callbacks.
type Receiver struct {
	*httptest.Server
	mu     sync.Mutex
	status int
	Got    []*http.Request
	Bodies [][]byte
}

// NewReceiver starts a receiver.
func NewReceiver(t *testing.T) *Receiver {
	t.Helper()
	r := &Receiver{status: http.StatusOK}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.Got, r.Bodies = append(r.Got, req), append(r.Bodies, body)
		w.WriteHeader(r.status)
	}))
	t.Cleanup(r.Close)
	return r
}

// Answer sets the status of the next responses.
func (r *Receiver) Answer(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

// Count returns the number of callbacks.
func (r *Receiver) Count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.Got)
}

// ReactorParams returns the parameters of a reactor.
func ReactorParams(name string) vault.ReactorParams {
	return vault.ReactorParams{Name: name, Code: Code, Configuration: map[string]string{"a": "1", "b": "2"}}
}

// Check implements [script.Runtime].
func (Runtime) Check(_ context.Context, p script.Program) error {
	if p.Source == "broken" {
		return vault.ErrCode
	}
	return nil
}

// Close implements [script.Runtime].
func (Runtime) Close() error { return nil }

// withoutDeadline returns a context that ends when its parent is canceled, but
// ignores the parent's deadline, because a slow machine may need longer than code
// has.
func withoutDeadline(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(parent))
	stop := context.AfterFunc(parent, func() {
		if errors.Is(parent.Err(), context.Canceled) {
			cancel()
		}
	})
	return ctx, func() {
		stop()
		cancel()
	}
}
