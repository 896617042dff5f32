package regex

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
