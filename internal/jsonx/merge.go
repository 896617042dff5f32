package jsonx

// Merge returns target changed by a JSON merge patch (RFC 7386). The members of
// an object patch are merged into target one by one, and null removes a member.
// Any other patch replaces target. Existing members keep their position, and
// new ones follow in the order of the patch. An absent target counts as an
// empty object, and an absent patch changes nothing.
func Merge(target, patch Value) Value {
	if patch.IsZero() {
		return target
	}
	if patch.Kind() != Object {
		return patch
	}
	old := target.Members()
	merged := make([]Member, 0, len(old)+patch.Len())
	var inPatch, inTarget nameIndex
	for _, m := range old {
		i := inPatch.find(patch.Members(), m.Name)
		if i < 0 {
			merged = append(merged, m)
		} else if p := patch.Members()[i].Value; !p.IsNull() {
			merged = append(merged, Member{Name: m.Name, Value: Merge(m.Value, p)})
		}
	}
	for _, p := range patch.Members() {
		if !p.Value.IsNull() && inTarget.find(old, p.Name) < 0 {
			merged = append(merged, Member{Name: p.Name, Value: Merge(Value{}, p.Value)})
		}
	}
	return objectValue(merged)
}
