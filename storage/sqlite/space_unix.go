//go:build linux || darwin || freebsd

package sqlite

import "golang.org/x/sys/unix"

// freeSpace returns how many bytes an ordinary user can still write to the disk
// of a folder.
func freeSpace(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), nil //nolint:unconvert // Bsize has another type on other systems
}
