// Package search finds texts in a stream, however they are written, and replaces them.
// It promises that what a stream passes on, and when, tells nothing of a text that it
// does not replace whole.
//
// Begin with [Filter]. An automaton finds the texts, and a track follows the stream in
// each way of reading it.
package search

import (
	"cmp"
	"errors"
	"io"
	"slices"
)

// Secret is a text to be replaced, and its replacement. An empty Text is never
// found.
type Secret struct {
	Text, Instead string
	Mark          string // replaces Text, if not empty, until a later filter replaces the mark
}

// Filter replaces secrets in a text that passes through. It finds them written
// plainly, with JSON escapes, with percent-encoding, and with any two of these
// around each other, also if they are cut by the boundaries of chunks. It takes a
// plus for a space. It is immutable and safe for concurrent use.
//
// Only whole secrets leave a trace. The filter always holds back as much text as the
// longest secret can take, whatever the text is. A reader therefore cannot tell how
// much of a text is the start of a secret.
type Filter struct {
	secrets []Secret
	words   *automaton
	// longest is a length that no secret exceeds, in bytes. It is rounded up, because
	// readers can tell it from what is held back.
	longest int
}

// New returns a filter for secrets. Bytes that equal maps to the same byte are
// equal.
func New(secrets []Secret, equal func(byte) byte) *Filter {
	return &Filter{secrets: secrets, words: newAutomaton(textsOf(secrets), equal), longest: roundUp(longestOf(secrets))}
}

// Secrets returns the secrets of the filter, which must not be changed.
func (f *Filter) Secrets() []Secret { return f.secrets }

func textsOf(secrets []Secret) []string {
	texts := make([]string, len(secrets))
	for i, s := range secrets {
		texts[i] = s.Text
	}
	return texts
}

func longestOf(secrets []Secret) int {
	longest := 0
	for _, s := range secrets {
		longest = max(longest, len(s.Text))
	}
	return longest
}

// shortest is the smallest length that lengths are rounded up to.
const shortest = 256

// roundUp rounds a length up to 256, 1024, 4096 and so on.
func roundUp(length int) int {
	rounded := shortest
	for rounded < length {
		rounded *= 4
	}
	return rounded
}

// Reader returns a reader of the text of another reader, with its secrets
// replaced. If the other reader fails, the text that was held back is dropped.
func (f *Filter) Reader(from io.Reader) *Stream { return &Stream{f: f, from: from} }

// Text returns a text with its secrets replaced, and whether there was one. work is called
// before each block is searched, and may be nil.
func (f *Filter) Text(text string, work func(held int) error) (clean string, replaced bool, err error) {
	s := &Stream{f: f, Work: work}
	if err := s.scan([]byte(text)); err != nil {
		return "", false, err
	}
	s.end()
	return string(s.out), s.any, nil
}

// Find calls report with the index of each secret that it finds in a text.
func (f *Filter) Find(text string, report func(secret int)) {
	s := &Stream{f: f}
	note := func() {
		for _, m := range s.marks {
			report(int(m.secret))
		}
		s.marks = s.marks[:0]
	}
	for block := range slices.Chunk([]byte(text), blockSize) {
		s.plain.read(s, units{block, ones[:len(block)]})
		note()
	}
	s.plain.finish(s)
	note()
}

const (
	// chunk is how many bytes are read at a time.
	chunk = 16 << 10
	// blockSize is how many bytes are scanned at a time.
	blockSize = 2 << 10
)

// Stream is a text that passes through a filter. How much it has passed on after each
// part of the text depends on the text and on Filter.longest, but not on the secrets.
type Stream struct {
	Work func(held int) error // called before a block is scanned; may be nil
	Rest func()               // called when a part has been scanned; may be nil

	f    *Filter
	from io.Reader
	in   []byte
	err  error // of from

	buf   []byte // received, and not yet passed on
	base  int64  // position of buf in the text
	fresh int    // bytes at the end of buf that came after the last look for settled text
	plain track
	marks []found // in the current block
	found []found // ascending and disjoint
	told  int64   // end of the last replaced part
	any   bool    // something was replaced
	out   []byte  // to be returned; a part of room
	room  []byte
}

// found is a part of the text that is replaced.
type found struct {
	from, to int64
	end      int64 // of the first secret in it, which stands for it
	secret   int32
}

// Replaced reports whether something was replaced so far.
func (s *Stream) Replaced() bool { return s.any }

// Read implements io.Reader.
func (s *Stream) Read(p []byte) (int, error) {
	for len(s.out) == 0 && s.err == nil && len(p) > 0 {
		s.fill()
	}
	n := copy(p, s.out)
	s.out = s.out[n:]
	if len(s.out) > 0 || n > 0 {
		return n, nil
	}
	return 0, s.err
}

// fill reads the next part of the text, and passes on what is settled.
func (s *Stream) fill() {
	if s.in == nil {
		s.in = make([]byte, chunk)
	}
	n, err := s.from.Read(s.in)
	if s.Rest != nil {
		defer s.Rest()
	}
	if s.err = cmp.Or(s.scan(s.in[:n]), err); errors.Is(s.err, io.EOF) {
		s.end()
		return
	}
	s.fresh += n
	if s.fresh >= s.f.longest/16 { // the look takes time
		s.fresh = 0
		s.pass(s.settled())
	}
}

// scan looks for secrets in the next part of the text.
func (s *Stream) scan(part []byte) error {
	for block := range slices.Chunk(part, blockSize) {
		if s.Work != nil {
			if err := s.Work(len(s.buf)); err != nil {
				return err
			}
		}
		s.buf = append(s.buf, block...)
		s.plain.read(s, units{block, ones[:len(block)]})
		s.merge()
	}
	return nil
}

// end passes on everything at the end of the text.
func (s *Stream) end() {
	s.plain.finish(s)
	s.merge()
	s.pass(s.base + int64(len(s.buf)))
}

// merge adds the marks to the parts that are replaced. Parts that overlap become one.
func (s *Stream) merge() {
	if len(s.marks) == 0 {
		return
	}
	first := slices.MinFunc(s.marks, byStart).from
	kept := len(s.found)
	for kept > 0 && s.found[kept-1].to > first {
		kept--
	}
	s.marks = append(s.marks, s.found[kept:]...)
	slices.SortFunc(s.marks, byStart)
	s.found = s.found[:kept]
	for _, m := range s.marks {
		if last := len(s.found) - 1; last >= 0 && m.from < s.found[last].to {
			s.found[last].to = max(s.found[last].to, m.to)
		} else {
			s.found = append(s.found, m)
		}
	}
	s.marks = s.marks[:0]
}

func byStart(a, b found) int {
	return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.end, a.end), cmp.Compare(a.secret, b.secret))
}

// settled returns the end of the text in which every secret that begins has ended.
//
// Of the text behind it, each level of decoding turns n bytes, s of them special, into
// at least n-maxShort*s bytes and at most s special ones. All levels turn them into
// at least n/maxWidth. A character may be cut at either end. The rest has more bytes
// than the longest secret.
func (s *Stream) settled() int64 {
	size, enough := 0, s.f.longest+2*maxChar
	most := maxWidth*s.f.longest + 2*maxChar
	for i := len(s.buf) - 1; i >= 0; i-- {
		if size++; isSpecial(s.buf[i]) {
			size -= maxLevel * maxShort
		}
		if size >= enough || len(s.buf)-i >= most {
			return s.base + int64(i)
		}
	}
	return s.base
}

// pass passes on the text up to a limit.
func (s *Stream) pass(limit int64) {
	out, at, n := s.room[:0], s.base, 0
	for _, m := range s.found {
		if m.from >= limit {
			break
		}
		if m.from >= s.told { // otherwise its start was replaced earlier
			out = append(out, s.buf[at-s.base:m.from-s.base]...)
			out = append(out, cmp.Or(s.f.secrets[m.secret].Mark, s.f.secrets[m.secret].Instead)...)
			s.any = true
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
