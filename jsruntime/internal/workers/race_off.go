//go:build !race

package workers

// DetectorMemory is what the race detector takes beside the program, in bytes. It is 0
// without the detector.
const DetectorMemory = 0
