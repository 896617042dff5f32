package jsonx

import "testing"

// Parsers are reused, so they must keep nothing of a text, whether it was JSON
// or not.
func TestParsersKeepNothing(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{"a":["b",{"c":"d"}],"e":1}`, `[{"a":"b","c":["d",x]}]`, `"a"`} {
		p := &parser{src: text, lim: Limits{defaultDepth, defaultNodes}}
		_, _ = p.value(0) // with or without an error
		p.wipe()
		if p.src != "" || p.pos != 0 || p.nodes != 0 {
			t.Errorf("after %s the parser keeps its position", text)
		}
		for _, m := range p.members[:cap(p.members)] {
			if m != (Member{}) {
				t.Errorf("after %s the parser keeps a member", text)
			}
		}
		for _, e := range p.elems[:cap(p.elems)] {
			if e != (Value{}) {
				t.Errorf("after %s the parser keeps an element", text)
			}
		}
	}
}
