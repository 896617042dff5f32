package jsonx

// indexFrom is the number of members from which a map finds a name faster than
// a scan. It also keeps large objects from taking quadratic time.
const indexFrom = 17

// nameIndex finds members by name. It builds its map at the first lookup in a
// large object, so that small objects and unneeded indexes cost nothing.
type nameIndex struct {
	byName map[string]int
}

// find returns the position of name in members, or -1. Each member added
// between calls must be announced with added.
func (x *nameIndex) find(members []Member, name string) int {
	if len(members) < indexFrom {
		for i := range members {
			if members[i].Name == name {
				return i
			}
		}
		return -1
	}
	if x.byName == nil {
		x.byName = make(map[string]int, 2*len(members))
		for i := range members {
			x.byName[members[i].Name] = i
		}
	}
	if i, ok := x.byName[name]; ok {
		return i
	}
	return -1
}

func (x *nameIndex) added(name string, i int) {
	if x.byName != nil {
		x.byName[name] = i
	}
}

// objectBuilder collects the members of an object under construction.
type objectBuilder struct {
	members []Member
	index   nameIndex
}

func newObjectBuilder(size int) *objectBuilder {
	return &objectBuilder{members: make([]Member, 0, size)}
}

// add appends a member whose name is new.
func (b *objectBuilder) add(m Member) {
	b.members = append(b.members, m)
	b.index.added(m.Name, len(b.members)-1)
}

func (b *objectBuilder) set(name string, v Value) {
	if i := b.index.find(b.members, name); i >= 0 {
		b.members[i].Value = v
		return
	}
	b.add(Member{Name: name, Value: v})
}

func (b *objectBuilder) value() Value {
	return objectValue(b.members)
}

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
