// Package script is the contract between the vault and a runtime for tenants'
// JavaScript: the code of reactors and of proxy transforms.
//
// The vault decides which code runs, with which input and as which
// application. A [Runtime] runs it. Running code reaches tokens and the
// network only through the [Host] that the vault provides. Only JSON and text
// cross this boundary, so a runtime knows nothing of tokens, keys or
// databases.
//
// To write a runtime, implement [Runtime] and set it as Config.Runtime of the
// vault. The runtime of this module is jsruntime.
//
// # Rules for every runtime
//
//   - Methods are safe for concurrent use.
//   - A run does not see the globals or modules of another run.
//   - The context of [Host.Call] derives from the context of [Runtime.Run], so that
//     the operations of a run end with the run.
//   - A call of the host may start another run and wait for it. That run must not
//     wait for a place that the outer run holds.
//   - Text from the code reaches the caller in an [Error], and the embedding program
//     through [Host.Log]. Other errors do not repeat it.
//
// # The argument
//
// The input of Run is a JSON object
//
//	{"args": ..., "configuration": {...}, "application": true}
//
// The exported function is called with {args, configuration, bt, client}. bt
// and client are the same object: the vault's client if application is true,
// and null otherwise.
//
// # Operations of the host
//
// A request of the code reaches [Host.Call] as an operation and a JSON
// object. The result is JSON:
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
// Names are snake_case in JSON and camelCase in JavaScript, except inside
// data and metadata, which stay unchanged. The body of fetch is base64 in
// both directions, and absent if empty. The body of proxy is sent unchanged.
// Expressions in it are replaced only if detokenize is true, because data
// from a token may look like an expression. An error of Host.Call rejects the
// promise in the code.
package script

import (
	"context"
	"encoding/json"
)

// Runtime runs tenants' code.
type Runtime interface {
	// Check loads code without calling its function. It returns an *[Error]
	// that matches [ErrInvalid] if the code does not compile, throws at the
	// top level, or exports no function.
	Check(ctx context.Context, p Program) error
	// Run calls the function that the code exports with one argument, built
	// from input and host. It returns the result as JSON. ctx carries the
	// deadline.
	//
	// If the code fails, or is stopped because of what it did, the error is
	// an *[Error]. If ctx is canceled, Run returns the error of ctx.
	// [ErrBusy] and [ErrClosed] mean that the code did not run to its end for
	// reasons of the runtime.
	Run(ctx context.Context, p Program, input json.RawMessage, host Host) (json.RawMessage, error)
	// Close stops all runs. Later calls return [ErrClosed].
	Close() error
}

// Reporter is an optional interface of a [Runtime] that reports its load.
type Reporter interface {
	// Stats returns the current figures. It does not wait for runs.
	Stats() Stats
}

// Stats are the figures of a [Runtime] with workers.
type Stats struct {
	Workers int // maximum number of busy workers, not counting runs inside of runs
	Busy    int // workers that run code now
	Idle    int // workers that wait for another run of their tenant
	Spare   int // workers that have run nothing yet
	Waiting int // runs that wait for a worker
	Started int // workers started so far
	Crashes int // panics of the engine so far, which the runtime has logged
}

// Program is the code to run, and its owner.
type Program struct {
	Tenant string // owner of the code; a runtime isolates tenants by it
	Name   string // of the reactor or proxy, for messages
	Source string
	// Stranger means that a caller without an API key started the run, through a
	// proxy. A runtime keeps some of the tenant's places free for its other runs.
	Stranger bool
}

// Host gives running code access to the vault and the network.
type Host interface {
	// Call performs an operation for the code: a client call or a fetch. The
	// code can read an error that is a *[HostError]. For any other error it
	// sees only that the operation failed.
	Call(ctx context.Context, op string, args json.RawMessage) (json.RawMessage, error)
	// Log receives a line that the code wrote to its console.
	Log(Line)
}

// Line is the text of one call of the console. Text may contain any data that
// the code has, line breaks and control characters.
type Line struct {
	Level string // log, info, warn, error or debug
	Text  string
}
