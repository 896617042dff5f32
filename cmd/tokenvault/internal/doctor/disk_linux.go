package doctor

import (
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/seed-72ea4aab/vault/cmd/tokenvault/internal/shell"
)

// leastSpace is the number of bytes that should be free on a disk.
const leastSpace = 1 << 30

// networkFiles are file systems on which SQLite's locks are unreliable.
var networkFiles = map[int64]string{unix.NFS_SUPER_MAGIC: "NFS", unix.SMB_SUPER_MAGIC: "SMB", 0xff534d42: "CIFS", unix.SMB2_SUPER_MAGIC: "SMB"}

// disk checks the disk of a file.
func (e *Examination) disk(file string) {
	var fs unix.Statfs_t
	if err := unix.Statfs(filepath.Dir(file), &fs); err != nil {
		return
	}
	if name, ok := networkFiles[fs.Type]; ok {
		e.Fail("disk", "Move the database to a local disk, or use PostgreSQL.", "the database is on a network file system, %s", name)
	}
	if free := int64(fs.Bavail) * fs.Bsize; free < leastSpace {
		e.Warn("disk", "Make room: when the disk is full, reads fail too, because they are logged.", "only %s are free", shell.ByteText(free))
		return
	}
	e.OK("disk", "has room")
}
