//go:build amd64 || arm64

package workers

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// probeEnv makes TestSystemCallsAreRejected a process under the filter.
const probeEnv = "JSRUNTIME_TEST_PROBE"

var null = [...]byte{'/', 'd', 'e', 'v', '/', 'n', 'u', 'l', 'l', 0}

// probes are calls that reach outside of the process. Without the filter, each
// would have an effect or fail in another way.
func probes() map[string][]uintptr {
	path := uintptr(unsafe.Pointer(&null))
	parent := uintptr(os.Getppid())
	var page [4096]byte
	memory := uintptr(unsafe.Pointer(&page))
	return map[string][]uintptr{
		"openat":                {unix.SYS_OPENAT, 0, path, 0},
		"openat2":               {unix.SYS_OPENAT2, 0, path, memory, 24},
		"open_by_handle_at":     {unix.SYS_OPEN_BY_HANDLE_AT, 0, memory, 0},
		"memfd_create":          {unix.SYS_MEMFD_CREATE, path, 0},
		"unlinkat":              {unix.SYS_UNLINKAT, 0, memory, 0},
		"renameat2":             {unix.SYS_RENAMEAT2, 0, memory, 0, memory, 0},
		"getdents64":            {unix.SYS_GETDENTS64, 0, memory, 4096},
		"readlinkat":            {unix.SYS_READLINKAT, 0, path, memory, 4096},
		"chdir":                 {unix.SYS_CHDIR, path},
		"fcntl":                 {unix.SYS_FCNTL, 0, unix.F_DUPFD, 0},
		"dup":                   {unix.SYS_DUP, 0},
		"ioctl":                 {unix.SYS_IOCTL, 0, unix.TIOCSTI, memory},
		"socket":                {unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM, 0},
		"socketpair":            {unix.SYS_SOCKETPAIR, unix.AF_UNIX, unix.SOCK_STREAM, 0, memory},
		"connect":               {unix.SYS_CONNECT, 0, memory, 16},
		"bind":                  {unix.SYS_BIND, 0, memory, 16},
		"accept4":               {unix.SYS_ACCEPT4, 0, 0, 0, 0},
		"sendto":                {unix.SYS_SENDTO, 0, memory, 1, 0, 0, 0},
		"sendmsg":               {unix.SYS_SENDMSG, 0, memory, 0},
		"recvmsg":               {unix.SYS_RECVMSG, 0, memory, 0},
		"execve":                {unix.SYS_EXECVE, path, 0, 0},
		"execveat":              {unix.SYS_EXECVEAT, 0, path, 0, 0, 0},
		"fork":                  {unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0},
		"vfork":                 {unix.SYS_CLONE, unix.CLONE_VM | unix.CLONE_VFORK | uintptr(unix.SIGCHLD), 0, 0, 0, 0},
		"clone of namespaces":   {unix.SYS_CLONE, unix.CLONE_NEWUSER, 0, 0, 0, 0},
		"thread in a namespace": {unix.SYS_CLONE, threadFlags | unix.CLONE_NEWNET, 0, 0, 0, 0},
		"clone3":                {unix.SYS_CLONE3, memory, 0},
		"unshare":               {unix.SYS_UNSHARE, unix.CLONE_NEWUSER},
		"setns":                 {unix.SYS_SETNS, 0, 0},
		"ptrace":                {unix.SYS_PTRACE, unix.PTRACE_SEIZE, parent, 0, 0},
		"process_vm_readv":      {unix.SYS_PROCESS_VM_READV, parent, memory, 1, memory, 1, 0},
		"process_vm_writev":     {unix.SYS_PROCESS_VM_WRITEV, parent, memory, 1, memory, 1, 0},
		"pidfd_open":            {unix.SYS_PIDFD_OPEN, parent, 0},
		"pidfd_getfd":           {unix.SYS_PIDFD_GETFD, 0, 0, 0},
		"kill of the parent":    {unix.SYS_KILL, parent, 0},
		"kill of all":           {unix.SYS_KILL, ^uintptr(0), 0},
		"tgkill of itself":      {unix.SYS_TGKILL, uintptr(os.Getpid()), uintptr(os.Getpid()), 0},
		"tgkill of the parent":  {unix.SYS_TGKILL, parent, parent, 0},
		"tkill of the parent":   {unix.SYS_TKILL, parent, 0},
		"prlimit of the parent": {unix.SYS_PRLIMIT64, parent, unix.RLIMIT_CORE, 0, memory},
		"setrlimit":             {unix.SYS_SETRLIMIT, unix.RLIMIT_NOFILE, memory},
		"prctl":                 {unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 1},
		"seccomp":               {unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, memory},
		"setuid":                {unix.SYS_SETUID, uintptr(os.Getuid())},
		"mount":                 {unix.SYS_MOUNT, path, path, path, 0, 0},
		"umount2":               {unix.SYS_UMOUNT2, memory, 0},
		"pivot_root":            {unix.SYS_PIVOT_ROOT, memory, memory},
		"chroot":                {unix.SYS_CHROOT, memory},
		"bpf":                   {unix.SYS_BPF, 0, memory, 0},
		"perf_event_open":       {unix.SYS_PERF_EVENT_OPEN, memory, 0, 0, 0, 0},
		"io_uring_setup":        {unix.SYS_IO_URING_SETUP, 1, memory},
		"userfaultfd":           {unix.SYS_USERFAULTFD, 1},
		"keyctl":                {unix.SYS_KEYCTL, 0, 0, 0, 0, 0},
		"init_module":           {unix.SYS_INIT_MODULE, memory, 0, path},
		"reboot":                {unix.SYS_REBOOT, 0, 0, 0, 0},
		"executable mmap":       {unix.SYS_MMAP, 0, 4096, unix.PROT_READ | unix.PROT_EXEC, unix.MAP_PRIVATE | unix.MAP_ANON, ^uintptr(0), 0},
		"executable mprotect":   {unix.SYS_MPROTECT, memory &^ 4095, 4096, unix.PROT_READ | unix.PROT_EXEC},
	}
}

// TestSystemCallsAreRejected makes system calls under the filter, in a separate process.
// Each is rejected with EPERM, except clone3, which the C libraries can do
// without. Calls that Go needs still work.
func TestSystemCallsAreRejected(t *testing.T) {
	t.Parallel()
	if os.Getenv(probeEnv) != "" {
		probe()
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^TestSystemCallsAreRejected$")
	cmd.Env = append(os.Environ(), probeEnv+"=1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	got := map[string]int{}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name := range probes() {
		want := unix.EPERM
		switch name {
		case "clone3":
			want = unix.ENOSYS
		case "tgkill of itself":
			want = 0
		}
		must.Same(t, name, want, unix.Errno(got[name]))
	}
}

// probe makes the calls on a thread that existed before the filter.
func probe() {
	all, ready, filtered := probes(), make(chan struct{}), make(chan struct{})
	got, done := map[string]int{}, make(chan struct{})
	go func() {
		runtime.LockOSThread()
		close(ready)
		<-filtered
		for name, p := range all {
			args := append(p[1:len(p):len(p)], 0, 0, 0, 0, 0)
			_, _, errno := unix.RawSyscall6(p[0], args[0], args[1], args[2], args[3], args[4], args[5])
			got[name] = int(errno)
		}
		close(done)
	}()
	<-ready
	if err := errors.Join(noNewPrivileges(), filterCalls()); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	close(filtered)
	<-done
	_ = json.NewEncoder(os.Stdout).Encode(got)
	os.Exit(0)
}

// none is an empty set of capabilities in /proc.
const none = "0000000000000000\n"

// TestFilterCoversEveryThread checks every thread of a worker: it has the filter,
// and no capabilities even if this process is root.
func TestFilterCoversEveryThread(t *testing.T) {
	t.Parallel()
	r := New(nil)
	t.Cleanup(func() { _ = r.Close() })
	must.Do(t, r.Seccomp(t.Context()))
	w := must.Get(r.starter.start(t.Context()))(t)
	t.Cleanup(w.kill)
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", w.cmd.Process.Pid))
	if err != nil || len(threads) < 2 {
		t.Fatalf("got %d threads, %v", len(threads), err)
	}
	for _, path := range threads {
		status, err := os.ReadFile(path)
		if err != nil {
			continue // a thread that has ended
		}
		for _, want := range []string{"NoNewPrivs:\t1\n", "Seccomp:\t2\n", "CapPrm:\t" + none, "CapEff:\t" + none, "CapInh:\t" + none, "CapAmb:\t" + none} {
			if !strings.Contains(string(status), want) {
				t.Errorf("%s lacks %q", path, want)
			}
		}
	}
	if own, err := os.ReadFile("/proc/self/status"); err != nil || !strings.Contains(string(own), "Seccomp:\t0\n") {
		t.Errorf("the embedding process is also filtered: %v", err)
	}
}

// TestMissingFilterIsReported has workers on a system without filters. They start, and the
// runtime reports what is missing.
func TestMissingFilterIsReported(t *testing.T) {
	t.Parallel()
	r := New(nil)
	t.Cleanup(func() { _ = r.Close() })
	r.spares.Wait()
	for _, w := range r.spare {
		w.link = said(t, frame{kind: kindHello, parts: [][]byte{[]byte(protocol), []byte("seccomp: function not implemented")}})
		must.Do(t, w.handshake())
	}
	const want = "jsruntime: system calls of workers are not filtered: seccomp: function not implemented"
	if err := r.Seccomp(t.Context()); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
