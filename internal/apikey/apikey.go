// Package apikey creates and validates API keys.
//
// A key has the form key_<kind>_<32 random characters><6 characters of
// checksum>, in base58. Secret scanners can recognize keys, and typing errors
// are found without a lookup. Only the SHA-256 of a key is stored.
package apikey

import (
	"crypto/sha256"
	"strings"

	"github.com/seed-72ea4aab/vault/internal/ids"
)

// The kinds of keys, as they appear in the text of a key.
const (
	Public     = "pub"
	Private    = "prv"
	Management = "mgt"
	Session    = "sess"
)

const (
	prefix       = "key_"
	randomLength = 32
	checkLength  = 6
)

// New returns a new key of a kind.
func New(kind string) string {
	body := prefix + kind + "_" + ids.Random58(randomLength)
	check := checksum(body)
	return body + string(check[:])
}

// Valid reports whether a text has the form and the checksum of a key.
func Valid(key string) bool {
	rest, ok := strings.CutPrefix(key, prefix)
	if !ok {
		return false
	}
	kind, body, ok := strings.Cut(rest, "_")
	if !ok || len(body) != randomLength+checkLength {
		return false
	}
	switch kind {
	case Public, Private, Management, Session:
		split := len(key) - checkLength
		check := checksum(key[:split])
		return key[split:] == string(check[:])
	}
	return false
}

func checksum(body string) (check [checkLength]byte) {
	sum := Hash(body)
	for i := range check {
		check[i] = ids.Alphabet58[sum[i]%58]
	}
	return check
}

// Hash returns the stored form of an API key, or of the key of a proxy.
func Hash(text string) [32]byte {
	var key [64]byte // longer than any key, so that it stays off the heap
	return sha256.Sum256(append(key[:0], text...))
}
