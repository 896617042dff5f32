package vault

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/runs"
	"github.com/seed-72ea4aab/vault/script"
)

// ScriptLine is a line that tenant code wrote to its console, and the code's owner.
type ScriptLine struct {
	TenantID   uuid.UUID
	EntityType string // reactor or proxy
	EntityID   string
	script.Line
}

// operation returns an operation of the client instance that running code has.
func (v *Vault) operation(name string) runs.Operation {
	do := hostOperations[name]
	if do == nil {
		return nil
	}
	return func(ctx context.Context, as core.Caller, args json.RawMessage) (any, error) {
		out, err := do(ctx, v.client(as), JSON(args))
		if err != nil {
			return nil, internal(err)
		}
		switch out := out.(type) { // tokens have no transform, as in the REST API
		case *Token:
			out.Transform = ""
		case *Page[Token]:
			for i := range out.Data {
				out.Data[i].Transform = ""
			}
		}
		return plainJSON(out), nil
	}
}

// scriptLog returns the function that receives the console output of running code.
func (cfg *Config) scriptLog() func(uuid.UUID, core.Entity, script.Line) {
	if cfg.ScriptLog == nil {
		return nil
	}
	return func(tenant uuid.UUID, entity core.Entity, line script.Line) {
		cfg.ScriptLog(ScriptLine{TenantID: tenant, EntityType: entity.Type, EntityID: entity.ID, Line: line})
	}
}

// hostOperation is an operation of the client instance that running code has.
type hostOperation = func(context.Context, *Client, JSON) (any, error)

// hostOperations are the operations of the client instance, by name, with the
// arguments and results of the REST API.
var hostOperations = map[string]hostOperation{
	"tokens.create": taking((*TokenParams).UnmarshalJSON, (*Client).CreateToken),
	"tokens.retrieve": withID("", func(ctx context.Context, c *Client, id string, _ JSON) (any, error) {
		return c.GetToken(ctx, id)
	}),
	"tokens.update": withID("patch", func(ctx context.Context, c *Client, id string, patch JSON) (any, error) {
		return c.PatchToken(ctx, id, patch)
	}),
	"tokens.delete": withID("", func(ctx context.Context, c *Client, id string, _ JSON) (any, error) {
		return nil, c.DeleteToken(ctx, id)
	}),
	"tokens.list":     taking(readTokenList, (*Client).ListTokens),
	"tokens.search":   taking((*SearchTokensParams).UnmarshalJSON, (*Client).SearchTokens),
	"tokenize":        func(ctx context.Context, c *Client, args JSON) (any, error) { return c.Tokenize(ctx, args) },
	"detokenize":      func(ctx context.Context, c *Client, args JSON) (any, error) { return c.Detokenize(ctx, args) },
	"reactors.react":  withID("body", reactOperation),
	"proxy.get":       proxyOperation(http.MethodGet),
	"proxy.post":      proxyOperation(http.MethodPost),
	"proxy.put":       proxyOperation(http.MethodPut),
	"proxy.patch":     proxyOperation(http.MethodPatch),
	"proxy.delete":    proxyOperation(http.MethodDelete),
	"logs.list":       taking(readLogList, (*Client).ListLogs),
	"sessions.create": func(ctx context.Context, c *Client, _ JSON) (any, error) { return c.CreateSession(ctx) },
	"sessions.authorize": taking((*SessionGrant).UnmarshalJSON, func(c *Client, ctx context.Context, g SessionGrant) (any, error) {
		return nil, c.AuthorizeSession(ctx, g)
	}),
}

// taking returns an operation that reads parameters and passes them to a method.
func taking[P, T any](read func(*P, []byte) error, do func(*Client, context.Context, P) (T, error)) hostOperation {
	return func(ctx context.Context, c *Client, args JSON) (any, error) {
		var p P
		if err := read(&p, args); err != nil {
			return nil, err
		}
		return do(c, ctx, p)
	}
}

// withID returns an operation on the entity with an id, which may have one more
// field.
func withID(more string, do func(ctx context.Context, c *Client, id string, rest JSON) (any, error)) hostOperation {
	return func(ctx context.Context, c *Client, args JSON) (any, error) {
		id, rest, err := idAndMore(args, more)
		if err != nil {
			return nil, err
		}
		return do(ctx, c, id, rest)
	}
}

func reactOperation(ctx context.Context, c *Client, text string, body JSON) (any, error) {
	var p ReactParams
	if err := p.UnmarshalJSON(body); err != nil {
		return nil, err
	}
	id, err := uuid.Parse(text)
	if err != nil {
		return nil, fault.New(ErrNotFound, "reactor not found")
	}
	if p.CallbackURL == "" {
		return c.React(ctx, id, p)
	}
	_, err = c.ReactAsync(ctx, id, p)
	return nil, err
}

// idAndMore reads an object that has an id and one more field.
func idAndMore(args JSON, more string) (id string, rest JSON, err error) {
	err = readObject(args, func(r *form.Reader) {
		if id = r.Text("id"); id == "" {
			r.Problem("id", "is required")
		}
		if more == "" {
			return
		}
		if rest = r.JSON(more); rest == nil {
			rest = JSON("{}")
		}
	})
	return id, rest, err
}

// readTokenList reads the filters of tokens.list.
func readTokenList(p *ListTokensParams, args []byte) error {
	return readObject(args, func(r *form.Reader) {
		p.IDs, p.Types = r.TextOrTexts("id"), as[TokenType](r.TextOrTexts("type"))
		p.Metadata = r.TextMap("metadata")
		p.PageParams = readPage(r)
	})
}

// readLogList reads the filters of logs.list.
func readLogList(p *ListLogsParams, args []byte) error {
	return readObject(args, func(r *form.Reader) {
		p.EntityType, p.EntityID = r.Text("entity_type"), r.Text("entity_id")
		p.Operation, p.ActorType = LogOperation(r.Text("operation")), ActorType(r.Text("actor_type"))
		p.ActorID, _ = r.ID("actor_id")
		p.StartDate, p.EndDate = r.Moment("start_date"), r.Moment("end_date")
		p.PageParams = readPage(r)
	})
}

// proxyOperation lets running code send a request through a proxy.
func proxyOperation(method string) hostOperation {
	return func(ctx context.Context, c *Client, args JSON) (any, error) {
		return c.v.relay.ScriptCall(ctx, core.CallerOf(c), method, json.RawMessage(args))
	}
}
