//go:build !unix

package terminal

import "io"

// Columns supports no terminals on this system, so output is plain.
func Columns(io.Writer) (int, bool) { return 0, false }
