package compile

import (
	"container/list"
	"crypto/sha256"
	"sync"

	"github.com/seed-72ea4aab/vault/script"
)

// Bounds of the cache of compiled programs.
const (
	maxPrograms     = 256
	maxProgramBytes = 4 << 20 // of source; compiled code takes about five times as much
)

// Hash is the SHA-256 of a source, by which both processes know it.
type Hash = [sha256.Size]byte

// Cache keeps what was compiled, by the hash of its source, and forgets
// what was not used for longest. Its zero value is ready.
type Cache struct {
	mu      sync.Mutex
	entries map[Hash]*list.Element
	recent  list.List // of *cacheEntry, latest first
	bytes   int
}

type cacheEntry struct {
	hash  Hash
	bytes int // of source, once that is known
	mu    sync.Mutex
	done  bool
	code  *Code
	err   *script.Error
}

// Get returns the program for a source, compiled at most once. It asks for the
// text only when it has to compile it.
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

// grow counts what an entry holds, and makes room for it.
func (c *Cache) grow(entry *cacheEntry, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries[entry.hash] == nil || c.entries[entry.hash].Value != entry {
		return // it was forgotten meanwhile
	}
	entry.bytes = bytes
	c.bytes += bytes
	for c.recent.Len() > 1 && (c.recent.Len() > maxPrograms || c.bytes > maxProgramBytes) {
		oldest := c.recent.Remove(c.recent.Back()).(*cacheEntry)
		delete(c.entries, oldest.hash)
		c.bytes -= oldest.bytes
	}
}
