package compile

import (
	"errors"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf16"
	"weak"

	"github.com/dop251/goja/ast"

	"github.com/seed-72ea4aab/vault/jsruntime/internal/regex"
)

// Package regex matches regular expressions, because the engine's own differ
// from the language in many ways. A regular expression is still an object of
// the engine, which gives it its class, its flags and its lastIndex. The engine
// sees a mark instead of the pattern, which identifies the compiled program
// when the object is used.

// RegexpMark is the prefix of the pattern that the engine sees.
const RegexpMark = "vault:"

// Pattern is a regular expression with its text.
type Pattern struct {
	Source  []uint16
	Flags   string
	Program *regex.Program
	Mark    string // what the engine sees, if it was made at run time
}

// NewPattern compiles a regular expression.
func NewPattern(source []uint16, flags string) (*Pattern, error) {
	program, err := regex.Compile(source, flags)
	if err != nil {
		return nil, err
	}
	return &Pattern{Source: source, Flags: flags, Program: program}, nil
}

// Has reports whether the pattern has a flag.
func (p *Pattern) Has(flag string) bool { return strings.Contains(p.Flags, flag) }

var errFlags = errors.New("Invalid regular expression flags")

// engineFlags returns the flags that the engine knows.
func engineFlags(flags string) string {
	return strings.NewReplacer("d", "", "v", "").Replace(flags)
}

// Patterns are the regular expressions in the text of one program, by the
// number in their mark.
type Patterns struct {
	id   uint64
	list []*Pattern
}

var (
	lastTable   atomic.Uint64
	knownTables sync.Map // from id to weak.Pointer[Patterns]
)

// TakePatterns compiles the regular expressions of a program and replaces them
// with marks. It returns nil for a program without any. The program must keep
// the result alive.
func TakePatterns(tree *ast.Program) (*Patterns, error) {
	var out *Patterns
	var failed error
	walk(tree, func(n any) {
		lit, ok := n.(*ast.RegExpLiteral)
		if !ok || failed != nil {
			return
		}
		if out == nil {
			out = newPatterns()
		}
		if failed = out.take(lit); failed != nil {
			failed = &literalError{failed, tree.File.Position(int(lit.Idx0()) - tree.File.Base()).Line}
		}
	})
	return out, failed
}

// literalError is an error in a regular expression, with its line.
type literalError struct {
	error
	line int
}

func newPatterns() *Patterns {
	l := &Patterns{id: lastTable.Add(1)}
	knownTables.Store(l.id, weak.Make(l))
	runtime.AddCleanup(l, func(id uint64) { knownTables.Delete(id) }, l.id)
	return l
}

// take replaces the pattern of a literal.
func (l *Patterns) take(lit *ast.RegExpLiteral) error {
	if !regex.ValidFlags(lit.Flags) {
		return errFlags
	}
	p, err := NewPattern(utf16.Encode([]rune(lit.Pattern)), lit.Flags)
	if err != nil {
		return err
	}
	lit.Pattern = RegexpMark + strconv.FormatUint(l.id, 36) + ":" + strconv.Itoa(len(l.list))
	lit.Flags = engineFlags(lit.Flags)
	l.list = append(l.list, p)
	return nil
}

// PatternOf returns the pattern of a mark, or nil.
func PatternOf(mark string) *Pattern {
	text, ok := strings.CutPrefix(mark, RegexpMark)
	if !ok {
		return nil
	}
	program, index, _ := strings.Cut(text, ":")
	id, err := strconv.ParseUint(program, 36, 64)
	if err != nil {
		return nil
	}
	known, ok := knownTables.Load(id)
	if !ok {
		return nil
	}
	l := known.(weak.Pointer[Patterns]).Value()
	n, err := strconv.Atoi(index)
	if l == nil || err != nil || n < 0 || n >= len(l.list) {
		return nil
	}
	return l.list[n]
}
