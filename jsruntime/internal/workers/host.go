package workers

import (
	"context"
	"encoding/json"
	"errors"

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
