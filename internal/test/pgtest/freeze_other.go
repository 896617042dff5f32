//go:build !linux

package pgtest

import "errors"

var errNoFreeze = errors.New("the processes of a server can be found on Linux alone")

// Freeze always fails.
func (*Cluster) Freeze() error { return errNoFreeze }

// Thaw always fails.
func (*Cluster) Thaw() error { return errNoFreeze }

// hasRoom reports that a file system has no room: clusters go to the disk.
func hasRoom(string) bool { return false }
