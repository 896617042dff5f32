//go:build !race

package sim

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/script"
)

// outside is what the nodes reach besides their database.
type outside struct {
	mu        sync.Mutex
	notes     [][]byte                   // in the anchor
	sunk      map[string]int             // how often the sink got an entry
	callbacks map[string]map[string]bool // bodies of a job's callbacks
	sent      map[string]int             // how often the destination got a request, by its body
	accepted  []string                   // values whose senders got the response of the destination
	deniedAt  time.Time                  // since when the tenant's own key is denied; zero if it is not
}

func newOutside() outside {
	return outside{sunk: map[string]int{}, callbacks: map[string]map[string]bool{}, sent: map[string]int{}}
}

// accept notes that a sender got the response of the destination.
func (o *outside) accept(value string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.accepted = append(o.accepted, value)
}

// deny denies or restores the tenant's own key.
func (o *outside) deny(denied bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case !denied:
		o.deniedAt = time.Time{}
	case o.deniedAt.IsZero():
		o.deniedAt = time.Now()
	}
}

// deniedFor returns how long the tenant's own key has been denied.
func (o *outside) deniedFor() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.deniedAt.IsZero() {
		return 0
	}
	return max(1, time.Since(o.deniedAt))
}

// alarm fails the history if the node must not raise an alarm. A tenant whose
// deletion was interrupted after it was signed exists until it is deleted again.
func (n *node) alarm(a vault.Alarm) {
	if a.TenantID == n.w.doomed && n.w.book.endOfTenant().IsZero() {
		return
	}
	switch a.Kind {
	case vault.AlarmTampered, vault.AlarmMissing, vault.AlarmForked, vault.AlarmRestore:
		n.w.failf("%s raised an alarm about %s: %s: %s", n.name(), short(tenantID(a.TenantID)), a.Kind, a.Text)
	default: // late or unreachable, because of faults
	}
}

// nodeKey is the key of the node in the context of a request to a destination.
type nodeKey struct{}

// watcher is the observer of a node. It tells requests of nodes apart.
type watcher struct{ n *node }

// Start implements vault.Observer.
func (o watcher) Start(ctx context.Context, _ vault.Event) (context.Context, func(error)) {
	return context.WithValue(ctx, nodeKey{}, o.n), func(error) {}
}

// destination is the host to which clients send data.
const destination = "destination.example"

// receiver is the destination of all callbacks, and of what clients send.
type receiver struct{}

// RoundTrip implements http.RoundTripper.
func (receiver) RoundTrip(req *http.Request) (*http.Response, error) {
	n := req.Context().Value(nodeKey{}).(*node)
	var body bytes.Buffer
	if _, err := body.ReadFrom(req.Body); err != nil {
		return nil, err
	}
	id := req.Header.Get("webhook-id")
	what := "callback " + ending(id)
	if req.URL.Host == destination {
		what = "destination " + body.String()
	}
	err := n.through(req.Context(), elsewhere, what, func() error {
		n.w.outside.receive(req.URL.Host, id, body.String())
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Body: http.NoBody, Request: req}, nil
}

// receive notes a request.
func (o *outside) receive(host, id, body string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case host == destination:
		o.sent[body]++
	case o.callbacks[id] == nil:
		o.callbacks[id] = map[string]bool{body: true}
	default:
		o.callbacks[id][body] = true
	}
}

// anchor is the anchor as a node sees it.
type anchor struct{ n *node }

// Latest implements vault.Anchor.
func (a anchor) Latest(ctx context.Context) (note []byte, err error) {
	err = a.n.through(ctx, elsewhere, "anchor Latest", func() error {
		o := &a.n.w.outside
		o.mu.Lock()
		defer o.mu.Unlock()
		if len(o.notes) > 0 {
			note = bytes.Clone(o.notes[len(o.notes)-1])
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return note, nil
}

// Put implements vault.Anchor.
func (a anchor) Put(ctx context.Context, note []byte) error {
	return a.n.through(ctx, elsewhere, "anchor Put", func() error {
		o := &a.n.w.outside
		o.mu.Lock()
		defer o.mu.Unlock()
		o.notes = append(o.notes, bytes.Clone(note))
		return nil
	})
}

// sender is the log sink as a node sees it.
type sender struct{ n *node }

// Send implements vault.LogSender.
func (s sender) Send(ctx context.Context, batch []byte, _ string) error {
	batch = bytes.TrimSpace(bytes.Clone(batch))
	return s.n.through(ctx, elsewhere, fmt.Sprintf("sink Send %d", bytes.Count(batch, []byte("\n"))+1), func() error {
		o := &s.n.w.outside
		o.mu.Lock()
		defer o.mu.Unlock()
		for line := range bytes.SplitSeq(batch, []byte("\n")) {
			var entry struct{ ID uuid.UUID }
			if err := json.Unmarshal(line, &entry); err != nil {
				return err
			}
			o.sunk[entry.ID.String()]++
		}
		return nil
	})
}

// code runs the code of reactors, which reads a token and returns another to create.
type code struct{ n *node }

// Check implements script.Runtime.
func (code) Check(context.Context, script.Program) error { return nil }

// Close implements script.Runtime.
func (code) Close() error { return nil }

// Run implements script.Runtime.
func (c code) Run(ctx context.Context, _ script.Program, input json.RawMessage, host script.Host) (json.RawMessage, error) {
	var in struct {
		Args struct{ Value string } `json:"args"`
	}
	if err := json.Unmarshal(input, &in); err != nil {
		return nil, err
	}
	nothing := func() error { return nil }
	if err := c.n.through(ctx, elsewhere, "code "+in.Args.Value, nothing); err != nil {
		return nil, broken(ctx, err)
	}
	if _, err := host.Call(ctx, "tokens.retrieve", json.RawMessage(`{"id":"`+standing+`"}`)); err != nil {
		return nil, &script.Error{Kind: script.Thrown, Status: http.StatusInternalServerError, Title: script.DefaultTitle, Messages: map[string][]string{"error": {err.Error()}}}
	}
	if err := c.n.through(ctx, elsewhere, "code ends "+in.Args.Value, nothing); err != nil {
		return nil, broken(ctx, err)
	}
	return json.Marshal(map[string]any{"raw": "done", "tokenize": map[string]string{"id": ranID(in.Args.Value), "type": string(vault.TypeGeneric), "data": "of " + in.Args.Value}})
}

// ranID is the id of the token that a run creates.
func ranID(value string) string { return "ran-" + value }

// broken returns the error of a run of code.
func broken(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, errGone), ctx.Err() != nil:
		return cmp.Or(ctx.Err(), err)
	case errors.Is(err, errLost):
		return &script.Error{Kind: script.Crash, Status: http.StatusInternalServerError, Title: script.DefaultTitle}
	default:
		return script.ErrBusy
	}
}
