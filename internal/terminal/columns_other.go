//go:build !unix

package terminal

import "io"

// Columns knows no terminals here: output is plain.
func Columns(io.Writer) (int, bool) { return 0, false }
