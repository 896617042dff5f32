package expr

import (
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

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
	v, err := ev.template(t)
	if err != nil {
		return jsonx.Value{}, ev.failure(err)
	}
	return v, nil
}

// evaluator is the state of one evaluation of a template or tree.
type evaluator struct {
	env  Env
	text []byte // written by Tree.JSON
}

// evaluators are unused evaluators. They keep nothing of what they evaluated.
var evaluators = sync.Pool{New: func() any { return new(evaluator) }}

func newEvaluator(env Env) *evaluator {
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
func (ev *evaluator) spend(steps int) error {
	if !ev.env.Budget.Spend(steps) {
		return ev.env.Budget.Err()
	}
	return nil
}

// spendText pays for reading or building bytes of text.
func (ev *evaluator) spendText(bytes int) error { return ev.spend(admission.TextSteps(bytes)) }

// weigh pays for the JSON of a value before it is written, and returns its
// approximate length in bytes.
func (ev *evaluator) weigh(v jsonx.Value) (int, error) {
	size := len("null") + len(v.Text())
	if err := ev.spend(admission.TextSteps(size)); err != nil {
		return 0, err
	}
	for i, e := range v.Elems() {
		n, err := ev.weighChild(i, e)
		if err != nil {
			return 0, err
		}
		size += n
	}
	for i, m := range v.Members() {
		n, err := ev.weighChild(i, m.Value)
		if err != nil {
			return 0, err
		}
		size += len(m.Name) + n
	}
	return size, nil
}

func (ev *evaluator) weighChild(i int, v jsonx.Value) (int, error) {
	if i%weighedPerStep == 0 {
		if err := ev.spend(1); err != nil {
			return 0, err
		}
	}
	return ev.weigh(v)
}

// fits checks the size of a text made from an input before it is built.
func (ev *evaluator) fits(size, inputSize int) error {
	if size > maxText && size > inputSize {
		return faultf("would produce more than %d bytes of text", maxText)
	}
	return ev.spendText(size)
}

func (ev *evaluator) now() time.Time {
	if ev.env.Now != nil {
		return ev.env.Now()
	}
	return time.Now()
}

func (ev *evaluator) random() io.Reader {
	if ev.env.Rand != nil {
		return ev.env.Rand
	}
	return rand.Reader
}

func (ev *evaluator) template(t *Template) (jsonx.Value, *Error) {
	if err := ev.spend(t.cost); err != nil {
		return jsonx.Value{}, faultf("%v", err)
	}
	if t.whole {
		return ev.expression(t.parts[0].expr)
	}
	text, err := ev.textOf(t, nil)
	if err != nil {
		return jsonx.Value{}, err
	}
	return jsonx.StringValue(text), nil
}

// textOf evaluates a template to a text. If escape is not nil, it is applied to
// values before they are inserted.
func (ev *evaluator) textOf(t *Template, escape func(string) string) (string, *Error) {
	if t.count == 0 && len(t.parts) == 1 {
		return t.parts[0].text, nil
	}
	var b strings.Builder
	b.Grow(t.size)
	for _, p := range t.parts {
		if p.expr == nil {
			b.WriteString(p.text)
			continue
		}
		v, err := ev.expression(p.expr)
		if err != nil {
			return "", err
		}
		piece, fault := ev.inserted(v)
		if fault != nil {
			return "", &Error{Offset: p.expr.offset, Msg: fault.Error()}
		}
		if escape != nil {
			piece = escape(piece)
		}
		if b.Len()+len(piece) > maxText+t.size {
			return "", &Error{Offset: p.expr.offset, Msg: "the result would be too long"}
		}
		b.WriteString(piece)
	}
	return b.String(), nil
}

// inserted returns a value in the form in which it is inserted into text, and
// pays for it.
func (ev *evaluator) inserted(v jsonx.Value) (string, error) {
	if v.IsNull() || v.IsZero() {
		return "", nil
	}
	if s, ok := scalarText(v); ok {
		return s, ev.spendText(len(s))
	}
	if err := ev.spend(containerCost); err != nil {
		return "", err
	}
	size, err := ev.weigh(v)
	if err != nil {
		return "", err
	}
	return string(v.Append(make([]byte, 0, size))), nil
}

func (ev *evaluator) expression(e *expression) (jsonx.Value, *Error) {
	v, err := ev.operand(&e.operand)
	if err != nil {
		err.Offset = e.offset
		return jsonx.Value{}, err
	}
	if w := ev.env.Whole; w != nil && w.Of(e.operand.ref.ID) {
		return ev.whole(e, v)
	}
	for i := range e.filters {
		f := &e.filters[i]
		if v, err = ev.apply(f, v); err != nil {
			return jsonx.Value{}, err
		}
	}
	return v, nil
}

func (ev *evaluator) operand(op *operand) (jsonx.Value, *Error) {
	if op.ref.ID == "" {
		return op.literal, nil
	}
	v, ok := ev.env.lookup(op.ref)
	if !ok {
		return v, faultf("the expression refers to something that is not available here")
	}
	for _, s := range op.path {
		if err := ev.spend(1 + v.Len()/membersPerStep); err != nil {
			return v, faultf("%v", err)
		}
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
	return v, nil
}

func (ev *evaluator) apply(f *application, in jsonx.Value) (jsonx.Value, *Error) {
	args := f.args
	if len(f.dynamic) > 0 {
		filled, err := ev.fill(f)
		if err != nil {
			return jsonx.Value{}, f.failed(err)
		}
		args = filled
	}
	if err := ev.spend(filterCost + admission.TextSteps(len(in.Text()))); err != nil {
		return jsonx.Value{}, f.failed(err)
	}
	out, err := f.filter.apply(ev, in, args)
	if err != nil {
		return jsonx.Value{}, f.failed(err)
	}
	return out, nil
}

// fill evaluates the arguments that are paths.
func (ev *evaluator) fill(f *application) ([]arg, error) {
	args := append([]arg(nil), f.args...)
	for i := range f.dynamic {
		d := &f.dynamic[i]
		v, err := ev.operand(&d.operand)
		if err != nil {
			return nil, err
		}
		if err := ev.spend(argumentCost + admission.TextSteps(len(v.Text()))); err != nil {
			return nil, err
		}
		converted, err := f.filter.params[d.index].convert(v)
		if err != nil {
			return nil, err
		}
		args[d.index] = converted
	}
	return args, nil
}

// failed adds the name and position of the filter to an error.
func (f *application) failed(err error) *Error {
	var e *Error
	if !errors.As(err, &e) {
		e = &Error{Msg: err.Error()}
	}
	return &Error{Offset: f.offset, Msg: "filter " + f.filter.name + ": " + e.Msg}
}
