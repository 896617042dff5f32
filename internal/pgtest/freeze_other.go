//go:build !linux

package pgtest

import "errors"

var errNoFreeze = errors.New("the processes of a server can be found on Linux alone")

// Freeze always fails.
func (*Cluster) Freeze() error { return errNoFreeze }

// Thaw always fails.
func (*Cluster) Thaw() error { return errNoFreeze }

// hasRoom reports whether a file system in memory has room.
func hasRoom(string) bool { return false }
