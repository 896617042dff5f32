package jsonx

import "testing"

// TestParsersForget: parsers are used again, so nothing of a text may stay in
// one, whether it was JSON or not.
func TestParsersForget(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{"a":["b",{"c":"d"}],"e":1}`, `[{"a":"b","c":["d",x]}]`, `"a"`} {
		p := &parser{src: text, lim: Limits{}.orDefault()}
		_, _ = p.value(0) // with an error or without
		p.wipe()
		if p.src != "" || p.pos != 0 || p.nodes != 0 {
			t.Errorf("of %s the parser keeps where it was", text)
		}
		for _, m := range p.members[:cap(p.members)] {
			if m != (Member{}) {
				t.Errorf("of %s the parser keeps a member", text)
			}
		}
		for _, e := range p.elems[:cap(p.elems)] {
			if e != (Value{}) {
				t.Errorf("of %s the parser keeps an element", text)
			}
		}
	}
}
