//go:build unix && !linux

package workers

import "syscall"

// processAttributes adds nothing. A worker whose parent has ended stops when it
// finds its link closed.
func processAttributes() *syscall.SysProcAttr { return nil }

// noNewPrivileges does nothing, because only Linux supports it.
func noNewPrivileges() error { return nil }

// dropCapabilities does nothing, because only Linux has capabilities.
func dropCapabilities() error { return nil }
