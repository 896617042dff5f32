package cache

import "sync"

// maxMet is the maximum number of keys in a generation of Flights.
const maxMet = 10_000

// Flights tracks the requests in progress in this process by key, and most of
// the completed requests. The zero value is ready to use.
type Flights[K comparable] struct {
	mu   sync.Mutex
	keys map[K]bool
	// young and old are keys of completed requests. When young is full it
	// becomes old, and the previous old keys are dropped.
	young, old map[K]bool
}

// Enter starts a request. It reports false if a request with the same key is
// in progress.
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

// Met reports whether the key of an earlier request is known.
func (f *Flights[K]) Met(key K) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.young[key] || f.old[key]
}
