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
// then does not return. It acts only when the descriptor is the socket that a
// parent hands over, so that a stray variable in an environment does nothing.
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
	// The file starts the poller of the Go runtime, which opens descriptors of
	// its own; from then on no number of a closed one is used again.
	l := newLink(os.NewFile(workerFD, "parent"))
	if err := confine(memory); err != nil {
		_, _ = os.Stderr.WriteString(err.Error())
		os.Exit(3)
	}
	serveLink(l, memory, filterCalls())
	os.Exit(0)
}

// confine takes from this process what it does not need and sets its bounds. If
// that fails, the worker does not start: a worker without bounds is worse than
// none.
func confine(memory int64) error {
	runtime.GOMAXPROCS(1) // more would only spin while one thing is done at a time
	debug.SetGCPercent(400)
	debug.SetMemoryLimit(memory)
	debug.SetMaxStack(64 << 20)
	if err := closeInherited(); err != nil {
		return fmt.Errorf("cannot close inherited descriptors: %w", err)
	}
	for _, l := range resourceLimits(memory) {
		if err := syscall.Setrlimit(l.resource, &syscall.Rlimit{Cur: l.value, Max: l.value}); err != nil {
			return fmt.Errorf("cannot set the limit %s: %w", l.name, err)
		}
	}
	return nil
}

// isInherited tells whether a descriptor was open before this program began.
// Those survive only without the flag that Go sets on every one it opens.
func isInherited(fd int) bool {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return err == nil && flags&unix.FD_CLOEXEC == 0
}

// resourceLimit is a bound that the operating system keeps.
type resourceLimit struct {
	name     string
	resource int
	value    uint64
}

// resourceLimits are: twice the heap of memory and what the stacks of threads
// take, no core dumps, which would put card numbers on a disk, no files
// written, and none opened.
func resourceLimits(memory int64) []resourceLimit {
	return []resourceLimit{
		{"RLIMIT_DATA", syscall.RLIMIT_DATA, uint64(2*memory + 64<<20 + DetectorMemory)},
		{"RLIMIT_CORE", syscall.RLIMIT_CORE, 0},
		{"RLIMIT_FSIZE", syscall.RLIMIT_FSIZE, 0},
		{"RLIMIT_NOFILE", syscall.RLIMIT_NOFILE, 0},
	}
}
