package core

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-72ea4aab/vault/internal/bounded"
)

// MaxAge is how long a value is used, on the real clock, from the start of
// its reading.
const MaxAge = time.Second

// maxEntries is the maximum size of a cache.
const maxEntries = 50_000

// Cache keeps values by key for MaxAge after they were read, and at most until
// something is revoked on this node.
type Cache[K comparable, V any] struct {
	mu      sync.RWMutex
	entries bounded.Map[K, entry[V]]
	gen     atomic.Uint64 // counts the revocations on this node
}

type entry[V any] struct {
	value V
	asked time.Time
}

// NewCache returns an empty cache.
func NewCache[K comparable, V any]() *Cache[K, V] { return &Cache[K, V]{} }

// Get returns a value if it is not too old.
func (c *Cache[K, V]) Get(key K) (value V, ok bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if e, ok := c.entries[key]; ok && time.Since(e.asked) < MaxAge {
		return e.value, true
	}
	return value, false
}

// Ask starts reading a value that Get does not have. Keep then stores the
// value.
func (c *Cache[K, V]) Ask(key K) Reading[K, V] {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return Reading[K, V]{c, key, Stamp{time.Now(), c.gen.Load(), &c.gen}}
}

// Stamp is the time at which reading a value started. The zero Stamp is never
// fresh.
type Stamp struct {
	asked time.Time
	gen   uint64
	now   *atomic.Uint64
}

// Fresh reports whether Get would still return the value.
func (s Stamp) Fresh() bool {
	return s.now != nil && s.gen == s.now.Load() && time.Since(s.asked) < MaxAge
}

// Reading is a value that is being read.
type Reading[K comparable, V any] struct {
	cache *Cache[K, V]
	key   K
	Stamp Stamp
}

// Keep stores a value if nothing was revoked since its reading started.
func (r Reading[K, V]) Keep(value V) {
	c := r.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gen.Load() != r.Stamp.gen {
		return
	}
	c.entries.Put(maxEntries, r.key, entry[V]{value, r.Stamp.asked})
}

// Drop deletes a value that is too old.
func (c *Cache[K, V]) Drop(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.entries[key].asked) >= MaxAge {
		delete(c.entries, key)
	}
}

// Clear deletes all values, because something has changed.
func (c *Cache[K, V]) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gen.Add(1)
	clear(c.entries)
}
