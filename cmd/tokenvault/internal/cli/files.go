package cli

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// private is the mode of files that the program creates.
const private = 0o600

// replaceFile replaces a file atomically: after a crash, either the old or
// the new content exists.
func replaceFile(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncFolder(path)
}

// syncFolder makes the name of a new file durable.
func syncFolder(path string) error {
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

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
