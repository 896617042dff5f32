package workers

import (
	"os"
	"strconv"
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

// dropCapabilities keeps the processes that the calling thread starts from having
// capabilities, even if they run as root. It requires noNewPrivileges. The thread
// itself keeps its capabilities if it may, because they can be needed to read the
// program.
func dropCapabilities() error {
	_ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) // kernels before 4.3 have none
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&head, &sets[0]); err != nil {
		return err
	}
	for i := range sets {
		sets[i].Inheritable = 0
	}
	if dropBounds() != nil {
		sets = [2]unix.CapUserData{} // a process gets no more than the thread has
	}
	return unix.Capset(&head, &sets[0])
}

// dropBounds empties the bounding set, which limits the capabilities of root.
func dropBounds() error {
	for c := range uintptr(64) { // more than any kernel knows
		if in, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0); err != nil || in == 0 {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
			return err
		}
	}
	return nil
}

// closeInherited closes every descriptor above the link. These were inherited
// from the embedding program, or opened by init functions of this process. Only
// the poller of the Go runtime keeps its descriptors.
func closeInherited() error {
	const directory = "/proc/self/fd"
	entries, err := os.ReadDir(directory)
	if err != nil {
		return err
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd <= workerFD {
			continue
		}
		link, _ := os.Readlink(directory + "/" + e.Name())
		if isInherited(fd) || link != "anon_inode:[eventpoll]" && link != "anon_inode:[eventfd]" {
			_ = unix.Close(fd) // fails for the directory itself, which is already closed
		}
	}
	return nil
}
