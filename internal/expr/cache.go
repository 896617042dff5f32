package expr

import "sync"

// compiled holds the templates that Compile made most recently.
var compiled templateCache

const (
	cacheEntries = 2048    // per generation
	cacheBytes   = 1 << 20 // of source per generation
)

// templateCache keeps two generations. When the young one is full, it becomes
// the old one, and the old one is dropped. A hit in the old generation moves
// the template to the young one, so templates in use stay.
type templateCache struct {
	mu         sync.RWMutex
	young, old map[string]*Template
	bytes      int // of source in young
}

func (c *templateCache) get(source string) *Template {
	c.mu.RLock()
	t, isYoung := c.young[source]
	if !isYoung {
		t = c.old[source]
	}
	c.mu.RUnlock()
	if t != nil && !isYoung {
		c.put(source, t)
	}
	return t
}

func (c *templateCache) put(source string, t *Template) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.young[source]; ok {
		return
	}
	if c.young == nil || len(c.young) >= cacheEntries || c.bytes+len(source) > cacheBytes {
		c.old, c.young, c.bytes = c.young, make(map[string]*Template), 0
	}
	c.young[source] = t
	c.bytes += len(source)
}
