//go:build !long

package long

// Run reports whether this is the long run.
const Run = false
