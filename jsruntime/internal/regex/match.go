package regex

import "unicode/utf16"

// maxStack limits the backtracking stack.
const maxStack = 3 << 20

// stopEvery is the number of steps after which a match checks whether to stop.
const stopEvery = 1 << 14

// frame is a place to return to, or a change to undo on the way there.
type frame struct {
	kind frameKind
	pc   int32
	a, b int32
}

type frameKind int32

const (
	frameGo       frameKind = iota // continue at pc and position a
	frameCapture                   // captures[a] was b
	frameRegister                  // registers[a] was b
	frameRound                     // begin a round of the loop at pc and position a
	frameShorter                   // a run before pc from a to b: continue with one less
	frameLonger                    // a lazy run at pc of b characters to a: continue with one more
)

// matcher is one attempt to match.
type matcher struct {
	p         *Program
	text      []uint16
	full      bool
	captures  []int32
	registers []int32
	stack     []frame
	steps     int
	stop      func() bool
	err       error
}

// Match looks for the first match in a text from a position on, or only at that
// position if sticky is set. It returns the beginning and end of each capture,
// or nil if there is no match. Captures that did not take part are -1. stop may
// be nil; Match calls it now and then.
func (p *Program) Match(text []uint16, from int, sticky bool, stop func() bool) ([]int32, error) {
	m := &matcher{p: p, text: text, full: p.flags.full(), stop: stop}
	m.captures = make([]int32, 2*p.groups)
	m.registers = make([]int32, p.registers)
	if m.full && m.insidePair(from) {
		from--
	}
	for at := from; at <= len(text); at++ {
		if p.first != nil && !sticky {
			for at < len(text) && !p.first.has(rune(text[at])) {
				at++
			}
			if at == len(text) {
				return nil, nil
			}
		}
		if m.full && at > from && m.insidePair(at) {
			continue
		}
		for i := range m.captures {
			m.captures[i] = -1
		}
		end, ok := m.run(0, int32(at))
		if m.err != nil {
			return nil, m.err
		}
		if ok {
			m.captures[0], m.captures[1] = int32(at), end
			return m.captures, nil
		}
		if sticky {
			break
		}
	}
	return nil, nil
}

// insidePair reports whether a position is between the halves of a surrogate
// pair.
func (m *matcher) insidePair(at int) bool {
	return at > 0 && at < len(m.text) && isHigh(m.text[at-1]) && isLow(m.text[at])
}

func isHigh(u uint16) bool { return u&0xfc00 == 0xd800 }
func isLow(u uint16) bool  { return u&0xfc00 == 0xdc00 }

// next returns the character at a position and its width. There must be one.
func (m *matcher) next(at int32) (rune, int32) {
	u := m.text[at]
	if m.full && isHigh(u) && int(at)+1 < len(m.text) && isLow(m.text[at+1]) {
		return utf16.DecodeRune(rune(u), rune(m.text[at+1])), 2
	}
	return rune(u), 1
}

// previous returns the character before a position and its width. There must be
// one.
func (m *matcher) previous(at int32) (rune, int32) {
	u := m.text[at-1]
	if m.full && isLow(u) && at > 1 && isHigh(m.text[at-2]) {
		return utf16.DecodeRune(rune(m.text[at-2]), rune(u)), 2
	}
	return rune(u), 1
}

// read returns the next character in the direction of an instruction.
func (m *matcher) read(i *inst, at int32) (rune, int32) {
	if i.behind {
		return m.previous(at)
	}
	return m.next(at)
}

func (m *matcher) push(f frame) {
	if len(m.stack) >= maxStack {
		m.err = ErrTooComplex
		return
	}
	m.stack = append(m.stack, f)
}

func (m *matcher) setRegister(i, v int32) {
	m.push(frame{kind: frameRegister, a: i, b: m.registers[i]})
	m.registers[i] = v
}

func (m *matcher) setCapture(i, v int32) {
	if m.captures[i] != v {
		m.push(frame{kind: frameCapture, a: i, b: m.captures[i]})
		m.captures[i] = v
	}
}

// run matches from an instruction on, and returns where the match ends. Without
// a match it leaves everything as it was.
func (m *matcher) run(pc, pos int32) (end int32, ok bool) {
	base := len(m.stack)
	for {
		if m.steps++; m.steps%stopEvery == 0 && m.stop != nil && m.stop() {
			m.err = ErrStopped
		}
		if m.err != nil {
			return 0, false
		}
		i := &m.p.code[pc]
		if i.op == opMatch {
			return pos, true
		}
		pc, pos, ok = m.step(i, pc, pos)
		if !ok {
			if pc, pos, ok = m.back(base); !ok {
				return 0, false
			}
		}
	}
}

// step executes an instruction.
func (m *matcher) step(i *inst, pc, pos int32) (int32, int32, bool) {
	switch i.op {
	case opChar, opPoint, opSet:
		width, ok := m.one(i, i.op, pos)
		if i.behind {
			width = -width
		}
		return pc + 1, pos + width, ok
	case opSplit:
		m.push(frame{pc: i.a, a: pos})
		return pc + 1, pos, true
	case opJump:
		return i.a, pos, true
	case opOpen:
		m.setRegister(i.a, pos)
		return pc + 1, pos, true
	case opClose:
		m.closeGroup(i, pos)
		return pc + 1, pos, true
	case opReset:
		for c := i.a; c <= i.b; c++ {
			m.setCapture(c, -1)
		}
		return pc + 1, pos, true
	case opLoopInit:
		m.setRegister(i.counter, 0)
		return pc + 1, pos, true
	case opLoop:
		return m.loop(i, pc, pos)
	case opLoopEnd:
		empty := pos == m.registers[i.counter+1] && m.registers[i.counter] > i.min
		return i.a, pos, !empty
	case opRun:
		return m.repeat(i, pc, pos)
	case opLook:
		return i.a, pos, m.look(i, pc, pos)
	case opBack:
		width, ok := m.reference(i, pos)
		return pc + 1, pos + width, ok
	default:
		return pc + 1, pos, m.asserts(i, pos)
	}
}

// one matches one character, forwards or backwards, and returns its width.
func (m *matcher) one(i *inst, kind op, pos int32) (int32, bool) {
	if i.behind && pos == 0 || !i.behind && int(pos) == len(m.text) {
		return 0, false
	}
	if kind == opChar {
		if i.behind {
			pos--
		}
		return 1, int32(m.text[pos]) == i.a
	}
	c, width := m.read(i, pos)
	if kind == opPoint {
		return width, c == i.a
	}
	return width, m.p.sets[i.a].has(c)
}

func (m *matcher) closeGroup(i *inst, pos int32) {
	from, to := m.registers[i.b], pos
	if i.behind {
		from, to = to, from
	}
	m.setCapture(2*i.a, from)
	m.setCapture(2*i.a+1, to)
}

// loop begins a round, or leaves the loop.
func (m *matcher) loop(i *inst, pc, pos int32) (int32, int32, bool) {
	switch n := m.registers[i.counter]; {
	case n < i.min:
	case n >= i.max:
		return i.a, pos, true
	case i.lazy:
		m.push(frame{kind: frameRound, pc: pc, a: pos})
		return i.a, pos, true
	default:
		m.push(frame{pc: i.a, a: pos})
	}
	m.round(i, pos)
	return pc + 1, pos, true
}

func (m *matcher) round(i *inst, pos int32) {
	m.setRegister(i.counter, m.registers[i.counter]+1)
	m.setRegister(i.counter+1, pos)
}

// repeat matches a run of single characters.
func (m *matcher) repeat(i *inst, pc, pos int32) (int32, int32, bool) {
	n := int32(0)
	for ; n < i.min; n++ {
		width, ok := m.one(i, op(i.b), pos)
		if !ok {
			return 0, 0, false
		}
		pos += width
	}
	if i.lazy {
		if n < i.max {
			m.push(frame{kind: frameLonger, pc: pc, a: pos, b: n})
		}
		return pc + 1, pos, true
	}
	least := pos
	for ; n < i.max; n++ {
		width, ok := m.one(i, op(i.b), pos)
		if !ok {
			break
		}
		pos += width
		if n&0xffff == 0xffff && m.stop != nil && m.stop() {
			m.err = ErrStopped
		}
	}
	if pos > least {
		m.push(frame{kind: frameShorter, pc: pc + 1, a: least, b: pos})
	}
	return pc + 1, pos, true
}

// look matches a lookahead or lookbehind. The matcher never returns to a place
// within it, but backtracking undoes its captures.
func (m *matcher) look(i *inst, pc, pos int32) bool {
	base := len(m.stack)
	_, found := m.run(pc+1, pos)
	if m.err != nil {
		return false
	}
	if !found {
		return i.negate
	}
	if i.negate {
		for len(m.stack) > base {
			m.undo(m.stack[len(m.stack)-1])
			m.stack = m.stack[:len(m.stack)-1]
		}
		return false
	}
	kept := m.stack[:base]
	for _, f := range m.stack[base:] {
		if f.kind == frameCapture || f.kind == frameRegister {
			kept = append(kept, f)
		}
	}
	m.stack = kept
	return true
}

// undo reverts a change.
func (m *matcher) undo(f frame) {
	if f.kind == frameCapture {
		m.captures[f.a] = f.b
	} else if f.kind == frameRegister {
		m.registers[f.a] = f.b
	}
}

// back returns to the last place above base.
func (m *matcher) back(base int) (pc, pos int32, ok bool) {
	for len(m.stack) > base {
		top := len(m.stack) - 1
		f := m.stack[top]
		switch f.kind {
		case frameGo:
			m.stack = m.stack[:top]
			return f.pc, f.a, true
		case frameRound:
			m.stack = m.stack[:top]
			m.round(&m.p.code[f.pc], f.a)
			return f.pc + 1, f.a, true
		case frameShorter:
			_, width := m.previous(f.b)
			f.b -= width
			if f.b > f.a {
				m.stack[top].b = f.b
			} else {
				m.stack = m.stack[:top]
			}
			return f.pc, f.b, true
		case frameLonger:
			m.stack = m.stack[:top]
			i := &m.p.code[f.pc]
			width, ok := m.one(i, op(i.b), f.a)
			if !ok {
				continue
			}
			if f.b+1 < i.max {
				m.push(frame{kind: frameLonger, pc: f.pc, a: f.a + width, b: f.b + 1})
			}
			return f.pc + 1, f.a + width, true
		default:
			m.undo(f)
			m.stack = m.stack[:top]
		}
	}
	return 0, 0, false
}

// reference matches the text that a group has matched, and returns how far to
// move.
func (m *matcher) reference(i *inst, pos int32) (int32, bool) {
	from, to := m.captures[2*i.a], m.captures[2*i.a+1]
	if from < 0 || to < 0 {
		return 0, true
	}
	length := to - from
	start := pos
	if i.behind {
		start = pos - length
	}
	if start < 0 || int(start+length) > len(m.text) {
		return 0, false
	}
	if !m.same(m.text[from:to], m.text[start:start+length]) {
		return 0, false
	}
	if i.behind {
		return -length, true
	}
	return length, true
}

// same compares texts of equal length, ignoring case if the flags say so.
func (m *matcher) same(a, b []uint16) bool {
	folds := m.p.flags.folds()
	for k := range a {
		if a[k] == b[k] {
			continue
		}
		if folds == nil {
			return false
		}
		x, y := rune(a[k]), rune(b[k])
		if m.full && k > 0 && isLow(a[k]) && isLow(b[k]) && isHigh(a[k-1]) && isHigh(b[k-1]) {
			x, y = utf16.DecodeRune(rune(a[k-1]), x), utf16.DecodeRune(rune(b[k-1]), y)
		} else if m.full && k+1 < len(a) && isHigh(a[k]) && isHigh(b[k]) && isLow(a[k+1]) && isLow(b[k+1]) {
			x, y = utf16.DecodeRune(x, rune(a[k+1])), utf16.DecodeRune(y, rune(b[k+1]))
		}
		if folds.of(x) != folds.of(y) {
			return false
		}
	}
	return true
}

// asserts reports whether an assertion holds.
func (m *matcher) asserts(i *inst, pos int32) bool {
	if i.op == opStart {
		return pos == 0 || m.p.flags.multiline && isLineEnd(m.text[pos-1])
	}
	if i.op == opEnd {
		return int(pos) == len(m.text) || m.p.flags.multiline && isLineEnd(m.text[pos])
	}
	before := pos > 0 && m.isWord(m.text[pos-1])
	after := int(pos) < len(m.text) && m.isWord(m.text[pos])
	return (before != after) == (i.a == 0)
}

func isLineEnd(u uint16) bool { return u == '\n' || u == '\r' || u == 0x2028 || u == 0x2029 }

// isWord reports whether a character is in \w.
func (m *matcher) isWord(u uint16) bool {
	switch {
	case u >= 'a' && u <= 'z', u >= 'A' && u <= 'Z', u >= '0' && u <= '9', u == '_':
		return true
	}
	return m.full && m.p.flags.ignoreCase && (u == 0x17f || u == 0x212a)
}
