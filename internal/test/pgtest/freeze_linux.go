package pgtest

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Freeze suspends all processes of the server with SIGSTOP: connections stay
// open, but nothing responds.
func (c *Cluster) Freeze() error { return c.signal(syscall.SIGSTOP) }

// Thaw resumes the processes that Freeze suspended.
func (c *Cluster) Thaw() error { return c.signal(syscall.SIGCONT) }

// hasRoom reports whether a file system has room for the clusters of a test
// run.
func hasRoom(dir string) bool {
	const room = 4 << 30
	var fs syscall.Statfs_t
	return syscall.Statfs(dir, &fs) == nil && fs.Bavail*uint64(fs.Bsize) > room
}

func (c *Cluster) signal(s syscall.Signal) error {
	text, err := os.ReadFile(filepath.Join(c.data, "postmaster.pid"))
	if err != nil {
		return err
	}
	server, _, _ := strings.Cut(string(text), "\n")
	// The server's main process comes first, so that it starts no further ones.
	failed := []error{kill(server, s)}
	children, err := os.ReadFile(filepath.Join("/proc", server, "task", server, "children"))
	if err != nil {
		return errors.Join(append(failed, err)...)
	}
	for _, pid := range strings.Fields(string(children)) {
		if err := kill(pid, s); !errors.Is(err, syscall.ESRCH) {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

func kill(pid string, s syscall.Signal) error {
	n, err := strconv.Atoi(pid)
	if err != nil {
		return err
	}
	return syscall.Kill(n, s)
}
