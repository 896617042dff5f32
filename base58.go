package vault

import (
	"encoding/binary"
	"math/bits"

	"github.com/seed-72ea4aab/vault/storage"
)

const (
	alphabet58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

	radixToThe5  = 58 * 58 * 58 * 58 * 58    // fits 32 bits
	radixToThe10 = radixToThe5 * radixToThe5 // fits 64 bits
)

// encode58 writes a key in base58. A general encoder gives the same, but every
// token that is shown has a fingerprint, and the fixed length makes it a matter
// of a dozen divisions and no memory but the text.
func encode58(key storage.Key) string {
	var number [len(key) / 8]uint64 // the key as one large number, highest part first
	for i := range number {
		number[i] = binary.BigEndian.Uint64(key[8*i:])
	}
	var digits [50]byte // a key has 44 at most; they come ten at a time
	highest := 0        // part of the number that is not zero
	for end := len(digits); end > 0; end -= 10 {
		rest := uint64(0)
		for i := highest; i < len(number); i++ {
			number[i], rest = bits.Div64(rest, number[i], radixToThe10)
		}
		for highest < len(number) && number[highest] == 0 {
			highest++
		}
		high, low := uint32(rest/radixToThe5), uint32(rest%radixToThe5)
		for i := end - 1; i >= end-5; i-- {
			digits[i], digits[i-5] = alphabet58[low%58], alphabet58[high%58]
			low, high = low/58, high/58
		}
	}
	// The text starts with the highest digit, after one more for each zero byte
	// that the key starts with.
	start := 0
	for start < len(digits) && digits[start] == alphabet58[0] {
		start++
	}
	for i := 0; i < len(key) && key[i] == 0; i++ {
		start--
	}
	return string(digits[start:])
}
