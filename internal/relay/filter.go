package relay

import (
	"io"
	"slices"
	"strings"
)

// secret is a text to be replaced, and its replacement. An empty Text is never
// found.
type secret struct{ Text, Instead string }

// maxDepth is how many bytes of a secret are in the automaton. A longer secret
// counts as found after these bytes, and is followed as long as it continues.
const maxDepth = 4096

// filter replaces secrets in a text that passes through. It finds them written
// plainly, with JSON escapes, with percent-encoding, and with any two of these
// around each other, also if they are cut by the boundaries of chunks. Its memory
// does not depend on the length of the text. It is immutable and safe for
// concurrent use.
type filter struct {
	secrets []secret
	nodes   []node
	root    [256]int32 // the nodes of single bytes
	kinds   []kind     // the ways to write text that it reads
	special [256]bool  // bytes that one of them reads
	dull    [256]bool  // bytes that change nothing between two secrets
}

// node is a prefix of secrets. Node 0 is the empty one.
type node struct {
	child, sibling int32
	fail           int32 // the longest proper suffix that is a node
	secret         int32 // 1 + the index of the longest secret that ends here, or 0
	depth          int32
	b              byte // the last byte
}

// newFilter returns a filter for secrets.
func newFilter(secrets []secret) *filter {
	f := &filter{secrets: secrets, nodes: make([]node, 1)}
	for i := range secrets {
		f.insert(int32(i))
	}
	f.link()
	f.kinds = []kind{escapes, percents}
	if slices.ContainsFunc(secrets, func(s secret) bool { return strings.Contains(s.Text, " ") }) {
		f.kinds = append(f.kinds, formEncoded)
	}
	for i := range f.dull {
		b := byte(i)
		f.special[i] = slices.ContainsFunc(f.kinds, func(k kind) bool { return k.reads(b) })
		f.dull[i] = f.root[b] == 0 && !f.special[i]
	}
	return f
}

// insert adds the nodes of a secret.
func (f *filter) insert(secret int32) {
	text := f.secrets[secret].Text
	n := int32(0)
	for i := range min(len(text), maxDepth) {
		next := f.childOf(n, text[i])
		if next == 0 {
			next = int32(len(f.nodes))
			f.nodes = append(f.nodes, node{b: text[i], depth: int32(i) + 1, sibling: f.nodes[n].child})
			f.nodes[n].child = next
			if n == 0 {
				f.root[text[i]] = next
			}
		}
		n = next
	}
	if n != 0 && f.nodes[n].secret == 0 {
		f.nodes[n].secret = secret + 1
	}
}

func (f *filter) childOf(n int32, b byte) int32 {
	if n == 0 {
		return f.root[b]
	}
	c := f.nodes[n].child
	for c != 0 && f.nodes[c].b != b {
		c = f.nodes[c].sibling
	}
	return c
}

// link sets the fail nodes, by increasing depth. A node without a secret gets the
// secret of its fail node.
func (f *filter) link() {
	queue := []int32{0}
	for len(queue) > 0 {
		n := queue[0]
		queue = queue[1:]
		for c := f.nodes[n].child; c != 0; c = f.nodes[c].sibling {
			if n != 0 {
				f.nodes[c].fail = f.next(f.nodes[n].fail, f.nodes[c].b)
			}
			if f.nodes[c].secret == 0 {
				f.nodes[c].secret = f.nodes[f.nodes[c].fail].secret
			}
			queue = append(queue, c)
		}
	}
}

// next returns the longest node that ends with the byte after the text of n.
func (f *filter) next(n int32, b byte) int32 {
	for n != 0 {
		if c := f.childOf(n, b); c != 0 {
			return c
		}
		n = f.nodes[n].fail
	}
	return f.root[b]
}

// String returns a text with its secrets replaced.
func (f *filter) String(text string) string {
	s := &stream{f: f}
	s.scan([]byte(text))
	s.pass(true)
	return string(s.out)
}

// Reader returns a reader of the text of another reader, with its secrets
// replaced. If the other reader fails, the end of the text is dropped, because it
// may be the start of a secret.
func (f *filter) Reader(from io.Reader) io.Reader { return &stream{f: f, from: from} }

// chunk is how many bytes are read at a time.
const chunk = 16 << 10

// stream is a text that passes through a filter.
type stream struct {
	f    *filter
	from io.Reader
	in   []byte
	err  error // of from

	buf   []byte  // read, and not yet passed on
	base  int64   // position of buf in the text
	plain track   // reads the bytes as they are
	found []found // ascending and disjoint
	told  int64   // end of the last replaced part
	out   []byte  // to be returned; a part of room
	room  []byte
}

// found is a part of the text that is replaced.
type found struct {
	from, to int64
	secret   int32
}

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) {
	for len(s.out) == 0 && s.err == nil && len(p) > 0 {
		if s.in == nil {
			s.in = make([]byte, chunk)
		}
		n, err := s.from.Read(s.in)
		s.err = err
		s.scan(s.in[:n])
		s.pass(err == io.EOF)
	}
	n := copy(p, s.out)
	s.out = s.out[n:]
	if len(s.out) > 0 || n > 0 {
		return n, nil
	}
	return 0, s.err
}

// scan looks for secrets in the next part of the text.
func (s *stream) scan(part []byte) {
	pos := s.base + int64(len(s.buf))
	s.buf = append(s.buf, part...)
	for i := 0; i < len(part); i++ {
		if s.plain.node == 0 && s.plain.live == 0 && len(s.plain.rests) == 0 {
			for i < len(part) && s.f.dull[part[i]] {
				i++
			}
			if i == len(part) {
				return
			}
		}
		s.plain.read(s, unit{part[i], pos + int64(i), pos + int64(i) + 1})
	}
}

// mark notes that a part of the text is replaced, together with the parts that
// it overlaps.
func (s *stream) mark(m found) {
	i := len(s.found)
	for i > 0 && s.found[i-1].to > m.from {
		i--
	}
	j := i
	for ; j < len(s.found) && s.found[j].from < m.to; j++ {
		if s.found[j].from <= m.from {
			m.from, m.secret = s.found[j].from, s.found[j].secret
		}
		m.to = max(m.to, s.found[j].to)
	}
	s.found = slices.Replace(s.found, i, j, m)
}

// pass passes on what no later secret can begin in. At the end that is
// everything.
func (s *stream) pass(end bool) {
	limit := s.base + int64(len(s.buf))
	if !end {
		limit = s.plain.begin(s.f, limit)
	}
	out, at, n := s.room[:0], s.base, 0
	for _, m := range s.found {
		if m.from >= limit {
			break
		}
		if m.from >= s.told { // otherwise its start was replaced earlier
			out = append(out, s.buf[at-s.base:m.from-s.base]...)
			out = append(out, s.f.secrets[m.secret].Instead...)
		}
		at = min(m.to, limit)
		s.told = at
		if m.to <= limit {
			n++
		}
	}
	s.found = slices.Delete(s.found, 0, n)
	out = append(out, s.buf[at-s.base:limit-s.base]...)
	s.buf = append(s.buf[:0], s.buf[limit-s.base:]...)
	s.base, s.room, s.out = limit, out, out
}
