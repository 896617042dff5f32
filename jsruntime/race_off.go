//go:build !race

package jsruntime

const detectorMemory = 0
