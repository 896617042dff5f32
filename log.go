package vault

import (
	"cmp"
	"context"
	"io"
	"iter"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/logs"
	"github.com/seed-72ea4aab/vault/internal/logs/audit"
	"github.com/seed-72ea4aab/vault/internal/sinks"
	"github.com/seed-72ea4aab/vault/internal/tokens"
	"github.com/seed-72ea4aab/vault/storage"
)

// LogEntry is an entry of the audit log: who did what to which entity, and
// when. It never holds data.
type LogEntry struct {
	ID        uuid.UUID `json:"id"` // in the order of the log
	TenantID  uuid.UUID `json:"tenant_id"`
	ActorID   uuid.UUID `json:"actor_id,omitzero"` // zero when the tenant itself acted
	ActorType ActorType `json:"actor_type,omitempty"`
	// ActorName is the embedding program's name for the user that acted: see
	// [Owner.AsUser]. It is empty for other actors.
	ActorName  string       `json:"actor_name,omitempty"`
	EntityType string       `json:"entity_type"` // see ListEntityTypes
	EntityID   string       `json:"entity_id"`
	Operation  LogOperation `json:"operation"`
	Message    string       `json:"message"`
	// Origin is where the call came from: see [Client.From]. It is empty when
	// unknown.
	Origin    string    `json:"origin,omitempty"`
	CreatedAt time.Time `json:"created_at,omitzero"`
}

// ActorType is the kind of actor of a log entry.
type ActorType string

// The kinds of actors: a user of the embedding program (see [Owner.AsUser]),
// or an application. Sessions act for the application that created them.
const (
	ActorUser        ActorType = core.ActorUser
	ActorApplication ActorType = core.ActorApplication
)

// LogOperation is the operation that a log entry reports.
type LogOperation string

// The operations. OperationUse is a detokenization or an invoked proxy, and
// OperationReact a run of a reactor. OperationExpire is a deletion by
// [Vault.Sweep]. OperationImport reports the rows that a batch of an import refused
// or skipped. OperationKey reports that the key around the tenant's data keys was set,
// removed, denied or unreachable, or is available again.
const (
	OperationCreate    LogOperation = audit.Create
	OperationUpdate    LogOperation = audit.Update
	OperationRead      LogOperation = audit.Read
	OperationDelete    LogOperation = audit.Delete
	OperationUse       LogOperation = audit.Use
	OperationAuthorize LogOperation = audit.Authorize
	OperationExpire    LogOperation = audit.Expire
	OperationReact     LogOperation = audit.React
	OperationImport    LogOperation = audit.Import
	OperationKey       LogOperation = audit.Key
)

// The operations that only [Config].FullAudit reports: denied calls, and the start
// and stop of a vault.
const (
	OperationDenied LogOperation = audit.Denied
	OperationStart  LogOperation = audit.Start
	OperationStop   LogOperation = audit.Stop
)

// EntityType is a kind of entity in log entries.
type EntityType struct {
	DisplayName string `json:"display_name"`
	Value       string `json:"value"`
}

// ListLogsParams filters the log. Zero fields filter nothing.
type ListLogsParams struct {
	EntityType string
	EntityID   string
	StartDate  time.Time // created at or after it
	EndDate    time.Time // created before it
	Operation  LogOperation
	ActorID    uuid.UUID
	ActorType  ActorType
	PageParams
}

func (p *ListLogsParams) list() *logs.Filter {
	return &logs.Filter{
		EntityType: p.EntityType, EntityID: p.EntityID, From: p.StartDate, To: p.EndDate,
		Operation: string(p.Operation), ActorID: p.ActorID, ActorType: string(p.ActorType),
	}
}

// ListLogs returns a page of the tenant's audit log, newest first (permission
// log:read). With a filter by operation or actor the total is exact up to 10,000.
// Beyond that it is 10,000, and TotalIsCapped is set.
func (c *Client) ListLogs(ctx context.Context, p ListLogsParams) (*Page[LogEntry], error) {
	return run(ctx, c, &core.VerbListLogs, func(ctx context.Context, op *core.Op) (*Page[LogEntry], error) {
		asked := p.list()
		p, err := p.normal()
		if err != nil {
			return nil, err
		}
		rows, total, err := logs.Page(ctx, op, asked, form.Paging(p), tokens.MaxTotal+1)
		if err != nil {
			return nil, err
		}
		page := newPage[LogEntry](p, total)
		if asked.Capped() {
			page = cappedPage[LogEntry](p, total)
		}
		page.Data = entriesOf(op.Tenant(), rows)
		return page, nil
	})
}

// AllLogs iterates over all entries of the tenant's audit log that match the
// filters, newest first (permission log:read). See [Client.AllTokens].
func (c *Client) AllLogs(ctx context.Context, p ListLogsParams) iter.Seq2[*LogEntry, error] {
	return walk(ctx, c, &core.VerbAllLogs, func(ctx context.Context, op *core.Op, w *core.Walk, before *storage.ID) ([]LogEntry, bool, error) {
		rows, more, err := logs.Next(ctx, op, p.list(), w, before)
		return entriesOf(op.Tenant(), rows), more, err
	})
}

func entriesOf(tenant uuid.UUID, rows []storage.Log) []LogEntry {
	out := make([]LogEntry, len(rows))
	for i, row := range rows {
		out[i] = LogEntry{
			ID: uuid.UUID(row.ID), TenantID: tenant, ActorID: uuid.UUID(row.ActorID), ActorType: ActorType(row.ActorType), ActorName: row.ActorName,
			EntityType: row.EntityType, EntityID: row.EntityID,
			Operation: LogOperation(row.Operation), Message: row.Message, Origin: row.Origin, CreatedAt: row.CreatedAt,
		}
	}
	return out
}

// ListEntityTypes returns the kinds of entities in log entries (permission
// log:read).
func (c *Client) ListEntityTypes(ctx context.Context) ([]EntityType, error) {
	return run(ctx, c, &core.VerbListEntityTypes, func(context.Context, *core.Op) (all []EntityType, err error) {
		for _, value := range audit.EntityTypes(c.v.cfg.FullAudit) {
			all = append(all, EntityType{audit.DisplayName(value), value})
		}
		return all, nil
	})
}

// LogBatch is a batch of log entries, in commit order.
type LogBatch struct {
	Data []LogEntry `json:"data"`
	// Cursor is the position after the last entry. A follower saves it when it has
	// processed the entries, and continues from it after a restart.
	Cursor string `json:"cursor"`
}

// LogsSince returns a cursor for the entries created at or after a time: see
// [Client.FollowLogs].
func LogsSince(t time.Time) string { return logs.Since(t) }

// FollowLogs iterates over new entries of the tenant's audit log until the context
// ends (permission log:read). The cursor comes from an earlier batch or from
// [LogsSince]; an empty cursor starts with entries written from now on. The first
// batch comes at once, and may hold only the start cursor and no entries:
//
//	for batch, err := range c.FollowLogs(ctx, cursor) {
//		if err != nil {
//			return err
//		}
//		for _, entry := range batch.Data { ... }
//		save(batch.Cursor)
//	}
//
// FollowLogs misses nothing. Entries of a transaction that commits late come after
// its commit, although their ids and times may be older than entries that came
// before.
//
// On PostgreSQL, entries therefore wait while a transaction is open that has
// written something and began before them. A follower that starts now also sees the
// entries since the oldest such transaction began.
//
// After a restart the follower sees again exactly the entries after the cursor that
// it saved; their ids identify duplicates. Entries that [Config].LogRetention has
// deleted in the meantime are lost to it.
func (c *Client) FollowLogs(ctx context.Context, cursor string) iter.Seq2[*LogBatch, error] {
	return func(yield func(*LogBatch, error) bool) {
		for first := true; ; first = false {
			wait := followWait
			if first {
				wait = 0
			}
			batch, err := c.nextLogs(ctx, &core.VerbFollowLogs, cursor, wait)
			if err != nil {
				yield(nil, err)
				return
			}
			cursor = batch.Cursor
			if (first || len(batch.Data) > 0) && !yield(batch, nil) {
				return
			}
		}
	}
}

// followWait is how long one step of FollowLogs waits.
const followWait = time.Minute

// NextLogs returns the entries after a cursor, oldest first (permission log:read).
// Without such an entry it waits for the first one, at most the given time, and then
// returns a batch with only a cursor. It is one step of [Client.FollowLogs], for
// callers that cannot keep a loop running.
//
// NextLogs queries the log four times a second, and gradually less often, down to
// once a second, while no entries come. At most 64 calls of NextLogs and FollowLogs
// may wait at once for entries of a tenant in a process, 16 of them for one
// application; further calls get ErrBusy.
func (c *Client) NextLogs(ctx context.Context, cursor string, wait time.Duration) (*LogBatch, error) {
	return c.nextLogs(ctx, &core.VerbNextLogs, cursor, wait)
}

// nextLogs queries the log until it has entries, each time with the current rights
// of the client.
func (c *Client) nextLogs(ctx context.Context, verb *core.Verb, cursor string, wait time.Duration) (*LogBatch, error) {
	begins := verb == &core.VerbFollowLogs && wait == 0
	look := *verb // the observer is notified of the first query only
	batch, err := c.v.followers.Await(ctx, core.CallerOf(c).Identity, cursor, wait, func(cursor string) (*logs.Batch, error) {
		defer func() { look.Again = true }()
		return run(ctx, c, &look, func(ctx context.Context, op *core.Op) (*logs.Batch, error) {
			return logs.After(ctx, op, cursor, begins)
		})
	})
	if err != nil {
		return nil, err
	}
	return &LogBatch{Data: entriesOf(c.TenantID(), batch.Rows), Cursor: batch.Cursor}, nil
}

// FollowLogs iterates over new entries of all tenants until the context ends. Each
// batch has entries of one tenant, in commit order. The cursor comes from an
// earlier batch or from [LogsSince]; an empty cursor starts with entries written
// from now on. It grows with the number of tenants that have entries. The first
// batch comes at once and has no entries. Otherwise FollowLogs behaves like
// [Client.FollowLogs].
//
// [Config].Sinks does this for programs that only pass the entries on.
func (v *Vault) FollowLogs(ctx context.Context, cursor string) iter.Seq2[*LogBatch, error] {
	return func(yield func(*LogBatch, error) bool) {
		at, err := logs.ReadEverything(v.core, cursor)
		if err = cmp.Or(v.core.Alive(), ctx.Err(), err); err != nil {
			yield(nil, public(err))
			return
		}
		give := func(data []LogEntry) bool {
			next, err := at.Cursor()
			return yield(&LogBatch{Data: data, Cursor: next}, err) && err == nil
		}
		if !give([]LogEntry{}) {
			return
		}
		err = logs.Follow(ctx, v.core, at, func(tenant uuid.UUID, rows []storage.Log) bool { return give(entriesOf(tenant, rows)) })
		if err != nil {
			yield(nil, public(err))
		}
	}
}

// LogSender sends a batch of log entries to a destination. It may be called again
// with the same batch.
//
// If the error has a method Refused() bool that returns true, the destination does
// not accept the content, and smaller batches follow. After any other error the
// batch is retried forever, with a pause between attempts. A method RetryAfter()
// time.Duration of the error makes the pause longer.
type LogSender interface {
	Send(ctx context.Context, batch []byte, contentType string) error
}

// The formats of a [Sink].
const (
	FormatNative = sinks.Native // JSON lines, each an entry as GET /logs shows it
	FormatOTLP   = sinks.OTLP   // OTLP/HTTP in JSON, for /v1/logs of an OpenTelemetry collector
	FormatOCSF   = sinks.OCSF   // JSON lines, each an OCSF event of the class API Activity (6003)
)

// Sink is a destination for the audit logs of all tenants. The entries of a tenant
// arrive in commit order and at least once. An entry that was being sent when a
// process died is sent again; its id identifies the duplicate.
type Sink struct {
	// Name identifies the sink, on all nodes and after a restart: 1 to 64 letters,
	// digits, dots, dashes and underscores.
	Name   string
	Sender LogSender
	// Format is FormatNative, FormatOTLP or FormatOCSF. Default FormatNative.
	Format string
	// FromStart makes a sink with a new name start with the oldest entries. By
	// default it starts with entries written from now on.
	FromStart bool
}

// LogWriter returns a sender that writes batches to w. Nothing else may write to w
// at the same time.
func LogWriter(w io.Writer) LogSender { return sinks.NewWriter(w) }

// LogFile returns a sender that appends batches to a file and syncs it. If the file
// was renamed or deleted, as log rotation does, it is created again.
func LogFile(path string) LogSender { return sinks.NewFile(path) }

// LogHTTPOptions adjusts [LogHTTP].
type LogHTTPOptions struct {
	// Header is sent with each batch, for example to authenticate.
	Header http.Header
	// Secret, if set, signs batches as Standard Webhooks describes: whsec_ and at
	// least 24 bytes in base64.
	Secret string
	// Gzip compresses batches.
	Gzip bool
	// AllowHTTP allows plain http to hosts other than loopback.
	AllowHTTP bool
	// Client sends the requests. Default: a client that follows no redirects.
	Client *http.Client
}

// LogHTTP returns a sender that posts batches to a URL of the operator.
// [Config].Egress does not apply to it. A 2xx response accepts a batch, except when
// it reports rejected records as OTLP does. The statuses 400 and 413 refuse the
// batch, and after any other response it is retried. [Open] reports an invalid URL.
// With FormatOTLP, a URL without a path gets /v1/logs. opts may be nil.
func LogHTTP(url string, opts *LogHTTPOptions) LogSender {
	return sinks.NewHTTP(url, (*sinks.HTTPOptions)(opts))
}

// openSinks prepares the sinks of the configuration.
func (v *Vault) openSinks(ctx context.Context) (err error) {
	all := make([]sinks.Sink, len(v.cfg.Sinks))
	for i, s := range v.cfg.Sinks {
		all[i] = sinks.Sink{Name: s.Name, Sender: s.Sender, Format: s.Format, FromStart: s.FromStart}
	}
	native := func(tenant uuid.UUID, row *storage.Log) any { return entriesOf(tenant, []storage.Log{*row})[0] }
	cfg := sinks.Config{Vault: v.core, Sinks: all, Native: native}
	if v.evidence != nil {
		cfg.Ledger = v.evidence.Ledger
	}
	if v.sinks, err = sinks.New(cfg); err != nil {
		return err
	}
	return v.sinks.Start(ctx)
}

// SinkStatus is the state of a sink, over all tenants and nodes.
type SinkStatus struct {
	Name        string    `json:"name"`
	Format      string    `json:"format"`
	Sent        int64     `json:"sent"`    // entries that the destination accepted
	Refused     int64     `json:"refused"` // entries that it refused and that were skipped
	LastSuccess time.Time `json:"last_success,omitzero"`
	// Behind is the number of waiting entries, 10,000 at most. Oldest is when the
	// oldest of them was created.
	Behind int       `json:"behind"`
	Oldest time.Time `json:"oldest,omitzero"`
	// Tenants is the position of the sink in the log of each tenant.
	Tenants []SinkTenantStatus `json:"tenants,omitempty"`
}

// SinkTenantStatus is the position of a sink in the log of a tenant.
type SinkTenantStatus = sinks.TenantStatus

// ListSinks returns the sinks that the database knows: the current sinks of all
// nodes, and former ones.
func (v *Vault) ListSinks(ctx context.Context) ([]SinkStatus, error) {
	found, err := sinks.List(ctx, v.core)
	if err != nil {
		return nil, public(err)
	}
	all := make([]SinkStatus, len(found))
	for i, s := range found {
		all[i] = SinkStatus(s)
	}
	return all, nil
}

// ResetSink makes a sink send again the entries that were created at or after a
// time. A zero time means all entries.
func (v *Vault) ResetSink(ctx context.Context, name string, from time.Time) error {
	return public(sinks.Reset(ctx, v.core, name, from))
}

// SkipSink makes a sink skip the entries that wait for it.
func (v *Vault) SkipSink(ctx context.Context, name string) error {
	return public(sinks.Skip(ctx, v.core, name))
}

// SendLogs sends the waiting entries to the sinks of Config now, and returns when
// the sinks have them. The vault does this in the background; SendLogs is for a
// program that is about to exit. It leaves out logs that another node is sending.
func (v *Vault) SendLogs(ctx context.Context) error {
	if err := v.core.Alive(); err != nil {
		return err
	}
	return public(cmp.Or(ctx.Err(), v.sinks.Send(ctx)))
}
