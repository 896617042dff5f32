package expr

import (
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

const (
	maxText = 1 << 20  // bytes of a text that evaluation makes longer
	maxWork = 64 << 20 // units of work, about one for each byte touched
)

// Env is what a template is evaluated against. Only Lookup is required.
type Env struct {
	// Lookup returns the value of a root: data, metadata or a token. It
	// reports false for one that is not available, which fails the evaluation.
	Lookup func(Ref) (jsonx.Value, bool)
	// Now is the clock of the date filter, [time.Now] by default.
	Now func() time.Time
	// Rand is the source of aliases, crypto/rand by default.
	Rand io.Reader
}

// Data returns an Env for a token that is being written. An absent metadata
// makes the root unavailable.
func Data(data, metadata jsonx.Value) Env {
	return Env{Lookup: func(ref Ref) (jsonx.Value, bool) {
		switch ref.ID {
		case "data":
			return data, !data.IsZero()
		case "metadata":
			return metadata, !metadata.IsZero()
		default:
			return jsonx.Value{}, false
		}
	}}
}

// Eval evaluates the template. A template that is exactly one expression gives
// its value, null where a path leads nowhere; any other gives a string. A
// failure is an [*Error].
func (t *Template) Eval(env Env) (jsonx.Value, error) {
	ev := &evaluator{env: env, work: maxWork}
	v, err := ev.template(t)
	if err != nil {
		return jsonx.Value{}, err
	}
	return v, nil
}

// evaluator is the state of one evaluation of a template or tree.
type evaluator struct {
	env  Env
	work int
}

var errTooMuchWork = errors.New("the evaluation takes too much work")

// spend takes units of work from the budget.
func (ev *evaluator) spend(units int) error {
	ev.work -= units
	if ev.work < 0 {
		return errTooMuchWork
	}
	return nil
}

// fits checks the size of a text made from an input before it is built.
func (ev *evaluator) fits(size, inputSize int) error {
	if size > maxText && size > inputSize {
		return faultf("would make a text of more than %d bytes", maxText)
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
	if len(t.parts) == 1 {
		return jsonx.StringValue(t.parts[0].text), nil
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
			return jsonx.Value{}, err
		}
		piece := inserted(v)
		if b.Len()+len(piece) > maxText+t.size || ev.spend(len(piece)) != nil {
			return jsonx.Value{}, &Error{Offset: p.expr.offset, Msg: "the result would be too long"}
		}
		b.WriteString(piece)
	}
	return jsonx.StringValue(b.String()), nil
}

// inserted is how a value stands in a text.
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
	v, ok := jsonx.Value{}, false
	if ev.env.Lookup != nil {
		v, ok = ev.env.Lookup(op.ref)
	}
	if !ok {
		return v, faultf("what the expression refers to is not available here")
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
		converted, err := f.filter.params[d.index].convert(v)
		if err != nil {
			return nil, err
		}
		args[d.index] = converted
	}
	return args, nil
}

// failed says which filter failed and where it stands.
func (f *application) failed(err error) *Error {
	var e *Error
	if !errors.As(err, &e) {
		e = &Error{Msg: err.Error()}
	}
	return &Error{Offset: f.offset, Msg: "filter " + f.filter.name + ": " + e.Msg}
}
