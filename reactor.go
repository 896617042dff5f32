package vault

import (
	"context"
	"encoding/json"
)

// Runtime runs the JavaScript of tenants: the code of reactors and of proxy
// transforms. Package jsruntime has one that keeps the code in processes of
// its own.
type Runtime interface {
	// Check loads code without running it. Code that does not compile, whose
	// top level throws, or that exports no function is an error that matches
	// ErrCode.
	Check(ctx context.Context, p Program) error
	// Run calls the function that the code exports with one argument, built
	// from input and from what host offers, and returns what it returned as
	// JSON. ctx carries the deadline. An error that the code raised is a
	// *ScriptError.
	Run(ctx context.Context, p Program, input json.RawMessage, host Host) (json.RawMessage, error)
	// Close stops what is running.
	Close() error
}

// Program is code to run, and whose it is.
type Program struct {
	Tenant string // for limits that keep tenants from each other
	Name   string // of the reactor or proxy, for messages
	Source string
}

// Host is what running code can reach of the world.
type Host interface {
	// Call carries out an operation for the code: a client call or a fetch.
	Call(ctx context.Context, op string, args json.RawMessage) (json.RawMessage, error)
	// Log takes a line that the code wrote to its console.
	Log(level, line string)
}
