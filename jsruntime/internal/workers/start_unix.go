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

// workerEnv is the environment variable that makes a process a worker. Its
// value is the memory limit.
const workerEnv = "VAULT_JSRUNTIME_WORKER"

// workerFD is the descriptor of a worker's link.
const workerFD = 3

// starter starts all worker processes from one operating system thread, which
// lives as long as the starter. The kernel ends a worker when the thread that
// started it ends, and so when the embedding process dies. The thread also
// passes on that no program it starts may gain rights, or have capabilities. The
// embedding process itself keeps its rights.
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
		_ = noNewPrivileges()  // without it, a worker reports that it has no filter
		_ = dropCapabilities() // a kernel without capabilities has none to drop
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

// Program returns the path of the program to start if the options name none.
var Program = selfPath

// selfPath returns the path of the running program, even if its file has been
// replaced.
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
	var w *worker
	var err error
	started := make(chan struct{})
	select {
	case s.jobs <- func() {
		w, err = s.exec()
		close(started)
	}:
	case <-s.done:
		return nil, script.ErrClosed
	}
	<-started
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrWorker, err)
	}
	return w, w.handshake()
}

// exec starts the process with one end of a socket pair as its link. It has no
// standard input, and an environment that only marks it as a worker.
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

// socketPair returns two connected sockets that no concurrently started process
// inherits. ours can be closed during a read.
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
