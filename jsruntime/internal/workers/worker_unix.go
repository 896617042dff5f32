//go:build unix

package workers

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// becomeWorker turns this process into a worker if it was started as one, and
// then does not return. It does so only if the descriptor is the socket of a
// parent, so that a stray environment variable has no effect.
func becomeWorker() {
	memory, err := strconv.ParseInt(os.Getenv(workerEnv), 10, 64)
	if err != nil || memory <= 0 {
		return
	}
	kind, err := syscall.GetsockoptInt(workerFD, syscall.SOL_SOCKET, syscall.SO_TYPE)
	if err != nil || kind != syscall.SOCK_STREAM {
		return
	}
	os.Clearenv()
	time.Local = time.FixedZone("Coordinated Universal Time", 0)
	if err := syscall.SetNonblock(workerFD, true); err != nil {
		os.Exit(3)
	}
	// NewFile starts the poller of the Go runtime, which opens descriptors.
	// After that, no number of a closed descriptor is reused.
	l := newLink(os.NewFile(workerFD, "parent"))
	if err := confine(memory); err != nil {
		_, _ = os.Stderr.WriteString(err.Error())
		os.Exit(3)
	}
	serveLink(l, memory, filterCalls())
	os.Exit(0)
}

// confine removes what this process does not need and sets its limits. If that
// fails, the worker does not start, because a worker without limits is worse
// than none.
func confine(memory int64) error {
	runtime.GOMAXPROCS(1) // more would only spin, because one thing is done at a time
	debug.SetGCPercent(400)
	debug.SetMemoryLimit(memory)
	debug.SetMaxStack(64 << 20)
	if err := closeInherited(); err != nil {
		return fmt.Errorf("cannot close inherited descriptors: %w", err)
	}
	// The memory is twice the heap plus the stacks of threads. A worker can write and
	// open no files. It dumps no core, because that would put card numbers on a disk.
	for _, l := range []struct {
		name     string
		resource int
		value    uint64
	}{
		{"RLIMIT_DATA", syscall.RLIMIT_DATA, uint64(2*memory + 64<<20 + DetectorMemory)},
		{"RLIMIT_CORE", syscall.RLIMIT_CORE, 0},
		{"RLIMIT_FSIZE", syscall.RLIMIT_FSIZE, 0},
		{"RLIMIT_NOFILE", syscall.RLIMIT_NOFILE, 0},
	} {
		if err := syscall.Setrlimit(l.resource, &syscall.Rlimit{Cur: l.value, Max: l.value}); err != nil {
			return fmt.Errorf("cannot set the limit %s: %w", l.name, err)
		}
	}
	return nil
}

// isInherited reports whether a descriptor was open before this program began.
// Go sets close-on-exec on every descriptor it opens, so inherited ones lack
// that flag.
func isInherited(fd int) bool {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return err == nil && flags&unix.FD_CLOEXEC == 0
}
