package ids

import (
	"crypto/sha256"
	"strings"
)

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
