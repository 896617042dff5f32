package ids

import (
	"crypto/rand"
	"encoding/binary"
	"math/bits"
)

// Alphabet58 lists the digits of base58, which are characters that are not
// mistaken for others.
const Alphabet58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

const (
	radixToThe5  = 58 * 58 * 58 * 58 * 58    // fits 32 bits
	radixToThe10 = radixToThe5 * radixToThe5 // fits 64 bits
)

// Encode58 encodes 32 bytes in base58. A general encoder has the same result.
// But every token in a response has a fingerprint, and the fixed length needs
// only a dozen divisions and one allocation.
func Encode58(key [32]byte) string {
	var number [len(key) / 8]uint64 // the key as one large number, highest part first
	for i := range number {
		number[i] = binary.BigEndian.Uint64(key[8*i:])
	}
	var digits [50]byte // a key has at most 44 digits; they are computed ten at a time
	highest := 0        // index of the highest part that is not zero
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
			digits[i], digits[i-5] = Alphabet58[low%58], Alphabet58[high%58]
			low, high = low/58, high/58
		}
	}
	// The text starts with one digit for each leading zero byte of the key,
	// followed by the highest digit.
	start := 0
	for start < len(digits) && digits[start] == Alphabet58[0] {
		start++
	}
	for i := 0; i < len(key) && key[i] == 0; i++ {
		start--
	}
	return string(digits[start:])
}

// Random58 returns n random base58 characters with equal probability.
func Random58(n int) string {
	const fair = 256 - 256%58 // larger bytes would favor some characters
	out := make([]byte, 0, n)
	var buf [64]byte
	for {
		rand.Read(buf[:])
		for _, b := range buf {
			if int(b) < fair {
				if out = append(out, Alphabet58[b%58]); len(out) == n {
					return string(out)
				}
			}
		}
	}
}
