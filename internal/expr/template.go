package expr

import (
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

const (
	maxSource      = 10_000  // characters of a template for Compile
	maxExpression  = 10_000  // bytes of one expression
	maxExpressions = 10_000  // expressions of one template or tree
	maxCompiled    = 1 << 20 // bytes of all expressions of one tree, plus a few for each
	maxFilters     = 32      // filters of one expression
)

// Ref names the root of an expression: "data" or "metadata" in a template made
// by [Compile], or a token id in a template made by [CompileTokens].
type Ref struct {
	ID    string
	Whole bool // the whole token ({{ token: id }}) instead of its data
}

// Template is a compiled template. It is immutable and safe for concurrent use.
type Template struct {
	parts []part
	whole bool // exactly one expression and no text
	size  int  // bytes of text outside of expressions
	count int  // number of expressions
	cost  int  // steps to compile it and begin its evaluation: about its bytes

	asText bool                // the value is text, even of exactly one expression
	escape func(string) string // applied to each value before it is inserted; may be nil
}

// part is literal text, or an expression if expr is not nil.
type part struct {
	text string
	expr *expression
}

type expression struct {
	offset  int
	operand operand
	filters []application
}

// operand is a literal, or a path from a root if ref.ID is not empty.
type operand struct {
	literal jsonx.Value
	ref     Ref
	path    []step
}

// step is one member name or, if byIndex is set, one array index of a path.
type step struct {
	name    string
	index   int
	byIndex bool
}

// application is one filter with its arguments in the order of its parameters.
// Arguments that are paths are filled in during evaluation.
type application struct {
	offset  int
	filter  *filter
	args    []arg
	dynamic []dynamicArg
}

type dynamicArg struct {
	index   int
	operand operand
}

// HasExpression reports whether s contains an opening {{ and so must be
// compiled.
func HasExpression(s string) bool { return strings.Contains(s, "{{") }

// Compile compiles a template over the roots data and metadata. A text without
// {{ is a template that yields itself. Templates are cached, so compiling the
// same source again is cheap. The error is an [*Error].
func Compile(source string) (*Template, error) {
	if t := compiled.get(source); t != nil {
		return t, nil
	}
	if len(source) > maxSource && utf8.RuneCountInString(source) > maxSource {
		return nil, faultf("an expression may have at most %d characters", maxSource)
	}
	// Clone, because source may be a small part of a large request body.
	source = strings.Clone(source)
	t, err := parse(source, false)
	if err != nil {
		return nil, err
	}
	compiled.put(source, t)
	return t, nil
}

// CompileTokens compiles a template for detokenization, whose roots are token
// ids. The source may have any length, because it may be the body of a request.
// It is not cached. The error is an [*Error].
func CompileTokens(source string) (*Template, error) {
	t, err := parse(source, true)
	if err != nil {
		return nil, err
	}
	return t, nil
}

// Refs returns the distinct references of the template, in order of appearance.
func (t *Template) Refs() []Ref { return templates{t}.Refs() }

// RefersTo reports whether the template refers to the root or token of an id.
func (t *Template) RefersTo(id string) bool {
	for ref := range t.refs {
		if ref.ID == id {
			return true
		}
	}
	return false
}

// naming returns the ids that the template names.
func (t *Template) naming(ids []string) (named []string) {
	for _, id := range ids {
		if t.RefersTo(id) {
			named = append(named, id)
		}
	}
	return named
}

// refs yields the references of the template, in order of appearance.
func (t *Template) refs(yield func(Ref) bool) {
	for _, p := range t.parts {
		if p.expr == nil {
			continue
		}
		if ref := p.expr.operand.ref; ref.ID != "" && !yield(ref) {
			return
		}
		for _, f := range p.expr.filters {
			for _, d := range f.dynamic {
				if !yield(d.operand.ref) {
					return
				}
			}
		}
	}
}

// templates are the templates of a document, in order.
type templates []*Template

// Refs returns the distinct references of the templates, in order of appearance.
func (all templates) Refs() (refs []Ref) {
	var seen map[Ref]bool
	for _, t := range all {
		for ref := range t.refs {
			if seen[ref] {
				continue
			}
			if seen == nil {
				seen = map[Ref]bool{}
			}
			seen[ref] = true
			refs = append(refs, ref)
		}
	}
	return refs
}

// DistinctIDs returns the distinct ids of tokens that expressions name, in
// order of appearance.
func DistinctIDs(refs []Ref) []string {
	var ids []string
	known := map[string]bool{}
	for _, r := range refs {
		if !known[r.ID] {
			known[r.ID] = true
			ids = append(ids, r.ID)
		}
	}
	return ids
}

// compiled holds the templates that Compile made most recently.
var compiled templateCache

const (
	cacheEntries = 2048    // per generation
	cacheBytes   = 1 << 20 // of source per generation
)

// templateCache keeps two generations. When the young one is full, it becomes
// the old one, and the old one is dropped. A hit in the old generation moves
// the template to the young one, so templates in use stay.
type templateCache struct {
	mu         sync.RWMutex
	young, old map[string]*Template
	bytes      int // of source in young
}

func (c *templateCache) get(source string) *Template {
	c.mu.RLock()
	t, isYoung := c.young[source]
	if !isYoung {
		t = c.old[source]
	}
	c.mu.RUnlock()
	if t != nil && !isYoung {
		c.put(source, t)
	}
	return t
}

func (c *templateCache) put(source string, t *Template) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.young[source]; ok {
		return
	}
	if c.young == nil || len(c.young) >= cacheEntries || c.bytes+len(source) > cacheBytes {
		c.old, c.young, c.bytes = c.young, make(map[string]*Template), 0
	}
	c.young[source] = t
	c.bytes += len(source)
}
