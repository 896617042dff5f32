//go:build unix && !linux

package workers

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// processAttributes adds nothing. A worker whose parent has ended stops when it
// finds its link closed.
func processAttributes() *syscall.SysProcAttr { return nil }

// noNewPrivileges does nothing, because only Linux supports it.
func noNewPrivileges() error { return nil }

// dropCapabilities does nothing, because only Linux has capabilities.
func dropCapabilities() error { return nil }

// closeInherited closes every descriptor above the link that was inherited from
// the embedding program. It also closes files and sockets that init functions
// of this process have opened. The poller of the Go runtime uses neither.
func closeInherited() error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	for fd := workerFD + 1; uint64(fd) < min(uint64(limit.Cur), 1<<16); fd++ {
		if isInherited(fd) || isFile(fd) {
			_ = unix.Close(fd)
		}
	}
	return nil
}

// isFile reports whether a descriptor is a file, a device or a socket.
func isFile(fd int) bool {
	var stat unix.Stat_t
	if unix.Fstat(fd, &stat) != nil {
		return false
	}
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFREG, unix.S_IFDIR, unix.S_IFCHR, unix.S_IFBLK, unix.S_IFSOCK:
		return true
	}
	return false
}
