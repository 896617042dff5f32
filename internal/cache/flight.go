package cache

import "sync"

// maxMet is how many keys a generation of Flights has.
const maxMet = 10_000

// Flights knows the requests that this process is carrying out, by key, and
// most of those that it has carried out. The zero value is ready to use.
type Flights[K comparable] struct {
	mu   sync.Mutex
	keys map[K]bool
	// young and old are keys that were here before. When young is full it
	// becomes old, and what was old is forgotten.
	young, old map[K]bool
}

// Enter begins a request. It reports false when one with the same key is under
// way.
func (f *Flights[K]) Enter(key K) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.keys[key] {
		return false
	}
	if f.keys == nil {
		f.keys = map[K]bool{}
	}
	f.keys[key] = true
	return true
}

// Leave ends a request.
func (f *Flights[K]) Leave(key K) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.keys, key)
	if f.young == nil || len(f.young) >= maxMet {
		f.young, f.old = map[K]bool{}, f.young
	}
	f.young[key] = true
}

// Met reports whether a key is remembered from an earlier request.
func (f *Flights[K]) Met(key K) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.young[key] || f.old[key]
}
