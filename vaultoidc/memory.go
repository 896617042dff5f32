package vaultoidc

import (
	"crypto/sha256"
	"sync"
	"time"

	"github.com/seed-72ea4aab/vault"
)

// rememberFor is the longest time for which a JWT is not verified again.
const rememberFor = 5 * time.Minute

// maxRemembered is the total length of the JWTs in one half of a memory. The memory of
// one issuer takes about ten times as much.
const maxRemembered = 1 << 20

// remembered is a JWT that was verified.
type remembered struct {
	claims vault.Claims
	key    keyID
	until  time.Time
	size   int
}

// memory has the JWTs of one issuer that were verified, by their hash. It has two
// halves: when the newer one is full, the older one is dropped. A JWT that is used
// moves to the newer half.
type memory struct {
	mu           sync.Mutex
	newer, older map[[sha256.Size]byte]*remembered
	size         int // of newer
}

// get returns a JWT that is remembered.
func (m *memory) get(hash [sha256.Size]byte, now time.Time) (*remembered, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known, ok := m.newer[hash]
	if !ok {
		if known, ok = m.older[hash]; ok {
			m.add(hash, known)
		}
	}
	return known, ok && now.Before(known.until)
}

func (m *memory) put(hash [sha256.Size]byte, r *remembered) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.add(hash, r)
}

func (m *memory) add(hash [sha256.Size]byte, r *remembered) {
	if m.newer == nil || m.size+r.size > maxRemembered {
		m.older, m.newer, m.size = m.newer, map[[sha256.Size]byte]*remembered{}, 0
	}
	if m.newer[hash] == nil {
		m.size += r.size
	}
	m.newer[hash] = r
}
