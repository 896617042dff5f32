package jsruntime

import (
	"encoding/json"
	"errors"
	"os"
	"runtime"
	"runtime/metrics"
	"sync"
	"time"

	"github.com/seed-72ea4aab/vault/script"
)

func init() {
	natives = allNatives()
	becomeWorker()
}

// server is the worker's side of the link: it does one job after the other.
type server struct {
	link   *link
	memory uint64
	engine engine

	mu      sync.Mutex
	watcher *time.Timer
	current *execution
	runs    uint32 // jobs received
	halted  bool   // the parent asked to stop before the call was there
	asked   uint32 // questions
	asking  map[uint32]chan frame
}

// serveLink serves a parent until it hangs up. It first says whether system
// calls are filtered, or why not.
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
			s.engine.units.add(string(f.part(0)), string(f.part(1)), f.part(2))
			select {
			case units <- string(f.part(0)):
			default: // it is compiled when it is needed
			}
		case kindTell:
			s.told(f)
		case kindStop:
			s.halt(f.id)
		case kindReply:
			s.deliver(reply{id: int(f.id), result: f.part(0)})
		case kindRefuse:
			e := &script.HostError{}
			if json.Unmarshal(f.part(0), e) != nil {
				e.Message = "the operation failed"
			}
			s.deliver(reply{id: int(f.id), err: e})
		}
	}
}

// run does one job and sends its outcome.
func (s *server) run(f frame) {
	l, ok := decodeLimits(f.part(0))
	if !ok || len(f.part(1)) != len(codeHash{}) {
		return
	}
	j := job{check: f.id&flagCheck != 0, packages: f.id&flagPackages != 0, hash: codeHash(f.part(1)), input: f.part(2), source: string(f.part(3)), limits: l}
	var c *execution
	out, bad := s.engine.run(j, s, func(running *execution) {
		c = running
		s.started(running)
	})
	s.mu.Lock()
	s.current = nil
	if s.watcher != nil {
		s.watcher.Stop()
	}
	s.mu.Unlock()
	// A worker that is full is not worth keeping: it says so, and its parent
	// ends it.
	left := heapBytes()
	spent := flag(left > s.memory/2 || bad != nil && bad.Kind == script.Memory)
	if bad == nil {
		_ = s.link.send(kindDone, spent, out, c.usedUnits())
	} else {
		body, err := json.Marshal(bad)
		if err != nil {
			body, _ = json.Marshal(stopError(script.Crash))
		}
		_ = s.link.send(kindFailed, spent, body, c.usedUnits())
	}
	if left > s.memory/4 {
		runtime.GC() // what this run left must not count against the next one
	}
}

func flag(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

// started makes a call the current one and watches its memory.
func (s *server) started(c *execution) {
	s.mu.Lock()
	s.current = c
	s.watcher = time.AfterFunc(watchEvery, func() { s.watch(c) })
	halted := s.halted
	s.mu.Unlock()
	if halted {
		c.stop(script.Timeout)
	}
}

// watchEvery is how often the memory of a run is looked at.
const watchEvery = 3 * time.Millisecond

// watch stops a call that grows step by step, in good time and in an orderly
// way. Growth in one leap is left to the operating system.
func (s *server) watch(c *execution) {
	if heapBytes() > s.memory+s.memory/8 {
		c.stop(script.Memory)
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

// halt stops the run of a number. A parent may ask for it just when that run
// ends by itself; the one after it goes on.
func (s *server) halt(number uint32) {
	s.mu.Lock()
	c := s.current
	late := number != s.runs
	if !late {
		s.halted = true
	}
	s.mu.Unlock()
	if c != nil && !late {
		c.stop(script.Timeout)
	}
}

func (s *server) deliver(r reply) {
	s.mu.Lock()
	c := s.current
	s.mu.Unlock()
	if c != nil {
		c.deliver(r)
	}
}

func (s *server) call(id int, op string, args json.RawMessage) {
	_ = s.link.send(kindCall, uint32(id), []byte(op), args)
}

// ask sends a question to the parent and waits for the answer.
func (s *server) ask(done <-chan struct{}, question string, args ...string) ([]string, error) {
	answer := make(chan frame, 1)
	s.mu.Lock()
	s.asked++
	id := s.asked
	if s.asking == nil {
		s.asking = map[uint32]chan frame{}
	}
	s.asking[id] = answer
	s.mu.Unlock()
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
		return nil, errStopped
	}
}

// answer reads the answer to a question.
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

// told passes on the answer to a question. One that is not waited for any more
// is dropped.
func (s *server) told(f frame) {
	s.mu.Lock()
	answer := s.asking[f.id]
	delete(s.asking, f.id)
	s.mu.Unlock()
	if answer != nil {
		answer <- f
	}
}

// maxPreload bounds how many units are compiled before they are needed.
const maxPreload = 4096

// preload compiles a unit before a run needs it, unless one has begun.
func (s *server) preload(name string) {
	s.mu.Lock()
	begun := s.runs > 0
	s.mu.Unlock()
	if !begun {
		_, _ = s.engine.units.get(name, func() error { return errNotFound })
	}
}

func (s *server) log(level, line string) {
	_ = s.link.send(kindLog, 0, []byte(level), []byte(line))
}

func (s *server) crashed(text, stack string) {
	_ = s.link.send(kindCrash, 0, []byte(text), []byte(stack))
}

// WorkerMain is the main function of a program for [Options.WorkerPath]:
//
//	package main
//
//	import "github.com/seed-72ea4aab/vault/jsruntime"
//
//	func main() { jsruntime.WorkerMain() }
//
// Importing this package is what makes a process that was started as a worker
// one, before main begins. WorkerMain is reached only when the program was
// started by hand; it says what the program is for, and exits with status 2.
func WorkerMain() {
	_, _ = os.Stderr.WriteString("This program runs the code of tenants. Set its path as WorkerPath in jsruntime.Options.\n")
	os.Exit(2)
}
