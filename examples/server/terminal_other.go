//go:build !unix

package main

import "io"

// columns knows no terminals here: output is plain.
func columns(io.Writer) (int, bool) { return 0, false }
