// Package vaultclient calls a vault over HTTP, as package httpserver serves
// it. [Client] has the methods of [vault.Client] that the REST API offers,
// with the same parameters, results and errors. Both types implement
// [vault.API].
//
//	c, err := vaultclient.New("https://vault.example/vault", key, nil)
//	tok, err := c.CreateToken(ctx, vault.TokenParams{Type: vault.TypeCard, Data: vault.CardData{Number: "4242424242424242"}})
//
// # Retries
//
// If a response is lost, the client sends the call again after a random pause
// that grows with each attempt; see [Retry]. If the server is too busy, the
// client waits as long as the server requests and tries again. A call that
// changes something has an idempotency key, the same on every attempt. It
// therefore takes effect at most once, however often it is sent.
// [WithIdempotencyKey] sets the key of a call, so that retries also work
// across restarts of the program.
//
// Two calls have no key by default. With a key, [Client.React] would make the
// vault store the response for a day, and the response may contain plaintext.
// Without a key, it is sent again only if the client could not connect to the
// vault, or if the vault itself was too busy. [Client.InvokeProxy] does not
// support keys and is never sent again. No call is sent again after tenant
// code has responded to it, with any status.
//
// If an attempt to delete may or may not have succeeded, and the next attempt
// gets "not found", the delete has succeeded and returns no error.
//
// # Errors
//
// Check errors with errors.Is and errors.As against the errors of package
// vault, as in process: [vault.ErrNotFound], [*vault.InvalidError] with its
// fields, [*script.Error] and so on. An error that came as a response is also
// an [*Error], with the status and the trace id. An error never contains the
// API key. It repeats a body only where the vault names fields and rules.
//
// # Differences
//
// An empty list or map of an optional field is nil in results, because the
// JSON omits it. A [*vault.InvalidError] names at most 100 fields.
//
// A [*script.Error] has the lines of its frames, but no functions, columns or
// Name. If the code built the whole response, it is in Response, and Title
// and Messages are empty.
//
// PatchApplication, PatchReactor and PatchProxy return the result only to a
// key that may read it. With another key the change also takes effect, but
// the error is [ErrUnseen].
//
// [Client.InvokeProxy] documents how it treats headers and limits.
//
// The package imports package vault for its types. It therefore has the same
// dependencies as an embedded vault, except databases and the JavaScript
// engine.
package vaultclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/core"
)

// Client calls a vault over HTTP with one API key, or with the keys of [Options.Key].
// It is safe for concurrent use and does not need to be closed. Printing it shows the
// URL of the vault, never the key.
type Client struct {
	base *url.URL
	key  func(context.Context) (string, error) // fmt prints only its address
	opts Options
	name headerNames
}

var _ vault.API = (*Client)(nil)

// headerNames are the names of the API's headers.
type headerNames struct {
	apiKey, idempotencyKey, traceID                     string
	proxyKey, proxyURL, proxyKeepAlive, proxyConnection string
	destinationStatus, custom, jobID                    string
}

func namesOf(prefix string) headerNames {
	name := func(s string) string { return http.CanonicalHeaderKey(prefix + s) }
	return headerNames{
		apiKey: name("API-KEY"), idempotencyKey: name("IDEMPOTENCY-KEY"), traceID: name("TRACE-ID"),
		proxyKey: name("PROXY-KEY"), proxyURL: name("PROXY-URL"),
		proxyKeepAlive: name("PROXY-KEEP-ALIVE"), proxyConnection: name("PROXY-CONNECTION"),
		destinationStatus: name("PROXY-DESTINATION-STATUS"), custom: name("CUSTOM-RESPONSE"), jobID: name("JOB-ID"),
	}
}

// New returns a client for the vault at a URL. The URL may have a path, if
// the handler is mounted below one. The key belongs to an application or a
// session, or is the id of an application, a colon and a JWT. With [Options.Key],
// it must be empty. opts may be nil.
//
// New rejects plain http unless the host is this machine, because the key
// would be sent unencrypted; see [Options.AllowPlainHTTP]. New sends no
// request, so a wrong key fails at the first call.
func New(baseURL, key string, opts *Options) (*Client, error) {
	if opts != nil && opts.Key != nil {
		if key != "" {
			return nil, errors.New("vaultclient: an API key and Options.Key are two ways to a key; give one of them")
		}
		return newClient(baseURL, opts.Key, opts)
	}
	if err := checkKey(key); err != nil {
		return nil, err
	}
	return newClient(baseURL, always(key), opts)
}

func always(key string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return key, nil }
}

// newClient returns a client. The key may be empty.
func newClient(baseURL string, key func(context.Context) (string, error), opts *Options) (*Client, error) {
	o, err := opts.complete()
	if err != nil {
		return nil, err
	}
	base, err := parseBase(baseURL, o.AllowPlainHTTP)
	if err != nil {
		return nil, err
	}
	switch {
	case o.Transport != nil:
	case base.Scheme == "http" && !o.AllowPlainHTTP:
		o.Transport = directTransport()
	default:
		o.Transport = sharedTransport()
	}
	return &Client{base: base, key: key, opts: o, name: namesOf(o.Prefix)}, nil
}

// Anonymous calls a vault over HTTP without an API key. It can only invoke
// proxies that require no authentication, like [vault.Vault] in process.
type Anonymous struct{ client *Client }

// NewAnonymous is [New] without a key. It is a separate function, so that a
// key that is missing by mistake does not go unnoticed. [Options.Key] must be nil.
func NewAnonymous(baseURL string, opts *Options) (*Anonymous, error) {
	if opts != nil && opts.Key != nil {
		return nil, errors.New("vaultclient: NewAnonymous takes no Options.Key")
	}
	c, err := newClient(baseURL, always(""), opts)
	if err != nil {
		return nil, err
	}
	return &Anonymous{c}, nil
}

// InvokeProxy sends a request through a proxy that requires no
// authentication. Other proxies fail with [vault.ErrUnauthenticated]. See
// [vault.Vault.InvokeProxy] and, for the transport, [Client.InvokeProxy].
func (a *Anonymous) InvokeProxy(ctx context.Context, p vault.ProxyCall) (*vault.ProxyAnswer, error) {
	return a.client.InvokeProxy(ctx, p)
}

// String returns the URL of the vault.
func (c *Client) String() string { return "vaultclient " + c.base.String() }

// GoString returns String, so that no verb of fmt shows more.
func (c *Client) GoString() string { return c.String() }

// idempotencyKey is the context key that WithIdempotencyKey uses.
type idempotencyKey struct{}

// WithIdempotencyKey returns a context whose calls have this idempotency key
// instead of a random one. The key has 1 to 255 printable ASCII characters.
// For 24 hours, a call with the same key gets the response of the first call
// that succeeded. This also holds for other processes with the same API key.
//
// Use a key for one call only. To the vault, a second CreateToken with the
// same context is the same request, even with other parameters. Calls to
// different endpoints do not affect each other.
func WithIdempotencyKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, idempotencyKey{}, key)
}

// Content types of bodies.
const (
	contentJSON  = "application/json"
	contentPatch = "application/merge-patch+json"
)

// request is a call before it is sent.
type request struct {
	verb   *core.Verb // method of Client
	method string
	path   string // escaped, below the base URL
	query  string
	typ    string // content type of the body
	body   []byte
	// once means that the endpoint supports an idempotency key.
	once bool
	// keyless means that the call has a key only if the caller provided it.
	keyless bool
	// done is the status of success if the response has no body. Without a
	// body, only the status distinguishes the vault's response from a page of
	// another server. It is 0 if the response has a body.
	done int
	// shows requests the changed entity in the response, which has no body by
	// default.
	shows bool
}

// get reads the entity at a path.
func get[T any](ctx context.Context, c *Client, verb *core.Verb, path, query string) (*T, error) {
	return call[T](ctx, c, &request{verb: verb, method: http.MethodGet, path: path, query: query})
}

// write sends parameters that change something.
func write[T any](ctx context.Context, c *Client, verb *core.Verb, method, path string, params any) (*T, error) {
	return with[T](ctx, c, &request{verb: verb, method: method, path: path, once: true}, params)
}

// post sends parameters of a request that may be repeated without a key.
func post[T any](ctx context.Context, c *Client, verb *core.Verb, path, query string, params any) (*T, error) {
	return with[T](ctx, c, &request{verb: verb, method: http.MethodPost, path: path, query: query}, params)
}

// with sends a request with parameters.
func with[T any](ctx context.Context, c *Client, r *request, params any) (_ *T, err error) {
	r.typ = contentJSON
	if r.body, err = encode(params); err != nil {
		return nil, err
	}
	return call[T](ctx, c, r)
}

// patchEntity sends a merge patch and returns the patched entity. If the
// response does not have the entity, a second request reads it. The change
// has taken effect even if this read fails.
func patchEntity[T any](ctx context.Context, c *Client, verb *core.Verb, path string, patch any) (*T, error) {
	body, err := document(patch)
	if err != nil {
		return nil, err
	}
	r := &request{verb: verb, method: http.MethodPatch, path: path, typ: contentPatch, body: body, once: true, shows: true}
	a, err := c.send(ctx, r)
	if err != nil {
		return nil, err
	}
	if a.status != http.StatusNoContent {
		return decode[T](r, a)
	}
	if a.trace == "" {
		return nil, notAVault(r, a, "it has no trace id")
	}
	patched, err := get[T](ctx, c, verb, path, "")
	if err != nil {
		return nil, &textError{fmt.Sprintf("vaultclient: %s: the change was made, but its result could not be read: %v", verb.Name, err), []error{ErrUnseen, err}}
	}
	return patched, nil
}

// remove deletes the entity at a path.
func (c *Client) remove(ctx context.Context, verb *core.Verb, path string) error {
	_, err := c.send(ctx, &request{verb: verb, method: http.MethodDelete, path: path, done: http.StatusNoContent})
	return err
}

// call sends a request and reads the response.
func call[T any](ctx context.Context, c *Client, r *request) (*T, error) {
	a, err := c.send(ctx, r)
	if err != nil {
		return nil, err
	}
	return decode[T](r, a)
}

// decode decodes a response that must be JSON.
func decode[T any](r *request, a *answer) (*T, error) {
	if !a.isJSON() {
		return nil, notAVault(r, a, "it is not JSON")
	}
	var t T
	if err := json.Unmarshal(a.body, &t); err != nil {
		return nil, notAVault(r, a, "its JSON does not have the expected fields") // err may quote a value
	}
	return &t, nil
}

// encode encodes parameters as JSON. It rejects text that JSON would change.
func encode(params any) ([]byte, error) {
	if !textIn(reflect.ValueOf(params)) {
		return nil, invalid("", "must be valid Unicode text")
	}
	if m, ok := params.(json.Marshaler); ok {
		return m.MarshalJSON()
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(params); err != nil {
		return nil, invalid("", "cannot be written as JSON") // err may quote a value
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// document encodes any JSON that a caller provides. A vault.JSON stays
// unchanged.
func document(x any) ([]byte, error) {
	if raw, ok := x.(vault.JSON); ok {
		return raw, nil
	}
	return vault.EncodeJSON(x)
}

// invalid returns an error about one field.
func invalid(path, message string) error {
	return &vault.InvalidError{Fields: map[string][]string{path: {message}}}
}
