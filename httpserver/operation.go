package httpserver

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/records"
	"github.com/seed-72ea4aab/vault/internal/relay"
	"github.com/seed-72ea4aab/vault/script"
)

// operation is the work of a route, and the parts of a request that it needs.
type operation struct {
	takes bodyKind
	lists bool // reads filters and a page from the query
	reads bool // changes nothing
	open  bool // needs no key
	// repeats means that repeating it is harmless: it does the same again, or
	// continues.
	repeats bool
	// silent means that the response has a body, and the status 200, only if the
	// caller prefers one.
	silent bool
	// created means that the response has the Location of a new entity.
	created bool
	// lease is set if the operation has effects outside the vault. Its
	// idempotency key is then claimed before it runs, for this long.
	lease time.Duration
	// evidence means that the route works only if the vault keeps evidence.
	evidence bool
	// waits means that it may wait for a future event.
	waits bool
	// run returns the body of the response. A vault.JSON is sent unchanged.
	run func(context.Context, *input) (any, error)
	// stream, if set, replaces run. It reads the body and sends the response
	// itself.
	stream func(*exchange) (answer, error)
}

// bodyKind is the kind of body that a route takes.
type bodyKind uint8

const (
	noBody       bodyKind = iota // a body is ignored
	jsonBody                     // JSON under any content type
	patchBody                    // a merge patch under its own content type
	noFieldsBody                 // empty, or an object without fields
	maybeBody                    // empty, or JSON under any content type
	linesBody                    // JSON lines, which are handled while they arrive
)

// input is a request as an operation sees it.
type input struct {
	client *vault.Client
	room   *admission.Room
	id     string // from the path
	keyID  string // from the path
	query  string // as it was sent
	body   []byte
	shown  bool // the caller prefers to see the result of a silent operation
}

// decoder is a parameter type that decodes its own JSON.
type decoder[P any] interface {
	*P
	json.Unmarshaler
}

// decode reads the body as parameters.
func decode[P any, D decoder[P]](ctx context.Context, in *input) (p P, err error) {
	if err = in.room.Work(ctx); err == nil {
		err = D(&p).UnmarshalJSON(in.body)
	}
	return p, err
}

// query runs an operation that takes parameters in the body and returns a
// result.
func query[P, T any, D decoder[P]](do func(*vault.Client, context.Context, P) (T, error)) operation {
	return operation{takes: jsonBody, run: func(ctx context.Context, in *input) (any, error) {
		p, err := decode[P, D](ctx, in)
		if err != nil {
			return nil, err
		}
		return do(in.client, ctx, p)
	}}
}

// created marks an operation that creates an entity.
func created(op operation) operation {
	op.created = true
	return op
}

// idOf returns the id of a created entity, or "" if it has no address.
func idOf(entity any) string {
	switch e := entity.(type) {
	case *vault.Token:
		return e.ID
	case *vault.Application:
		return e.ID.String()
	case *vault.ApplicationKey:
		return e.ID.String()
	case *vault.Reactor:
		return e.ID.String()
	case *vault.Proxy:
		return e.ID.String()
	}
	return ""
}

// perform runs an operation that takes parameters in the body and returns
// nothing.
func perform[P any, D decoder[P]](do func(*vault.Client, context.Context, P) error) operation {
	return query[P, any, D](func(c *vault.Client, ctx context.Context, p P) (any, error) { return nil, do(c, ctx, p) })
}

// repeatable marks an operation that needs no idempotency key.
func repeatable(op operation) operation {
	op.repeats = true
	return op
}

// document runs an operation on a body that may be any JSON.
func document(do func(*vault.Client, context.Context, any) (vault.JSON, error)) operation {
	return operation{takes: jsonBody, run: func(ctx context.Context, in *input) (any, error) {
		return do(in.client, ctx, vault.JSON(in.body))
	}}
}

// list returns the entities that match the query.
func list[F, T any](filter func(*params) (F, error), do func(*vault.Client, context.Context, F) (T, error)) operation {
	return operation{lists: true, reads: true, run: func(ctx context.Context, in *input) (any, error) {
		asked, err := parseQuery(in.query)
		if err != nil {
			return nil, err
		}
		f, err := filter(asked)
		if err := cmp.Or(asked.refuseOthers(), err); err != nil {
			return nil, err
		}
		return do(in.client, ctx, f)
	}}
}

// listBelow is a list without pages or filters of what belongs to an entity.
func listBelow[ID, T any](id func(string) ID, do func(*vault.Client, context.Context, ID) (T, error)) operation {
	return operation{lists: true, reads: true, run: func(ctx context.Context, in *input) (any, error) {
		asked, err := parseQuery(in.query)
		if err == nil {
			err = asked.refuseOthers()
		}
		if err != nil {
			return nil, err
		}
		return do(in.client, ctx, id(in.id))
	}}
}

// plainList is list without pages or filters.
func plainList[T any](do func(*vault.Client, context.Context) (T, error)) operation {
	return list(func(*params) (none struct{}, err error) { return none, nil }, withoutID(do))
}

// noID is the id of the one entity of a kind that belongs to the caller.
func noID(string) (none struct{}) { return none }

// withoutID adapts a method about such an entity.
func withoutID[T any](do func(*vault.Client, context.Context) (T, error)) func(*vault.Client, context.Context, struct{}) (T, error) {
	return func(c *vault.Client, ctx context.Context, _ struct{}) (T, error) { return do(c, ctx) }
}

// cursorPage is the body of a list by cursor. The cursor also has the name
// under which other clients of this family of APIs look for it.
type cursorPage struct {
	Pagination struct {
		PageSize int    `json:"page_size"`
		After    string `json:"after,omitempty"`
		Next     string `json:"next,omitempty"`
	} `json:"pagination"`
	Data []vault.Token `json:"data"`
}

func cursorPageOf(page *vault.CursorPage[vault.Token], err error) (*cursorPage, error) {
	if err != nil {
		return nil, err
	}
	out := &cursorPage{Data: page.Data}
	out.Pagination.PageSize, out.Pagination.After, out.Pagination.Next = page.Pagination.PageSize, page.Pagination.After, page.Pagination.After
	return out, nil
}

// listTokens adapts ListTokensAfter to list.
func listTokens(c *vault.Client, ctx context.Context, f cursorFilter) (*cursorPage, error) { //nolint:revive // in the order of a method expression, like the others
	return cursorPageOf(c.ListTokensAfter(ctx, f.ListTokensParams, f.after))
}

// cursorSearch holds the parameters of a search by cursor.
type cursorSearch struct {
	Query string
	Size  int
	Start string // the After of an earlier page, or ""
}

// UnmarshalJSON reads the JSON form strictly.
func (p *cursorSearch) UnmarshalJSON(data []byte) error {
	bad := form.ReadText(data, func(r *form.Reader) {
		p.Query, p.Start = r.Text("query"), r.Text("start")
		size, given := r.Int("size")
		if given && size == 0 { // an explicit zero is wrong; an absent size is not
			size = -1
		}
		p.Size = size
	})
	if bad.Any() {
		return (*vault.InvalidError)(bad)
	}
	return nil
}

// searchTokens adapts ListTokensAfter to query.
func searchTokens(c *vault.Client, ctx context.Context, p cursorSearch) (*cursorPage, error) { //nolint:revive // in the order of a method expression, like the others
	asked := vault.SearchTokensParams{Query: p.Query, PageParams: vault.PageParams{Size: p.Size}}
	return cursorPageOf(c.ListTokensAfter(ctx, asked, p.Start))
}

// show runs an operation whose result depends only on the caller's key.
func show[T any](do func(*vault.Client, context.Context) (T, error)) operation {
	return read(noID, withoutID(do))
}

// read returns one entity.
func read[ID, T any](id func(string) ID, do func(*vault.Client, context.Context, ID) (T, error)) operation {
	return operation{reads: true, run: func(ctx context.Context, in *input) (any, error) {
		return do(in.client, ctx, id(in.id))
	}}
}

// replace replaces an entity by the parameters in the body.
func replace[ID, P, T any, D decoder[P]](id func(string) ID, do func(*vault.Client, context.Context, ID, P) (*T, error)) operation {
	return operation{takes: jsonBody, run: func(ctx context.Context, in *input) (any, error) {
		var p P
		if err := in.room.Work(ctx); err != nil {
			return nil, err
		}
		if err := decodeReplacement(in.body, D(&p)); err != nil {
			return nil, err
		}
		return do(in.client, ctx, id(in.id), p)
	}}
}

// decodeReplacement reads parameters from the JSON of an entity. It ignores
// read-only fields, so that the result of a Get can be changed and put back. It
// reads the application_id of a proxy as application.id.
func decodeReplacement(data []byte, params json.Unmarshaler) error {
	f := records.Form{Fields: func(err error) map[string][]string {
		if bad, ok := errors.AsType[*vault.InvalidError](err); ok {
			return bad.Fields
		}
		return nil
	}, Optional: []string{"application", "application_id"}}
	if _, isProxy := params.(*vault.ProxyParams); isProxy {
		f.Shown = relay.Shown
	}
	err := f.Replace(data, params)
	if fields := fault.Fields(err); fields != nil {
		return &vault.InvalidError{Fields: fields}
	}
	return err
}

// replaceOwn is replace for the one entity of a kind that belongs to the caller.
func replaceOwn[P, T any, D decoder[P]](do func(*vault.Client, context.Context, P) (*T, error)) operation {
	return replace[struct{}, P, T, D](noID, func(c *vault.Client, ctx context.Context, _ struct{}, p P) (*T, error) { return do(c, ctx, p) })
}

// update applies the merge patch in the body to an entity.
func update[ID, T any](id func(string) ID, do func(*vault.Client, context.Context, ID, any) (*T, error)) operation {
	return operation{takes: patchBody, run: func(ctx context.Context, in *input) (any, error) {
		return do(in.client, ctx, id(in.id), vault.JSON(in.body))
	}}
}

// act performs an action on an entity that takes no parameters.
func act[ID, T any](id func(string) ID, do func(*vault.Client, context.Context, ID) (*T, error)) operation {
	return operation{takes: noFieldsBody, run: func(ctx context.Context, in *input) (any, error) {
		if err := in.noFields(); err != nil {
			return nil, err
		}
		return do(in.client, ctx, id(in.id))
	}}
}

// createKey creates a key of an application. The body may be empty.
func createKey() operation {
	return operation{takes: maybeBody, run: func(ctx context.Context, in *input) (any, error) {
		var p vault.ApplicationKeyParams
		if len(bytes.TrimSpace(in.body)) > 0 {
			var err error
			if p, err = decode[vault.ApplicationKeyParams](ctx, in); err != nil {
				return nil, err
			}
		}
		return in.client.CreateApplicationKey(ctx, entityID(in.id), p)
	}}
}

// aboutKey runs an operation on a key of an application.
func aboutKey(do func(c *vault.Client, ctx context.Context, id, key uuid.UUID) (any, error), reads bool) operation {
	return operation{reads: reads, run: func(ctx context.Context, in *input) (any, error) {
		return do(in.client, ctx, entityID(in.id), entityID(in.keyID))
	}}
}

// remove deletes an entity.
func remove[ID any](id func(string) ID, do func(*vault.Client, context.Context, ID) error) operation {
	return operation{run: func(ctx context.Context, in *input) (any, error) {
		return nil, do(in.client, ctx, id(in.id))
	}}
}

// keyless returns an operation that needs no key.
func keyless(do func(context.Context) (any, error)) operation {
	return operation{open: true, reads: true, run: func(ctx context.Context, _ *input) (any, error) {
		return do(ctx)
	}}
}

// silent omits the response body unless the caller prefers it.
func silent(op operation) operation {
	op.silent = true
	return op
}

// followLogs adapts NextLogs to list.
func followLogs() operation {
	op := list(readLogFollowing, func(c *vault.Client, ctx context.Context, f logFollowing) (*vault.LogBatch, error) {
		return c.NextLogs(ctx, f.cursor, f.wait)
	})
	op.waits = true
	return op
}

// readOnly marks a POST that changes nothing.
func readOnly(op operation) operation {
	op.reads = true
	return op
}

// tokenID returns the id of a token from a path. Any text is valid.
func tokenID(text string) string { return text }

// entityID returns the id of another entity from a path. Text that is not a
// UUID gives the zero UUID, which no entity has.
func entityID(text string) uuid.UUID {
	id, _ := parseUUID(text)
	return id
}

// parseUUID parses a UUID in the form that the API writes. Upper case is
// allowed.
func parseUUID(text string) (uuid.UUID, bool) {
	const length = 36
	if len(text) != length {
		return uuid.UUID{}, false
	}
	id, err := uuid.Parse(text)
	return id, err == nil
}

// noFields rejects a body that has a field.
func (in *input) noFields() error {
	if len(bytes.TrimSpace(in.body)) == 0 {
		return nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(in.body, &fields); err != nil {
		return invalid("", "must be empty, or a JSON object without fields")
	}
	bad := &vault.InvalidError{Fields: map[string][]string{}}
	for name := range fields {
		bad.Fields[name] = []string{"is not a field of this object"}
	}
	if len(fields) > 0 {
		return bad
	}
	return nil
}

// reactLease is how long the idempotency key of a run is kept if its node
// dies. It is a minute longer than a run can take.
const reactLease = 70 * time.Second

// react runs a reactor. Its code has effects outside the vault, so the
// idempotency key is claimed before it runs. A run with a callback URL is
// accepted at once; the callback gets the result.
func react() operation {
	return operation{takes: jsonBody, lease: reactLease, run: func(ctx context.Context, in *input) (any, error) {
		if len(bytes.TrimSpace(in.body)) == 0 {
			in.body = []byte("{}")
		}
		p, err := decode[vault.ReactParams](ctx, in)
		if err != nil {
			return nil, err
		}
		if p.CallbackURL == "" {
			return in.client.React(ctx, entityID(in.id), p)
		}
		return in.client.ReactAsync(ctx, entityID(in.id), p)
	}}
}

// customAnswer returns the response that a tenant's code built by throwing
// it. A string body is sent as text, any other body as JSON.
func customAnswer(r *script.Response) answer {
	a := answer{status: r.Status, body: r.Body, header: http.Header{}}
	var text string
	if json.Unmarshal(r.Body, &text) == nil {
		a.body = []byte(text)
		a.header.Set("Content-Type", "text/plain; charset=utf-8")
	}
	for name, values := range r.Header {
		if name = http.CanonicalHeaderKey(name); !computed[name] && !strings.HasPrefix(name, http.TrailerPrefix) {
			a.header[name] = values
		}
	}
	return a
}

// computed are headers that the server computes, or that concern its
// connection to the client.
var computed = map[string]bool{
	"Content-Length": true, "Transfer-Encoding": true, "Connection": true, "Trailer": true, "Upgrade": true,
	"Date": true, "Keep-Alive": true, "Proxy-Connection": true, "Te": true,
}
