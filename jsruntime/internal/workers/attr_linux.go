package workers

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// processAttributes makes the kernel end a worker together with its parent.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// noNewPrivileges keeps the calling thread, and every process that it starts,
// from gaining rights by running a program.
func noNewPrivileges() error {
	return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
}
