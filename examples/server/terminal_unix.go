//go:build unix

package main

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// columns returns the width of a terminal, 0 if it does not say, and whether w
// is one.
func columns(w io.Writer) (int, bool) {
	f, ok := w.(*os.File)
	if !ok {
		return 0, false
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, false
	}
	return int(size.Col), true
}
