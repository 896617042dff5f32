package vault

import (
	"context"
	"database/sql"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/egress"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/internal/tenants"
	"github.com/seed-72ea4aab/vault/internal/trace"
	"github.com/seed-72ea4aab/vault/internal/verbs"
	"github.com/seed-72ea4aab/vault/script"
)

// Observer is told of the work of a vault: what it does for callers, what it does
// by itself, and what it asks others for. The module otelvault has one for
// OpenTelemetry, and package console one whose figures its pages show; [Observers]
// joins several. It is called by many goroutines at once, and must not block.
type Observer interface {
	// Start is called when a piece of work begins. It returns the context that
	// the work goes on with, and a function that is called with the outcome when
	// it has ended.
	Start(ctx context.Context, w Event) (context.Context, func(error))
}

// EventKind is a kind of work that an [Observer] is told of.
type EventKind string

// The kinds of work.
const (
	EventJob    EventKind = "job"    // a step of an asynchronous run: run, deliver
	EventSweep  EventKind = "sweep"  // a sweep of what has expired
	EventEgress EventKind = "egress" // a request to a destination, until its answer begins; named by its method
	EventKey    EventKind = "key"    // a call of the master key: encrypt, decrypt
	EventRun    EventKind = "run"    // a run of tenants' code: reactor, proxy
	// EventAlarm is a row of the database that was altered or does not open:
	// altered, unreadable, rolled_back. It ends at once, with an error.
	EventAlarm EventKind = core.KindAlarm
	// EventCall is an operation of a client, in process or of package vaultclient. Its
	// names are create, read, update and delete for tokens, react, proxy, move for
	// imports and exports, and admin for the rest; Method says which one it is.
	EventCall EventKind = core.KindCall
)

// Event is a piece of work. It never holds a value.
type Event struct {
	Kind EventKind
	// Name says more within the kind. It has few distinct values, so that it can
	// label a metric.
	Name string
	// Method is the method of [Client] for an EventCall, such as CreateToken, and
	// empty for other work. An iterator is reported for each piece that it reads.
	Method   string
	TenantID uuid.UUID // zero for work that is not one tenant's
	EntityID uuid.UUID // the reactor or proxy of a run; else zero
	// TraceID is that of the request which the work is for, and Traceparent the
	// W3C trace context that it came with: see [WithTraceparent]. A job has those
	// of the request that it was left by. They may be empty.
	TraceID, Traceparent string
	// Header is that of a request to a destination, and nil for other work. The
	// observer may set the headers traceparent and tracestate in it.
	Header http.Header
}

// teller returns what package core tells of work; nil without an observer.
func teller(o Observer) func(context.Context, core.Event) (context.Context, func(error)) {
	if o == nil {
		return nil
	}
	return func(ctx context.Context, e core.Event) (context.Context, func(error)) {
		return o.Start(ctx, Event{
			Kind: EventKind(e.Kind), Name: e.Name, Method: e.Method, TenantID: e.TenantID, EntityID: e.EntityID,
			TraceID: e.Trace.ID, Traceparent: e.Trace.Parent, Header: e.Header,
		})
	}
}

// observe tells the observer, if there is one, of work that begins.
func (v *Vault) observe(ctx context.Context, kind EventKind, name string, tenant, entity uuid.UUID) (context.Context, func(error)) {
	return v.core.Tell(ctx, core.Event{Kind: string(kind), Name: name, TenantID: tenant, EntityID: entity})
}

// Observers returns an observer that tells several, in their order. Those that
// are nil are left out.
func Observers(all ...Observer) Observer {
	var some observers
	for _, o := range all {
		if o != nil {
			some = append(some, o)
		}
	}
	if len(some) == 1 {
		return some[0]
	}
	return some
}

type observers []Observer

// Start implements Observer.
func (all observers) Start(ctx context.Context, w Event) (context.Context, func(error)) {
	ends := make([]func(error), len(all))
	for i, o := range all {
		ctx, ends[i] = o.Start(ctx, w)
	}
	return ctx, func(err error) {
		for i := len(ends) - 1; i >= 0; i-- {
			ends[i](err)
		}
	}
}

// WithTraceID returns a context whose calls belong to a trace of the program's
// own: the id goes to the destinations of proxies and with callbacks, in the
// header SVC-TRACE-ID, and to the [Observer]. It has 1 to 128 visible ASCII
// characters; another one changes nothing.
//
// Package httpserver does this for each request, and package vaultclient sends
// the id to the server.
func WithTraceID(ctx context.Context, id string) context.Context {
	t := trace.Of(ctx)
	t.SetID(id)
	return trace.With(ctx, t)
}

// TraceID returns the trace id of the call that a context belongs to, or "".
// With it, a slog.Handler puts the trace id on the lines of [Config.Logger].
func TraceID(ctx context.Context) string { return trace.Of(ctx).ID }

// WithTraceparent returns a context whose calls carry on a W3C trace: its
// headers traceparent and tracestate go to the destinations of proxies and with
// callbacks. Its trace id is also the one of [WithTraceID], unless the context
// has one already. A traceparent that is malformed changes nothing; the
// tracestate may be empty.
func WithTraceparent(ctx context.Context, traceparent, tracestate string) context.Context {
	t := trace.Of(ctx)
	t.SetParent(traceparent, tracestate)
	return trace.With(ctx, t)
}

// observeEgress returns what package egress calls for each request.
func (v *Vault) observeEgress() egress.Observe {
	if v.cfg.Observer == nil {
		return nil
	}
	return func(req *http.Request, tenant string) (context.Context, func(error)) {
		id, _ := uuid.Parse(tenant)
		name := req.Method
		if !egress.KnownMethod(name) {
			name = "other"
		}
		return v.core.Tell(req.Context(), core.Event{Kind: string(EventEgress), Name: name, TenantID: id, Header: req.Header})
	}
}

// observedKey is a master key whose calls an observer is told of.
type observedKey struct {
	AEAD
	tell func(context.Context, core.Event) (context.Context, func(error))
}

// Keys lets package keyring try each key by itself.
func (k observedKey) Keys() []seal.AEAD {
	if several, ok := k.AEAD.(keyring.Several); ok {
		return several.Keys()
	}
	return []seal.AEAD{k.AEAD}
}

// EncryptWithContext implements AEADWithContext.
func (k observedKey) EncryptWithContext(ctx context.Context, plaintext, associatedData []byte) ([]byte, error) {
	return k.told(ctx, "encrypt", func(ctx context.Context) ([]byte, error) { return seal.Encrypt(ctx, k.AEAD, plaintext, associatedData) })
}

// DecryptWithContext implements AEADWithContext.
func (k observedKey) DecryptWithContext(ctx context.Context, ciphertext, associatedData []byte) ([]byte, error) {
	return k.told(ctx, "decrypt", func(ctx context.Context) ([]byte, error) {
		return seal.Decrypt(ctx, k.AEAD, ciphertext, associatedData)
	})
}

func (k observedKey) told(ctx context.Context, name string, call func(context.Context) ([]byte, error)) ([]byte, error) {
	ctx, end := k.tell(ctx, core.Event{Kind: string(EventKey), Name: name, Trace: trace.Of(ctx)})
	out, err := call(ctx)
	end(err)
	return out, err
}

// Info is how a vault is set up and how its database is connected, for a page
// or a command that shows it. It holds no key and no address.
type Info struct {
	// Config is what [Open] was given, with defaults in place of zero values.
	Config Config
	// Migrations are the versions of the schema that have run, oldest first; nil
	// for a storage that does not say.
	Migrations []int
	// Pools are the pools of database connections, by name; nil for a storage that
	// does not say.
	Pools map[string]sql.DBStats
	// Workers are the figures of Config.Runtime; nil for a runtime that does not
	// report them, and without one.
	Workers *script.Stats
}

// Info returns how the vault is set up. The storages of this module and the
// worker processes of jsruntime say all of it.
func (v *Vault) Info(ctx context.Context) (*Info, error) {
	if err := v.core.Alive(); err != nil {
		return nil, err
	}
	out := &Info{Config: v.cfg}
	if s, ok := v.store.(interface{ Pools() map[string]sql.DBStats }); ok {
		out.Pools = s.Pools()
	}
	if r, ok := v.cfg.Runtime.(script.Reporter); ok {
		stats := r.Stats()
		out.Workers = &stats
	}
	var err error
	if s, ok := v.store.(interface {
		SchemaVersions(ctx context.Context) ([]int, error)
	}); ok {
		out.Migrations, err = s.SchemaVersions(ctx)
	}
	return out, err
}

// Stats says how much a tenant has stored, and what is going on.
type Stats struct {
	Tokens int `json:"tokens"`
	// TokensByType has the types that there are tokens of.
	TokensByType map[TokenType]int `json:"tokens_by_type"`
	// TokensByContainer has the containers that there are tokens in. A token in
	// two containers counts in both, but not in the containers above them.
	TokensByContainer map[string]int `json:"tokens_by_container"`
	Jobs              JobStats       `json:"jobs"`
	LogEntries        int            `json:"log_entries"`
	// Sessions is how many sessions have not expired, up to 10,000.
	Sessions int `json:"sessions"`
	// Keys are the tenant's data keys, oldest first, destroyed ones included.
	Keys []DataKeyStats `json:"keys"`
	// RotatedAt is when the key that seals was made, if a rotation made it; else
	// it is zero.
	RotatedAt time.Time `json:"rotated_at,omitzero"`
}

// JobStats counts asynchronous runs, 10,000 of them at most.
type JobStats struct {
	Waiting int `json:"waiting"` // for their time, or for a worker
	Running int `json:"running"` // or leased by a node that has died
	Dead    int `json:"dead"`    // given up; counted for 30 days
}

// DataKeyStats is a data key, without the key.
type DataKeyStats struct {
	Version int          `json:"version"`
	State   DataKeyState `json:"state"`
	// CreatedAt is zero for a key that an earlier version of this package made.
	CreatedAt time.Time `json:"created_at,omitzero"`
}

// DataKeyState is where a data key is in its life: see [Vault.RotateDataKeys].
type DataKeyState string

// The states of a data key. It is pending until every node knows it, primary while
// it seals, retired while it only opens what it sealed, and then destroyed.
const (
	DataKeyPending   DataKeyState = "pending"
	DataKeyPrimary   DataKeyState = "primary"
	DataKeyRetired   DataKeyState = "retired"
	DataKeyDestroyed DataKeyState = "destroyed"
)

// Stats returns figures about the tenant. They come from counters, so they cost
// the same however much is stored. Only the tenant itself may ask for them: see
// [Vault.Tenant].
func (o *Owner) Stats(ctx context.Context) (*Stats, error) {
	return run(ctx, o.Client, &verbs.Stats, func(ctx context.Context, op *core.Op) (*Stats, error) {
		counts, err := tenants.Count(ctx, op)
		if err != nil {
			return nil, err
		}
		s := &Stats{
			Tokens: counts.All, TokensByType: map[TokenType]int{}, TokensByContainer: counts.ByContainer, LogEntries: counts.Logs,
			Sessions: counts.Records, Jobs: JobStats{counts.Waiting, counts.Running, counts.Dead},
		}
		for typ, n := range counts.ByType {
			s.TokensByType[TokenType(typ)] = n
		}
		for _, k := range op.State.Ring.Keys() {
			s.Keys = append(s.Keys, DataKeyStats{k.Version, DataKeyState(k.State), k.Created})
			if k.State == seal.Primary && k.Version > 1 {
				s.RotatedAt = k.Created
			}
		}
		return s, nil
	})
}

// SinkHealth is how the sending to a sink goes on this node.
type SinkHealth struct {
	LastSuccess time.Time
	Failures    int64  // batches that could not be sent
	LastError   string // of the last of them
	// Failed counts the failures by tenant. Failures that are about no tenant, such
	// as those of the database, are not among them.
	Failed map[uuid.UUID]int64
	// Behind is how many entries wait, up to 500 of each tenant whose log this node
	// sends, and Oldest is when the oldest of them was created.
	Behind int
	Oldest time.Time
	// Sent entries were taken by the destination, Refused entries passed over.
	Sent, Refused int64
}

// Lag is how old the oldest entry is that waits; zero if none does.
func (h SinkHealth) Lag() time.Duration {
	if h.Oldest.IsZero() {
		return 0
	}
	return max(0, time.Since(h.Oldest))
}

// SinkHealth returns how the sending to the sinks of Config goes on this node, by
// their names. It does not ask the database.
func (v *Vault) SinkHealth() map[string]SinkHealth {
	all := map[string]SinkHealth{}
	for name, h := range v.sinks.Health() {
		all[name] = SinkHealth(h)
	}
	return all
}
