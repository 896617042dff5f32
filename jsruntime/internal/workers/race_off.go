//go:build !race

package workers

// DetectorMemory is the memory that the race detector needs in addition to the
// program, in bytes. It is 0 without the detector.
const DetectorMemory = 0
