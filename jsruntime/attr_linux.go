package jsruntime

import "syscall"

// processAttributes has the kernel end a worker together with its parent.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
