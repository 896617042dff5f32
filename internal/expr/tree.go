package expr

import (
	"bytes"
	"errors"
	"strings"

	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

// maxTree limits the bytes of JSON that the evaluation of a tree may insert.
const maxTree = 16 << 20

// Tree is a compiled JSON value whose strings may be templates: a mask, or a
// document to be detokenized. Keys are never templates. It is immutable and
// safe for concurrent use.
type Tree struct {
	source    jsonx.Value
	templates // of the strings with an expression
}

// CompileTree compiles every string of v that contains {{ with [Compile]. The
// Path of an error names the string that failed.
//
// A string with {% is an error. There are no tags, and a mask with one would
// show its text.
func CompileTree(v jsonx.Value) (*Tree, error) {
	return compileTree(v, func(text string) (*Template, error) {
		if offset := strings.Index(text, "{%"); offset >= 0 {
			return nil, &Error{Offset: offset, Msg: "must not have tags ({% ... %}), only expressions ({{ ... }})"}
		}
		if !HasExpression(text) {
			return nil, nil
		}
		return Compile(text)
	})
}

// CompileTokenTree compiles every string of v that contains {{ with
// [CompileTokens]. The Path of an error names the string that failed.
func CompileTokenTree(v jsonx.Value) (*Tree, error) {
	return compileTree(v, func(text string) (*Template, error) {
		if !HasExpression(text) {
			return nil, nil
		}
		return CompileTokens(text)
	})
}

// compileTree compiles the strings of a value. compile returns nil for a string
// that is not a template.
func compileTree(v jsonx.Value, compile func(string) (*Template, error)) (*Tree, error) {
	t, total := &Tree{source: v}, total{}
	if v.IsZero() {
		return t, nil
	}
	_, err := jsonx.Rewrite(v, func(path *jsonx.Path, v jsonx.Value) (jsonx.Value, bool, error) {
		if v.Kind() != jsonx.String {
			return v, true, nil
		}
		compiled, err := compile(v.Text())
		if err != nil {
			return v, false, at(path, err)
		}
		if compiled == nil {
			return v, false, nil
		}
		if err := total.add(compiled); err != nil {
			return v, false, at(path, err)
		}
		t.templates = append(t.templates, compiled)
		return v, false, nil
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// total counts the expressions of a document.
type total struct{ count, cost int }

// add adds the expressions of another template. The limit is checked only after
// compiling, but at most one template is compiled in vain.
func (n *total) add(t *Template) error {
	n.count, n.cost = n.count+t.count, n.cost+t.cost
	switch {
	case n.count > maxExpressions:
		return faultf("a document may have at most %d expressions", maxExpressions)
	case n.cost > maxCompiled:
		return faultf("the expressions of a document may have at most about %d bytes", maxCompiled)
	}
	return nil
}

func isTemplate(v jsonx.Value) bool {
	return v.Kind() == jsonx.String && HasExpression(v.Text())
}

// at returns err with its position in the tree.
func at(path *jsonx.Path, err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		return &Error{Path: path.String(), Offset: e.Offset, Msg: e.Msg}
	}
	return err
}

// Naming returns, by path, the templates that name one of these ids, with the
// ids that they name.
func (t *Tree) Naming(ids []string) map[string][]string {
	byPath, rest := map[string][]string{}, t.templates
	_, _ = jsonx.Rewrite(t.source, func(path *jsonx.Path, v jsonx.Value) (jsonx.Value, bool, error) {
		if !isTemplate(v) {
			return v, true, nil
		}
		if named := rest[0].naming(ids); len(named) > 0 {
			byPath[path.String()] = named
		}
		rest = rest[1:]
		return v, false, nil
	})
	return byPath
}

// HasExpressions reports whether any string of the tree is a template. If not,
// Eval returns the compiled value unchanged.
func (t *Tree) HasExpressions() bool { return len(t.templates) > 0 }

// Eval returns the tree with its templates evaluated; everything else stays
// unchanged. The error is as for [Template.Eval], and the Path of an [*Error]
// names the position.
func (t *Tree) Eval(env Env) (jsonx.Value, error) {
	if len(t.templates) == 0 {
		return t.source, nil
	}
	ev := newEvaluator(env)
	defer ev.release()
	run := treeRun{ev: ev, rest: t.templates}
	out, err := jsonx.Rewrite(t.source, func(path *jsonx.Path, v jsonx.Value) (jsonx.Value, bool, error) {
		if !isTemplate(v) {
			return v, true, nil
		}
		result, err := run.next()
		if err != nil {
			return v, false, at(path, err)
		}
		return result, false, nil
	})
	if err != nil {
		return jsonx.Value{}, ev.failure(err)
	}
	return out, nil
}

// JSON returns the result of Eval as JSON text, without building a tree.
func (t *Tree) JSON(env Env) ([]byte, error) {
	if len(t.templates) == 0 {
		return t.source.JSON(), nil
	}
	ev := newEvaluator(env)
	defer ev.release()
	run := treeRun{ev: ev, rest: t.templates}
	if err := run.write(t.source); err != nil {
		return nil, ev.failure(err)
	}
	return bytes.Clone(ev.text), nil
}

// treeRun is one evaluation of a tree.
type treeRun struct {
	ev       *evaluator
	rest     []*Template // still to be evaluated
	inserted int         // bytes of JSON so far
}

// next evaluates the next template.
func (r *treeRun) next() (result jsonx.Value, err *Error) {
	defer r.ev.caught(&err)
	result = r.ev.template(r.rest[0])
	r.rest = r.rest[1:]
	r.inserted += r.ev.weigh(result)
	if room := r.ev.room(r.inserted); r.inserted > room {
		panic(faultf("the inserted values have more than %d bytes in all", room))
	}
	return result, nil
}

// write adds a part of the tree to the text of the evaluator.
func (r *treeRun) write(v jsonx.Value) *Error {
	switch {
	case isTemplate(v):
		result, err := r.next()
		if err != nil {
			return err
		}
		r.ev.text = result.Append(r.ev.text)
		return nil
	case v.Len() == 0:
		r.ev.text = v.Append(r.ev.text)
		return nil
	case v.Kind() == jsonx.Array:
		return r.writeArray(v.Elems())
	default:
		return r.writeObject(v.Members())
	}
}

func (r *treeRun) writeArray(elems []jsonx.Value) *Error {
	separator := byte('[')
	for i, e := range elems {
		r.ev.text = append(r.ev.text, separator)
		if err := r.write(e); err != nil {
			return err.under(jsonx.JoinIndex("", i))
		}
		separator = ','
	}
	r.ev.text = append(r.ev.text, ']')
	return nil
}

func (r *treeRun) writeObject(members []jsonx.Member) *Error {
	separator := byte('{')
	for _, m := range members {
		r.ev.text = jsonx.AppendString(append(r.ev.text, separator), m.Name)
		r.ev.text = append(r.ev.text, ':')
		if err := r.write(m.Value); err != nil {
			return err.under(jsonx.JoinName("", m.Name))
		}
		separator = ','
	}
	r.ev.text = append(r.ev.text, '}')
	return nil
}

// room returns how many bytes of JSON a tree may insert, if wanted bytes are
// needed. From a token's own data, that is maxText more than the size of the
// data.
func (ev *evaluator) room(wanted int) int {
	if ev.env.data.IsZero() {
		return maxTree
	}
	if wanted <= maxText {
		return maxText
	}
	return min(maxText+ev.env.data.Size(), maxTree)
}

// List has templates for detokenization that belong to one document and are
// evaluated together, within the limits of one [Tree]. They are the strings of
// a JSON text that otherwise stays the same, or the parts of a form. The zero
// value is an empty list.
type List struct {
	templates
	total total
}

// Add compiles a template like [CompileTokens] and appends it. The error is an
// [*Error].
func (l *List) Add(source string) error { return l.add(source, false, nil) }

// AddText adds a template whose value is text, even if it is exactly one
// expression. If escape is not nil, it is applied to each value before it is
// inserted.
func (l *List) AddText(source string, escape func(string) string) error {
	return l.add(source, true, escape)
}

func (l *List) add(source string, asText bool, escape func(string) string) error {
	t, err := parse(source, true)
	if err != nil {
		return err
	}
	if err := l.total.add(t); err != nil {
		return err
	}
	t.asText, t.escape = asText, escape
	l.templates = append(l.templates, t)
	return nil
}

// Naming returns which of these ids each template names, in order.
func (l *List) Naming(ids []string) [][]string {
	all := make([][]string, len(l.templates))
	for i, t := range l.templates {
		all[i] = t.naming(ids)
	}
	return all
}

// Eval returns the replacements of the templates in order. For a template added
// with Add it is the JSON of the value, and for one added with AddText the
// text. The error is as for [Template.Eval], and concerns the template after
// those whose results are returned with it.
func (l *List) Eval(env Env) ([]string, error) {
	ev := newEvaluator(env)
	defer ev.release()
	results, room := make([]string, 0, len(l.templates)), maxTree
	for _, t := range l.templates {
		result, fault := ev.replacement(t)
		if fault != nil {
			return results, ev.failure(fault)
		}
		if room -= max(0, len(result)-t.size); room < 0 && env.Whole == nil {
			return results, faultf("the inserted values have more than %d bytes in all", maxTree)
		}
		results = append(results, result)
	}
	return results, nil
}

func (ev *evaluator) replacement(t *Template) (result string, err *Error) {
	defer ev.caught(&err)
	if t.asText {
		ev.spend(t.cost)
		return ev.textOf(t), nil
	}
	v := ev.template(t)
	return string(v.Append(make([]byte, 0, ev.weigh(v)))), nil
}

// RefsOf returns the distinct references of a template.
func (l *List) RefsOf(i int) []Ref { return l.templates[i].Refs() }

// IsExpression reports whether a template is exactly one expression, without text
// around it.
func (l *List) IsExpression(i int) bool { return l.templates[i].whole }
