//go:build race

package storagetest

// bigBatch is less under the race detector, which makes a database that is
// written in Go many times slower and finds nothing in the rows after the first.
const bigBatch = 1_000
