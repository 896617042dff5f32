// Package kind has the kinds of errors that a runtime and the vault share. It
// imports nothing, because a runtime must not depend on a storage.
package kind

import "errors"

// The kinds. Packages script and vault document them.
var (
	ErrCode    = errors.New("vault: the code cannot be used")
	ErrBusy    = errors.New("vault: too many requests")
	ErrTimeout = errors.New("vault: the destination or the code took too long")
)
