package node

import (
	"errors"
	"fmt"
	"net/http"
	"path"
	"regexp"
	"runtime"
	"strconv"
	"strings"

	"github.com/dop251/goja"

	"github.com/seed-72ea4aab/vault/jsruntime/internal/compile"
	"github.com/seed-72ea4aab/vault/jsruntime/internal/native"
	"github.com/seed-72ea4aab/vault/script"
)

// Limits on the data of a thrown error.
const (
	maxMessages  = 100      // fields, and messages of a field
	maxErrorText = 64 << 10 // bytes of all messages, approximately
	maxFrames    = 20
)

// stopTexts are the messages for runs that were stopped.
var stopTexts = map[script.ErrorKind]string{
	script.Timeout:  "timed out",
	script.Memory:   "out of memory",
	script.Stack:    "Maximum call stack size exceeded",
	script.Crash:    "the code crashed its process",
	script.Output:   "the result is too large",
	script.Deadlock: "the function waits for a promise that nothing can settle",
	script.Depth:    "reactors and proxies call each other more than 3 levels deep",
}

// StopError returns the error of a run that was stopped.
func StopError(kind script.ErrorKind) *script.Error {
	return runtimeError(kind, stopTexts[kind])
}

func runtimeError(kind script.ErrorKind, text string) *script.Error {
	return &script.Error{
		Kind:     kind,
		Status:   http.StatusInternalServerError,
		Title:    script.DefaultTitle,
		Messages: map[string][]string{"error": {text}},
	}
}

// failure returns the error that ended a run.
func (c *Execution) failure(err error) *script.Error {
	var interrupted *goja.InterruptedError
	var overflow *goja.StackOverflowError
	var thrown *goja.Exception
	var rejected *rejection
	switch {
	case c.stopped.Load() != nil:
		e := StopError(*c.stopped.Load())
		if errors.As(err, &interrupted) {
			e.Frames = c.frames(interrupted.Stack())
		}
		return e
	case errors.As(err, &overflow):
		return c.tooDeep(overflow.Stack())
	case errors.Is(err, errDeadlock) && c.broken:
		return c.tooDeep(nil)
	case errors.Is(err, errDeadlock):
		return StopError(script.Deadlock)
	case errors.As(err, &rejected) && c.overflowed(rejected.reason):
		return c.tooDeep(nil)
	case errors.As(err, &thrown) && c.overflowed(thrown.Value()):
		return c.tooDeep(thrown.Stack())
	case errors.As(err, &rejected):
		return c.thrown(rejected.reason, nil)
	case errors.As(err, &thrown):
		return c.thrown(thrown.Value(), thrown.Stack())
	}
	return StopError(script.Crash)
}

// thrown describes a value that the code threw. Reading it may run code of the
// tenant, which is still subject to the deadline.
func (c *Execution) thrown(v goja.Value, stack []goja.StackFrame) (e *script.Error) {
	e = runtimeError(script.Thrown, "")
	e.Frames = c.frames(stack)
	err := c.macrotask(func() error {
		if ex := c.VM.Try(func() { c.describe(e, v) }); ex != nil {
			return ex
		}
		return nil
	})
	if kind := c.stopped.Load(); err != nil && kind != nil {
		return StopError(*kind)
	}
	return e
}

// describe reads name, message, position and response of a thrown value into e.
func (c *Execution) describe(e *script.Error, v goja.Value) {
	o, ok := v.(*goja.Object)
	if !ok {
		e.Messages["error"] = []string{native.Clip(textOf(v))}
		return
	}
	if name, ok := o.Get("name").(goja.String); ok {
		e.Name = native.Clip(name.String())
	}
	if trace, ok := o.Get("stack").(goja.String); ok && o.ClassName() == "Error" {
		e.Frames = c.parseTrace(trace.String())
	}
	message := o.Get("message")
	if message == nil || goja.IsUndefined(message) {
		message = o
	}
	e.Messages["error"] = []string{native.Clip(nodeMessage(textOf(message)))}
	if c.brand != nil {
		if class, ok := o.GetSymbol(c.brand).(*goja.Object); ok {
			c.describeChosen(e, o, class)
		}
	}
}

// describeChosen reads the response from an error of the classes in
// @vault/errors. Code can find their symbol and put it on its own objects. So
// the symbol is trusted only as far as its value makes a valid error.
func (c *Execution) describeChosen(e *script.Error, o, class *goja.Object) {
	status, ok := statusOf(class, http.StatusBadRequest)
	if !ok {
		return
	}
	e.Status, e.Title = status, native.Clip(textOf(class.Get("title")))
	if own := o.Get("errors"); own != nil && !goja.IsUndefined(own) {
		e.Messages = messagesOf(own)
	}
	response, ok := o.Get("response").(*goja.Object)
	if !ok || e.Title != customResponse {
		return
	}
	if e.Status, ok = statusOf(response, http.StatusOK); !ok {
		e.Status = http.StatusInternalServerError
		e.Title = script.DefaultTitle
		e.Messages = map[string][]string{"error": {"CustomHttpResponseError: status must be from 200 to 599"}}
		return
	}
	e.Response = &script.Response{Status: e.Status, Header: http.Header{}, Body: []byte("null")}
	if headers, ok := response.Get("headers").(*goja.Object); ok {
		for i, name := range headers.Keys() {
			if i == maxMessages {
				break
			}
			e.Response.Header.Set(native.Clip(name), native.Clip(textOf(headers.Get(name))))
		}
	}
	body, bad := c.encode(response.Get("body"))
	if bad != nil {
		*e = *bad
		return
	}
	e.Response.Body = body
}

// statusOf reads the status of a response: a number from least to 599. It reads
// the status once, because an object may return a different number each time.
func statusOf(o *goja.Object, least int64) (status int, ok bool) {
	v := o.Get("status")
	if v == nil {
		return 0, false
	}
	n := v.ToInteger()
	return int(n), least <= n && n <= 599
}

// customResponse is the title with which the prelude marks the class that
// defines its whole response.
const customResponse = "CustomHttpResponseError"

// messagesOf reads {field: message or messages}, a list, or a single message,
// up to the limits on number and length.
func messagesOf(v goja.Value) map[string][]string {
	o, ok := v.(*goja.Object)
	if !ok {
		return map[string][]string{"error": {native.Clip(textOf(v))}}
	}
	room := maxErrorText
	if o.ClassName() == "Array" {
		return map[string][]string{"error": listOf(o, &room)}
	}
	out := map[string][]string{}
	for i, key := range o.Keys() {
		if i == maxMessages || room <= 0 {
			break
		}
		value := o.Get(key)
		key = native.Clip(key)
		room -= len(key)
		if list, ok := value.(*goja.Object); ok && list.ClassName() == "Array" {
			out[key] = listOf(list, &room)
			continue
		}
		text := native.Clip(textOf(value))
		room -= len(text)
		out[key] = []string{text}
	}
	return out
}

// listOf reads the texts of an array and subtracts their length from room.
func listOf(o *goja.Object, room *int) []string {
	out := []string{}
	n := min(o.Get("length").ToInteger(), maxMessages)
	for i := int64(0); i < n && *room > 0; i++ {
		text := native.Clip(textOf(o.Get(strconv.FormatInt(i, 10))))
		*room -= len(text)
		out = append(out, text)
	}
	return out
}

func textOf(v goja.Value) string {
	switch v := v.(type) {
	case nil:
		return "undefined"
	case *goja.Symbol:
		return "Symbol(" + v.String() + ")"
	default:
		return v.String()
	}
}

// frames returns the places in the tenant's own code.
func (c *Execution) frames(stack []goja.StackFrame) []script.Frame {
	var out []script.Frame
	for _, f := range stack {
		pos := f.Position()
		if !strings.HasSuffix(pos.Filename, compile.FileName) || len(out) == maxFrames {
			continue
		}
		name := f.FuncName()
		if name == "<anonymous>" {
			name = ""
		}
		out = append(out, c.frame(name, pos.Line, pos.Column))
	}
	return out
}

// frame corrects the column on the line that the code shares with its wrapper.
func (c *Execution) frame(name string, line, column int) script.Frame {
	if line == 1 && !c.code.Lowered {
		column = max(1, column-len(compile.WrapHead))
	}
	return script.Frame{Function: native.Clip(name), Line: line, Column: column}
}

// traceLine matches a line of a stack property, as goja writes it.
var traceLine = regexp.MustCompile(`(?m)^\s*at (?:(.*) \()?(?:\S*/)?app/index\.js:(\d+):(\d+)`)

// parseTrace reads the places from the stack property of an error, because a
// rejected promise keeps nothing else of them.
func (c *Execution) parseTrace(trace string) []script.Frame {
	if len(trace) > 64<<10 {
		trace = trace[:64<<10]
	}
	var out []script.Frame
	for _, m := range traceLine.FindAllStringSubmatch(trace, maxFrames) {
		line, _ := strconv.Atoi(m[2])
		column, _ := strconv.Atoi(m[3])
		out = append(out, c.frame(m[1], line, column))
	}
	return out
}

// Messages of goja that V8 words differently.
var (
	gojaRead   = regexp.MustCompile(`^Cannot read property '(.*)' of (undefined|null)$`)
	gojaMember = regexp.MustCompile(`^Object has no member '(.*)'$`)
)

// nodeMessage translates goja's most frequent messages to Node's.
func nodeMessage(text string) string {
	if m := gojaRead.FindStringSubmatch(text); m != nil {
		return fmt.Sprintf("Cannot read properties of %s (reading '%s')", m[2], m[1])
	}
	if m := gojaMember.FindStringSubmatch(text); m != nil {
		return m[1] + " is not a function"
	}
	return text
}

// FailedOperation returns the error of an operation whose cause the code must
// not know.
func FailedOperation() *script.HostError {
	return &script.HostError{Status: http.StatusInternalServerError, Message: "the operation failed"}
}

// panicText describes a panic without data of a tenant: it returns the text of an
// error of Go's runtime, and only the type of any other value.
func panicText(p any) string {
	if err, ok := p.(runtime.Error); ok {
		return err.Error()
	}
	return fmt.Sprintf("panic with a %T", p)
}

// maxCrashFrames limits the stack of a report.
const maxCrashFrames = 40

// panicStack lists the functions and lines of the panicking goroutine,
// innermost first, without arguments. Only functions that recover from a panic
// may call it.
func panicStack() string {
	pcs := make([]uintptr, maxCrashFrames)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	var b strings.Builder
	for {
		f, more := frames.Next()
		fmt.Fprintf(&b, "%s %s:%d\n", path.Base(f.Function), path.Base(f.File), f.Line)
		if !more {
			return b.String()
		}
	}
}
