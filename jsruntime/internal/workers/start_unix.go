//go:build unix

package workers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"syscall"

	"github.com/seed-72ea4aab/vault/script"
)

// workerEnv is the variable that makes a process a worker. Its value is the
// limit on memory.
const workerEnv = "VAULT_JSRUNTIME_WORKER"

// workerFD is where a worker finds its link.
const workerFD = 3

// starter starts worker processes, all from one operating system thread that
// lives as long as it does: the kernel ends a worker when the thread that
// started it ends, and with it when the embedding process dies. The thread also
// hands down that no program it starts gains rights; the embedding process keeps
// its own.
type starter struct {
	path    string
	memory  int64
	jobs    chan func()
	closing sync.Once
	done    chan struct{}
}

func newStarter(o Options) *starter {
	s := &starter{path: o.WorkerPath, memory: o.MemoryLimit, jobs: make(chan func()), done: make(chan struct{})}
	if s.path == "" {
		s.path = Program()
	}
	go func() {
		runtime.LockOSThread()
		_ = noNewPrivileges() // without it, a worker reports that it has no filter
		for {
			select {
			case f := <-s.jobs:
				f()
			case <-s.done:
				return // the thread ends with the goroutine
			}
		}
	}()
	return s
}

// Program names the program to start when the options name none.
var Program = selfPath

// selfPath names the running program, also when its file has been replaced.
func selfPath() string {
	if runtime.GOOS == "linux" {
		return "/proc/self/exe"
	}
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return path
}

func (s *starter) close() { s.closing.Do(func() { close(s.done) }) }

// start starts a worker and waits until it is ready.
func (s *starter) start(ctx context.Context) (*worker, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	type outcome struct {
		w   *worker
		err error
	}
	result := make(chan outcome, 1)
	select {
	case s.jobs <- func() {
		w, err := s.exec()
		result <- outcome{w, err}
	}:
	case <-s.done:
		return nil, script.ErrClosed
	}
	got := <-result
	if got.err != nil {
		return nil, fmt.Errorf("%w: %w", ErrWorker, got.err)
	}
	if err := got.w.handshake(); err != nil {
		return nil, err
	}
	return got.w, nil
}

// exec starts the process, with one end of a socket pair as its link, nothing
// to read, and an environment that says only what it is.
func (s *starter) exec() (*worker, error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer func() { _ = theirs.Close() }()
	w := &worker{link: newLink(ours), stderr: &head{}, dead: make(chan struct{})}
	w.cmd = &exec.Cmd{
		Path:        s.path,
		Args:        []string{"vault-jsruntime-worker"},
		Env:         []string{workerEnv + "=" + strconv.FormatInt(s.memory, 10), "GOTRACEBACK=none"},
		Dir:         "/",
		Stderr:      w.stderr,
		ExtraFiles:  []*os.File{theirs},
		SysProcAttr: processAttributes(),
	}
	if err := w.cmd.Start(); err != nil {
		_ = ours.Close()
		return nil, err
	}
	go func() {
		_ = w.cmd.Wait()
		_ = ours.Close()
		close(w.dead)
	}()
	return w, nil
}

// socketPair returns two connected sockets that no other process started
// meanwhile inherits. Ours can be closed while it is being read.
func socketPair() (ours, theirs *os.File, err error) {
	syscall.ForkLock.RLock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, err
	}
	err = syscall.SetNonblock(fds[0], true)
	ours, theirs = os.NewFile(uintptr(fds[0]), "worker"), os.NewFile(uintptr(fds[1]), "parent")
	if err != nil {
		_ = ours.Close()
		_ = theirs.Close()
		return nil, nil, err
	}
	return ours, theirs, nil
}
