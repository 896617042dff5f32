package pgtest

import (
	"errors"
	"fmt"
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
	first, _, _ := strings.Cut(string(text), "\n")
	server, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil {
		return err
	}
	// The server's main process comes first, so that it starts no further ones.
	if err := syscall.Kill(server, s); err != nil {
		return err
	}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return err
	}
	var failed []error
	for _, file := range stats {
		pid, parent := parentOf(file)
		if parent != server {
			continue
		}
		if err := syscall.Kill(pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// parentOf returns a process and its parent, or zeros if it no longer exists.
func parentOf(file string) (pid, parent int) {
	stat, err := os.ReadFile(file)
	if err != nil {
		return 0, 0
	}
	before, after, _ := strings.Cut(string(stat), " (")
	_, after, _ = strings.Cut(after[strings.LastIndex(after, ")"):], ") ")
	var state string
	if _, err := fmt.Sscan(after, &state, &parent); err != nil {
		return 0, 0
	}
	pid, _ = strconv.Atoi(before)
	return pid, parent
}
