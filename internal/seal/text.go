package seal

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"github.com/mr-tron/base58"
)

// KeyPrefix starts the text of a key, so that secret scanners recognize it.
const KeyPrefix = "vaultkey_"

// keyCheck is the number of checksum bytes at the end of the text of a key.
const keyCheck = 4

// KeyText returns a key as text: the prefix, and the key with a checksum in
// base58.
func KeyText(key []byte) string {
	return KeyPrefix + base58.Encode(append(bytes.Clone(key), keyChecksum(key)...))
}

// ParseKeyText parses the result of KeyText. Its errors do not contain the
// text.
func ParseKeyText(text string) ([]byte, error) {
	if text == "" {
		return nil, errors.New("the master key is empty")
	}
	body, ok := strings.CutPrefix(text, KeyPrefix)
	if !ok {
		return nil, fmt.Errorf("a master key must start with %s, as Key.Text writes it", KeyPrefix)
	}
	raw, err := base58.Decode(body)
	if err != nil || len(raw) != KeySize+keyCheck {
		return nil, errors.New("the master key is truncated or mistyped")
	}
	key := raw[:KeySize]
	if !bytes.Equal(raw[KeySize:], keyChecksum(key)) {
		return nil, errors.New("the master key's checksum does not match: it is mistyped")
	}
	return key, nil
}

func keyChecksum(key []byte) []byte {
	sum := sha256.Sum256(append([]byte(KeyPrefix), key...))
	return sum[:keyCheck]
}
