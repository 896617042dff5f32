package search

// automaton finds the ends of words in a text. The state after a text is the longest
// suffix of the text that is a prefix of a word (Aho and Corasick). It is immutable
// and safe for concurrent use.
//
// Words form a trie. States near its root have a table with the next state for each
// byte, so that a byte costs one look-up whether or not it continues a word. A deeper
// state is a node of the trie and takes about ten bytes. Text that reaches such a
// state again and again has to repeat a long prefix of a word, so the time does not
// tell how much of a short prefix is right.
type automaton struct {
	class   [256]uint8 // of each byte; bytes of one class are equal
	classes int

	// States below dense have a row in the table. State dense+n is node n.
	dense int32
	table []int32 // the next states; endsWord is set if a word ends there
	words []int32 // of the states below dense: 1 + the longest word that ends there, or 0

	nodes []byte            // the class of the last byte of each node
	more  []uint8           // flags of each node
	fork  map[int32][]int32 // the children of a node that do not follow it directly
	fail  []int32           // the state of the longest proper suffix of each node
	ends  []int32           // like words, for nodes
}

// endsWord marks a state in which a word ends.
const endsWord = -1 << 31

// Flags of nodes.
const (
	hasNext = 1 << iota // the node after it is its child
	hasFork             // it has children in fork
)

// tableSize bounds the entries of a table.
const tableSize = 1 << 20

// newAutomaton returns an automaton for words. Bytes that equal maps to the same byte
// are equal.
func newAutomaton(words []string, equal func(byte) byte) *automaton {
	return automatonOf(words, equal, tableSize)
}

func automatonOf(words []string, equal func(byte) byte, entries int) *automaton {
	a := &automaton{fork: map[int32][]int32{}}
	a.classify(words, equal)
	size := 1
	for _, w := range words {
		size += len(w)
	}
	a.nodes, a.more, a.ends = make([]byte, 1, size), make([]uint8, 1, size), make([]int32, 1, size)
	for i, w := range words {
		a.insert(w, int32(i)+1)
	}
	a.link(entries)
	return a
}

// classify numbers the bytes that occur in words. All others are class 0.
func (a *automaton) classify(words []string, equal func(byte) byte) {
	var used [256]bool
	for _, w := range words {
		for i := range len(w) {
			used[equal(w[i])] = true
		}
	}
	numbers := map[byte]uint8{}
	for b := range used {
		if used[b] && len(numbers) < 255 {
			numbers[byte(b)] = uint8(len(numbers) + 1)
		}
	}
	for b := range a.class { // the 256th byte, if there is one, is the only one of class 0
		a.class[b] = numbers[equal(byte(b))]
	}
	a.classes = len(numbers) + 1
}

// insert adds the nodes of a word. Of equal words the first one counts.
func (a *automaton) insert(word string, number int32) {
	n := int32(0)
	for i := range len(word) {
		c := a.class[word[i]]
		next := a.child(n, c)
		if next < 0 {
			next = int32(len(a.nodes))
			if next == n+1 {
				a.more[n] |= hasNext
			} else {
				a.more[n] |= hasFork
				a.fork[n] = append(a.fork[n], next)
			}
			a.nodes, a.more, a.ends = append(a.nodes, c), append(a.more, 0), append(a.ends, 0)
		}
		n = next
	}
	if n > 0 && a.ends[n] == 0 {
		a.ends[n] = number
	}
}

// child returns the child of a node for a class, or -1.
func (a *automaton) child(n int32, class uint8) int32 {
	if a.more[n]&hasNext != 0 && a.nodes[n+1] == class {
		return n + 1
	}
	if a.more[n]&hasFork != 0 {
		for _, c := range a.fork[n] {
			if a.nodes[c] == class {
				return c
			}
		}
	}
	return -1
}

// link makes the table, with at most this many entries, and finds the suffixes of
// nodes, by increasing depth. The suffix of a node is shallower than the node, and so is
// known before it.
func (a *automaton) link(entries int) {
	a.dense = int32(min(len(a.nodes), max(1, entries/a.classes)))
	a.table, a.words = make([]int32, int(a.dense)*a.classes), make([]int32, a.dense)
	a.fail = make([]int32, len(a.nodes))
	type placed struct{ node, state int32 }
	level, below := []placed{{}}, []placed(nil)
	for rows := int32(1); len(level) > 0; level, below = below, level[:0] {
		for _, from := range level {
			var row []int32
			if from.state < a.dense {
				row = a.table[int(from.state)*a.classes:][:a.classes]
				copy(row, a.table[int(a.fail[from.node])*a.classes:][:a.classes])
			}
			for c := range a.children(from.node) {
				a.setSuffix(c, from.node, row)
				to := placed{c, a.dense + c}
				if rows < a.dense {
					to.state = rows
					a.words[rows] = a.ends[c]
					rows++
				}
				if row != nil {
					row[a.nodes[c]] = a.marked(to.state, c)
				}
				below = append(below, to)
			}
		}
	}
}

// setSuffix finds the longest suffix of a child, and the words that end with it. The
// row of its parent, if there is one, has the next states of the parent's suffix.
func (a *automaton) setSuffix(child, parent int32, row []int32) {
	switch class := a.nodes[child]; {
	case parent == 0: // the suffix is empty
	case row != nil:
		a.fail[child] = row[class] &^ endsWord
	default:
		a.fail[child] = a.next(a.fail[parent], class) &^ endsWord
	}
	if a.ends[child] == 0 {
		a.ends[child] = a.word(a.fail[child])
	}
}

// marked returns the state of a node, with endsWord if a word ends there.
func (a *automaton) marked(state, node int32) int32 {
	if a.ends[node] != 0 {
		return state | endsWord
	}
	return state
}

// children yields the children of a node.
func (a *automaton) children(n int32) func(yield func(int32) bool) {
	return func(yield func(int32) bool) {
		if a.more[n]&hasNext != 0 && !yield(n+1) {
			return
		}
		for _, c := range a.fork[n] {
			if !yield(c) {
				return
			}
		}
	}
}

// next returns the state after a byte of this class, with endsWord if a word ends
// there.
func (a *automaton) next(state int32, class uint8) int32 {
	for state >= a.dense {
		n := state - a.dense
		if c := a.child(n, class); c >= 0 {
			return a.marked(a.dense+c, c)
		}
		state = a.fail[n]
	}
	return a.table[int(state)*a.classes+int(class)]
}

// word returns 1 + the longest word that ends in a state, or 0.
func (a *automaton) word(state int32) int32 {
	if state < a.dense {
		return a.words[state]
	}
	return a.ends[state-a.dense]
}

// Memory estimates the memory of an automaton for secrets.
func Memory(secrets []Secret) int {
	size := 0
	for _, s := range secrets {
		size += 10*len(s.Text) + 100
	}
	return size + 4*min(tableSize, size)
}

// spacesAlike maps bytes that forms write for each other: a plus for a space.
func spacesAlike(b byte) byte {
	if b == '+' {
		return ' '
	}
	return b
}

// SignsAlike also maps the signs of base64 for URLs to the signs of plain base64. So
// it finds texts that differ from a word in these signs alone.
func SignsAlike(b byte) byte {
	switch b {
	case '-':
		return ' '
	case '_':
		return '/'
	}
	return spacesAlike(b)
}

// LettersAlike also ignores the case of letters, as the names of headers do.
func LettersAlike(b byte) byte {
	if b >= 'A' && b <= 'Z' {
		b += 'a' - 'A'
	}
	return SignsAlike(b)
}
