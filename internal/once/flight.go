package once

import (
	"sync"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/storage"
)

// maxMet is the maximum number of keys in a generation of completed requests.
const maxMet = 10_000

// Requests tracks the requests in progress in this process, and most of the
// completed requests. The zero value is ready to use.
type Requests struct {
	mu   sync.Mutex
	keys map[flight]bool
	// young and old are keys of completed requests. When young is full it
	// becomes old, and the previous old keys are dropped.
	young, old map[flight]bool
}

// flight identifies a request in progress in this process, so that a second
// request is rejected at once. Across processes the claim decides.
type flight struct {
	tenant uuid.UUID
	key    storage.Key
}

// enter starts a request. It reports false if a request with the same key is
// in progress.
func (all *Requests) enter(key flight) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.keys[key] {
		return false
	}
	if all.keys == nil {
		all.keys = map[flight]bool{}
	}
	all.keys[key] = true
	return true
}

// leave ends a request.
func (all *Requests) leave(key flight) {
	all.mu.Lock()
	defer all.mu.Unlock()
	delete(all.keys, key)
	if all.young == nil || len(all.young) >= maxMet {
		all.young, all.old = map[flight]bool{}, all.young
	}
	all.young[key] = true
}

// met reports whether the key of an earlier request is known.
func (all *Requests) met(key flight) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.young[key] || all.old[key]
}
