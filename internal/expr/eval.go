package expr

import (
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

const (
	maxText = 1 << 20  // bytes of text that evaluation makes longer
	maxWork = 64 << 20 // units of work, about one for each byte touched

	// The budget of an evaluation over a token's own data: a fixed part, and a
	// part for each byte of the data, up to maxWork. It is small because what
	// is stored is evaluated each time it is read, a hundred at a time in
	// lists.
	baseWork    = 2 << 20
	workPerByte = 64
)

// Env is what a template is evaluated against: the values that Lookup finds, or
// the token that [Data] was given.
type Env struct {
	// Lookup returns the value of a root: data, metadata or a token. It
	// reports false for one that is not available, which fails the evaluation.
	Lookup func(Ref) (jsonx.Value, bool)
	// Now is the clock of the date filter, [time.Now] by default.
	Now func() time.Time
	// Rand is the source of aliases, crypto/rand by default.
	Rand io.Reader
	// Work, if it is given, is a budget that several evaluations share: each
	// takes from it what it used, and fails when nothing is left.
	Work *int

	data     jsonx.Value // whose size bounds the work; absent where nothing but maxWork does
	metadata jsonx.Value
}

// Data returns an Env for a token that is being written. An absent metadata
// makes the root unavailable.
func Data(data, metadata jsonx.Value) Env { return Env{data: data, metadata: metadata} }

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
// its value, null where a path leads nowhere; any other gives a string. A
// failure is an [*Error].
func (t *Template) Eval(env Env) (jsonx.Value, error) {
	ev, err := newEvaluator(env)
	if err != nil {
		return jsonx.Value{}, err
	}
	defer ev.settle()
	v, err := ev.template(t)
	if err != nil {
		return jsonx.Value{}, err
	}
	return v, nil
}

// evaluator is the state of one evaluation of a template or tree.
type evaluator struct {
	env      Env
	granted  int // units of work, so far
	work     int // what is left of them
	dataSize int // in bytes, once the work was extended
	extended bool
	text     []byte // what Tree.JSON has written
}

// evaluators are those that are not in use. They keep nothing of what they
// evaluated.
var evaluators = sync.Pool{New: func() any { return new(evaluator) }}

func newEvaluator(env Env) (*evaluator, *Error) {
	if env.Work != nil && *env.Work <= 0 {
		return nil, faultf("%v", errTooMuchWork)
	}
	ev := evaluators.Get().(*evaluator)
	ev.env, ev.granted = env, maxWork
	if !env.data.IsZero() {
		ev.granted = baseWork
	}
	ev.work = ev.granted
	return ev, nil
}

// maxSpareText bounds the memory that is kept for the text of the next tree.
const maxSpareText = 4096

// settle ends an evaluation: it takes the work that was done from the shared
// budget, and gives the evaluator back.
func (ev *evaluator) settle() {
	if ev.env.Work != nil {
		*ev.env.Work -= ev.granted - ev.work
	}
	ev.wipe()
	evaluators.Put(ev)
}

// wipe makes the evaluator forget what it evaluated.
func (ev *evaluator) wipe() {
	text := ev.text
	if cap(text) > maxSpareText {
		text = nil
	}
	clear(text)
	*ev = evaluator{text: text[:0]}
}

var errTooMuchWork = errors.New("the expression takes too much work to evaluate")

// spend takes units of work from the budget.
func (ev *evaluator) spend(units int) error {
	if ev.work -= units; ev.work < 0 {
		ev.extend()
	}
	if ev.work < 0 {
		return errTooMuchWork
	}
	return nil
}

// extend adds the work that the size of the data allows. The data is measured
// only when that is needed, which is seldom.
func (ev *evaluator) extend() {
	if ev.extended || ev.env.data.IsZero() {
		return
	}
	ev.extended, ev.dataSize = true, jsonSize(ev.env.data, maxWork)
	more := min(workPerByte*ev.dataSize, maxWork-baseWork)
	ev.granted += more
	ev.work += more
}

// fits checks the size of a text made from an input before it is built.
func (ev *evaluator) fits(size, inputSize int) error {
	if size > maxText && size > inputSize {
		return faultf("would produce more than %d bytes of text", maxText)
	}
	return ev.spend(size)
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
	if t.whole {
		return ev.expression(t.parts[0].expr)
	}
	text, err := ev.textOf(t, nil)
	if err != nil {
		return jsonx.Value{}, err
	}
	return jsonx.StringValue(text), nil
}

// textOf evaluates a template to a text. Values go through escape before they
// are inserted, unless it is nil.
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
		piece := inserted(v)
		if escape != nil {
			piece = escape(piece)
		}
		if b.Len()+len(piece) > maxText+t.size || ev.spend(len(piece)) != nil {
			return "", &Error{Offset: p.expr.offset, Msg: "the result would be too long"}
		}
		b.WriteString(piece)
	}
	return b.String(), nil
}

// inserted returns a value as it is inserted into text.
func inserted(v jsonx.Value) string {
	if v.IsNull() || v.IsZero() {
		return ""
	}
	if s, ok := scalarText(v); ok {
		return s
	}
	return string(v.JSON())
}

func (ev *evaluator) expression(e *expression) (jsonx.Value, *Error) {
	v, err := ev.operand(&e.operand)
	if err != nil {
		err.Offset = e.offset
		return jsonx.Value{}, err
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
		if ev.spend(1+v.Len()) != nil {
			return v, faultf("%v", errTooMuchWork)
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
	if err := ev.spend(1 + len(in.Text()) + in.Len()); err != nil {
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
		if err := ev.spend(len(v.Text())); err != nil {
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

// failed says which filter failed and where it is.
func (f *application) failed(err error) *Error {
	var e *Error
	if !errors.As(err, &e) {
		e = &Error{Msg: err.Error()}
	}
	return &Error{Offset: f.offset, Msg: "filter " + f.filter.name + ": " + e.Msg}
}
