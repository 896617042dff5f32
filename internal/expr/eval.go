package expr

import (
	"crypto/rand"
	"io"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

const maxText = 1 << 20 // limit on text that evaluation makes longer, in bytes

// The cost, in steps, of operations whose cost does not depend on text and
// values.
const (
	expressionCost = 4
	filterCost     = 2
	containerCost  = 3 // of an array or object that becomes text
	argumentCost   = 2 // of an argument that is a path
	membersPerStep = 8 // searched for a name
	weighedPerStep = 2 // children
)

// Env is the environment of an evaluation: the values that Lookup finds, or the
// token passed to [Data].
type Env struct {
	// Lookup returns the value of a root: data, metadata or a token. It returns
	// false for a root that is not available, which fails the evaluation.
	Lookup func(Ref) (jsonx.Value, bool)
	// Now is the clock of the date filter. The default is [time.Now].
	Now func() time.Time
	// Rand is the source of aliases. The default is crypto/rand.
	Rand io.Reader
	// Budget is the budget of the evaluation. Nil is for expressions of the
	// vault itself, which are not charged.
	Budget *admission.Budget
	// Whole restricts expressions over some tokens. Nil restricts nothing.
	Whole *Whole

	data     jsonx.Value // its size limits what a tree inserts; if absent, only maxTree does
	metadata jsonx.Value
}

// Data returns an Env for a token that is being written. If metadata is absent,
// that root is not available.
func Data(data, metadata jsonx.Value, b *admission.Budget) Env {
	return Env{Budget: b, data: data, metadata: metadata}
}

// lookup returns the value of a root, and whether it is available.
func (env *Env) lookup(ref Ref) (jsonx.Value, bool) {
	switch {
	case env.Lookup != nil:
		return env.Lookup(ref)
	case ref.ID == "data":
		return env.data, !env.data.IsZero()
	case ref.ID == "metadata":
		return env.metadata, !env.metadata.IsZero()
	default:
		return jsonx.Value{}, false
	}
}

// Eval evaluates the template. A template that is exactly one expression gives
// its value, or null if a path leads nowhere. Any other template gives a
// string. The error is an [*Error], or the error of the context that ended the
// budget.
func (t *Template) Eval(env Env) (jsonx.Value, error) {
	ev := newEvaluator(env)
	defer ev.release()
	v, err := ev.tryTemplate(t)
	if err != nil {
		return jsonx.Value{}, ev.failure(err)
	}
	return v, nil
}

// evaluator is the state of one evaluation of a template or tree. Its methods and
// the filters panic with an [*Error] if the evaluation fails.
type evaluator struct {
	env     Env
	text    []byte       // written by Tree.JSON
	expr    *expression  // being evaluated; nil for none
	filter  *application // being applied; nil for none
	counted int          // bytes that were inserted, under the restriction of Whole
}

// caught turns the panic of a failed evaluation into its error, and adds the
// position. It must be deferred.
func (ev *evaluator) caught(to **Error) {
	p := recover()
	if p == nil {
		return
	}
	e, ok := p.(*Error)
	switch {
	case !ok:
		panic(p)
	case ev.filter != nil:
		e.Offset, e.Msg = ev.filter.offset, "filter "+ev.filter.filter.name+": "+e.Msg
	case ev.expr != nil:
		e.Offset = ev.expr.offset
	}
	*to = e
}

// evaluators are unused evaluators. They keep nothing of what they evaluated.
var evaluators = sync.Pool{New: func() any { return new(evaluator) }}

func newEvaluator(env Env) *evaluator {
	if env.Now == nil {
		env.Now = time.Now
	}
	if env.Rand == nil {
		env.Rand = rand.Reader
	}
	ev := evaluators.Get().(*evaluator)
	ev.env = env
	return ev
}

// maxSpareText limits the memory that is kept for the text of the next tree.
const maxSpareText = 4096

// release returns the evaluator to the pool.
func (ev *evaluator) release() {
	ev.wipe()
	evaluators.Put(ev)
}

// wipe removes everything that the evaluator evaluated.
func (ev *evaluator) wipe() {
	text := ev.text
	if cap(text) > maxSpareText {
		text = nil
	}
	clear(text)
	*ev = evaluator{text: text[:0]}
}

// failure returns the error of an evaluation. If the caller has gone, that is
// the reason.
func (ev *evaluator) failure(err error) error {
	ev.env.Budget.Lasts() // checks the context
	if gone := ev.env.Budget.Canceled(); gone != nil {
		return gone
	}
	return err
}

// spend takes steps from the budget.
func (ev *evaluator) spend(steps int) {
	if !ev.env.Budget.Spend(steps) {
		panic(faultf("%v", ev.env.Budget.Err()))
	}
}

// spendText pays for reading or building bytes of text.
func (ev *evaluator) spendText(bytes int) {
	if ev.env.Whole != nil {
		bytes = Rounded(bytes)
	}
	ev.spend(admission.TextSteps(bytes))
}

// weigh pays for the JSON of a value before it is written, and returns its
// approximate length in bytes.
func (ev *evaluator) weigh(v jsonx.Value) int {
	if ev.env.Whole != nil {
		size := v.Size()
		ev.spendText(size)
		return size
	}
	size := len("null") + len(v.Text())
	ev.spend(admission.TextSteps(size))
	for i, e := range v.Elems() {
		size += ev.weighChild(i, e)
	}
	for i, m := range v.Members() {
		size += len(m.Name) + ev.weighChild(i, m.Value)
	}
	return size
}

func (ev *evaluator) weighChild(i int, v jsonx.Value) int {
	if i%weighedPerStep == 0 {
		ev.spend(1)
	}
	return ev.weigh(v)
}

// fits checks the size of a text made from an input before it is built.
func (ev *evaluator) fits(size, inputSize int) {
	if size > maxText && size > inputSize {
		panic(faultf("would produce more than %d bytes of text", maxText))
	}
	ev.spendText(size)
}

// tryTemplate evaluates a template, and returns its failure.
func (ev *evaluator) tryTemplate(t *Template) (v jsonx.Value, err *Error) {
	defer ev.caught(&err)
	return ev.template(t), nil
}

func (ev *evaluator) template(t *Template) jsonx.Value {
	ev.spend(t.cost)
	if t.whole {
		return ev.expression(t.parts[0].expr)
	}
	return jsonx.StringValue(ev.textOf(t))
}

// textOf evaluates a template to a text.
func (ev *evaluator) textOf(t *Template) string {
	if t.count == 0 && len(t.parts) == 1 {
		return t.parts[0].text
	}
	var b strings.Builder
	b.Grow(t.size)
	for _, p := range t.parts {
		if p.expr == nil {
			b.WriteString(p.text)
			continue
		}
		piece := ev.inserted(ev.expression(p.expr))
		if t.escape != nil {
			piece = t.escape(piece)
		}
		if ev.env.Whole == nil && b.Len()+len(piece) > maxText+t.size {
			panic(faultf("the result would be too long"))
		}
		b.WriteString(piece)
	}
	ev.expr = nil
	return b.String()
}

// inserted returns a value in the form in which it is inserted into text, and
// pays for it.
func (ev *evaluator) inserted(v jsonx.Value) string {
	if v.IsNull() || v.IsZero() {
		return ""
	}
	if s, ok := scalarText(v); ok {
		ev.spendText(len(s))
		return s
	}
	ev.spend(containerCost)
	return string(v.Append(make([]byte, 0, ev.weigh(v))))
}

func (ev *evaluator) expression(e *expression) jsonx.Value {
	ev.expr = e
	v := ev.operand(&e.operand)
	if w := ev.env.Whole; w != nil && w.Of(e.operand.ref.ID) {
		v = ev.whole(e, v)
	} else {
		for i := range e.filters {
			v = ev.apply(&e.filters[i], v)
		}
	}
	if ev.env.Whole != nil {
		ev.count(v)
	}
	return v
}

// count counts a value that is inserted under the restriction of Whole.
func (ev *evaluator) count(v jsonx.Value) {
	if ev.counted += Rounded(v.Size()); ev.counted > maxTree {
		panic(faultf("the inserted values are too large: each counts as its size rounded up to a power of two, at least %d bytes, and all together may count as %d", minRounded, maxTree))
	}
}

// minRounded is the least that Rounded returns.
const minRounded = 4096

// Rounded rounds a size up to a power of two. Limits and costs use it for values that
// a caller may send but not see, because an exact limit would tell their length.
func Rounded(size int) int { return max(minRounded, 1<<bits.Len(uint(max(size, 1)-1))) }

func (ev *evaluator) operand(op *operand) jsonx.Value {
	if op.ref.ID == "" {
		return op.literal
	}
	v, ok := ev.env.lookup(op.ref)
	if !ok {
		panic(faultf("the expression refers to something that is not available here"))
	}
	for _, s := range op.path {
		ev.spend(1 + v.Len()/membersPerStep)
		switch {
		case !s.byIndex:
			v = v.Get(s.name)
		case s.index < 0:
			v = v.Index(len(v.Elems()) + s.index)
		default:
			v = v.Index(s.index)
		}
	}
	if v.IsZero() {
		v = jsonx.NullValue()
	}
	return v
}

func (ev *evaluator) apply(f *application, in jsonx.Value) jsonx.Value {
	ev.filter = f
	args := f.args
	if len(f.dynamic) > 0 {
		args = ev.fill(f)
	}
	ev.spend(filterCost)
	ev.spendText(len(in.Text()))
	out := f.filter.apply(ev, in, args)
	ev.filter = nil
	return out
}

// fill evaluates the arguments that are paths.
func (ev *evaluator) fill(f *application) []arg {
	args := append([]arg(nil), f.args...)
	for i := range f.dynamic {
		d := &f.dynamic[i]
		v := ev.operand(&d.operand)
		ev.spend(argumentCost + admission.TextSteps(len(v.Text())))
		converted, err := f.filter.params[d.index].convert(v)
		if err != nil {
			panic(err)
		}
		args[d.index] = converted
	}
	return args
}

// ShortLeaf is the minimum number of characters of a string or number that is
// sensitive on its own. Filters may take shorter values apart.
const ShortLeaf = 6

// Whole restricts expressions over some tokens, so that they insert data whole:
// a part of a value cannot be recognized in a response. Such an expression may
// use json with a path of names and indexes to one leaf, to_string and
// stringify, and other filters on leaves of fewer than ShortLeaf characters. A
// path with a condition would tell whether the condition holds.
type Whole struct {
	Of func(id string) bool // whether it applies to a token
	// Inserted is called with each result. It has member names if it is an object or
	// array, or the text of one. It is free if a filter changed a short leaf: then it
	// holds nothing of the data but this leaf.
	Inserted func(id string, v jsonx.Value, names, free bool)
	Refused  func(id string) // called before an evaluation fails
}

// wholeFilters are the filters that keep a value whole.
var wholeFilters = []string{"json", "to_string", "stringify"}

// keepsWhole reports whether a filter may be applied to data of a token that is
// inserted whole. If free is true, so may all filters after it.
func (f *application) keepsWhole(in jsonx.Value) (ok, free bool) {
	if !slices.Contains(wholeFilters, f.filter.name) {
		short := isLeaf(in) && utf8.RuneCountInString(in.Text()) < ShortLeaf
		return short, short
	}
	return f.filter.name != "json" || f.args[0].path.Singular(), false
}

func isLeaf(v jsonx.Value) bool { return v.Kind() != jsonx.Object && v.Kind() != jsonx.Array }

// whole evaluates an expression under the restriction.
func (ev *evaluator) whole(e *expression, v jsonx.Value) jsonx.Value {
	id, free, names := e.operand.ref.ID, false, !isLeaf(v)
	for i := range e.filters {
		f, ok := &e.filters[i], true
		if !free {
			ok, free = f.keepsWhole(v)
		}
		if ok {
			v = ev.apply(f, v)
		}
		names = names && f.filter.name != "json"
		if !ok || f.filter.name == "json" && !isLeaf(v) {
			ev.env.Whole.Refused(id)
			ev.filter = f
			panic(faultf("must not take data of this token apart"))
		}
	}
	ev.env.Whole.Inserted(id, v, names, free)
	return v
}
