//go:build unix && !linux

package workers

import "syscall"

// processAttributes has nothing to add: a worker whose parent is gone ends
// when it finds its link closed.
func processAttributes() *syscall.SysProcAttr { return nil }

// noNewPrivileges has nothing to do: only Linux has this.
func noNewPrivileges() error { return nil }
