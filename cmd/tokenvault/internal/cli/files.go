package cli

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/seed-72ea4aab/vault/internal/serve"
)

// private is the mode of files that the program creates.
const private = 0o600

// copyFile copies a file to a new file that only its owner can read. It syncs
// the copy to disk.
func copyFile(from, to string) (err error) {
	in, err := os.Open(filepath.Clean(from))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := os.OpenFile(filepath.Clean(to), os.O_WRONLY|os.O_CREATE|os.O_EXCL, private)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close())
}

// newFile writes a file that only its owner can read. The file gets its name
// when it is complete, and never replaces an existing file.
func newFile(path string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	err = write(f)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil { // fails if the file exists
		return err
	}
	return serve.SyncFolder(path)
}
