//go:build unix && !(linux && (amd64 || arm64))

package workers

import (
	"errors"
	"runtime"
)

// filterCalls returns an error, because there is no filter for this system.
func filterCalls() error {
	return errors.New("no filter of system calls for " + runtime.GOOS + "/" + runtime.GOARCH)
}
