//go:build linux && (amd64 || arm64)

package workers

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// allowedCalls are the system calls that a Go program needs to compute and to
// use open descriptors: memory, threads, signals, clocks, reading and writing.
// The last two are for programs linked with C.
var allowedCalls = []uint32{
	unix.SYS_READ, unix.SYS_WRITE, unix.SYS_CLOSE,
	unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT,
	unix.SYS_MUNMAP, unix.SYS_MADVISE, unix.SYS_MREMAP, unix.SYS_MINCORE, unix.SYS_BRK,
	unix.SYS_FUTEX, unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY, unix.SYS_GETPID, unix.SYS_GETTID,
	unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK,
	unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_CLOCK_GETTIME, unix.SYS_GETTIMEOFDAY, unix.SYS_RESTART_SYSCALL,
	unix.SYS_GETRANDOM, unix.SYS_EXIT, unix.SYS_EXIT_GROUP,
	unix.SYS_SET_ROBUST_LIST, unix.SYS_RSEQ,
}

// auditArch is the number of the architecture whose calls are allowed.
var auditArch = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}[runtime.GOARCH]

// threadFlags are the flags with which Go and the C libraries start a thread.
const threadFlags = unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_THREAD |
	unix.CLONE_SYSVSEM | unix.CLONE_SETTLS | unix.CLONE_PARENT_SETTID | unix.CLONE_CHILD_SETTID |
	unix.CLONE_CHILD_CLEARTID | unix.CLONE_DETACHED

// filterCalls makes the kernel reject every system call of this process that is
// not on the list, on all threads and permanently. It requires noNewPrivileges.
func filterCalls() error {
	program := callFilter(uint32(unix.Getpid()))
	whole := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	thread, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&whole))) //nolint:gosec // the call takes a pointer
	switch {
	case errno != 0:
		return fmt.Errorf("seccomp: %w", errno)
	case thread != 0:
		return errors.New("seccomp: a thread has a filter of its own")
	}
	return nil
}

// callFilter returns the filter as a BPF program. Rejected calls fail with
// EPERM. They have no effect, and a runtime or library that only tries a call
// continues without it. Calls of another architecture, whose numbers have other
// meanings, end the process. clone3 keeps its flags in memory, where a filter
// cannot see them. It fails with ENOSYS, which makes the C libraries fall back
// to clone.
func callFilter(pid uint32) []unix.SockFilter {
	p := []unix.SockFilter{
		load(4), // the architecture
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: auditArch, Jt: 1},
		verdict(unix.SECCOMP_RET_KILL_PROCESS),
		load(0), // the number of the call
	}
	for _, call := range allowedCalls {
		p = append(p, unless(call, 1), verdict(unix.SECCOMP_RET_ALLOW))
	}
	p = append(p, allowIf(unix.SYS_MMAP, 2, check{unix.BPF_JSET, unix.PROT_EXEC, false})...)
	p = append(p, allowIf(unix.SYS_MPROTECT, 2, check{unix.BPF_JSET, unix.PROT_EXEC, false})...)
	p = append(p, allowIf(unix.SYS_TGKILL, 0, check{unix.BPF_JEQ, pid, true})...)
	p = append(p, allowIf(unix.SYS_CLONE, 0,
		check{unix.BPF_JSET, ^uint32(threadFlags), false}, check{unix.BPF_JSET, unix.CLONE_THREAD, true})...)
	return append(p,
		unless(unix.SYS_CLONE3, 1), verdict(unix.SECCOMP_RET_ERRNO|uint32(unix.ENOSYS)),
		refuse)
}

// check compares an argument of a call with a value. want is the required
// result of the comparison.
type check struct {
	compare uint16
	value   uint32
	want    bool
}

// allowIf allows a call if its argument passes all checks, and rejects it
// otherwise. It checks the lower half of the argument, because the kernel reads
// no more of these arguments.
func allowIf(call uint32, arg int, checks ...check) []unix.SockFilter {
	p := []unix.SockFilter{unless(call, len(checks)+3), load(uint32(16 + 8*arg))}
	for i, c := range checks {
		step := unix.SockFilter{Code: unix.BPF_JMP | c.compare | unix.BPF_K, K: c.value}
		if refused := uint8(len(checks) - i); c.want {
			step.Jf = refused
		} else {
			step.Jt = refused
		}
		p = append(p, step)
	}
	return append(p, verdict(unix.SECCOMP_RET_ALLOW), refuse)
}

var refuse = verdict(unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM))

// load reads a word of the kernel's struct seccomp_data.
func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

// unless skips instructions for any other call.
func unless(call uint32, skip int) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jf: uint8(skip)}
}

func verdict(v uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: v}
}
