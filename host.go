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

// hostOperations are the operations of the client instance, by name, with the
// arguments and results of the REST API.
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
		return c.PatchToken(ctx, id, patch)
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
			return nil, fault.New(ErrNotFound, "reactor not found")
		}
		if p.CallbackURL == "" {
			return c.React(ctx, id, p)
		}
		_, err = c.ReactAsync(ctx, id, p)
		return nil, err
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
		var g SessionGrant
		if err := g.UnmarshalJSON(args); err != nil {
			return nil, err
		}
		return nil, c.AuthorizeSession(ctx, g)
	},
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
func readTokenList(args JSON) (p ListTokensParams, err error) {
	err = readObject(args, func(r *form.Reader) {
		p.IDs = r.TextOrTexts("id")
		for _, t := range r.TextOrTexts("type") {
			p.Types = append(p.Types, TokenType(t))
		}
		p.Metadata = r.TextMap("metadata")
		p.PageParams = readPage(r)
	})
	return p, err
}

// readLogList reads the filters of logs.list.
func readLogList(args JSON) (p ListLogsParams, err error) {
	err = readObject(args, func(r *form.Reader) {
		p.EntityType, p.EntityID = r.Text("entity_type"), r.Text("entity_id")
		p.Operation, p.ActorType = LogOperation(r.Text("operation")), ActorType(r.Text("actor_type"))
		p.ActorID, _ = r.ID("actor_id")
		p.StartDate, p.EndDate = r.Moment("start_date"), r.Moment("end_date")
		p.PageParams = readPage(r)
	})
	return p, err
}

// proxyOperation lets running code send a request through a proxy.
func proxyOperation(method string) func(context.Context, *Client, JSON) (any, error) {
	return func(ctx context.Context, c *Client, args JSON) (any, error) {
		return c.v.relay.ScriptCall(ctx, c.caller(), method, json.RawMessage(args))
	}
}
