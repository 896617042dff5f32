package vault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/script"
)

// ScriptLine is what tenant code wrote to its console, and whose code it was.
type ScriptLine struct {
	TenantID   uuid.UUID
	EntityType string // reactor or proxy
	EntityID   string
	script.Line
}

// scriptHost is what running code can reach: the vault, as its application, and
// the network, through the guarded client.
type scriptHost struct {
	v      *Vault
	tenant uuid.UUID
	entity entity
	client *Client // nil without an application
	line   lineage // of what the code asks for
	broken sync.Once
}

// Log hands console output to the embedding program, if it asked for it. A
// panic there does not end the run. The logger is told once in a run, and only
// the type: the value may hold the line.
func (h *scriptHost) Log(line script.Line) {
	if h.v.cfg.ScriptLog == nil {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			h.broken.Do(func() {
				h.v.cfg.Logger.Error("Config.ScriptLog panicked", "tenant", h.tenant, "panic", fmt.Sprintf("%T", p))
			})
		}
	}()
	h.v.cfg.ScriptLog(ScriptLine{TenantID: h.tenant, EntityType: h.entity.typ, EntityID: h.entity.id, Line: line})
}

// Call carries out an operation of the client instance. Its errors are what the
// code may know of them.
func (h *scriptHost) Call(ctx context.Context, op string, args json.RawMessage) (json.RawMessage, error) {
	out, err := h.call(ctx, op, args)
	if err != nil {
		return nil, hostError(err)
	}
	return out, nil
}

func (h *scriptHost) call(ctx context.Context, op string, args json.RawMessage) (json.RawMessage, error) {
	if err := h.line.bytes.hold(len(args)); err != nil {
		return nil, err
	}
	defer h.line.bytes.release(len(args))
	if op == "fetch" {
		return h.fetch(ctx, JSON(args))
	}
	do, known := hostOperations[op]
	if !known {
		return nil, &script.HostError{Status: http.StatusNotFound, Message: "there is no such operation"}
	}
	if h.client == nil {
		return nil, &script.HostError{Status: http.StatusForbidden, Message: "the code has no application to act as"}
	}
	if !runsMore(op) {
		give, err := h.v.turns.take(ctx, h.tenant)
		if err != nil {
			return nil, err
		}
		defer give()
	}
	out, err := do(withLineage(ctx, h.line), h.client, JSON(args))
	if err != nil {
		return nil, err
	}
	if raw, ok := out.(JSON); ok {
		return json.RawMessage(raw), nil
	}
	return json.Marshal(out)
}

// runsMore reports whether an operation runs code, or waits for somebody else's
// server. Such a call may take long, and what it waits for may need a turn.
func runsMore(op string) bool { return op == "reactors.react" || strings.HasPrefix(op, "proxy.") }

// hostOperations are the operations of the client instance, by name. Their
// arguments and results are those of the REST API.
var hostOperations = map[string]func(context.Context, *Client, JSON) (any, error){
	"tokens.create": func(ctx context.Context, c *Client, args JSON) (any, error) {
		var p TokenParams
		if err := p.UnmarshalJSON(args); err != nil {
			return nil, err
		}
		return c.CreateToken(ctx, p)
	},
	"tokens.retrieve": func(ctx context.Context, c *Client, args JSON) (any, error) {
		id, _, err := idAndMore(args, "")
		if err != nil {
			return nil, err
		}
		return c.GetToken(ctx, id)
	},
	"tokens.update": func(ctx context.Context, c *Client, args JSON) (any, error) {
		id, patch, err := idAndMore(args, "patch")
		if err != nil {
			return nil, err
		}
		return c.UpdateToken(ctx, id, patch)
	},
	"tokens.delete": func(ctx context.Context, c *Client, args JSON) (any, error) {
		id, _, err := idAndMore(args, "")
		if err != nil {
			return nil, err
		}
		return nil, c.DeleteToken(ctx, id)
	},
	"tokens.list": func(ctx context.Context, c *Client, args JSON) (any, error) {
		p, err := readTokenList(args)
		if err != nil {
			return nil, err
		}
		return c.ListTokens(ctx, p)
	},
	"tokens.search": func(ctx context.Context, c *Client, args JSON) (any, error) {
		var p SearchTokensParams
		if err := p.UnmarshalJSON(args); err != nil {
			return nil, err
		}
		return c.SearchTokens(ctx, p)
	},
	"tokenize":   func(ctx context.Context, c *Client, args JSON) (any, error) { return c.Tokenize(ctx, args) },
	"detokenize": func(ctx context.Context, c *Client, args JSON) (any, error) { return c.Detokenize(ctx, args) },
	"reactors.react": func(ctx context.Context, c *Client, args JSON) (any, error) {
		text, body, err := idAndMore(args, "body")
		if err != nil {
			return nil, err
		}
		var p ReactParams
		if err := p.UnmarshalJSON(body); err != nil {
			return nil, err
		}
		id, err := uuid.Parse(text)
		if err != nil {
			return nil, errorf(ErrNotFound, "There is no such reactor.")
		}
		return c.React(ctx, id, p)
	},
	"proxy.get":    proxyOperation(http.MethodGet),
	"proxy.post":   proxyOperation(http.MethodPost),
	"proxy.put":    proxyOperation(http.MethodPut),
	"proxy.patch":  proxyOperation(http.MethodPatch),
	"proxy.delete": proxyOperation(http.MethodDelete),
	"logs.list": func(ctx context.Context, c *Client, args JSON) (any, error) {
		p, err := readLogList(args)
		if err != nil {
			return nil, err
		}
		return c.ListLogs(ctx, p)
	},
	"sessions.create": func(ctx context.Context, c *Client, _ JSON) (any, error) { return c.CreateSession(ctx) },
	"sessions.authorize": func(ctx context.Context, c *Client, args JSON) (any, error) {
		var g Grant
		if err := g.UnmarshalJSON(args); err != nil {
			return nil, err
		}
		return nil, c.AuthorizeSession(ctx, g)
	},
}

// idAndMore reads an object that has an id and one more field.
func idAndMore(args JSON, more string) (id string, rest JSON, err error) {
	err = readObject(args, func(r *fieldReader) {
		if id = r.text("id"); id == "" {
			r.bad.add("id", "is required")
		}
		if more == "" {
			return
		}
		if rest = r.raw(more); rest == nil {
			rest = JSON("{}")
		}
	})
	return id, rest, err
}

// readTokenList reads the filters of tokens.list.
func readTokenList(args JSON) (p ListTokensParams, err error) {
	err = readObject(args, func(r *fieldReader) {
		p.IDs = r.textOrTexts("id")
		for _, t := range r.textOrTexts("type") {
			p.Types = append(p.Types, TokenType(t))
		}
		p.Metadata = r.textMap("metadata")
		p.PageParams = r.page()
	})
	return p, err
}

// readLogList reads the filters of logs.list.
func readLogList(args JSON) (p ListLogsParams, err error) {
	err = readObject(args, func(r *fieldReader) {
		p.EntityType, p.EntityID = r.text("entity_type"), r.text("entity_id")
		if t := r.moment("start_date"); t != nil {
			p.StartDate = *t
		}
		if t := r.moment("end_date"); t != nil {
			p.EndDate = *t
		}
		p.PageParams = r.page()
	})
	return p, err
}

// textOrTexts reads one string, or an array of them.
func (r *fieldReader) textOrTexts(name string) []string {
	if v := r.value(name); v.Kind() == jsonx.String {
		return []string{v.Text()}
	}
	return r.texts(name)
}

// page reads page and size. A zero that is given is out of bounds, unlike one
// that is not.
func (r *fieldReader) page() (p PageParams) {
	for name, dst := range map[string]*int{"page": &p.Page, "size": &p.Size} {
		n, ok := r.integer(name)
		if *dst = n; ok && n == 0 {
			*dst = -1
		}
	}
	return p
}

// hostError returns what running code may know of an error: those that are made
// for callers, and of any other that the operation failed.
func hostError(err error) *script.HostError {
	var host *script.HostError
	if errors.As(err, &host) {
		return host
	}
	var failed *script.Error
	if errors.As(err, &failed) {
		return &script.HostError{Status: failed.Status, Message: failed.Title, Errors: failed.Messages}
	}
	var bad *InvalidError
	if errors.As(err, &bad) {
		return &script.HostError{Status: http.StatusBadRequest, Message: "One or more validation errors occurred.", Errors: bad.Fields}
	}
	for _, known := range hostErrors {
		if errors.Is(err, known.err) {
			return &script.HostError{Status: known.status, Message: err.Error()}
		}
	}
	return &script.HostError{Status: http.StatusInternalServerError, Message: "the operation failed"}
}

// hostErrors are the sentinels whose text is made for callers.
var hostErrors = []struct {
	err    error
	status int
}{
	{ErrInvalid, http.StatusBadRequest},
	{ErrUnauthenticated, http.StatusUnauthorized},
	{ErrForbidden, http.StatusForbidden},
	{ErrNotFound, http.StatusNotFound},
	{ErrConflict, http.StatusConflict},
	{ErrTooLarge, http.StatusRequestEntityTooLarge},
	{ErrBusy, http.StatusTooManyRequests},
	{ErrCode, http.StatusUnprocessableEntity},
	{ErrTimeout, http.StatusRequestTimeout},
	{ErrUnreachable, http.StatusBadGateway},
}
