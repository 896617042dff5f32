package postgres

import (
	"sync"

	"github.com/seed-72ea4aab/vault/storage"
)

// knownSets remembers which sets of containers are in the database, so that a
// create does not write its set again. Rows of it go only with their tenant.
type knownSets struct {
	mu  sync.RWMutex
	set map[tenantSet]struct{}
}

type tenantSet struct {
	tenant storage.ID
	set    storage.Hash
}

// maxKnownSets bounds the memory; when it is reached, everything is forgotten.
const maxKnownSets = 100_000

// unknown returns the sets of a change that may not be in the database, each
// once.
func (k *knownSets) unknown(c *storage.Change) []storage.ContainerSet {
	k.mu.RLock()
	defer k.mu.RUnlock()
	var found setsFound
	for i := range c.InsertTokens {
		k.find(&found, c.Tenant, &c.InsertTokens[i])
	}
	for i := range c.UpdateTokens {
		k.find(&found, c.Tenant, &c.UpdateTokens[i].Token)
	}
	return found.sets
}

// setsFound are sets that are not known, each once.
type setsFound struct {
	sets []storage.ContainerSet
	seen map[storage.Hash]struct{}
}

func (k *knownSets) find(found *setsFound, tenant storage.ID, t *storage.Token) {
	if _, ok := k.set[tenantSet{tenant, t.Set}]; ok {
		return
	}
	if _, ok := found.seen[t.Set]; ok {
		return
	}
	if found.seen == nil {
		found.seen = map[storage.Hash]struct{}{}
	}
	found.seen[t.Set] = struct{}{}
	found.sets = append(found.sets, storage.ContainerSet{Set: t.Set, Containers: t.Containers})
}

// learn notes the sets of a change that has been committed.
func (k *knownSets) learn(c *storage.Change) {
	sets := k.unknown(c)
	if len(sets) == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.set == nil || len(k.set) > maxKnownSets {
		k.set = map[tenantSet]struct{}{}
	}
	for _, s := range sets {
		k.set[tenantSet{c.Tenant, s.Set}] = struct{}{}
	}
}

// forget drops what is known of a tenant whose rows are deleted.
func (k *knownSets) forget(tenant storage.ID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for key := range k.set {
		if key.tenant == tenant {
			delete(k.set, key)
		}
	}
}
