package core

import (
	"sync"
	"sync/atomic"
	"time"
)

// MaxAge is how long a value is used, on the real clock, from the start of
// its reading.
const MaxAge = time.Second

// maxCached is the maximum memory of a cache, in bytes.
const maxCached = 64 << 20

// Cache keeps values by key for MaxAge after they were read, and at most until
// something is revoked on this node. Callers choose what the values hold, so their
// memory is limited, and not their number.
type Cache[K comparable, V any] struct {
	size func(V) int // the memory of a value with its key, in bytes

	mu      sync.RWMutex
	entries map[K]entry[V]
	held    int           // the memory of the entries
	gen     atomic.Uint64 // counts the revocations on this node
}

type entry[V any] struct {
	value V
	size  int
	asked time.Time
}

// NewCache returns an empty cache. Size returns the memory of a value and its key, in
// bytes.
func NewCache[K comparable, V any](size func(V) int) *Cache[K, V] {
	return &Cache[K, V]{size: size, entries: map[K]entry[V]{}}
}

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
	c.remove(r.key)
	added := entry[V]{value, c.size(value), r.Stamp.asked}
	if c.held+added.size > maxCached {
		c.shrink()
	}
	c.entries[r.key] = added
	c.held += added.size
}

// shrink makes room. It deletes the values that are too old, or all values if the others
// take more than half of the memory. So it is called rarely. The caller holds mu.
func (c *Cache[K, V]) shrink() {
	for key, e := range c.entries {
		if time.Since(e.asked) >= MaxAge {
			c.remove(key)
		}
	}
	if c.held > maxCached/2 {
		c.clear()
	}
}

// remove deletes a value, if there is one. The caller holds mu.
func (c *Cache[K, V]) remove(key K) {
	c.held -= c.entries[key].size
	delete(c.entries, key)
}

func (c *Cache[K, V]) clear() {
	clear(c.entries)
	c.held = 0
}

// Held returns the memory of the values, in bytes.
func (c *Cache[K, V]) Held() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.held
}

// Drop deletes a value that is too old.
func (c *Cache[K, V]) Drop(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.entries[key].asked) >= MaxAge {
		c.remove(key)
	}
}

// Clear deletes all values, because something has changed.
func (c *Cache[K, V]) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gen.Add(1)
	c.clear()
}
