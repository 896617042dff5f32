package compile

import (
	"container/list"
	"crypto/sha256"
	"sync"

	"github.com/seed-72ea4aab/vault/script"
)

// Limits of the cache of compiled programs.
const (
	maxPrograms     = 256
	maxProgramBytes = 4 << 20 // of source; compiled code takes about five times as much
)

// Hash is the SHA-256 of a source, by which both processes identify it.
type Hash = [sha256.Size]byte

// Cache keeps compiled programs by the hash of their source, and drops the
// least recently used ones. The zero value is ready to use.
type Cache struct {
	mu      sync.Mutex
	entries map[Hash]*list.Element
	recent  list.List // of *cacheEntry, most recently used first
	bytes   int
}

type cacheEntry struct {
	hash  Hash
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
	c.grow(entry, len(source))
	return entry.code, entry.err
}

func (c *Cache) entry(hash Hash) *cacheEntry {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.entries[hash]; ok {
		c.recent.MoveToFront(e)
		return e.Value.(*cacheEntry)
	}
	if c.entries == nil {
		c.entries = map[Hash]*list.Element{}
	}
	entry := &cacheEntry{hash: hash}
	c.entries[hash] = c.recent.PushFront(entry)
	return entry
}

// grow records the size of an entry and makes room for it.
func (c *Cache) grow(entry *cacheEntry, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries[entry.hash] == nil || c.entries[entry.hash].Value != entry {
		return // it has been dropped
	}
	entry.bytes = bytes
	c.bytes += bytes
	for c.recent.Len() > 1 && (c.recent.Len() > maxPrograms || c.bytes > maxProgramBytes) {
		oldest := c.recent.Remove(c.recent.Back()).(*cacheEntry)
		delete(c.entries, oldest.hash)
		c.bytes -= oldest.bytes
	}
}
