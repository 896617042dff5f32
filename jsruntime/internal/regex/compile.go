package regex

import "slices"

// op is the operation of an instruction.
type op uint8

const (
	opMatch    op = iota
	opChar        // one code unit: a
	opPoint       // one code point: a
	opSet         // one character of sets[a]
	opSplit       // continue, and return to a
	opJump        // continue at a
	opOpen        // begin a group, in register a
	opClose       // end the group a, which began in register b
	opReset       // clear the captures from a to b
	opLoop        // do a round of a loop, or continue at a
	opLoopInit    // begin a loop
	opLoopEnd     // end a round
	opRun         // a run of characters of one kind, as many as the loop says
	opLook        // look around; the body ends with opMatch, and the program continues at a
	opStart       // ^
	opEnd         // $
	opBoundary    // \b, or \B if a is 1
	opBack        // the text that group a has matched
)

type inst struct {
	op      op
	behind  bool // go backwards, as within a lookbehind
	lazy    bool
	negate  bool
	a, b    int32
	min     int32
	max     int32
	counter int32 // first of two registers: the number of rounds, and where the round began
}

// assembler makes a program from a tree.
type assembler struct {
	p      *Program
	behind bool
	names  []string
}

// maxProgram limits the instructions of a program.
const maxProgram = 1 << 22

// assemble compiles a tree.
func assemble(tree node, parsed *parser, f flags) *Program {
	p := &Program{groups: parsed.groups + 1, names: parsed.names, flags: f}
	a := &assembler{p: p, names: parsed.names}
	a.node(tree)
	a.emit(inst{op: opMatch})
	if first, empty := a.first(tree); !empty {
		p.first = newSet(units(first, f))
	}
	return p
}

// units returns the code units with which characters begin.
func units(ranges []runeRange, f flags) []runeRange {
	if !f.full() {
		return ranges
	}
	out := intersect(ranges, []runeRange{{0, 0xffff}})
	if beyond := intersect(ranges, []runeRange{{0x10000, 0x10ffff}}); len(beyond) > 0 {
		out = append(slices.Clone(out), runeRange{0xd800, 0xdbff})
	}
	return normal(slices.Clone(out))
}

func (a *assembler) emit(i inst) int {
	if len(a.p.code) >= maxProgram {
		panic(patternError("Regular expression too large"))
	}
	i.behind = a.behind
	a.p.code = append(a.p.code, i)
	return len(a.p.code) - 1
}

func (a *assembler) here() int32 { return int32(len(a.p.code)) }

// node compiles a node, forwards or backwards.
func (a *assembler) node(n node) {
	switch n := n.(type) {
	case charNode, setNode:
		a.emit(a.single(n))
	case sequence:
		for i := range n.list {
			if a.behind {
				i = len(n.list) - 1 - i
			}
			a.node(n.list[i])
		}
	case choice:
		a.choice(n)
	case capture:
		a.capture(n)
	case repetition:
		a.repetition(n)
	case lookaround:
		a.lookaround(n)
	case assertion:
		a.emit(assertionInst(n.kind))
	case reference:
		a.reference(n)
	}
}

func assertionInst(kind byte) inst {
	switch kind {
	case '^':
		return inst{op: opStart}
	case '$':
		return inst{op: opEnd}
	case 'B':
		return inst{op: opBoundary, a: 1}
	}
	return inst{op: opBoundary}
}

// single returns the instruction for one character.
func (a *assembler) single(n node) inst {
	if c, ok := n.(charNode); ok {
		// With the flags u and v a surrogate must not be half of a pair.
		if a.p.flags.full() && (c.c > 0xffff || c.c >= 0xd800 && c.c <= 0xdfff) {
			return inst{op: opPoint, a: c.c}
		}
		return inst{op: opChar, a: c.c}
	}
	a.p.sets = append(a.p.sets, newSet(n.(setNode).ranges))
	return inst{op: opSet, a: int32(len(a.p.sets) - 1)}
}

func (a *assembler) choice(n choice) {
	var ends []int
	for i, option := range n.list {
		if i == len(n.list)-1 {
			a.node(option)
			break
		}
		split := a.emit(inst{op: opSplit})
		a.node(option)
		ends = append(ends, a.emit(inst{op: opJump}))
		a.p.code[split].a = a.here()
	}
	for _, end := range ends {
		a.p.code[end].a = a.here()
	}
}

// capture compiles a group. A register holds where the group began until its
// end is known, because a reference within the group sees what the group
// matched before.
func (a *assembler) capture(n capture) {
	begun := a.register(1)
	a.emit(inst{op: opOpen, a: begun})
	a.node(n.body)
	a.emit(inst{op: opClose, a: int32(n.number), b: begun})
}

// register returns the first of n new registers.
func (a *assembler) register(n int) int32 {
	a.p.registers += n
	return int32(a.p.registers - n)
}

func (a *assembler) repetition(n repetition) {
	if n.max == 0 {
		return
	}
	if one, ok := a.runBody(n); ok {
		i := a.single(one)
		i.b = int32(i.op)
		i.op, i.min, i.max, i.lazy = opRun, int32(n.min), int32(n.max), n.lazy
		a.emit(i)
		return
	}
	counter := a.register(2)
	a.emit(inst{op: opLoopInit, counter: counter})
	loop := a.emit(inst{op: opLoop, counter: counter, min: int32(n.min), max: int32(n.max), lazy: n.lazy})
	if n.from <= n.to {
		a.emit(inst{op: opReset, a: int32(2 * n.from), b: int32(2*n.to + 1)})
	}
	a.node(n.body)
	a.emit(inst{op: opLoopEnd, counter: counter, min: int32(n.min), a: int32(loop)})
	a.p.code[loop].a = a.here()
}

// runBody returns the character of a repetition, if its body is a single
// character of known width.
func (a *assembler) runBody(n repetition) (node, bool) {
	if a.behind {
		return nil, false
	}
	body := n.body
	for {
		s, ok := body.(sequence)
		if !ok || len(s.list) != 1 {
			break
		}
		body = s.list[0]
	}
	switch body.(type) {
	case charNode, setNode:
		return body, true
	}
	return nil, false
}

func (a *assembler) lookaround(n lookaround) {
	look := a.emit(inst{op: opLook, negate: n.negate})
	outer := a.behind
	a.behind = n.behind
	a.node(n.body)
	a.emit(inst{op: opMatch})
	a.behind = outer
	a.p.code[look].a = a.here()
}

func (a *assembler) reference(n reference) {
	if n.name != "" {
		n.number = slices.Index(a.names, n.name)
	}
	a.emit(inst{op: opBack, a: int32(n.number)})
}

// first returns the characters with which a node can begin, and whether it can
// match without one.
func (a *assembler) first(n node) (ranges []runeRange, empty bool) {
	switch n := n.(type) {
	case charNode:
		return []runeRange{{n.c, n.c}}, false
	case setNode:
		return n.ranges, false
	case capture:
		return a.first(n.body)
	case repetition:
		ranges, empty = a.first(n.body)
		return ranges, empty || n.min == 0
	case sequence:
		for _, part := range n.list {
			more, can := a.first(part)
			ranges = append(ranges, more...)
			if !can || len(ranges) > maxFirst {
				return normal(ranges), can
			}
		}
		return ranges, true
	case choice:
		for _, part := range n.list {
			more, can := a.first(part)
			ranges = append(ranges, more...)
			empty = empty || can
		}
		return normal(ranges), empty
	case reference:
		return complement(nil), true
	}
	return nil, true // an assertion
}

// maxFirst is how many ranges are worth checking.
const maxFirst = 10_000

// A node is a part of a pattern.
type node interface{}

type (
	// charNode is one character.
	charNode struct{ c rune }
	// setNode is any of a set of characters. The ranges are normal, and already
	// include other cases.
	setNode struct{ ranges []runeRange }
	// sequence is a list of nodes, one after the other.
	sequence struct{ list []node }
	// choice is the first of its nodes with which the rest also matches.
	choice struct{ list []node }
	// capture is a group with a number.
	capture struct {
		number int
		body   node
	}
	// repetition is a node with a quantifier. The groups in it are cleared at
	// the beginning of each round.
	repetition struct {
		body     node
		min, max int
		lazy     bool
		from, to int // groups in the body
	}
	// lookaround is a lookahead or lookbehind assertion.
	lookaround struct {
		body           node
		behind, negate bool
	}
	// assertion is ^, $, \b or \B.
	assertion struct{ kind byte }
	// reference matches the text that a group has matched. name is empty for a
	// numbered reference.
	reference struct {
		number int
		name   string
	}
)

// unlimited is the largest number of rounds.
const unlimited = 1<<31 - 1
