//go:build unix && !(linux && (amd64 || arm64))

package workers

import (
	"errors"
	"runtime"
)

// filterCalls has no filter to offer.
func filterCalls() error {
	return errors.New("no filter of system calls for " + runtime.GOOS + "/" + runtime.GOARCH)
}
