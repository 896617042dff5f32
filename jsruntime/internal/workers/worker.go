package workers

import (
	"encoding/json"
	"errors"
	"runtime"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-72ea4aab/vault/jsruntime/internal/compile"
	"github.com/seed-72ea4aab/vault/jsruntime/internal/modules"
	"github.com/seed-72ea4aab/vault/jsruntime/internal/node"
	"github.com/seed-72ea4aab/vault/script"
)

func init() { becomeWorker() }

// server is the worker's side of the link. It does one job after the other.
type server struct {
	link   *link
	memory uint64
	engine node.Engine

	mu      sync.Mutex
	watcher *time.Timer
	current *node.Execution
	runs    uint32 // jobs received
	halted  bool   // the parent requested a stop before the call existed

	asked  atomic.Uint32 // questions sent
	asking sync.Map      // from the number of a question to the channel for its reply
}

// serveLink serves a parent until it closes the link. It first reports whether
// system calls are filtered, or why not.
func serveLink(l *link, memory int64, unfiltered error) {
	s := &server{link: l, memory: uint64(memory)}
	reason := ""
	if unfiltered != nil {
		reason = unfiltered.Error()
	}
	if err := l.send(kindHello, 0, []byte(protocol), []byte(reason)); err != nil {
		return
	}
	jobs := make(chan frame, 1)
	go func() {
		for f := range jobs {
			s.run(f)
		}
	}()
	units := make(chan string, maxPreload)
	go func() {
		for name := range units {
			s.preload(name)
		}
	}()
	for {
		f, err := l.receive()
		if err != nil {
			return
		}
		switch f.kind {
		case kindRun:
			s.mu.Lock()
			s.runs++
			s.halted = false
			s.mu.Unlock()
			jobs <- f
		case kindUnit:
			s.engine.Units.Add(string(f.part(0)), string(f.part(1)), f.part(2))
			select {
			case units <- string(f.part(0)):
			default: // it is compiled when needed
			}
		case kindTell:
			if answer, ok := s.asking.LoadAndDelete(f.id); ok { // it is still expected
				answer.(chan frame) <- f
			}
		case kindStop:
			s.halt(f.id)
		case kindReply:
			s.deliver(node.Reply{ID: int(f.id), Result: f.part(0)})
		case kindRefuse:
			e := &script.HostError{}
			if json.Unmarshal(f.part(0), e) != nil {
				e.Message = "the operation failed"
			}
			s.deliver(node.Reply{ID: int(f.id), Err: e})
		}
	}
}

// run does one job and sends its outcome.
func (s *server) run(f frame) {
	l, ok := decodeLimits(f.part(0))
	if !ok || len(f.part(1)) != len(compile.Hash{}) {
		return
	}
	j := node.Job{Check: f.id&flagCheck != 0, Packages: f.id&flagPackages != 0, Hash: compile.Hash(f.part(1)), Input: f.part(2), Source: string(f.part(3)), Limits: l}
	var c *node.Execution
	out, bad := s.engine.Run(j, s, func(running *node.Execution) {
		c = running
		s.started(running)
	})
	s.mu.Lock()
	s.current = nil
	if s.watcher != nil {
		s.watcher.Stop()
	}
	s.mu.Unlock()
	// A worker whose memory is mostly used up is not worth keeping. It reports
	// that, and its parent ends it.
	left := heapBytes()
	spent := flag(left > s.memory/2 || bad != nil && bad.Kind == script.Memory)
	if bad == nil {
		_ = s.link.send(kindDone, spent, out, c.UsedUnits())
	} else {
		body, err := json.Marshal(bad)
		if err != nil {
			body, _ = json.Marshal(node.StopError(script.Crash))
		}
		_ = s.link.send(kindFailed, spent, body, c.UsedUnits())
	}
	if left > s.memory/4 {
		runtime.GC() // garbage of this run must not count against the next one
	}
}

func flag(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

// started makes a call the current one and watches its memory.
func (s *server) started(c *node.Execution) {
	s.mu.Lock()
	s.current = c
	s.watcher = time.AfterFunc(watchEvery, func() { s.watch(c) })
	halted := s.halted
	s.mu.Unlock()
	if halted {
		c.Stop(script.Timeout)
	}
}

// watchEvery is how often the memory of a run is checked.
const watchEvery = 3 * time.Millisecond

// watch stops a call whose memory grows gradually, early and in an orderly way.
// The operating system handles sudden growth.
func (s *server) watch(c *node.Execution) {
	if heapBytes() > s.memory+s.memory/8 {
		c.Stop(script.Memory)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == c {
		s.watcher.Reset(watchEvery)
	}
}

// heapBytes returns the size of the heap.
func heapBytes() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// halt stops the run with a number. If that run has just ended, the next run
// continues.
func (s *server) halt(number uint32) {
	s.mu.Lock()
	c := s.current
	late := number != s.runs
	if !late {
		s.halted = true
	}
	s.mu.Unlock()
	if c != nil && !late {
		c.Stop(script.Timeout)
	}
}

func (s *server) deliver(r node.Reply) {
	s.mu.Lock()
	c := s.current
	s.mu.Unlock()
	if c != nil {
		c.Deliver(r)
	}
}

func (s *server) Call(id int, op string, args json.RawMessage) {
	_ = s.link.send(kindCall, uint32(id), []byte(op), args)
}

// Ask sends a question to the parent and waits for the reply.
func (s *server) Ask(done <-chan struct{}, question string, args ...string) ([]string, error) {
	answer := make(chan frame, 1)
	id := s.asked.Add(1)
	s.asking.Store(id, answer)
	parts := [][]byte{[]byte(question)}
	for _, text := range args {
		parts = append(parts, []byte(text))
	}
	if err := s.link.send(kindAsk, id, parts...); err != nil {
		return nil, err
	}
	select {
	case f := <-answer:
		return f.answer()
	case <-done:
		return nil, node.ErrStopped
	}
}

// answer decodes the reply to a question.
func (f frame) answer() ([]string, error) {
	if text := f.part(0); len(text) > 0 {
		return nil, errors.New(string(text))
	}
	var out []string
	for i := 1; i < len(f.parts); i++ {
		out = append(out, string(f.parts[i]))
	}
	return out, nil
}

// maxPreload limits how many units are compiled before they are needed.
const maxPreload = 4096

// preload compiles a unit before a run needs it, unless a run has begun.
func (s *server) preload(name string) {
	s.mu.Lock()
	begun := s.runs > 0
	s.mu.Unlock()
	if !begun {
		_, _ = s.engine.Units.Get(name, func() error { return modules.ErrNotFound })
	}
}

func (s *server) Log(level, line string) {
	_ = s.link.send(kindLog, 0, []byte(level), []byte(line))
}

func (s *server) Crashed(text, stack string) {
	_ = s.link.send(kindCrash, 0, []byte(text), []byte(stack))
}
