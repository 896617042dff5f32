package vault

import (
	"cmp"
	"context"
	"io"
	"iter"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/audit"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/find"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/logs"
	"github.com/seed-72ea4aab/vault/internal/sinks"
	"github.com/seed-72ea4aab/vault/internal/tokens"
	"github.com/seed-72ea4aab/vault/internal/verbs"
	"github.com/seed-72ea4aab/vault/storage"
)

// LogEntry is an entry of the audit log: who did what to which entity, and
// when. It never holds data.
type LogEntry struct {
	ID        uuid.UUID `json:"id"` // in the order of the log
	TenantID  uuid.UUID `json:"tenant_id"`
	ActorID   uuid.UUID `json:"actor_id,omitzero"` // zero when the tenant itself acted
	ActorType ActorType `json:"actor_type,omitempty"`
	// ActorName is what the embedding program calls the user that acted: see
	// [Owner.AsUser]. It is empty for others.
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

// ActorType says what kind of actor a log entry names.
type ActorType string

// The kinds of actors: a user of the embedding program (see [Owner.AsUser]),
// or an application. Sessions act for the application that created them.
const (
	ActorUser        ActorType = core.ActorUser
	ActorApplication ActorType = core.ActorApplication
)

// LogOperation is what a log entry reports to have been done.
type LogOperation string

// The operations. OperationUse is a detokenization or an invoked proxy,
// OperationExpire a deletion by [Vault.Sweep], OperationReact a run of a reactor,
// OperationImport the rows that a batch of an import refused or skipped.
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
)

// The operations that only [Config].FullAudit reports: calls that were denied, and
// the start and the stop of a vault.
const (
	OperationDenied LogOperation = audit.Denied
	OperationStart  LogOperation = audit.Start
	OperationStop   LogOperation = audit.Stop
)

// EntityType names a kind of entity that log entries are about.
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

// LogFilter is [ListLogsParams] without a page, for [Client.AllLogs].
type LogFilter struct {
	EntityType string
	EntityID   string
	StartDate  time.Time // created at or after it
	EndDate    time.Time // created before it
	Operation  LogOperation
	ActorID    uuid.UUID
	ActorType  ActorType
}

func (p *ListLogsParams) list() *logs.List {
	return (&LogFilter{p.EntityType, p.EntityID, p.StartDate, p.EndDate, p.Operation, p.ActorID, p.ActorType}).list()
}

func (f *LogFilter) list() *logs.List {
	return &logs.List{
		EntityType: f.EntityType, EntityID: f.EntityID, From: f.StartDate, To: f.EndDate,
		Operation: string(f.Operation), ActorID: f.ActorID, ActorType: string(f.ActorType),
	}
}

// ListLogs returns a page of the tenant's audit log, newest first (permission
// log:read). With a filter by operation or actor the total is exact up to 10,000;
// beyond that it is 10,000, and TotalIsCapped is set.
func (c *Client) ListLogs(ctx context.Context, p ListLogsParams) (*Page[LogEntry], error) {
	return run(ctx, c, &verbs.ListLogs, func(ctx context.Context, op *core.Op) (*Page[LogEntry], error) {
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

// AllLogs iterates over all entries of the tenant's audit log that meet the
// filter, newest first (permission log:read): see [Client.AllTokens].
func (c *Client) AllLogs(ctx context.Context, f LogFilter) iter.Seq2[*LogEntry, error] {
	return walk(ctx, c, &verbs.AllLogs, func(ctx context.Context, op *core.Op, w *find.Walk, before *storage.ID) ([]LogEntry, bool, error) {
		rows, more, err := logs.Next(ctx, op, f.list(), w, before)
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

// ListEntityTypes returns the kinds of entities that log entries are about
// (permission log:read).
func (c *Client) ListEntityTypes(ctx context.Context) ([]EntityType, error) {
	return run(ctx, c, &verbs.ListEntityTypes, func(context.Context, *core.Op) (all []EntityType, err error) {
		for _, value := range audit.EntityTypes(c.v.cfg.FullAudit) {
			all = append(all, EntityType{audit.DisplayName(value), value})
		}
		return all, nil
	})
}

// LogBatch is a piece of the log, in the order in which it was committed.
type LogBatch struct {
	Data []LogEntry `json:"data"`
	// Cursor is the place after the last of them. A follower that has dealt with
	// the entries saves it, and goes on from there after a restart.
	Cursor string `json:"cursor"`
}

// LogsSince returns a cursor for the entries that were created at a time or
// later: see [Client.FollowLogs].
func LogsSince(t time.Time) string { return logs.Since(t) }

// FollowLogs iterates over the entries of the tenant's audit log as they come,
// until the context ends (permission log:read). The cursor is that of an earlier
// batch, [LogsSince], or "" for what is entered from now on. The first batch comes
// at once, and may have no entries but only the cursor of the start:
//
//	for batch, err := range c.FollowLogs(ctx, cursor) {
//		if err != nil {
//			return err
//		}
//		for _, entry := range batch.Data { ... }
//		save(batch.Cursor)
//	}
//
// It misses nothing: entries of a transaction that commits late are given when it
// has been committed, though their ids and times are older than those of entries
// that were given before. On PostgreSQL that means that entries wait while a
// transaction that began before them, and has written something, is open; and a
// follower that begins now sees what came since the oldest of those began. After
// a restart the follower sees again what came after the cursor that it saved, and
// nothing else; each entry has an id to tell it by. Entries that [Config].LogRetention
// has deleted meanwhile are gone.
func (c *Client) FollowLogs(ctx context.Context, cursor string) iter.Seq2[*LogBatch, error] {
	return func(yield func(*LogBatch, error) bool) {
		for first := true; ; first = false {
			wait := followWait
			if first {
				wait = 0
			}
			batch, err := c.nextLogs(ctx, &verbs.FollowLogs, cursor, wait)
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

// MaxFollowers is how many calls of [Client.NextLogs] and [Client.FollowLogs] may
// wait for entries of a tenant's log at once in a process, and
// MaxApplicationFollowers how many of them may be those of one application. One
// more fails with ErrBusy. Each call queries the database while it waits.
const (
	MaxFollowers            = logs.MaxFollowers
	MaxApplicationFollowers = logs.MaxApplicationFollowers
)

// NextLogs returns the entries that come after a cursor, oldest first. When there
// are none it waits for the first one, up to a time, and then returns a batch
// that is empty but for its cursor. It is a step of [Client.FollowLogs], for those
// who cannot keep a loop running (permission log:read). It looks at the log four
// times a second, and less often, down to once a second, while nothing comes. At
// most [MaxFollowers] calls may wait at once; one more is ErrBusy.
func (c *Client) NextLogs(ctx context.Context, cursor string, wait time.Duration) (*LogBatch, error) {
	return c.nextLogs(ctx, &verbs.NextLogs, cursor, wait)
}

// nextLogs looks at the log until it has entries, each time with the rights that
// the client has then.
func (c *Client) nextLogs(ctx context.Context, verb *core.Verb, cursor string, wait time.Duration) (*LogBatch, error) {
	begins := verb == &verbs.FollowLogs && wait == 0
	look := *verb // the observer hears of the first look alone
	batch, err := c.v.followers.Await(ctx, c.caller.Identity, cursor, wait, func(cursor string) (*logs.Batch, error) {
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

// FollowLogs iterates over the entries of all tenants as they come, until the
// context ends. Each batch has entries of one tenant, in commit order. The cursor is
// that of an earlier batch, [LogsSince], or "" for what is entered from now on; it
// grows with the number of tenants that have entries. The first batch comes at once
// and has no entries. Otherwise it is like [Client.FollowLogs].
//
// [Config].Sinks does this for programs that only pass the entries on.
func (v *Vault) FollowLogs(ctx context.Context, cursor string) iter.Seq2[*LogBatch, error] {
	return func(yield func(*LogBatch, error) bool) {
		at, err := sinks.ReadEverything(v.core, cursor)
		if err = cmp.Or(v.core.Alive(), ctx.Err(), err); err != nil {
			yield(nil, public(err))
			return
		}
		give := func(data []LogEntry) bool {
			place, err := at.Cursor()
			return yield(&LogBatch{Data: data, Cursor: place}, err) && err == nil
		}
		if !give([]LogEntry{}) {
			return
		}
		err = sinks.Follow(ctx, v.core, at, func(tenant uuid.UUID, rows []storage.Log) bool { return give(entriesOf(tenant, rows)) })
		if err != nil {
			yield(nil, public(err))
		}
	}
}

// LogSender sends a batch of log entries to a destination. It may be called again
// with the same batch. An error that has a method Refused() bool which returns true
// says that the destination does not take the content: smaller batches follow. After
// any other error the batch is sent again, for ever, after a pause; a method
// RetryAfter() time.Duration of the error makes the pause longer.
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
// come in commit order and at least once: an entry that was sent while a process
// died is sent again, and has an id to tell it by.
type Sink struct {
	// Name tells the sink from others, on all nodes and after a restart: 1 to 64
	// letters, digits, dots, dashes and underscores.
	Name   string
	Sender LogSender
	// Format is FormatNative, FormatOTLP or FormatOCSF. Default FormatNative.
	Format string
	// FromStart makes a sink with a new name begin with the oldest entries. By
	// default it begins with the entries from now on.
	FromStart bool
}

// LogWriter returns a sender that writes batches to w. Nothing but the sender may
// write to w at the same time.
func LogWriter(w io.Writer) LogSender { return sinks.NewWriter(w) }

// LogFile returns a sender that appends batches to a file and syncs it. A file that
// was renamed or deleted, as programs that rotate logs do, is made again.
func LogFile(path string) LogSender { return sinks.NewFile(path) }

// LogHTTPOptions adjusts [LogHTTP].
type LogHTTPOptions struct {
	// Header is sent with each batch: for the token of the destination.
	Header http.Header
	// Secret, if set, signs batches as Standard Webhooks describes: whsec_ and at
	// least 24 bytes in base64.
	Secret string
	// Gzip compresses batches.
	Gzip bool
	// AllowHTTP allows plain http to other hosts than loopback.
	AllowHTTP bool
	// Client sends the requests. Default: a client that follows no redirects.
	Client *http.Client
}

// LogHTTP returns a sender that posts batches to a URL of the operator;
// [Config].Egress does not apply to it. A 2xx response takes a batch, unless it
// reports rejected records as OTLP does; 400 and 413 refuse it; everything else is
// tried again. [Open] reports a URL that is not right. With FormatOTLP, a URL
// without a path gets /v1/logs. opts may be nil.
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
	if v.sinks, err = sinks.New(sinks.Config{Vault: v.core, Sinks: all, Native: native}); err != nil {
		return err
	}
	return v.sinks.Start(ctx)
}

// SinkStatus is where a sink is, over all tenants and nodes.
type SinkStatus struct {
	Name        string    `json:"name"`
	Format      string    `json:"format"`
	Sent        int64     `json:"sent"`    // entries that the destination took
	Refused     int64     `json:"refused"` // entries that it refused, and that were passed over
	LastSuccess time.Time `json:"last_success,omitzero"`
	// Behind is how many entries wait, 10,000 at most. Oldest is when the oldest of
	// them was created.
	Behind int       `json:"behind"`
	Oldest time.Time `json:"oldest,omitzero"`
	// Tenants is where the sink is in the log of each tenant.
	Tenants []SinkTenantStatus `json:"tenants,omitempty"`
}

// SinkTenantStatus is where a sink is in the log of a tenant.
type SinkTenantStatus = sinks.TenantStatus

// ListSinks returns the sinks that the database knows: those of Config.Sinks of all
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

// ResetSink makes a sink send the entries again that were created at a time or
// later; a zero time means all of them.
func (v *Vault) ResetSink(ctx context.Context, name string, from time.Time) error {
	return public(sinks.Reset(ctx, v.core, name, from))
}

// SkipSink makes a sink pass over the entries that wait for it.
func (v *Vault) SkipSink(ctx context.Context, name string) error {
	return public(sinks.Skip(ctx, v.core, name))
}

// SendLogs sends what waits for the sinks of Config now, and returns when they have
// it. The vault does so by itself; SendLogs is for a program that is about to end.
// Logs that another node is sending are left to that node.
func (v *Vault) SendLogs(ctx context.Context) error {
	if err := v.core.Alive(); err != nil {
		return err
	}
	return public(cmp.Or(ctx.Err(), v.sinks.Send(ctx)))
}
