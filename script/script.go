// Package script is the contract between the vault and a runtime for the
// JavaScript of tenants: the code of reactors and of proxy transforms.
//
// The vault decides which code runs, with which input and as which
// application. A [Runtime] runs it. Running code reaches tokens and the
// network only through the [Host] that the vault passes along. Only JSON and
// text cross this border, so a runtime knows nothing of tokens, keys or
// databases.
//
// To write a runtime, implement [Runtime] and set it as Config.Runtime of the
// vault. The runtime of this module is jsruntime.
//
// # Rules for every runtime
//
//   - Methods are safe for concurrent use.
//   - A run sees nothing of another: not its globals, and not its modules.
//   - [Host.Call] gets a context that derives from the one of [Runtime.Run], so
//     that what a run asked for ends with the run.
//   - A call of the host may start another run and wait for it. Such a run must
//     not wait for a place that the run around it holds.
//   - What code wrote reaches the caller in an [Error], and the embedding program
//     through [Host.Log]. Other errors do not repeat it.
//
// # The argument
//
// The input of Run is a JSON object
//
//	{"args": ..., "configuration": {...}, "application": true}
//
// and the exported function is called with {args, configuration, bt, client}.
// bt and client are the same object: the vault's client, or null unless
// application is true.
//
// # Operations of the host
//
// What the code asks for arrives at [Host.Call] as an operation and a JSON
// object, and is answered in JSON:
//
//	tokens.create     {type, data, ...}            a token
//	tokens.retrieve   {id}                         a token
//	tokens.update     {id, patch}                  a token
//	tokens.delete     {id}                         null
//	tokens.list       {id, type, metadata, page, size}  a page
//	tokens.search     {query, page, size}          a page
//	tokenize          any JSON                     the same structure
//	detokenize        any JSON                     the same structure
//	reactors.react    {id, body: {args, ...}}      {tokens, raw}
//	proxy.get ... proxy.delete
//	                  {path, query, headers, body, proxyKey, proxyUrl, detokenize}
//	                  {status, headers, body}
//	logs.list         {entity_type, ..., page, size}  a page
//	sessions.create   {}                           {session_key, nonce, expires_at}
//	sessions.authorize {nonce, permissions, rules, expires_at}  null
//	fetch             {method, url, headers: [[name, value], ...], body}
//	                  {status, status_text, url, headers: [[name, value], ...], body}
//
// Names are snake_case in JSON and camelCase in JavaScript, where data and
// metadata are left as they are. The body of fetch is base64 both ways, and
// absent when empty. That of proxy is sent as it is; expressions in it are
// replaced only when detokenize is true, since data that came out of a token may
// look like one. An error of Host.Call rejects the promise in the code.
package script

import (
	"context"
	"encoding/json"
)

// Runtime runs the code of tenants.
type Runtime interface {
	// Check loads code without running its function. Code that does not
	// compile, whose top level throws, or that exports no function is an
	// *[Error] that matches [ErrInvalid].
	Check(ctx context.Context, p Program) error
	// Run calls the function that the code exports with one argument, built
	// from input and from what host offers, and returns its result as JSON.
	// ctx carries the deadline. When the code fails, or is stopped for what it
	// did, the error is an *[Error]. When ctx is canceled, it is that of ctx.
	// [ErrBusy] and [ErrClosed] mean that the code did not run to its end for
	// reasons of the runtime.
	Run(ctx context.Context, p Program, input json.RawMessage, host Host) (json.RawMessage, error)
	// Close stops what is running. Later calls return [ErrClosed].
	Close() error
}

// Reporter is a [Runtime] that says how busy it is. A runtime need not be one.
type Reporter interface {
	// Stats returns the figures of this moment. It does not wait for runs.
	Stats() Stats
}

// Stats are the figures of a [Runtime] with workers.
type Stats struct {
	Workers int // that may be at work at a time, not counting runs inside of runs
	Busy    int // workers that run code now
	Idle    int // workers that wait for another run of their tenant
	Spare   int // workers that have run nothing yet
	Waiting int // runs that wait for a place
	Started int // workers that were started so far
	Crashes int // panics of the engine so far, which the runtime has logged
}

// Program is code to run, and whose it is.
type Program struct {
	Tenant string // whose code it is: a runtime keeps tenants apart by it
	Name   string // of the reactor or proxy, for messages
	Source string
}

// Host is what running code can reach of the world.
type Host interface {
	// Call carries out an operation for the code: a client call or a fetch.
	// The code may read an error that is a *[HostError]; of any other it
	// learns only that the operation failed.
	Call(ctx context.Context, op string, args json.RawMessage) (json.RawMessage, error)
	// Log takes what the code wrote to its console.
	Log(Line)
}

// Line is what code wrote to its console in one call. Text may hold anything
// that the code was given, line breaks and control characters.
type Line struct {
	Level string // log, info, warn, error or debug
	Text  string
}
