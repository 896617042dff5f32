package postgres

import (
	"slices"

	"github.com/seed-72ea4aab/vault/storage"
)

// setsOf returns the distinct sets of containers of a change. Every change
// writes them. Most exist already, which costs the server too little to
// measure.
func setsOf(c *storage.Change) (sets []storage.ContainerSet) {
	add := func(t *storage.Token) {
		if !slices.ContainsFunc(sets, func(s storage.ContainerSet) bool { return s.Set == t.Set }) {
			sets = append(sets, storage.ContainerSet{Set: t.Set, Containers: t.Containers})
		}
	}
	for i := range c.InsertTokens {
		add(&c.InsertTokens[i])
	}
	for i := range c.UpdateTokens {
		add(&c.UpdateTokens[i].Token)
	}
	return sets
}
