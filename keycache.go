package vault

import (
	"sync"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
)

// maxKeyCacheAge is how long the answer to "whose key is this" is used, counted
// on the real clock from when it was asked.
const maxKeyCacheAge = time.Second

// maxKeyCacheEntries bounds a cache; beyond it, it starts anew.
const maxKeyCacheEntries = 50_000

// keyCache remembers for maxKeyCacheAge what keys stand for.
type keyCache[T any] struct {
	mu      sync.RWMutex
	entries map[storage.Key]keyEntry[T]
	gen     uint64 // counts the revocations on this node
}

type keyEntry[T any] struct {
	value T
	asked time.Time
}

func newKeyCache[T any]() *keyCache[T] { return &keyCache[T]{entries: map[storage.Key]keyEntry[T]{}} }

func (c *keyCache[T]) get(key storage.Key) (value T, ok bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if e, ok := c.entries[key]; ok && time.Since(e.asked) < maxKeyCacheAge {
		return e.value, true
	}
	return value, false
}

func (c *keyCache[T]) generation() uint64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.gen
}

// put keeps a value, unless something was revoked since it was asked for.
func (c *keyCache[T]) put(key storage.Key, value T, asked time.Time, gen uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gen != gen {
		return
	}
	if len(c.entries) >= maxKeyCacheEntries {
		clear(c.entries)
	}
	c.entries[key] = keyEntry[T]{value, asked}
}

// forget drops a value that is too old to be used.
func (c *keyCache[T]) forget(key storage.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.entries[key].asked) >= maxKeyCacheAge {
		delete(c.entries, key)
	}
}

// clear forgets everything, because something has changed.
func (c *keyCache[T]) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gen++
	clear(c.entries)
}
