// Package ids creates identifiers: UUIDs in the order of their creation, random
// text in base58, and API keys.
package ids

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Source creates UUIDv7s: 48 bits of milliseconds, 12 bits of the fraction of
// a millisecond, a 16-bit counter and 46 random bits. The counter numbers the
// ids of the same moment, so that lists are in the order of creation even if
// the clock stands still.
//
// The zero value is ready to use. A Source is safe for concurrent use.
type Source struct {
	mu    sync.Mutex
	last  time.Time
	count uint16
}

// At returns an id for a time. Ids are ordered by their times.
func (s *Source) At(t time.Time) uuid.UUID {
	s.mu.Lock()
	if t.Equal(s.last) {
		s.count++
	} else {
		s.last, s.count = t, 0
	}
	count := s.count
	s.mu.Unlock()

	var id uuid.UUID
	rand.Read(id[10:])
	ms := uint64(t.UnixMilli())
	fraction := uint64(t.Nanosecond()%int(time.Millisecond)) * 4096 / uint64(time.Millisecond)
	binary.BigEndian.PutUint64(id[:8], ms<<16|0x7000|fraction)
	id[8] = 0x80 | byte(count>>10)
	id[9] = byte(count >> 2)
	id[10] = byte(count<<6) | id[10]&0x3f
	return id
}

// The kinds of API keys, as they appear in the text of a key.
const (
	PublicKey     = "pub"
	PrivateKey    = "prv"
	ManagementKey = "mgt"
	SessionKey    = "sess"
)

const (
	keyPrefix    = "key_"
	randomLength = 32
	checkLength  = 6
)

// NewKey returns a new API key of a kind, in the form key_<kind>_<32 random
// characters><6 characters of checksum>, in base58. Secret scanners can
// recognize keys, and typing errors are found without a lookup. Only the
// SHA-256 of a key is stored.
func NewKey(kind string) string {
	body := keyPrefix + kind + "_" + Random58(randomLength)
	check := keyChecksum(body)
	return body + string(check[:])
}

// ValidKey reports whether a text has the form and the checksum of an API key.
func ValidKey(key string) bool {
	rest, ok := strings.CutPrefix(key, keyPrefix)
	if !ok {
		return false
	}
	kind, body, ok := strings.Cut(rest, "_")
	if !ok || len(body) != randomLength+checkLength {
		return false
	}
	switch kind {
	case PublicKey, PrivateKey, ManagementKey, SessionKey:
		split := len(key) - checkLength
		check := keyChecksum(key[:split])
		return key[split:] == string(check[:])
	}
	return false
}

func keyChecksum(body string) (check [checkLength]byte) {
	sum := HashKey(body)
	for i := range check {
		check[i] = Alphabet58[sum[i]%58]
	}
	return check
}

// HashKey returns the stored form of an API key, or of the key of a proxy.
func HashKey(text string) [32]byte {
	var key [64]byte // longer than any key, so that it stays off the heap
	return sha256.Sum256(append(key[:0], text...))
}

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
