package vault

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/audit"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/storage"
)

// LogEntry is an entry of the audit log: who did what to which entity, and
// when. It never holds data.
type LogEntry struct {
	TenantID   uuid.UUID  `json:"tenant_id"`
	ActorID    *uuid.UUID `json:"actor_id,omitempty"` // nil when the tenant itself acted
	ActorType  ActorType  `json:"actor_type,omitempty"`
	EntityType string     `json:"entity_type"` // see ListEntityTypes
	EntityID   string     `json:"entity_id"`
	Operation  Operation  `json:"operation"`
	Message    string     `json:"message"`
	CreatedAt  time.Time  `json:"created_at"`
}

// ActorType says what kind of actor a log entry names.
type ActorType string

// The kinds of actors: a user of the embedding program (see [Client.AsUser]),
// or an application. Sessions act for the application that created them.
const (
	ActorUser        ActorType = "user"
	ActorApplication ActorType = "application"
)

// Operation is what a log entry reports to have been done.
type Operation string

// The operations. OperationUse is a detokenization or an invoked proxy,
// OperationExpire a deletion by [Vault.Sweep], OperationReact a run of a reactor.
const (
	OperationCreate    Operation = audit.Create
	OperationUpdate    Operation = audit.Update
	OperationRead      Operation = audit.Read
	OperationDelete    Operation = audit.Delete
	OperationUse       Operation = audit.Use
	OperationAuthorize Operation = audit.Authorize
	OperationExpire    Operation = audit.Expire
	OperationReact     Operation = audit.React
)

// EntityType names a kind of entity that log entries are about.
type EntityType struct {
	DisplayName string `json:"display_name"`
	Value       string `json:"value"`
}

// entity names what an entry is about.
type entity struct{ typ, id string }

// entry returns a log entry of the client about an entity.
func (op *operation) entry(operation, entityType, entityID string) storage.Log {
	return storage.Log{
		ID:      storage.ID(op.v.ids.At(op.now)),
		ActorID: storage.ID(op.actor), ActorType: string(op.actorType),
		EntityType: entityType, EntityID: entityID,
		Operation: operation, Message: audit.Message(entityType, operation),
		CreatedAt: op.now,
	}
}

// logReads enters that entities were read or used. The entries are in the
// database when it returns: no value is shown without an entry in the log.
func (op *operation) logReads(ctx context.Context, operation string, seen ...entity) error {
	if len(seen) == 0 {
		return nil
	}
	ch := op.changeOfLogs(len(seen))
	ch.Relaxed = true
	for i, e := range seen {
		ch.Logs[i] = op.entry(operation, e.typ, e.id)
	}
	return op.write(ctx, ch)
}

// changeOfLogs returns a change with room for n entries. Most operations read
// one thing, and then the entry lies beside its change.
func (op *operation) changeOfLogs(n int) *storage.Change {
	if n != 1 {
		ch := op.change()
		ch.Logs = make([]storage.Log, n)
		return ch
	}
	single := &struct {
		storage.Change
		logs [1]storage.Log
	}{}
	op.start(&single.Change)
	single.Logs = single.logs[:]
	return &single.Change
}

// ListLogsParams filters the log. Zero fields filter nothing.
type ListLogsParams struct {
	EntityType string
	EntityID   string
	StartDate  time.Time // created at or after it
	EndDate    time.Time // created before it
	PageParams
}

// ListLogs returns a page of the tenant's audit log, newest first (permission
// log:read).
func (c *Client) ListLogs(ctx context.Context, p ListLogsParams) (*Page[LogEntry], error) {
	op, err := c.begin(ctx, access.LogRead)
	if err != nil {
		return nil, err
	}
	if p.PageParams, err = p.normal(); err != nil {
		return nil, err
	}
	bad := &form.Problems{}
	form.CheckText(bad, "entity_type", p.EntityType)
	form.CheckText(bad, "entity_id", p.EntityID)
	if err := asInvalid(bad); err != nil {
		return nil, err
	}
	rows, total, err := op.db().ListLogs(ctx, storage.LogFilter{
		Tenant: op.tenantID(), EntityType: p.EntityType, EntityID: p.EntityID,
		From: p.StartDate, To: p.EndDate, Offset: p.offset(), Limit: p.Size,
	})
	if err != nil {
		return nil, err
	}
	page := newPage[LogEntry](p.PageParams, total)
	for _, row := range rows {
		page.Data = append(page.Data, entryOf(op.tenant, row))
	}
	return page, nil
}

func entryOf(tenant uuid.UUID, row storage.Log) LogEntry {
	e := LogEntry{
		TenantID: tenant, ActorType: ActorType(row.ActorType), EntityType: row.EntityType, EntityID: row.EntityID,
		Operation: Operation(row.Operation), Message: row.Message, CreatedAt: row.CreatedAt,
	}
	if !row.ActorID.IsZero() {
		actor := uuid.UUID(row.ActorID)
		e.ActorID = &actor
	}
	return e
}

// ListEntityTypes returns the kinds of entities that log entries are about
// (permission log:read).
func (c *Client) ListEntityTypes(ctx context.Context) ([]EntityType, error) {
	if _, err := c.begin(ctx, access.LogRead); err != nil {
		return nil, err
	}
	var all []EntityType
	for _, value := range audit.EntityTypes() {
		all = append(all, EntityType{audit.DisplayName(value), value})
	}
	return all, nil
}
