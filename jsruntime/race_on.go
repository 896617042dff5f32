//go:build race

package jsruntime

// detectorMemory is what the race detector takes beside the program.
const detectorMemory = 6 << 30
