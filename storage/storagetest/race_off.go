//go:build !race

package storagetest

// bigBatch is the number of tokens that one change may have.
const bigBatch = 10_000
