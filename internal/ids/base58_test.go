package ids_test

import (
	"crypto/rand"
	"testing"

	"github.com/mr-tron/base58"

	"github.com/seed-72ea4aab/vault/internal/ids"
)

// TestEncode58 compares Encode58 with a general encoder, on random keys and
// on edge cases: leading zeros, and the highest digits.
func TestEncode58(t *testing.T) {
	t.Parallel()
	check := func(key [32]byte) {
		t.Helper()
		if got, want := ids.Encode58(key), base58.Encode(key[:]); got != want {
			t.Errorf("%x is %s, want %s", key, got, want)
		}
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
