package compile

import (
	"crypto/sha256"
	"sync"

	"github.com/seed-72ea4aab/vault/script"
)

// Limits of a generation of the cache of compiled programs.
const (
	maxPrograms     = 128
	maxProgramBytes = 2 << 20 // of source; compiled code takes about five times as much
)

// Hash is the SHA-256 of a source, by which both processes identify it.
type Hash = [sha256.Size]byte

// Cache keeps compiled programs by the hash of their source, in two generations.
// When the young one is full, it replaces the old one. A program in use stays in
// the young one. The zero value is ready to use.
type Cache struct {
	mu         sync.Mutex
	young, old map[Hash]*cacheEntry
	bytes      int // of source in young
}

type cacheEntry struct {
	bytes int // of source, once known
	mu    sync.Mutex
	done  bool
	code  *Code
	err   *script.Error
}

// Get returns the program for a source, compiled at most once. It calls text
// only if it has to compile.
func (c *Cache) Get(hash Hash, maxSource int, text func() (string, *script.Error)) (*Code, *script.Error) {
	entry := c.entry(hash)
	entry.mu.Lock()
	defer entry.mu.Unlock()
	if entry.done {
		return entry.code, entry.err
	}
	source, bad := text()
	if bad != nil {
		return nil, bad
	}
	entry.code, entry.err = Compile(source, maxSource)
	entry.done = true
	c.mu.Lock()
	defer c.mu.Unlock()
	if entry.bytes = len(source); c.young[hash] == entry {
		c.bytes += entry.bytes
	}
	return entry.code, entry.err
}

func (c *Cache) entry(hash Hash) *cacheEntry {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.young[hash]; e != nil {
		return e
	}
	e := c.old[hash]
	if e == nil {
		e = &cacheEntry{}
	}
	if c.young == nil || len(c.young) >= maxPrograms || c.bytes+e.bytes > maxProgramBytes {
		c.young, c.old, c.bytes = map[Hash]*cacheEntry{}, c.young, 0
	}
	c.young[hash] = e
	c.bytes += e.bytes
	return e
}
