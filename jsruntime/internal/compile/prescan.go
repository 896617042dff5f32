package compile

import (
	"fmt"
	"strings"
)

// Limits on the shape of source text. The time of both compilers grows faster
// than the nesting of the code, and neither can be interrupted. So they only
// get code that people might write.
const (
	maxNesting = 200 // brackets within brackets
	maxArrows  = 60  // a => b => c ... within one bracket
	maxPrefix  = 200 // prefix operators in a row: !!!!x
)

// scanner reads source text once, without building anything. It recognizes
// strings, templates, comments and regular expressions only to skip them.
type scanner struct {
	src   string
	pos   int
	line  int
	stack []level
	// operand reports whether the last token ends an operand, so that a
	// following slash is a division.
	operand bool
	prefix  int
}

// level is an open bracket.
type level struct {
	bracket byte
	arrows  int
}

// scanError is a limit that the source exceeds, with the line.
type scanError struct {
	line int
	text string
}

// scan returns the first limit that the source exceeds, or nil.
func scan(src string) *scanError {
	s := &scanner{src: src, line: 1, stack: []level{{}}}
	for s.pos < len(s.src) {
		if err := s.next(); err != nil {
			return err
		}
	}
	return nil
}

// next skips or counts one token.
func (s *scanner) next() *scanError {
	c := s.src[s.pos]
	switch {
	case c == '\n':
		s.line++
		s.pos++
	case c == ' ' || c == '\t' || c == '\r':
		s.pos++
	case c == '"' || c == '\'':
		s.skipString(c)
		s.seen(true)
	case c == '`':
		s.pos++
		s.template()
	case c == '/' && s.peek(1) == '/':
		s.skipLine()
	case c == '/' && s.peek(1) == '*':
		s.skipComment()
	case c == '/' && !s.operand && s.regexpEnd() > 0:
		s.pos = s.regexpEnd()
		s.seen(true)
	case strings.IndexByte("([{", c) >= 0:
		return s.open(c)
	case strings.IndexByte(")]}", c) >= 0:
		s.close(c)
	case isWordByte(c):
		return s.word()
	default:
		return s.operator(c)
	}
	return nil
}

// seen records a token that is not a prefix operator.
func (s *scanner) seen(operand bool) {
	s.operand = operand
	s.prefix = 0
}

func (s *scanner) peek(n int) byte {
	if s.pos+n < len(s.src) {
		return s.src[s.pos+n]
	}
	return 0
}

func (s *scanner) fail(format string, args ...any) *scanError {
	return &scanError{line: s.line, text: fmt.Sprintf(format, args...)}
}

func (s *scanner) open(c byte) *scanError {
	s.pos++
	s.stack = append(s.stack, level{bracket: c})
	s.seen(false)
	if len(s.stack) > maxNesting {
		return s.fail("the code is nested more than %d brackets deep", maxNesting)
	}
	return nil
}

func (s *scanner) close(c byte) {
	s.pos++
	s.seen(c != '}')
	if len(s.stack) == 1 {
		return
	}
	top := s.stack[len(s.stack)-1]
	s.stack = s.stack[:len(s.stack)-1]
	if top.bracket == '`' {
		s.template()
	}
}

// template skips template text up to its end or to a substitution. The end of
// the substitution brings the scanner back here.
func (s *scanner) template() {
	for s.pos < len(s.src) {
		switch c := s.src[s.pos]; {
		case c == '\\':
			s.pos++
			if s.peek(0) == '\n' {
				s.line++
			}
		case c == '\n':
			s.line++
		case c == '`':
			s.pos++
			s.seen(true)
			return
		case c == '$' && s.peek(1) == '{':
			s.pos += 2
			s.stack = append(s.stack, level{bracket: '`'})
			s.seen(false)
			return
		}
		s.pos++
	}
}

func (s *scanner) skipString(quote byte) {
	for s.pos++; s.pos < len(s.src); s.pos++ {
		switch s.src[s.pos] {
		case '\\':
			s.pos++
			if s.peek(0) == '\n' {
				s.line++
			}
		case '\n':
			return
		case quote:
			s.pos++
			return
		}
	}
}

func (s *scanner) skipLine() {
	if i := strings.IndexByte(s.src[s.pos:], '\n'); i >= 0 {
		s.pos += i
		return
	}
	s.pos = len(s.src)
}

func (s *scanner) skipComment() {
	end := strings.Index(s.src[s.pos+2:], "*/")
	if end < 0 {
		s.pos = len(s.src)
		return
	}
	s.line += strings.Count(s.src[s.pos:s.pos+2+end], "\n")
	s.pos += end + 4
}

// regexpEnd returns the position after the regular expression that starts here,
// or 0 if the line ends first.
func (s *scanner) regexpEnd() int {
	class := false
	for i := s.pos + 1; i < len(s.src); i++ {
		switch c := s.src[i]; {
		case c == '\n':
			return 0
		case c == '\\':
			i++
		case c == '[':
			class = true
		case c == ']':
			class = false
		case c == '/' && !class:
			return i + 1
		}
	}
	return 0
}

// prefixWords are the words after which an operand follows.
var prefixWords = map[string]bool{
	"return": true, "typeof": true, "case": true, "in": true, "of": true, "delete": true, "void": true,
	"throw": true, "new": true, "else": true, "do": true, "yield": true, "await": true, "instanceof": true,
}

func (s *scanner) word() *scanError {
	start := s.pos
	for s.pos < len(s.src) && isWordByte(s.src[s.pos]) {
		s.pos++
	}
	if !prefixWords[s.src[start:s.pos]] {
		s.seen(true)
		return nil
	}
	s.operand = false
	return s.countPrefix()
}

func (s *scanner) operator(c byte) *scanError {
	s.pos++
	s.operand = false
	switch {
	case c == '=' && s.peek(0) == '>':
		s.pos++
		s.prefix = 0
		top := &s.stack[len(s.stack)-1]
		if top.arrows++; top.arrows > maxArrows {
			return s.fail("more than %d arrow functions are nested", maxArrows)
		}
		return nil
	case c == ';' || c == ',':
		s.prefix = 0
		s.stack[len(s.stack)-1].arrows = 0
		return nil
	}
	return s.countPrefix()
}

func (s *scanner) countPrefix() *scanError {
	if s.prefix++; s.prefix > maxPrefix {
		return s.fail("more than %d operators in a row", maxPrefix)
	}
	return nil
}

func isWordByte(c byte) bool {
	return c == '_' || c == '$' || c == '#' || c >= 0x80 ||
		'0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
