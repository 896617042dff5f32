package runs

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/admission/share"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/egress"
	"github.com/seed-72ea4aab/vault/script"
)

// Operation is an operation of the client instance of running code. It takes the
// arguments and returns the results of the REST API. Its errors are errors of
// package fault.
type Operation func(ctx context.Context, as core.Caller, args json.RawMessage) (any, error)

// host gives running code access to the vault, as its application, and to the
// network, through the guarded client.
type host struct {
	runs    *Runs
	tenant  uuid.UUID
	entity  core.Entity
	client  *core.Caller // nil without an application
	lineage core.Lineage // lineage for the operations of the code
	broken  sync.Once
}

// newTurns returns the slots for database calls of running code. One tenant
// may use half of them. The calls are short, so a few at a time are enough.
// Each may hold a page.
func newTurns() *share.Slots[uuid.UUID] {
	all := max(8, 4*runtime.GOMAXPROCS(0))
	return share.New[uuid.UUID](share.Limits{Total: all, Each: all / 2})
}

// newHost returns the host for the code of an entity. App is the application
// that its client instance acts as, or nil.
func (r *Runs) newHost(op *core.Op, entity core.Entity, app *core.Identity, from core.Lineage) script.Host {
	h := &host{runs: r, tenant: op.Tenant(), entity: entity, lineage: from}
	if app != nil {
		as := r.Vault.Owner(op.Tenant()).At(*app)
		h.client = &as
	}
	return h
}

// Log passes console output to the embedding program, if it has set a
// function for it. A panic in that function does not end the run. It is
// logged once per run, with only the type of the value, because the value may
// contain the line.
func (h *host) Log(line script.Line) {
	if h.runs.Log == nil {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			h.broken.Do(func() {
				h.runs.Vault.Logger.Error("Config.ScriptLog panicked", "tenant", h.tenant, "panic", fmt.Sprintf("%T", p))
			})
		}
	}()
	h.runs.Log(h.tenant, h.entity, line)
}

// Call performs an operation of the client instance. Its errors contain only
// what the code may see.
func (h *host) Call(ctx context.Context, op string, args json.RawMessage) (json.RawMessage, error) {
	out, err := h.call(ctx, op, args)
	if err != nil {
		return nil, HostError(err)
	}
	return out, nil
}

func (h *host) call(ctx context.Context, op string, args json.RawMessage) (json.RawMessage, error) {
	if err := h.lineage.Bytes.Add(len(args)); err != nil {
		return nil, err
	}
	defer h.lineage.Bytes.Release(len(args))
	if op == "fetch" {
		return h.fetch(ctx, args)
	}
	do := h.runs.Operation(op)
	if do == nil {
		return nil, &script.HostError{Status: http.StatusNotFound, Message: "there is no such operation"}
	}
	if h.client == nil {
		return nil, &script.HostError{Status: http.StatusForbidden, Message: "the code has no application to act as; set one on the reactor or proxy"}
	}
	// A call that runs code or waits for another server may take long, and the
	// nested work may need a turn.
	if op != "reactors.react" && !strings.HasPrefix(op, "proxy.") {
		if err := h.runs.turns.Take(ctx, h.tenant); err != nil {
			return nil, err
		}
		defer h.runs.turns.Give(h.tenant)
	}
	room := h.client.Room(nil)
	defer room.Leave()
	ctx = room.In(h.lineage.In(ctx))
	if err := room.Parse(ctx, args); err != nil {
		return nil, err
	}
	out, err := do(ctx, *h.client, args)
	if err != nil {
		return nil, err
	}
	if raw, ok := out.(json.RawMessage); ok {
		return raw, nil
	}
	return json.Marshal(out)
}

// Limits on fetches of tenant code.
const (
	maxFetched   = 5 << 20
	fetchTimeout = 30 * time.Second
)

// fetchRequest and fetchResponse are the JSON of the fetch operation.
type fetchRequest struct {
	Method  string      `json:"method"`
	URL     string      `json:"url"`
	Headers [][2]string `json:"headers"`
	Body    string      `json:"body"` // base64
}

type fetchResponse struct {
	Status     int         `json:"status"`
	StatusText string      `json:"status_text"`
	URL        string      `json:"url"`
	Headers    [][2]string `json:"headers"`
	Body       string      `json:"body,omitempty"` // base64
}

// fetch performs a request of running code, in the form that package script
// describes. The memory of the response counts until the result is written.
func (h *host) fetch(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
	var in fetchRequest
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, &script.HostError{Status: http.StatusBadRequest, Message: "the request is malformed"}
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	req, err := in.request(ctx)
	if err != nil {
		return nil, &script.HostError{Code: "ERR_INVALID_URL", Message: "the request is malformed"}
	}
	if _, err := h.runs.Egress.CheckURL(in.URL); err != nil {
		return nil, &script.HostError{Code: "EACCES", Message: err.Error()}
	}
	res, err := h.runs.Egress.DoAs(req, egress.Caller{Tenant: h.tenant.String(), Stranger: h.lineage.Stranger})
	if err != nil {
		return nil, fetchError(err)
	}
	defer res.Body.Close()
	body, err := h.lineage.Bytes.Read(res.Body, maxFetched+1)
	defer h.lineage.Bytes.Release(len(body))
	switch {
	case errors.Is(err, core.ErrRunFull):
		return nil, err
	case err != nil: // the response was cut off
		return nil, fetchError(err)
	case len(body) > maxFetched:
		return nil, &script.HostError{Code: "ERR_BODY_TOO_LARGE", Message: "the response is larger than 5 MiB"}
	}
	return in.answer(res, body)
}

func (f *fetchRequest) request(ctx context.Context) (*http.Request, error) {
	body, err := base64.StdEncoding.DecodeString(f.Body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, f.Method, f.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for _, h := range f.Headers {
		req.Header.Add(h[0], h[1])
	}
	egress.RemoveHopByHop(req.Header)
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "vault")
	}
	return req, nil
}

func (f *fetchRequest) answer(res *http.Response, body []byte) (json.RawMessage, error) {
	out := fetchResponse{Status: res.StatusCode, StatusText: http.StatusText(res.StatusCode), URL: f.URL, Body: base64.StdEncoding.EncodeToString(body)}
	for name, values := range res.Header {
		for _, value := range values {
			out.Headers = append(out.Headers, [2]string{name, value})
		}
	}
	return json.Marshal(out)
}

// fetchError returns an error with the code that Node.js uses.
func fetchError(err error) *script.HostError {
	code := "ECONNREFUSED"
	switch {
	case errors.Is(err, egress.ErrForbidden):
		code = "EACCES"
	case errors.Is(err, egress.ErrBusy):
		return &script.HostError{Status: http.StatusTooManyRequests, Code: "EBUSY", Message: err.Error()}
	case errors.Is(err, context.DeadlineExceeded):
		code = "ETIMEDOUT"
	}
	return &script.HostError{Code: code, Message: err.Error()}
}
