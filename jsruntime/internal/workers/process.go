package workers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-72ea4aab/vault/jsruntime/internal/compile"
	"github.com/seed-72ea4aab/vault/jsruntime/internal/modules"
	"github.com/seed-72ea4aab/vault/jsruntime/internal/node"
	"github.com/seed-72ea4aab/vault/script"
)

const (
	// startTimeout is how long a worker may take to report that it is ready.
	startTimeout = 30 * time.Second
	// grace is how long a run may take to end after its deadline before its
	// process is killed.
	grace = 100 * time.Millisecond
)

// worker is a worker process, as seen by the embedding process.
type worker struct {
	cmd    *exec.Cmd
	link   *link
	stderr *head
	dead   chan struct{} // closed when the process has ended
	killed atomic.Bool   // it has ended or soon will
	tenant string        // tenant whose code it has run, if runs is above 0
	runs   int
	since  time.Time             // idle since
	sent   map[compile.Hash]bool // sources that were sent to it
	units  sync.Map              // units that were sent to it
	// unfiltered is the reason why the kernel does not filter its system calls;
	// empty if it does.
	unfiltered string
}

func (w *worker) isDead() bool {
	if w.killed.Load() {
		return true
	}
	select {
	case <-w.dead:
		return true
	default:
		return false
	}
}

// kill ends the process at once. It also closes the link, so that a pending
// read fails now, and not when the kernel has reclaimed the memory.
func (w *worker) kill() {
	w.killed.Store(true)
	_ = w.cmd.Process.Kill()
	_ = w.link.rw.Close()
}

// handshake waits for the worker's first message.
func (w *worker) handshake() error {
	failed := make(chan error, 1)
	go func() {
		f, err := w.link.receive()
		if err == nil && (f.kind != kindHello || string(f.part(0)) != protocol) {
			err = errors.New("it uses another protocol: it was built from another version of this package")
		}
		w.unfiltered = string(f.part(1))
		failed <- err
	}()
	var err error
	select {
	case err = <-failed:
		if err == nil {
			return nil
		}
	case <-time.After(startTimeout):
		err = fmt.Errorf("it did not respond within %v", startTimeout)
	}
	w.kill()
	<-w.dead
	return fmt.Errorf("%w: %w; it wrote: %q", ErrWorker, err, w.stderr.String())
}

// running is one run in a worker, as seen by the embedding process.
type running struct {
	w      *worker
	number uint32 // among the runs of the worker
	ctx    context.Context
	host   script.Host
	source string
	store  *modules.Store
	crash  func(text, stack string)
	mu     sync.Mutex
	over   bool // no more replies
}

// run makes the worker do a job and serves its calls until it is done. healthy
// reports whether the worker can be used again. It cannot if it was killed,
// even if its result had already arrived.
func (w *worker) run(ctx context.Context, j node.Job, host script.Host, store *modules.Store, crash func(text, stack string)) (out json.RawMessage, healthy bool, err error) {
	w.runs++
	hostCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &running{w: w, number: uint32(w.runs), ctx: hostCtx, host: host, source: j.Source, store: store, crash: crash}
	deadline := time.Now().Add(j.Limits.Timeout)
	timer := time.AfterFunc(j.Limits.Timeout+grace, w.kill)
	unwatch := context.AfterFunc(ctx, func() { r.cancelled(deadline) })
	defer func() {
		unwatch()
		r.end()
		healthy = timer.Stop() && healthy && !w.killed.Load()
	}()
	return r.converse(j, deadline)
}

// converse sends the job and serves the worker until it is done.
func (r *running) converse(j node.Job, deadline time.Time) (out json.RawMessage, healthy bool, err error) {
	w := r.w
	if err := w.sendJob(j); err != nil {
		return nil, false, r.died(deadline)
	}
	for {
		f, err := w.link.receive()
		if err != nil {
			return nil, false, r.died(deadline)
		}
		switch f.kind {
		case kindCall:
			go r.serve(int(f.id), string(f.part(0)), f.part(1))
		case kindLog:
			logHost(r.host, string(f.part(0)), string(f.part(1)))
		case kindCrash:
			r.crash(string(f.part(0)), string(f.part(1)))
		case kindAsk:
			go r.tell(f)
		case kindDone:
			r.store.Used(f.part(1))
			return f.part(0), f.id == 0, nil
		case kindFailed:
			r.store.Used(f.part(1))
			return nil, f.id == 0, r.failed(f.part(0))
		default:
			return nil, false, node.StopError(script.Crash)
		}
	}
}

// maxSent limits how many sent sources a parent remembers.
const maxSent = 1000

// sendJob sends a job. It includes the source only the first time. A worker
// that has forgotten the source requests it.
func (w *worker) sendJob(j node.Job) error {
	flags := flagCheck*flag(j.Check) | flagPackages*flag(j.Packages)
	parts := [][]byte{encodeLimits(j.Limits), j.Hash[:], j.Input}
	if !w.sent[j.Hash] {
		parts = append(parts, []byte(j.Source))
	}
	if len(w.sent) >= maxSent || w.sent == nil {
		w.sent = map[compile.Hash]bool{}
	}
	w.sent[j.Hash] = true
	return w.link.send(kindRun, flags, parts...)
}

// preload sends units that the code of this worker is likely to need.
func (w *worker) preload(units []string) {
	for unit := range slices.Chunk(units, modules.UnitParts) {
		if w.link.send(kindUnit, 0, []byte(unit[0]), []byte(unit[1]), []byte(unit[2])) != nil {
			return // the next run will notice
		}
		w.hasUnit(unit[0])
	}
}

// hasUnit reports whether a unit was already sent to the worker, and records
// that it was.
func (w *worker) hasUnit(name string) bool {
	_, had := w.units.LoadOrStore(name, true)
	return had
}

// tell responds to a question of the worker, unless the run is over by then.
func (r *running) tell(f frame) {
	answer, err := []string{r.source}, error(nil)
	if question := string(f.part(0)); question != node.AskSource {
		args := make([]string, 0, len(f.parts))
		for _, p := range f.parts[1:] {
			args = append(args, string(p))
		}
		answer, err = r.store.Answer(question, args, r.w.hasUnit)
	}
	parts := [][]byte{nil}
	if err != nil {
		parts[0] = []byte(err.Error())
	}
	for _, text := range answer {
		parts = append(parts, []byte(text))
	}
	r.reply(frame{kindTell, f.id, parts}, kindTell, "the package is too large")
}

// reply sends a message, or a short one if it is too large, unless the run is over
// by now.
func (r *running) reply(f frame, kind byte, tooLarge string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return
	}
	if err := r.w.link.send(f.kind, f.id, f.parts...); errors.Is(err, errFrame) {
		_ = r.w.link.send(kind, f.id, []byte(tooLarge))
	}
}

// cancelled tells the worker to stop a run whose caller has gone, and kills the
// worker if it does not.
func (r *running) cancelled(deadline time.Time) {
	if r.ctx.Err() == context.DeadlineExceeded && time.Until(deadline) <= 0 {
		return // the worker knows its deadline
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return
	}
	go func() { _ = r.w.link.send(kindStop, r.number) }()
	time.AfterFunc(grace, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.over {
			r.w.kill()
		}
	})
}

// serve performs one call of the code and sends the response, unless the run is
// over by then.
func (r *running) serve(id int, op string, args json.RawMessage) {
	answer := callHost(r.ctx, r.host, id, op, args)
	kind, body := byte(kindReply), answer.Result
	if answer.Err != nil {
		kind = kindRefuse
		body, _ = json.Marshal(answer.Err)
	}
	r.reply(frame{kind, uint32(id), [][]byte{body}}, kindRefuse, `{"Status":413,"Message":"the response is too large"}`)
}

func (r *running) end() {
	r.mu.Lock()
	r.over = true
	r.mu.Unlock()
}

// failed decodes the error of a run that ended normally.
func (r *running) failed(body []byte) error {
	if r.ctx.Err() == context.Canceled {
		return r.ctx.Err()
	}
	e := &script.Error{}
	if err := json.Unmarshal(body, e); err != nil {
		return node.StopError(script.Crash)
	}
	return e
}

// died returns the reason why a worker has ended, as far as its standard error
// reveals it. A worker that this process killed did not crash.
func (r *running) died(deadline time.Time) error {
	killed := r.w.killed.Load()
	r.w.kill()
	if r.ctx.Err() == context.Canceled {
		return r.ctx.Err()
	}
	if time.Until(deadline) <= 0 {
		return node.StopError(script.Timeout)
	}
	select {
	case <-r.w.dead:
	case <-time.After(grace):
	}
	words := r.w.stderr.String()
	cause := causeOfDeath(words)
	if cause == script.Crash && !killed {
		r.crash(deathText(words), "")
	}
	return node.StopError(cause)
}

// causeOfDeath reads what Go writes when a process cannot continue. The garbage
// collector does not check its own memory allocations. If one fails, it uses
// address 0, on the stack of the runtime.
func causeOfDeath(words string) script.ErrorKind {
	switch {
	case strings.Contains(words, "out of memory"), strings.Contains(words, "cannot allocate memory"),
		strings.Contains(words, "pthread_create failed"),
		strings.HasPrefix(words, "SIGSEGV") && strings.Contains(words, " addr=0x0\n") && strings.Contains(words, "\ngoroutine 0 "):
		return script.Memory
	case strings.Contains(words, "stack overflow"), strings.Contains(words, "stack exceeds"):
		return script.Stack
	}
	return script.Crash
}

// head keeps the beginning of what is written to it.
type head struct {
	mu  sync.Mutex
	buf []byte
}

const maxHead = 2 << 10

// Write keeps as much as there is room for, and accepts everything.
func (h *head) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.buf = append(h.buf, p[:min(len(p), maxHead-len(h.buf))]...)
	return len(p), nil
}

func (h *head) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.TrimSpace(string(h.buf))
}
