package workers

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"

	"github.com/seed-72ea4aab/vault/jsruntime/internal/node"
	"github.com/seed-72ea4aab/vault/script"
)

// noHost is the host of code that is only checked.
type noHost struct{}

// Call always returns an error.
func (noHost) Call(context.Context, string, json.RawMessage) (json.RawMessage, error) {
	return nil, &script.HostError{Message: "not available while the code is loading"}
}

// Log drops the line.
func (noHost) Log(script.Line) {}

// callHost performs an operation for a run. A panic of the host becomes an
// error of the operation.
func callHost(ctx context.Context, host script.Host, id int, op string, args json.RawMessage) (r node.Reply) {
	defer func() {
		if p := recover(); p != nil {
			r = node.Reply{ID: id, Err: node.FailedOperation()}
		}
	}()
	result, err := host.Call(ctx, op, args)
	if err != nil {
		return node.Reply{ID: id, Err: hostError(err)}
	}
	if len(result) == 0 {
		result = json.RawMessage("null")
	}
	return node.Reply{ID: id, Result: result}
}

// hostError returns the part of a host error that the code may know.
func hostError(err error) *script.HostError {
	if known, ok := errors.AsType[*script.HostError](err); ok {
		return known
	}
	return node.FailedOperation()
}

// logHost passes a line of the console to the host. A panic there loses the
// line, but not the run.
func logHost(host script.Host, level, line string) {
	defer func() { _ = recover() }()
	host.Log(script.Line{Level: level, Text: line})
}

// crashes logs and counts the panics of the engine. Tenants learn only that
// their run crashed.
type crashes struct {
	log   *slog.Logger // nil for the default logger
	count atomic.Int64
}

// report logs a panic in a program, given by its tenant and name.
func (r *crashes) report(tenant, name, text, stack string) {
	r.count.Add(1)
	log := r.log
	if log == nil {
		log = slog.Default()
	}
	log.Error("jsruntime: the JavaScript engine failed", "tenant", tenant, "program", name, "panic", text, "stack", stack)
}

// deathText returns the first line that a process wrote when it died, unless
// that line may contain data of a tenant.
func deathText(words string) string {
	line, _, _ := strings.Cut(words, "\n")
	for _, known := range []string{"fatal error: ", "runtime: ", "SIG", "panic: runtime error: "} {
		if strings.HasPrefix(line, known) {
			return line
		}
	}
	return "the process died"
}
