package jsonx

import "slices"

// Path is the position of a value in a tree during [Rewrite]. It is valid only
// until the visit returns. Its text is built on demand.
type Path struct {
	steps []step
}

type step struct {
	name  string
	index int // -1 for a member
}

// String returns the path like data.number or [2].data, and "" for the root.
func (p *Path) String() string {
	text := ""
	for _, s := range p.steps {
		if s.index < 0 {
			text = JoinPath(text, nameSegment(s.name))
		} else {
			text = JoinPath(text, indexSegment(s.index))
		}
	}
	return text
}

// Visit is called by [Rewrite] with each value. It returns the replacement of
// the value. If descend is true and the result is an array or object, its
// children are visited next.
type Visit func(path *Path, v Value) (result Value, descend bool, err error)

// Rewrite returns v with every value replaced by the result of visit, parents
// before children, in document order. Unchanged parts are shared with v. It
// stops at the first error and returns it.
func Rewrite(v Value, visit Visit) (Value, error) {
	return rewrite(&Path{}, v, visit)
}

func rewrite(path *Path, v Value, visit Visit) (Value, error) {
	v, descend, err := visit(path, v)
	if err != nil || !descend || v.Len() == 0 {
		return v, err
	}
	path.steps = append(path.steps, step{})
	defer func() { path.steps = path.steps[:len(path.steps)-1] }()
	if v.Kind() == Array {
		return rewriteArray(path, v, visit)
	}
	return rewriteObject(path, v, visit)
}

func rewriteArray(path *Path, v Value, visit Visit) (Value, error) {
	elems, changed := v.Elems(), false
	for i, old := range v.Elems() {
		path.steps[len(path.steps)-1] = step{index: i}
		e, err := rewrite(path, old, visit)
		if err != nil {
			return Value{}, err
		}
		if e == old {
			continue
		}
		if !changed {
			elems, changed = slices.Clone(elems), true
		}
		elems[i] = e
	}
	if !changed {
		return v, nil
	}
	return arrayValue(elems), nil
}

func rewriteObject(path *Path, v Value, visit Visit) (Value, error) {
	members, changed := v.Members(), false
	for i, old := range v.Members() {
		path.steps[len(path.steps)-1] = step{name: old.Name, index: -1}
		m, err := rewrite(path, old.Value, visit)
		if err != nil {
			return Value{}, err
		}
		if m == old.Value {
			continue
		}
		if !changed {
			members, changed = slices.Clone(members), true
		}
		members[i].Value = m
	}
	if !changed {
		return v, nil
	}
	return objectValue(members), nil
}
