package search

import "slices"

// track follows a text in one way of reading it. The plain track reads the bytes as
// they are. Its children decode what it reads, each in one way, and have children
// themselves.
//
// A text without special bytes reads the same in all ways. The children of a track
// therefore sleep until it reads a special byte, and again once the last special byte
// is so far back that no word reaches it. When they sleep does not depend on the
// words, except for the length that no word exceeds.
type track struct {
	level int
	decoder
	state    int32
	quiet    int      // units since the last special byte
	awake    bool     // whether its children are awake
	children []*track // by kind; nil until the first special byte

	// Where units begin in the text, for the units that a word can reach back to.
	// The plain track does not need it.
	count int64   // units so far
	pos   int64   // where the next unit begins
	first int64   // the number of the first unit in width
	width []uint8 // of the units since first
	at    []int64 // where each unit in width begins whose index is a multiple of steps
}

// steps is how many units apart the positions in track.at are.
const steps = 16

// ones are the widths of text that was not decoded.
var ones = slices.Repeat([]uint8{1}, blockSize)

// read takes the next part of the text as this track reads it.
func (t *track) read(s *Stream, in units) {
	if t.level < maxLevel {
		t.wake(in)
	}
	if t.awake {
		for _, child := range t.children {
			child.decode(in)
			child.read(s, child.out)
		}
		if t.quiet >= s.f.longest+maxChar {
			t.sleep()
		}
	}
	t.note(in.width)
	t.scan(s, in.text)
	t.trim(s.f.longest)
}

// wake wakes the children before a part that has a special byte. Until now they have
// read what the track has read.
func (t *track) wake(in units) {
	if !hasSpecial(in.text) {
		t.quiet += len(in.text)
		return
	}
	for t.quiet = 0; !isSpecial(in.text[len(in.text)-1-t.quiet]); {
		t.quiet++
	}
	if t.awake {
		return
	}
	t.awake = true
	if t.children == nil {
		for _, k := range kinds {
			t.children = append(t.children, &track{level: t.level + 1, decoder: decoder{kind: k}})
		}
	}
	for _, child := range t.children {
		child.state, child.quiet = t.state, t.quiet
		child.count, child.pos, child.first = t.count, t.pos, t.count-int64(len(t.width))
		child.width, child.at = append(child.width[:0], t.width...), append(child.at[:0], t.at...)
	}
}

// sleep ends the children, which read the same as the track.
func (t *track) sleep() {
	if !t.awake {
		return
	}
	t.awake = false
	for _, child := range t.children {
		child.sleep()
	}
}

// finish reads what the decoders still hold at the end of the text.
func (t *track) finish(s *Stream) {
	if !t.awake {
		return
	}
	for _, child := range t.children {
		child.decoder.finish()
		child.read(s, child.out)
		child.finish(s)
	}
}

// scan looks for words that end in a part of the text, which was noted.
func (t *track) scan(s *Stream, text []byte) {
	a, state := s.f.words, t.state
	table, classes := a.table, a.classes
	before := t.count - int64(len(text))
	for i, b := range text {
		if state < a.dense {
			state = table[int(state)*classes+int(a.class[b])]
		} else {
			state = a.next(state, a.class[b])
		}
		if state < 0 {
			state &^= endsWord
			secret := a.word(state) - 1
			end := before + int64(i) + 1
			from, to := t.start(end-int64(len(s.f.secrets[secret].Text))), t.start(end)
			s.marks = append(s.marks, found{from, to, to, secret})
		}
	}
	t.state = state
}

// note notes where the units of a part begin.
func (t *track) note(width []uint8) {
	if t.level == 0 {
		t.count += int64(len(width))
		t.pos = t.count
		return
	}
	for i, w := range width {
		if (t.count-t.first+int64(i))%steps == 0 {
			t.at = append(t.at, t.pos)
		}
		t.pos += int64(w)
	}
	t.count += int64(len(width))
	t.width = append(t.width, width...)
}

// start returns where a unit begins.
func (t *track) start(unit int64) int64 {
	if t.level == 0 || unit == t.count {
		return unit + t.pos - t.count
	}
	if unit < t.first {
		return unit // of the plain text before the first special byte
	}
	pos := t.at[(unit-t.first)/steps]
	for _, w := range t.width[(unit-t.first)/steps*steps : unit-t.first] {
		pos += int64(w)
	}
	return pos
}

// trim drops the widths of units that no word reaches back to.
func (t *track) trim(longest int) {
	if keep := longest + maxChar + blockSize; len(t.width) > 2*keep {
		drop := (len(t.width) - keep) / steps * steps
		t.width = append(t.width[:0], t.width[drop:]...)
		t.at = append(t.at[:0], t.at[drop/steps:]...)
		t.first += int64(drop)
	}
}
