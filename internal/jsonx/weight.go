package jsonx

// The memory of a value of a tree, including the unused capacity of grown
// slices. The name of a member takes as much again.
const (
	valueWeight  = 20
	memberWeight = 20
)

// worstWeight is the largest weight of a byte of text: "[]," is a value in an
// array, and an array.
const worstWeight = 14

// weighedFrom is the length from which a text is examined.
const weighedFrom = 8 << 10

// Weight returns the approximate memory of the tree of a JSON text, including
// its text, without parsing it. It never returns much less than that.
func Weight(data []byte) int {
	if len(data) < weighedFrom {
		return worstWeight * len(data)
	}
	weight, inString := len(data), false
	for i := 0; i < len(data); i++ {
		if i%8 == 0 {
			breathe(i / 8)
		}
		switch c := data[i]; {
		case c == '"':
			inString = !inString
		case inString:
			if c == '\\' {
				i++
			}
		case c == ',' || c == '[' || c == '{':
			weight += valueWeight
		case c == ':':
			weight += memberWeight
		}
	}
	return weight
}

// Weight returns the approximate memory of the value, like the function Weight
// for its text.
func (v Value) Weight() int {
	weight := valueWeight
	if kind := v.Kind(); kind == Number || kind == String {
		weight += len(v.text())
	}
	for _, e := range v.Elems() {
		weight += e.Weight()
	}
	for _, m := range v.Members() {
		weight += memberWeight + len(m.Name) + m.Value.Weight()
	}
	return weight
}
