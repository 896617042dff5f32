package vault

import (
	"crypto/rand"
	"testing"

	"github.com/mr-tron/base58"

	"github.com/seed-72ea4aab/vault/storage"
)

// TestEncode58 holds encode58 against a general encoder, on random keys and on
// those at the edges: zeros in front, and the highest digits.
func TestEncode58(t *testing.T) {
	t.Parallel()
	check := func(key storage.Key) {
		t.Helper()
		if got, want := encode58(key), base58.Encode(key[:]); got != want {
			t.Errorf("%x is %s, want %s", key, got, want)
		}
	}
	var key storage.Key
	check(key)
	for i := range key {
		key[i] = 0xff
		check(key) // all bits up to a place
	}
	for i := range key {
		key[i] = 0
		check(key) // all bits from a place on
	}
	for i := range key {
		for _, b := range []byte{1, 57, 58, 0x80, 0xff} {
			key = storage.Key{}
			key[i] = b
			check(key)
		}
	}
	for zeros := range len(key) {
		for range 100 {
			key = storage.Key{}
			rand.Read(key[zeros:])
			check(key)
		}
	}
}
