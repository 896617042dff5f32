package seal

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"hash"
	"slices"
	"strings"
	"sync"

	"github.com/seed-72ea4aab/vault/internal/bounded"
)

// MAC returns the keyed hash of a label and parts. Labels separate kinds of
// values: the same text has another hash under another label. The key belongs
// to the tenant and is not rotated.
func (r *Ring) MAC(label string, parts ...string) [32]byte {
	m := r.macs.Get().(*mac)
	defer r.macs.Put(m)
	buf := appendPart(m.buf[:0], label)
	for _, p := range parts {
		buf = appendPart(buf, p)
	}
	return m.of(buf)
}

// mac computes a MAC. It is reused, because every token has several.
type mac struct {
	hash hash.Hash
	buf  []byte
	sum  [sha256.Size]byte
}

// of returns the hash of a buffer, and keeps the buffer for the next MAC.
func (m *mac) of(buf []byte) [32]byte {
	m.hash.Reset()
	m.hash.Write(buf)
	clear(buf)
	if cap(buf) <= maxMACBuffer {
		m.buf = buf
	}
	m.hash.Sum(m.sum[:0])
	return m.sum
}

// maxMACBuffer is the maximum size of a buffer that is kept.
const maxMACBuffer = 4096

// Hash returns the first half of MAC, which is long enough to avoid
// collisions and half as wide in an index.
func (r *Ring) Hash(label string, parts ...string) (h [16]byte) {
	sum := r.MAC(label, parts...)
	return [16]byte(sum[:16])
}

// HashBytes is Hash of one part. It does not keep the part.
func (r *Ring) HashBytes(label string, part []byte) (h [16]byte) {
	m := r.macs.Get().(*mac)
	defer r.macs.Put(m)
	sum := m.of(appendPart(appendPart(m.buf[:0], label), part))
	return [16]byte(sum[:16])
}

// HashName is Hash of one part that is neither secret nor rare, such as the
// name of a container or the text of an expression. It caches its results.
func (r *Ring) HashName(label, name string) [16]byte {
	key := [2]string{label, name}
	if h, ok := r.names.get(key); ok {
		return h
	}
	h := r.Hash(label, name)
	r.names.put(key, h)
	return h
}

// Cursor encodes a position in a list. Its hash binds it to the tenant and to the
// list, which the parts describe.
func (r *Ring) Cursor(at []byte, label string, parts ...string) string {
	hash := r.Hash(label, append([]string{string(at)}, parts...)...)
	return base64.RawURLEncoding.EncodeToString(append(slices.Clip(at), hash[:]...))
}

// ReadCursor decodes a result of Cursor for the same list.
func (r *Ring) ReadCursor(text, label string, parts ...string) (at []byte, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	size := len(raw) - len([16]byte{})
	if err != nil || size < 0 || subtle.ConstantTimeCompare([]byte(text), []byte(r.Cursor(raw[:size], label, parts...))) != 1 {
		return nil, false
	}
	return raw[:size], true
}

// nameHashes are hashes by label and name.
type nameHashes struct {
	mu     sync.RWMutex
	hashes bounded.Map[[2]string, [16]byte]
}

// maxNames is the maximum number of cached names, and maxNameLength the
// maximum length of a cached name.
const (
	maxNames      = 1000
	maxNameLength = 1000
)

func (n *nameHashes) get(key [2]string) ([16]byte, bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	h, ok := n.hashes[key]
	return h, ok
}

func (n *nameHashes) put(key [2]string, h [16]byte) {
	if len(key[1]) > maxNameLength {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hashes.Put(maxNames, [2]string{key[0], strings.Clone(key[1])}, h)
}
