package relay

import (
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// kind is a way to write text.
type kind uint8

const (
	escapes     kind = iota // JSON escapes
	percents                // percent-encoding
	formEncoded             // percent-encoding, with + for a space
)

// reads reports whether the byte means something else than itself.
func (k kind) reads(b byte) bool {
	switch k {
	case escapes:
		return b == '\\'
	case formEncoded:
		return b == '%' || b == '+'
	default:
		return b == '%'
	}
}

// unit is a byte of decoded text, and the part of the text that it stands in.
type unit struct {
	b        byte
	from, to int64
}

// rest is what remains of a long secret whose start was found.
type rest struct {
	found
	next int // in the secret's text
}

// maxLevel is how many ways to write text around each other are read.
const maxLevel = 2

// track follows the text in one way of reading it. The plain track is the root of
// a tree. Every other track decodes what its parent reads. It lives only while
// it differs from its parent.
type track struct {
	level    int
	alive    bool
	decoder  decoder
	node     int32
	at       []int64 // where the last units begin, at least the units of node; not in the plain track
	same     int     // units since the last that the parent reads differently
	rests    []rest
	children []*track // by kind
	live     int      // children alive
	units    []unit   // reused memory
}

// read takes the next unit of the text as this track reads it.
func (t *track) read(s *stream, u unit) {
	if t.level < maxLevel && s.f.special[u.b] {
		t.fork(s, u)
	}
	if t.live > 0 {
		for _, child := range t.children {
			if child.alive {
				child.put(s, u, t)
			}
		}
	}
	t.step(s, u)
}

// fork starts the children that read this unit differently. Until now they were
// equal to the track itself, and their children to its children.
func (t *track) fork(s *stream, u unit) {
	for i, k := range s.f.kinds {
		if !k.reads(u.b) || t.children != nil && t.children[i].alive {
			continue
		}
		t.grow(s.f)
		child := t.children[i]
		depth := int(s.f.nodes[t.node].depth)
		child.copy(t, depth, u.from)
		child.decoder.n, child.same = 0, depth
		for j, other := range t.children {
			if child.level < maxLevel && other.alive && j != i {
				child.grow(s.f)
				child.children[j].copy(other, int(s.f.nodes[other.node].depth), u.from)
				child.live++
			}
		}
		t.live++
	}
}

// grow makes room for children.
func (t *track) grow(f *filter) {
	for i := len(t.children); i < len(f.kinds); i++ {
		t.children = append(t.children, &track{level: t.level + 1, decoder: decoder{kind: f.kinds[i]}})
	}
}

// copy makes the track read on as another one, whose node has this depth and, if
// it is the plain one, ends before pos.
func (t *track) copy(from *track, depth int, pos int64) {
	t.alive, t.node, t.same = true, from.node, from.same
	t.decoder.n = copy(t.decoder.pending[:], from.decoder.pending[:from.decoder.n])
	t.rests = append(t.rests[:0], from.rests...)
	t.at = t.at[:0]
	for i := range depth {
		if from.level == 0 {
			t.at = append(t.at, pos-int64(depth-i))
		} else {
			t.at = append(t.at, from.at[len(from.at)-depth+i])
		}
	}
}

// put decodes the next unit of the parent. The track ends once it would continue
// as its parent does.
func (t *track) put(s *stream, u unit, parent *track) {
	t.units = t.decoder.put(u, t.units[:0])
	for _, read := range t.units {
		if t.same++; read != u {
			t.same = 0
		}
		t.read(s, read)
	}
	if t.decoder.n == 0 && t.live == 0 && len(t.rests) == 0 && int(s.f.nodes[t.node].depth) <= t.same {
		t.alive = false
		parent.live--
	}
}

// step looks for secrets that end with a unit.
func (t *track) step(s *stream, u unit) {
	if len(t.rests) > 0 {
		t.continueRests(s, u)
	}
	f := s.f
	t.node = f.next(t.node, u.b)
	n := &f.nodes[t.node]
	if t.level > 0 {
		if t.at = append(t.at, u.from); len(t.at) > 2*int(n.depth)+64 {
			t.at = append(t.at[:0], t.at[len(t.at)-int(n.depth):]...)
		}
	}
	if n.secret == 0 {
		return
	}
	m := found{to: u.to, secret: n.secret - 1}
	text := f.secrets[m.secret].Text
	length := min(len(text), maxDepth)
	if m.from = u.to - int64(length); t.level > 0 {
		m.from = t.at[len(t.at)-length]
	}
	s.mark(m)
	if length < len(text) && !slices.ContainsFunc(t.rests, func(r rest) bool { return r.secret == m.secret }) {
		t.rests = append(t.rests, rest{m, length})
	}
}

// continueRests follows long secrets whose start was found.
func (t *track) continueRests(s *stream, u unit) {
	t.rests = slices.DeleteFunc(t.rests, func(r rest) bool { return s.f.secrets[r.secret].Text[r.next] != u.b })
	for i := range t.rests {
		r := &t.rests[i]
		r.next, r.to = r.next+1, u.to
		s.mark(r.found)
	}
	t.rests = slices.DeleteFunc(t.rests, func(r rest) bool { return r.next == len(s.f.secrets[r.secret].Text) })
}

// begin returns where the text begins that the track and its children have not
// finished with. The text has been read up to end.
func (t *track) begin(f *filter, end int64) int64 {
	first := end
	if depth := int(f.nodes[t.node].depth); t.level == 0 {
		first -= int64(depth)
	} else if depth > 0 {
		first = t.at[len(t.at)-depth]
	}
	if t.decoder.n > 0 {
		first = min(first, t.decoder.pending[0].from)
	}
	for _, child := range t.children {
		if child.alive {
			first = min(first, child.begin(f, end))
		}
	}
	return first
}

// decoder decodes one way to write text. Text that it does not understand passes
// unchanged.
type decoder struct {
	kind    kind
	pending [12]unit // the start of an escape; at most two \u with four digits
	n       int
}

// put decodes one byte and appends decoded bytes.
func (d *decoder) put(u unit, out []unit) []unit {
	switch {
	case d.n == 0 && d.kind == formEncoded && u.b == '+':
		u.b = ' '
		return append(out, u)
	case d.n == 0 && !d.kind.reads(u.b):
		return append(out, u)
	}
	d.pending[d.n] = u
	d.n++
	if d.kind == escapes {
		return d.escape(out)
	}
	return d.percent(out)
}

// percent decodes % and two digits.
func (d *decoder) percent(out []unit) []unit {
	last := digit(d.pending[d.n-1].b)
	switch {
	case d.n == 1:
		return out
	case last < 0:
		return d.again(out)
	case d.n == 2:
		return out
	}
	u := unit{byte(digit(d.pending[1].b)<<4 | last), d.pending[0].from, d.pending[2].to}
	d.n = 0
	return append(out, u)
}

// letter returns what an escape of one letter means.
func letter(b byte) (meaning rune, ok bool) {
	i := strings.IndexByte(`"\/bfnrt`, b)
	if i < 0 {
		return 0, false
	}
	return rune("\"\\/\b\f\n\r\t"[i]), true
}

// escape decodes an escape that is complete, and passes on text that is no escape.
// The first half of a surrogate pair waits for the second.
func (d *decoder) escape(out []unit) []unit {
	last, digitAt := d.pending[d.n-1].b, (d.n-1)%6 // in \uXXXX
	fits := digitAt == 0 && last == '\\' || digitAt == 1 && last == 'u' || digitAt > 1 && digit(last) >= 0
	meaning, short := letter(last)
	switch {
	case d.n == 2 && short:
		return d.emit(meaning, 2, out)
	case !fits && d.n < 6:
		return d.again(out)
	case !fits: // the first half alone
		return d.emit(d.code(0), 6, out)
	case d.n == 6 && !(utf16.IsSurrogate(d.code(0)) && d.code(0) < 0xDC00):
		return d.emit(d.code(0), 6, out)
	case d.n == 12:
		if r := utf16.DecodeRune(d.code(0), d.code(6)); r != utf8.RuneError {
			return d.emit(r, 12, out)
		}
		return d.emit(d.code(0), 6, out)
	}
	return out
}

// code returns the number of the \u escape that begins at a position.
func (d *decoder) code(at int) rune {
	r := rune(0)
	for _, u := range d.pending[at+2 : at+6] {
		r = r<<4 | rune(digit(u.b))
	}
	return r
}

// emit appends the character that the first n pending bytes stand for, and reads
// the others again.
func (d *decoder) emit(r rune, n int, out []unit) []unit {
	var text [utf8.UTFMax]byte
	size := utf8.EncodeRune(text[:], r)
	if utf16.IsSurrogate(r) { // in the form in which package jsonx keeps it
		text, size = [utf8.UTFMax]byte{0xE0 | byte(r>>12), 0x80 | byte(r>>6)&0x3F, 0x80 | byte(r)&0x3F}, 3
	}
	for _, b := range text[:size] {
		out = append(out, unit{b, d.pending[0].from, d.pending[n-1].to})
	}
	return d.reread(n, out)
}

// again appends the first pending byte unchanged, and reads the others again.
func (d *decoder) again(out []unit) []unit { return d.reread(1, append(out, d.pending[0])) }

// reread reads the pending bytes after the first n again.
func (d *decoder) reread(n int, out []unit) []unit {
	if n == d.n {
		d.n = 0
		return out
	}
	others, end := d.pending, d.n
	d.n = 0
	for _, u := range others[n:end] {
		out = d.put(u, out)
	}
	return out
}

// digit returns the value of a hexadecimal digit, or -1.
func digit(b byte) int {
	switch {
	case b >= '0' && b <= '9':
		return int(b - '0')
	case b >= 'a' && b <= 'f':
		return int(b-'a') + 10
	case b >= 'A' && b <= 'F':
		return int(b-'A') + 10
	default:
		return -1
	}
}
