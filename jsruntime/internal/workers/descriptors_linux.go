package workers

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

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
