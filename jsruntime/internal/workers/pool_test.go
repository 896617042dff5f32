package workers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/script"
)

// fakeHost responds to calls with answer and counts log lines.
type fakeHost struct {
	answer func(ctx context.Context, op string, args json.RawMessage) (json.RawMessage, error)
	lines  atomic.Int64
}

func (h *fakeHost) Call(ctx context.Context, op string, args json.RawMessage) (json.RawMessage, error) {
	return h.answer(ctx, op, args)
}

func (h *fakeHost) Log(script.Line) { h.lines.Add(1) }

func newWorkers(t *testing.T, o *Options) *Pool {
	t.Helper()
	r := New(o)
	t.Cleanup(func() { _ = r.Close() })
	must.Do(t, r.Ready(t.Context()))
	return r
}

// eachRuntime runs a test with workers and in process.
func eachRuntime(t *testing.T, o *Options, f func(t *testing.T, r script.Runtime)) {
	t.Run("workers", func(t *testing.T) {
		t.Parallel()
		f(t, newWorkers(t, o))
	})
	t.Run("in process", func(t *testing.T) {
		t.Parallel()
		f(t, NewInProcess(o))
	})
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

// start starts a run that waits for the host, and returns a channel for its error.
func start(ctx context.Context, r script.Runtime, tenant string, host script.Host) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := r.Run(ctx, program(tenant, waits), withClient, host)
		done <- err
	}()
	return done
}

// writePackages returns a folder of packages with one file each.
func writePackages(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		folder := filepath.Join(dir, "node_modules", name)
		must.Do(t, os.MkdirAll(folder, 0o700))
		must.Do(t, os.WriteFile(filepath.Join(folder, "index.js"), []byte(text), 0o600))
	}
	return dir
}

const seven = `module.exports = () => 7`

const waits = `module.exports = ({ bt }) => bt.tokenize({})`

func program(tenant, source string) script.Program {
	return script.Program{Tenant: tenant, Name: "n", Source: source}
}

var withClient = json.RawMessage(`{"application":true}`)

// TestTenantLimit fills one tenant's places and queue. Further runs of the
// tenant are rejected, but runs of another tenant are not.
func TestTenantLimit(t *testing.T) {
	t.Parallel()
	r := newWorkers(t, &Options{Workers: 4, TenantWorkers: 2, Queue: 2})
	host, begun, release := blocking()
	runs := []<-chan error{start(t.Context(), r, "greedy", host), start(t.Context(), r, "greedy", host)}
	<-begun
	<-begun
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	must.Fail(r.Run(ctx, program("greedy", waits), withClient, host))(t, "a run that waited until its deadline", script.ErrBusy)
	runs = append(runs, start(t.Context(), r, "greedy", host)) // waits in the queue
	if out, err := r.Run(context.Background(), program("modest", "module.exports = () => 1"), nil, host); err != nil || string(out) != "1" {
		t.Errorf("another tenant got %s, %v", out, err)
	}
	close(release)
	for _, done := range runs {
		must.Match(t, "a run within the limits", <-done, nil)
	}
}

// TestStats has a run in progress and a waiting one, and then none.
func TestStats(t *testing.T) {
	t.Parallel()
	r := newWorkers(t, &Options{Workers: 1, TenantWorkers: 1, Queue: 2})
	host, begun, release := blocking()
	first, second := start(t.Context(), r, "t", host), start(t.Context(), r, "t", host)
	<-begun
	for r.Stats().Waiting == 0 { // the other is on its way
		runtime.Gosched()
	}
	if s := r.Stats(); s.Workers != 1 || s.Busy != 1 || s.Idle != 0 || s.Waiting != 1 || s.Started < 1 {
		t.Errorf("with a run in progress: %+v", s)
	}
	close(release)
	must.Do(t, errors.Join(<-first, <-second))
	s := r.Stats()
	if s.Busy != 0 || s.Idle != 1 || s.Waiting != 0 || s.Started < s.Idle+s.Spare {
		t.Errorf("afterwards: %+v", s)
	}
}

// TestNestedRunsHaveTheirOwnPlaces runs code that runs code. No depth waits for a place that its
// ancestors hold, and the fourth depth is rejected.
func TestNestedRunsHaveTheirOwnPlaces(t *testing.T) {
	t.Parallel()
	eachRuntime(t, &Options{Workers: 1, TenantWorkers: 1, Queue: -1}, func(t *testing.T, r script.Runtime) {
		source := `module.exports = async ({ bt }) => { try { return 1 + await bt.reactors.react('x') } catch (e) { return e.errors ? 1 : 100 } }`
		var host *fakeHost
		host = &fakeHost{answer: func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
			out, err := r.Run(ctx, program("t", source), withClient, host)
			if failed, ok := errors.AsType[*script.Error](err); ok {
				return nil, &script.HostError{Status: failed.Status, Errors: failed.Messages}
			}
			return out, err
		}}
		must.Same(t, "the result", "3", string(must.Get(r.Run(context.Background(), program("t", source), withClient, host))(t)))
	})
}

func TestDeadlineAndCancel(t *testing.T) {
	t.Parallel()
	eachRuntime(t, nil, func(t *testing.T, r script.Runtime) {
		host, begun, _ := blocking()
		ctx, cancel := context.WithCancel(context.Background())
		done := start(ctx, r, "t", host)
		<-begun
		cancel()
		must.Match(t, "a cancelled run", <-done, context.Canceled)
		if out, err := r.Run(t.Context(), program("t", seven), nil, host); err != nil || string(out) != "7" {
			t.Fatalf("got %s, %v", out, err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_, err := r.Run(ctx, program("t", "module.exports = () => { setTimeout(() => {}, 1e9); return new Promise(() => {}) }"), nil, host)
		if e, ok := errors.AsType[*script.Error](err); !ok || e.Kind != script.Timeout || e.Messages["error"][0] != "timed out" {
			t.Errorf("got %v, want a timeout", err)
		}
		must.Same(t, "afterwards", "7", string(must.Get(r.Run(t.Context(), program("t", seven), nil, host))(t)))
	})
}

func TestLazy(t *testing.T) {
	t.Parallel()
	for _, lazy := range []bool{false, true} {
		r := New(&Options{Lazy: lazy})
		r.spares.Wait()
		if n := r.Stats().Started; (n == 0) != lazy {
			t.Errorf("lazy %v: %d workers are started", lazy, n)
		}
		must.Do(t, r.Close())
	}
}

func TestClose(t *testing.T) {
	t.Parallel()
	r := New(nil)
	host, begun, _ := blocking()
	done := start(context.Background(), r, "t", host)
	<-begun
	must.Do(t, r.Close())
	if err := <-done; err == nil {
		t.Error("the run in progress got no error")
	}
	must.Same(t, "Close counts as", 0, r.Stats().Crashes)
	must.Fail(r.Run(context.Background(), program("t", waits), nil, host))(t, "a run after Close", script.ErrClosed)
}

// TestCodeDoesNotRunWithoutAWorker names programs that are not workers. Code is rejected with an
// error that shows the reason, and does not run anywhere.
func TestCodeDoesNotRunWithoutAWorker(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "broken")
	must.Do(t, os.WriteFile(script, []byte("#!/bin/sh\necho 'libfoo is missing' >&2\nexit 1\n"), 0o700))
	for name, c := range map[string]struct{ path, text string }{
		"not there": {"/nonexistent/worker", "no such file"},
		"broken":    {script, "libfoo is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := New(&Options{WorkerPath: c.path})
			defer r.Close()
			host := &fakeHost{}
			_, err := r.Run(context.Background(), program("t", "console.log('ran'); module.exports = () => 1"), nil, host)
			if !errors.Is(err, ErrWorker) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v, want ErrWorker with %q", err, c.text)
			}
			must.Match(t, "Ready", r.Ready(context.Background()), ErrWorker)
			must.Same(t, "the code ran anyway", int64(0), host.lines.Load())
		})
	}
}

// TestSharedEngine runs the same programs and packages concurrently. They are
// compiled once and shared.
func TestSharedEngine(t *testing.T) {
	t.Parallel()
	const text = "exports.re = /^x/m; exports.n = 1"
	dir := writePackages(t, map[string]string{"one": text, "two": text})
	r := NewInProcess(&Options{Modules: dir, Workers: 8, TenantWorkers: 8, Queue: 100})
	t.Cleanup(func() { _ = r.Close() })
	var all sync.WaitGroup
	for i := range 40 {
		source := fmt.Sprintf(`module.exports = async () => {
			const p = require(%q);
			await null;
			return [p.re.test('a\nx'), p.n + new URL('https://a.example/').href.length, Buffer.from('a').toString('hex'), %d]
		}`, []string{"one", "two"}[i%2], i%3)
		want := fmt.Sprintf(`[true,19,"61",%d]`, i%3)
		all.Go(func() {
			if out, err := r.Run(t.Context(), program("t", source), nil, &fakeHost{}); err != nil || string(out) != want {
				t.Errorf("got %s, %v, want %s", out, err, want)
			}
		})
	}
	all.Wait()
}
