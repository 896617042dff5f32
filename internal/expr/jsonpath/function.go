package jsonpath

import (
	"io"
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

// lengthOf is length(): the number of characters of a string, or of children of
// an array or object.
type lengthOf struct{ arg operand }

func (f lengthOf) value(s *search, current jsonx.Value) jsonx.Value {
	v := f.arg.value(s, current)
	switch v.Kind() {
	case jsonx.String:
		if !s.spend(admission.TextSteps(len(v.Text()))) {
			return jsonx.Value{}
		}
		n := 0
		for text := v.Text(); len(text) > 0; n++ {
			_, width := jsonx.DecodeRune(text)
			text = text[width:]
		}
		return jsonx.IntValue(int64(n))
	case jsonx.Array, jsonx.Object:
		return jsonx.IntValue(int64(v.Len()))
	default:
		return jsonx.Value{}
	}
}

// countOf is count(): how many values a query finds.
type countOf struct{ query query }

func (f countOf) value(s *search, current jsonx.Value) jsonx.Value {
	n := int64(0)
	s.runQuery(&f.query, current, func(jsonx.Value) bool {
		n++
		return true
	})
	return jsonx.IntValue(n)
}

// valueOf is value(): the only value that a query finds, or Nothing.
type valueOf struct{ operand }

// matches is match() (the whole string) or search() (a part of it).
type matches struct {
	text, pattern operand
	whole         bool
}

func (m matches) holds(s *search, current jsonx.Value) bool {
	text, source := m.text.value(s, current), m.pattern.value(s, current)
	if text.Kind() != jsonx.String || source.Kind() != jsonx.String {
		return false
	}
	re := s.pattern(patternKey{source.Text(), m.whole})
	return re != nil && re.matches(s, text.Text())
}

// The time of a match is proportional to the size of the pattern times the
// length of the text. The source and the compiled size of a pattern are
// therefore limited. Compiling costs far more time and memory than the length
// of the pattern suggests. So a pattern is compiled only when a search reaches
// it, at the expense of the budget. It is dropped after the search, because
// paths are cached and may be full of patterns.
const (
	maxPatternSource = 1000
	maxPatternSize   = 2000
	compileCost      = 10     // steps per instruction, and per byte of source
	rangesPerStep    = 2      // of the characters that instructions match
	matchCost        = 10     // steps to begin a match
	matchedPerStep   = 6      // instructions times bytes
	readCost         = 4      // of a byte, in instructions
	longMatch        = 20_000 // steps
)

type pattern struct {
	*regexp.Regexp
	size int // instructions
}

// matches reports whether the pattern matches. A match that may take long reads
// the text in pieces, so that it ends when the caller has gone.
func (p *pattern) matches(s *search, text string) bool {
	cost := matchCost + (p.size+readCost)*len(text)/matchedPerStep
	if !s.spend(cost) {
		return false
	}
	if cost < longMatch {
		return p.MatchString(text)
	}
	return p.MatchReader(&pieces{Reader: strings.NewReader(text), budget: s.budget})
}

// pieces reads a text as long as the budget lasts.
type pieces struct {
	*strings.Reader
	budget *admission.Budget
}

// pieceSize is how many bytes are read between checks of the budget.
const pieceSize = 64

// ReadRune reads the next character.
func (p *pieces) ReadRune() (r rune, size int, err error) {
	if p.Len()%pieceSize == 0 && !p.budget.Lasts() {
		return 0, 0, io.EOF
	}
	return p.Reader.ReadRune()
}

type patternKey struct {
	source string
	whole  bool
}

// pattern returns a compiled pattern, or nil if it is invalid or too expensive.
func (s *search) pattern(key patternKey) *pattern {
	if len(key.source) > maxPatternSource {
		return nil
	}
	re, known := s.patterns[key]
	if known {
		return re
	}
	if !s.spend(compileCost * len(key.source)) {
		return nil
	}
	re, cost := compilePattern(key.source, key.whole)
	if !s.spend(cost) {
		return nil
	}
	if s.patterns == nil {
		s.patterns = map[patternKey]*pattern{}
	}
	s.patterns[key] = re
	return re
}

// compilePattern compiles an I-Regexp (RFC 9485). It returns nil if the source
// is not one, which matches nothing according to RFC 9535. It also returns the
// cost of compiling.
func compilePattern(source string, whole bool) (*pattern, int) {
	source = "(?:" + dotsWithoutLineEnds(source) + ")"
	if whole {
		source = `\A` + source + `\z`
	}
	tree, err := syntax.Parse(source, syntax.Perl)
	if err != nil {
		return nil, 0
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, 0
	}
	cost := compileCost * len(prog.Inst)
	for i := range prog.Inst {
		cost += len(prog.Inst[i].Rune) / rangesPerStep
	}
	if len(prog.Inst) > maxPatternSize {
		return nil, cost
	}
	re, err := regexp.Compile(source)
	if err != nil {
		return nil, cost
	}
	return &pattern{re, len(prog.Inst)}, cost
}

// dotsWithoutLineEnds converts the dots of an I-Regexp, which match neither
// line feed nor carriage return, to the syntax of Go.
func dotsWithoutLineEnds(source string) string {
	var b strings.Builder
	inClass := false
	for i := 0; i < len(source); i++ {
		switch c := source[i]; {
		case c == '\\' && i+1 < len(source):
			b.WriteByte(c)
			i++
			b.WriteByte(source[i])
		case c == '.' && !inClass:
			b.WriteString(`[^\n\r]`)
		default:
			inClass = c == '[' || (inClass && c != ']')
			b.WriteByte(c)
		}
	}
	return b.String()
}
