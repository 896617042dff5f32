package vault

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"maps"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/egress"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/internal/tenants"
	"github.com/seed-72ea4aab/vault/internal/trace"
	"github.com/seed-72ea4aab/vault/script"
)

// Observer is notified of the work of a vault: operations for callers, background
// work, and calls to other services. Module otelvault has an observer for
// OpenTelemetry, and package console one for the figures on its pages; [Observers]
// joins several. Many goroutines call it at once, and it must not block.
type Observer interface {
	// Start is called when work begins. It returns the context for the work, and a
	// function that is called with the outcome when the work ends.
	Start(ctx context.Context, w Event) (context.Context, func(error))
}

// EventKind is a kind of work that an [Observer] is notified of.
type EventKind string

// The kinds of work.
const (
	EventJob    EventKind = "job"    // a step of an asynchronous run: run, deliver
	EventSweep  EventKind = "sweep"  // a sweep of expired rows
	EventEgress EventKind = "egress" // a request to a destination, until its response begins; named by its method
	EventKey    EventKind = "key"    // a call to the master key: encrypt, decrypt
	EventRun    EventKind = "run"    // a run of tenant code: reactor, proxy
	// EventAlarm is a database row that was altered or does not open. Its names are
	// altered, unreadable and rolled_back. It ends at once, with an error.
	EventAlarm EventKind = core.KindAlarm
	// EventCall is an operation of a client, in process or of package vaultclient.
	// Its names are create, read, update and delete for tokens, react, proxy, move
	// for imports and exports, and admin for the rest. Method names the operation.
	EventCall EventKind = core.KindCall
	// EventEcho is a response in which the data of a token whose use is limited to
	// destinations was replaced. Its name is replaced. It is reported once for each
	// request, ends at once, and is no alarm: many destinations repeat what they were
	// sent.
	EventEcho EventKind = core.KindEcho
)

// Event is a piece of work. It never holds a value.
type Event struct {
	Kind EventKind
	// Name is the name of the work within its kind. It has few distinct values, so
	// that it can label a metric.
	Name string
	// Method is the method of [Client] for an EventCall, such as CreateToken, and
	// empty for other work. An iterator is reported once for each batch that it
	// reads.
	Method   string
	TenantID uuid.UUID // zero for work that belongs to no single tenant
	EntityID uuid.UUID // the reactor or proxy of a run, the application of an echo; otherwise zero
	// TraceID is the trace id of the request that caused the work. Traceparent is
	// the W3C trace context of the request: see [WithTraceparent]. A job has both
	// from the request that queued it. They may be empty.
	TraceID, Traceparent string
	// Header is empty for a request to a destination, and nil for other work. The
	// request is sent with what the observer sets in it, such as traceparent and
	// tracestate.
	Header http.Header
}

// teller returns the function that package core notifies of work, or nil without an
// observer.
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

// Observers returns an observer that notifies several observers in order. Nil
// observers are ignored.
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

// WithTraceID returns a context whose calls belong to the program's own trace. The
// id is sent to the destinations of proxies and with callbacks, in the header
// SVC-TRACE-ID, and to the [Observer]. It must have 1 to 128 visible ASCII
// characters; other ids are ignored.
//
// Package httpserver sets the id for each request, and package vaultclient sends it
// to the server.
func WithTraceID(ctx context.Context, id string) context.Context {
	t := trace.Of(ctx)
	t.SetID(id)
	return trace.With(ctx, t)
}

// TraceID returns the trace id of the call that a context belongs to, or "". A
// slog.Handler can use it to add the trace id to the lines of [Config.Logger].
func TraceID(ctx context.Context) string { return trace.Of(ctx).ID }

// WithTraceparent returns a context whose calls continue a W3C trace. The headers
// traceparent and tracestate are sent to the destinations of proxies and with
// callbacks. If the context has no trace id yet, the W3C trace id also becomes the
// id of [WithTraceID]. A malformed traceparent is ignored; the tracestate may be
// empty.
func WithTraceparent(ctx context.Context, traceparent, tracestate string) context.Context {
	t := trace.Of(ctx)
	t.SetParent(traceparent, tracestate)
	return trace.With(ctx, t)
}

// observeEgress returns the function that package egress calls for each request.
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
		header := http.Header{} // not the request's own, which may hold the data of tokens
		ctx, end := v.core.Tell(req.Context(), core.Event{Kind: string(EventEgress), Name: name, TenantID: id, Header: header})
		maps.Copy(req.Header, header)
		return ctx, end
	}
}

// observed returns a master key that notifies an observer of the calls of each of its keys.
func observed(key AEAD, tell func(context.Context, core.Event) (context.Context, func(error))) AEAD {
	var all []seal.AEAD
	for _, k := range keyring.KeysOf(key) {
		if pinned, ok := k.(PinnedKey); ok {
			all = append(all, struct {
				observedKey
				PinnedKey
			}{observedKey{k, tell}, pinned})
			continue
		}
		all = append(all, observedKey{k, tell})
	}
	return keyring.Join(all)
}

// observedKey is a key that notifies an observer of its calls.
type observedKey struct {
	AEAD
	tell func(context.Context, core.Event) (context.Context, func(error))
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

// Info describes the configuration of a vault and its database connections, for a
// status page or command. It holds no key and no address.
type Info struct {
	// Config is the configuration passed to [Open], with defaults filled in.
	Config Config
	// Migrations are the schema versions that have run, oldest first. It is nil for
	// a storage that does not report them.
	Migrations []int
	// Pools are the pools of database connections, by name. It is nil for a storage
	// that does not report them.
	Pools map[string]sql.DBStats
	// Workers are the figures of Config.Runtime. It is nil without a runtime, and
	// for a runtime that does not report them.
	Workers *script.Stats
}

// Info returns the configuration of the vault and its connections. The storages of
// this module and the worker processes of jsruntime fill in every field.
func (v *Vault) Info(ctx context.Context) (*Info, error) {
	if err := v.core.Alive(); err != nil {
		return nil, err
	}
	out := &Info{Config: v.cfg, Pools: v.Pools(), Workers: v.Workers()}
	var err error
	if s, ok := v.store.(interface {
		SchemaVersions(ctx context.Context) ([]int, error)
	}); ok {
		out.Migrations, err = s.SchemaVersions(ctx)
	}
	return out, err
}

// Pools returns the figure Pools of [Info], without a query.
func (v *Vault) Pools() map[string]sql.DBStats {
	if s, ok := v.store.(interface{ Pools() map[string]sql.DBStats }); ok {
		return s.Pools()
	}
	return nil
}

// Workers returns the figure Workers of [Info], without a query.
func (v *Vault) Workers() *script.Stats {
	if r, ok := v.cfg.Runtime.(script.Reporter); ok {
		stats := r.Stats()
		return &stats
	}
	return nil
}

// Stats are figures about a tenant's stored data and current work.
type Stats struct {
	Tokens int `json:"tokens"`
	// TokensByType counts tokens by type. It leaves out types without tokens.
	TokensByType map[TokenType]int `json:"tokens_by_type"`
	// TokensByContainer counts tokens by container. It leaves out containers
	// without tokens. A token in two containers counts in both, but not in the
	// containers above them.
	TokensByContainer map[string]int `json:"tokens_by_container"`
	Jobs              JobStats       `json:"jobs"`
	LogEntries        int            `json:"log_entries"`
	// Sessions is the number of sessions that have not expired, up to 10,000.
	Sessions int `json:"sessions"`
	// Keys are the tenant's data keys, oldest first, destroyed ones included.
	Keys []DataKeyStats `json:"keys"`
	// RotatedAt is when the current sealing key was made, if a rotation made it.
	// Otherwise it is zero.
	RotatedAt time.Time `json:"rotated_at,omitzero"`
}

// JobStats counts asynchronous runs, 10,000 of them at most.
type JobStats struct {
	Waiting int `json:"waiting"` // until they are due, or for a worker
	Running int `json:"running"` // or leased by a node that has died
	Dead    int `json:"dead"`    // failed for good; counted for 30 days
}

// DataKeyStats describes a data key, without the key itself.
type DataKeyStats struct {
	Version int `json:"version"`
	// State is pending until every node knows the key, primary while it seals,
	// retired while it only opens what it sealed, and then destroyed: see
	// [Vault.RotateDataKeys].
	State     string    `json:"state"`
	CreatedAt time.Time `json:"created_at"`
}

// Stats returns figures about the tenant. They come from counters, so the cost does
// not depend on how much is stored. Only the tenant itself may read them: see
// [Vault.Tenant].
func (o *Owner) Stats(ctx context.Context) (*Stats, error) {
	return run(ctx, o.Client, &core.VerbStats, func(ctx context.Context, op *core.Op) (*Stats, error) {
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
			s.Keys = append(s.Keys, DataKeyStats{k.Version, string(k.State), k.Created})
			if k.State == seal.Primary && k.Version > 1 {
				s.RotatedAt = k.Created
			}
		}
		return s, nil
	})
}

// Totals are figures about the newest tenants of a vault.
type Totals struct {
	Tenants    int // all tenants that can be read
	Unreadable int // tenants that were left out, because their rows were altered or do not open
	Counted    int // tenants in the figures below
	Tokens     int
	Jobs       JobStats
	Keys       map[string]int
	// SealedSince has, for each tenant, when the key that seals its data was made.
	SealedSince []time.Time
}

// Totals adds up the [Stats] of at most limit tenants. Like [Vault.ListTenants] it is
// for the embedding program.
func (v *Vault) Totals(ctx context.Context, limit int) (*Totals, error) {
	if err := cmp.Or(v.core.Alive(), ctx.Err()); err != nil {
		return nil, err
	}
	sum := &Totals{Keys: map[string]int{}}
	for page := 1; sum.Counted < limit; page++ {
		list, err := v.ListTenants(ctx, PageParams{Page: page, Size: 100})
		if err != nil {
			return nil, err
		}
		sum.Tenants = list.Pagination.TotalItems
		for i := range list.Data {
			if sum.Counted == limit {
				break
			}
			if err := sum.add(ctx, v, &list.Data[i]); err != nil {
				return nil, err
			}
		}
		if page >= list.Pagination.TotalPages {
			break
		}
	}
	sum.Tenants -= sum.Unreadable
	return sum, nil
}

// add adds the figures of a tenant.
func (sum *Totals) add(ctx context.Context, v *Vault, t *Tenant) error {
	if t.Unreadable {
		sum.Unreadable++
		return nil
	}
	s, err := v.Tenant(t.ID).Stats(ctx)
	if errors.Is(err, ErrNotFound) {
		return nil // it was deleted after the list was read
	}
	if err != nil {
		return err
	}
	sum.Counted++
	sum.Tokens += s.Tokens
	sum.Jobs.Waiting += s.Jobs.Waiting
	sum.Jobs.Running += s.Jobs.Running
	sum.Jobs.Dead += s.Jobs.Dead
	for _, k := range s.Keys {
		sum.Keys[k.State]++
	}
	sum.SealedSince = append(sum.SealedSince, s.SealedSince(t))
	return nil
}

// SealedSince returns when the key that seals the data of a tenant was made.
func (s *Stats) SealedSince(t *Tenant) time.Time {
	if s.RotatedAt.IsZero() {
		return t.CreatedAt
	}
	return s.RotatedAt
}

// SinkHealth describes the sending to a sink on this node.
type SinkHealth struct {
	LastSuccess time.Time
	Failures    int64  // batches that could not be sent
	LastError   string // of the last failed batch
	// Failed counts the failures by tenant. Failures that concern no tenant, such
	// as database errors, are not included.
	Failed map[uuid.UUID]int64
	// Behind is the number of waiting entries, up to 500 for each tenant whose log
	// this node sends. Oldest is when the oldest of them was created.
	Behind int
	Oldest time.Time
	// Sent counts the entries that the destination accepted, and Refused the
	// entries that were skipped.
	Sent, Refused int64
}

// Lag returns the age of the oldest waiting entry at a time of the vault's clock, such
// as [Vault.Now]. It is zero if no entry waits.
func (h SinkHealth) Lag(now time.Time) time.Duration {
	if h.Oldest.IsZero() {
		return 0
	}
	return max(0, now.Sub(h.Oldest))
}

// SinkHealth returns the state of sending to the sinks of Config on this node, by
// sink name. It does not query the database.
func (v *Vault) SinkHealth() map[string]SinkHealth {
	all := map[string]SinkHealth{}
	for name, h := range v.sinks.Health() {
		all[name] = SinkHealth(h)
	}
	return all
}
