// Package bounded has the map of everything that a node remembers without having to. It
// holds a limited number of entries. Whoever uses it reads again what it has forgotten.
package bounded

// Map is a map that forgets. A nil Map is empty and ready to use.
type Map[K comparable, V any] map[K]V

// Put adds an entry. If the map would have more than the given number of entries, it
// forgets any other one.
func (m *Map[K, V]) Put(most int, key K, value V) {
	if *m == nil {
		*m = Map[K, V]{}
	}
	(*m)[key] = value
	if len(*m) <= most {
		return
	}
	for other := range *m {
		if other != key {
			delete(*m, other)
			return
		}
	}
}
