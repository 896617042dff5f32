package modules

import (
	"bytes"
	"encoding/json"
	"strings"
)

// manifest has the relevant fields of a package.json.
type manifest struct {
	Name         string          `json:"name"`
	Type         string          `json:"type"`
	Main         json.RawMessage `json:"main"` // a string, but not in every package
	Exports      json.RawMessage `json:"exports"`
	Imports      json.RawMessage `json:"imports"`
	Dependencies json.RawMessage `json:"dependencies"`
}

// main returns the main file of the package, if it names one.
func (m *manifest) main() string {
	var name string
	_ = json.Unmarshal(m.Main, &name) // Node also ignores a value that is not a string
	return name
}

// pair is a property of a JSON object. The order of conditions matters, and a
// Go map would lose it.
type pair struct {
	key   string
	value json.RawMessage
}

// pairsOf returns the properties of a JSON object in order, or nil for any
// other value.
func pairsOf(raw json.RawMessage) []pair {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if start, err := dec.Token(); err != nil || start != json.Delim('{') {
		return nil
	}
	var out []pair
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil
		}
		p := pair{}
		p.key, _ = key.(string)
		if dec.Decode(&p.value) != nil {
			return nil
		}
		out = append(out, p)
	}
	return out
}

// target returns the target that exports or imports have for a name such as
// "./sub". It is a path that starts with "./" or, in imports, the name of a
// package. conditions are the active conditions.
func target(raw json.RawMessage, name string, conditions map[string]bool) (string, bool) {
	pairs := pairsOf(raw)
	if len(pairs) == 0 || !strings.HasPrefix(pairs[0].key, ".") && !strings.HasPrefix(pairs[0].key, "#") {
		if name != "." {
			return "", false
		}
		return chosen(raw, "", conditions) // one target, for the package itself
	}
	var best pair
	var star string
	for _, p := range pairs {
		if p.key == name {
			return chosen(p.value, "", conditions)
		}
		if rest, ok := matchPattern(p.key, name); ok && len(p.key) > len(best.key) {
			best, star = p, rest
		}
	}
	if best.key == "" {
		return "", false
	}
	return chosen(best.value, star, conditions)
}

// matchPattern returns the part of a name that the star of a key matches. A key
// that ends in a slash matches everything below it, as up to Node 16.
func matchPattern(key, name string) (string, bool) {
	head, tail, ok := strings.Cut(key, "*")
	if !ok {
		rest, below := strings.CutPrefix(name, key)
		return rest, below && strings.HasSuffix(key, "/") && rest != ""
	}
	if len(name) <= len(head)+len(tail) || !strings.HasPrefix(name, head) || !strings.HasSuffix(name, tail) {
		return "", false
	}
	return name[len(head) : len(name)-len(tail)], true
}

// chosen follows conditions and lists down to a path.
func chosen(raw json.RawMessage, star string, conditions map[string]bool) (string, bool) {
	var text string
	if json.Unmarshal(raw, &text) == nil && text != "" {
		if strings.HasSuffix(text, "/") {
			return text + star, true
		}
		return strings.ReplaceAll(text, "*", star), true
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil {
		for _, item := range list {
			if found, ok := chosen(item, star, conditions); ok {
				return found, true
			}
		}
		return "", false
	}
	for _, p := range pairsOf(raw) {
		if p.key != "default" && !conditions[p.key] {
			continue
		}
		if string(p.value) == "null" {
			return "", false
		}
		if found, ok := chosen(p.value, star, conditions); ok {
			return found, true
		}
	}
	return "", false
}
