package vault

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/bridge"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/limits"
	"github.com/seed-72ea4aab/vault/internal/relay"
	"github.com/seed-72ea4aab/vault/internal/runs"
	"github.com/seed-72ea4aab/vault/internal/share"
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
	v       *Vault
	tenant  uuid.UUID
	entity  core.Entity
	client  *Client        // nil without an application
	lineage limits.Lineage // of what the code asks for
	broken  sync.Once
}

// newTurns returns the turns that calls of running code take at the database: so
// many in all, and half of them for one tenant. The calls are short, so a few at a
// time are enough, and each may hold a page.
func newTurns() *share.Places[uuid.UUID] {
	all := max(8, 4*runtime.GOMAXPROCS(0))
	return share.New[uuid.UUID](share.Limits{Total: all, Each: all / 2})
}

// front is the vault as package runs sees it.
type front struct{ *Vault }

// Reactor implements runs.Front.
func (f front) Reactor(ctx context.Context, op *core.Op, id uuid.UUID) (*runs.Reactor, error) {
	r, err := reactors.Read(ctx, op, id)
	if err != nil {
		return nil, err
	}
	out := &runs.Reactor{ID: r.ID, Name: r.Name, Source: r.Code, Configuration: r.Configuration}
	if r.Application != nil {
		out.Application = r.Application.ID
	}
	return out, nil
}

// Tokenize implements runs.Front.
func (f front) Tokenize(ctx context.Context, c core.Caller, document json.RawMessage) (json.RawMessage, error) {
	out, err := (&Client{f.Vault, c}).Tokenize(ctx, JSON(document))
	return json.RawMessage(out), internal(err)
}

// Host implements runs.Front.
func (f front) Host(op *core.Op, entity core.Entity, app *core.Identity, from limits.Lineage) script.Host {
	h := &scriptHost{v: f.Vault, tenant: op.Tenant(), entity: entity, lineage: from}
	if app != nil {
		h.client = f.Vault.Tenant(op.Tenant()).as(*app)
	}
	return h
}

// Log hands console output to the embedding program, if it asked for it. A
// panic there does not end the run. The logger hears of it once in a run, and gets only
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
	h.v.cfg.ScriptLog(ScriptLine{TenantID: h.tenant, EntityType: h.entity.Type, EntityID: h.entity.ID, Line: line})
}

// Call carries out an operation of the client instance. Its errors are what the
// code may know of them.
func (h *scriptHost) Call(ctx context.Context, op string, args json.RawMessage) (json.RawMessage, error) {
	out, err := h.call(ctx, op, args)
	if err != nil {
		return nil, runs.HostError(internal(err))
	}
	return out, nil
}

func (h *scriptHost) call(ctx context.Context, op string, args json.RawMessage) (json.RawMessage, error) {
	if err := h.lineage.Bytes.Hold(len(args)); err != nil {
		return nil, err
	}
	defer h.lineage.Bytes.Release(len(args))
	if op == "fetch" {
		return h.fetch(ctx, args)
	}
	do, known := hostOperations[op]
	if !known {
		return nil, &script.HostError{Status: http.StatusNotFound, Message: "there is no such operation"}
	}
	if h.client == nil {
		return nil, &script.HostError{Status: http.StatusForbidden, Message: "the code has no application to act as; set one on the reactor or proxy"}
	}
	if !runsMore(op) {
		if err := h.v.turns.Take(ctx, h.tenant); err != nil {
			return nil, err
		}
		defer h.v.turns.Give(h.tenant)
	}
	ctx, room := bridge.Admit(h.lineage.In(ctx), h.client.caller, nil)
	defer room.End()
	if err := room.Parse(ctx, args); err != nil {
		return nil, err
	}
	out, err := do(ctx, h.client, JSON(args))
	if err != nil {
		return nil, err
	}
	if raw, ok := out.(JSON); ok {
		return json.RawMessage(raw), nil
	}
	return json.Marshal(out)
}

// fetch carries out a request of running code. What it reads counts as held
// until the answer is written.
func (h *scriptHost) fetch(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
	read := 0
	defer func() { h.lineage.Bytes.Release(read) }()
	return h.v.egress.Fetch(ctx, h.tenant.String(), args, func(from io.Reader, limit int64) ([]byte, error) {
		body, err := h.lineage.Bytes.Read(from, limit)
		read = len(body)
		return body, err
	})
}

// runsMore reports whether an operation runs code, or waits for another
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

// proxyOperation lets running code send a request through a proxy, with the
// options proxyKey or proxyUrl, path, query, headers, body and detokenize. The
// body is sent as it is, unless detokenize is true: code puts the data of tokens
// in it, and data that reads like an expression must not become one. The result
// has status, headers and body; the body is a value when it is JSON, else a
// string.
func proxyOperation(method string) func(context.Context, *Client, JSON) (any, error) {
	return func(ctx context.Context, c *Client, args JSON) (any, error) {
		p := ProxyCall{Method: method, Header: http.Header{}}
		m := &relay.Message{Header: p.Header}
		if err := readObject(args, func(r *form.Reader) { readProxyOptions(r, &p, m) }); err != nil {
			return nil, err
		}
		p.Header, p.Body, p.ContentLength = m.Header, bytes.NewReader(m.Body), int64(len(m.Body))
		answer, err := c.InvokeProxy(ctx, p)
		if err != nil {
			return nil, err
		}
		return readAnswer(answer, int64(c.v.cfg.MaxBytes), limits.LineageOf(ctx).Bytes)
	}
}

func readProxyOptions(r *form.Reader, p *ProxyCall, m *relay.Message) {
	p.Key, p.URL, p.Path = r.Text("proxyKey"), r.Text("proxyUrl"), r.Text("path")
	if v := r.Value("query"); v.Kind() == jsonx.Object {
		pairs := url.Values{}
		for name, value := range r.TextMap("query") {
			pairs.Set(name, value)
		}
		p.Query = pairs.Encode()
	} else {
		p.Query = strings.TrimPrefix(r.Text("query"), "?")
	}
	if err := m.SetHeader(r.Value("headers"), ""); err != nil {
		r.Problem("headers", "must be an object of header names and strings")
	}
	m.SetBody(r.Value("body"), jsonx.Value{})
	p.asIs = !r.Bool("detokenize", false)
}

// readAnswer reads an answer for running code. What it holds of it counts, and a
// body that is JSON stays a text: as a tree it would take many times the memory.
func readAnswer(answer *ProxyAnswer, limit int64, counted *limits.Bytes) (JSON, error) {
	defer answer.Body.Close()
	raw, err := counted.Read(answer.Body, limit+1)
	defer func() { counted.Release(len(raw)) }()
	if err != nil {
		return nil, err
	}
	if int64(len(raw)) > limit {
		return nil, relay.TooLarge(limit)
	}
	m := &relay.Message{Header: answer.Header, Body: raw}
	if err := m.Decode(limit); err != nil {
		return nil, fault.New(ErrUnreachable, "the destination's response cannot be read: it %s", err)
	}
	if err := counted.Hold(len(m.Body)); err != nil {
		return nil, err
	}
	defer counted.Release(len(m.Body))
	out := fmt.Appendf(nil, `{"status":%d,"headers":%s,"body":`, answer.Status, m.HeaderValue().JSON())
	return append(m.AppendValue(out), '}'), nil
}
