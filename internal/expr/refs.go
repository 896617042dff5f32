package expr

// DistinctIDs returns the ids of tokens that expressions name, each once, in the
// order in which they are named.
func DistinctIDs(refs []Ref) []string {
	var ids []string
	known := map[string]bool{}
	for _, r := range refs {
		if !known[r.ID] {
			known[r.ID] = true
			ids = append(ids, r.ID)
		}
	}
	return ids
}
