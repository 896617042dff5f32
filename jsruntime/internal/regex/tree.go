package regex

// A node is a part of a pattern.
type node interface{}

type (
	// charNode is one character.
	charNode struct{ c rune }
	// setNode is any of a set of characters. The ranges are normal, and case is
	// taken care of.
	setNode struct{ ranges []runeRange }
	// sequence is nodes one after the other.
	sequence struct{ list []node }
	// choice is the first of its nodes with which the rest matches, too.
	choice struct{ list []node }
	// capture is a group with a number.
	capture struct {
		number int
		body   node
	}
	// repetition is a node with a quantifier. The groups in it are forgotten at
	// the beginning of each round.
	repetition struct {
		body     node
		min, max int
		lazy     bool
		from, to int // groups in the body
	}
	// lookaround is an assertion about what follows or precedes.
	lookaround struct {
		body           node
		behind, negate bool
	}
	// assertion is ^, $, \b or \B.
	assertion struct{ kind byte }
	// reference matches what a group has matched. name is empty for a number.
	reference struct {
		number int
		name   string
	}
)

// unlimited is the greatest number of rounds.
const unlimited = 1<<31 - 1
