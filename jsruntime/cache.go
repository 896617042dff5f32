package jsruntime

import (
	"container/list"
	"sync"

	"github.com/seed-72ea4aab/vault/script"
)

// Bounds of the cache of compiled programs.
const (
	maxPrograms     = 256
	maxProgramBytes = 4 << 20 // of source; compiled code takes several times as much
)

// programCache keeps what was compiled, by source, and forgets what was not
// used for longest. Its zero value is ready.
type programCache struct {
	mu      sync.Mutex
	entries map[string]*list.Element
	recent  list.List // of *cacheEntry, latest first
	bytes   int
}

type cacheEntry struct {
	source string
	once   sync.Once
	code   *compiled
	err    *script.Error
}

// get returns the program for a source, compiled at most once.
func (c *programCache) get(source string, maxSource int) (*compiled, *script.Error) {
	entry := c.entry(source)
	entry.once.Do(func() { entry.code, entry.err = compile(source, maxSource) })
	return entry.code, entry.err
}

func (c *programCache) entry(source string) *cacheEntry {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.entries[source]; ok {
		c.recent.MoveToFront(e)
		return e.Value.(*cacheEntry)
	}
	if c.entries == nil {
		c.entries = map[string]*list.Element{}
	}
	entry := &cacheEntry{source: source}
	c.entries[source] = c.recent.PushFront(entry)
	c.bytes += len(source)
	for c.recent.Len() > 1 && (c.recent.Len() > maxPrograms || c.bytes > maxProgramBytes) {
		oldest := c.recent.Remove(c.recent.Back()).(*cacheEntry)
		delete(c.entries, oldest.source)
		c.bytes -= len(oldest.source)
	}
	return entry
}
