package expr

// DistinctIDs returns the distinct ids of tokens that expressions name, in
// order of appearance.
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
