package expr

import (
	"maps"
	"slices"
)

// FilterNames returns the names of all filters, so that tests can cover all of
// them.
func FilterNames() []string {
	return slices.Sorted(maps.Keys(filters))
}

// CacheLen returns how many templates the cache of Compile holds.
func CacheLen() int {
	compiled.mu.RLock()
	defer compiled.mu.RUnlock()
	return len(compiled.young) + len(compiled.old)
}

// CacheLimit is the largest result of CacheLen.
const CacheLimit = 2 * cacheEntries
