package jsruntime_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/jsruntime"
	"github.com/seed-72ea4aab/vault/script"
)

// blocking returns a host whose calls wait until release is closed, and the
// channel on which they say that they have begun.
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

const waits = `module.exports = ({ bt }) => bt.tokenize({})`

func program(tenant, source string) script.Program {
	return script.Program{Tenant: tenant, Name: "n", Source: source}
}

var withClient = json.RawMessage(`{"application":true}`)

// TestTenantLimit fills one tenant's places and queue. The tenant is refused,
// another one is not.
func TestTenantLimit(t *testing.T) {
	t.Parallel()
	r := newWorkers(t, &jsruntime.Options{Workers: 4, TenantWorkers: 2, Queue: 2})
	host, begun, release := blocking()
	var wg sync.WaitGroup
	results := make(chan error, 3)
	start := func() {
		wg.Add(1)
		go func() {
			defer wg.Done()
			_, err := r.Run(context.Background(), program("greedy", waits), withClient, host)
			results <- err
		}()
	}
	start()
	start()
	<-begun
	<-begun
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := r.Run(ctx, program("greedy", waits), withClient, host); !errors.Is(err, script.ErrBusy) {
		t.Errorf("a run that waited to the end of its time got %v, want ErrBusy", err)
	}
	start() // waits in the queue
	if out, err := r.Run(context.Background(), program("modest", "module.exports = () => 1"), nil, host); err != nil || string(out) != "1" {
		t.Errorf("another tenant got %s, %v", out, err)
	}
	close(release)
	wg.Wait()
	for range 3 {
		if err := <-results; err != nil {
			t.Errorf("a run within the limits got %v", err)
		}
	}
}

// TestStats has a run in progress, one that waits, and then none.
func TestStats(t *testing.T) {
	t.Parallel()
	r := newWorkers(t, &jsruntime.Options{Workers: 1, TenantWorkers: 1, Queue: 2})
	host, begun, release := blocking()
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			if _, err := r.Run(context.Background(), program("t", waits), withClient, host); err != nil {
				t.Error(explain(err))
			}
		})
	}
	<-begun
	for r.Stats().Waiting == 0 { // the other is on its way
		runtime.Gosched()
	}
	if s := r.Stats(); s.Workers != 1 || s.Busy != 1 || s.Idle != 0 || s.Waiting != 1 || s.Started < 1 {
		t.Errorf("with a run in progress: %+v", s)
	}
	close(release)
	wg.Wait()
	s := r.Stats()
	if s.Busy != 0 || s.Idle != 1 || s.Waiting != 0 || s.Started < s.Idle+s.Spare {
		t.Errorf("afterwards: %+v", s)
	}
}

// TestNested runs code that runs code. No depth waits for a place that its
// ancestors hold, and the fourth is refused.
func TestNested(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]script.Runtime{
		"workers":    newWorkers(t, &jsruntime.Options{Workers: 1, TenantWorkers: 1, Queue: -1}),
		"in process": jsruntime.NewInProcess(&jsruntime.Options{Workers: 1, TenantWorkers: 1, Queue: -1}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := `module.exports = async ({ bt }) => { try { return 1 + await bt.reactors.react('x') } catch (e) { return e.errors ? 1 : 100 } }`
			var host *fakeHost
			host = &fakeHost{answer: func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
				out, err := r.Run(ctx, program("t", source), withClient, host)
				if failed, ok := errors.AsType[*script.Error](err); ok {
					return nil, &script.HostError{Status: failed.Status, Errors: failed.Messages}
				}
				return out, err
			}}
			out, err := r.Run(context.Background(), program("t", source), withClient, host)
			if err != nil || string(out) != "3" {
				t.Errorf("got %s, %s, want 3", out, explain(err))
			}
		})
	}
}

func TestDeadlineAndCancel(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, r script.Runtime) {
		host, begun, _ := blocking()
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() {
			_, err := r.Run(ctx, program("t", waits), withClient, host)
			done <- err
		}()
		<-begun
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled run got %v, want context.Canceled", err)
		}
		if out, err := runBody(r, "t", "return 7", patience); err != nil || out != "7" {
			t.Fatalf("got %s, %s", out, explain(err))
		}
		_, err := runBody(r, "t", "setTimeout(() => {}, 1e9); await new Promise(() => {})", loopTime)
		if e := scriptError(t, err); e.Kind != script.Timeout || e.Messages["error"][0] != "timed out" {
			t.Errorf("got %s, want a timeout", explain(err))
		}
		if out, err := runBody(r, "t", "return 7", patience); err != nil || out != "7" {
			t.Errorf("afterwards: %s, %s", out, explain(err))
		}
	})
}

func TestClose(t *testing.T) {
	t.Parallel()
	r := jsruntime.New(nil)
	host, begun, _ := blocking()
	done := make(chan error, 1)
	go func() {
		_, err := r.Run(context.Background(), program("t", waits), withClient, host)
		done <- err
	}()
	<-begun
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; err == nil {
		t.Error("the run in progress got no error")
	}
	if _, err := r.Run(context.Background(), program("t", waits), nil, host); !errors.Is(err, script.ErrClosed) {
		t.Errorf("a run after Close got %v, want ErrClosed", err)
	}
}

// TestFailedStart names programs that are no workers. Code is refused with an
// error that shows why, and does not run anywhere.
func TestFailedStart(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho 'libfoo is missing' >&2\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ path, text string }{
		"not there": {"/nonexistent/worker", "no such file"},
		"broken":    {script, "libfoo is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := jsruntime.New(&jsruntime.Options{WorkerPath: c.path})
			defer r.Close()
			host := &fakeHost{}
			_, err := r.Run(context.Background(), program("t", "console.log('ran'); module.exports = () => 1"), nil, host)
			if !errors.Is(err, jsruntime.ErrWorker) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v, want ErrWorker with %q", err, c.text)
			}
			if err := r.Ready(context.Background()); !errors.Is(err, jsruntime.ErrWorker) {
				t.Errorf("Ready got %v, want ErrWorker", err)
			}
			if len(host.lines) != 0 {
				t.Error("the code ran all the same")
			}
		})
	}
}

// TestStrayVariable sets the variable of workers without a descriptor. The
// program goes on as if it were not there.
func TestStrayVariable(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(os.Args[0], "-test.run", "TestNothing")
	cmd.Env = append(os.Environ(), "VAULT_JSRUNTIME_WORKER=1000000")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "PASS") {
		t.Errorf("got %v: %s", err, out)
	}
}

// TestGarbageOfTheRunBefore has short runs that leave much garbage. It does not
// count against the next run.
func TestGarbageOfTheRunBefore(t *testing.T) {
	t.Parallel()
	r := newWorkers(t, &jsruntime.Options{Workers: 1})
	for i, size := range []string{"120e6", "120e6", "120e6", "60e6", "120e6", "30e6", "30e6", "120e6"} {
		if out, err := runBody(r, "t", "return new ArrayBuffer("+size+").byteLength", patience); err != nil {
			t.Errorf("run %d: %s, %s", i+1, out, explain(err))
		}
	}
}

// TestWorkerIsBare looks at what code can see of its process.
func TestWorkerIsBare(t *testing.T) {
	t.Setenv("VAULT_TEST_SECRET", "s3cret")
	r := newWorkers(t, nil)
	out, err := runBody(r, "t", `return JSON.stringify([process.env, Object.keys(globalThis), process.argv, Object.getOwnPropertyNames(globalThis)])`, patience)
	if err != nil {
		t.Fatal(explain(err))
	}
	for _, word := range []string{"s3cret", "VAULT", os.Args[0], "sys"} {
		if strings.Contains(out, `"`+word) {
			t.Errorf("the code can see %q", word)
		}
	}
}
