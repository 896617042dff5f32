package ids_test

import (
	"crypto/rand"
	"fmt"
	"testing"

	"github.com/mr-tron/base58"

	"github.com/seed-72ea4aab/vault/internal/ids"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// TestEncode58 compares Encode58 with a general encoder, on random keys and
// on edge cases: leading zeros, and the highest digits.
func TestEncode58(t *testing.T) {
	t.Parallel()
	check := func(key [32]byte) {
		t.Helper()
		must.Same(t, fmt.Sprintf("%x", key), base58.Encode(key[:]), ids.Encode58(key))
	}
	var key [32]byte
	check(key)
	for i := range key {
		key[i] = 0xff
		check(key) // all bits up to a position
	}
	for i := range key {
		key[i] = 0
		check(key) // all bits from a position
	}
	for i := range key {
		for _, b := range []byte{1, 57, 58, 0x80, 0xff} {
			key = [32]byte{}
			key[i] = b
			check(key)
		}
	}
	for zeros := range key {
		for range 100 {
			key = [32]byte{}
			rand.Read(key[zeros:])
			check(key)
		}
	}
}
