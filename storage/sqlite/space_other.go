//go:build !linux && !darwin && !freebsd

package sqlite

import "errors"

// freeSpace fails: the writer assumes that there is enough space.
func freeSpace(string) (int64, error) { return 0, errors.ErrUnsupported }
