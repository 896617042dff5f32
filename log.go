package vault

import (
	"context"
	"iter"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/audit"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/find"
	"github.com/seed-72ea4aab/vault/internal/form"
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
	// ActorName is what the embedding program calls the user that acted: see
	// [Client.AsUser]. It is empty for others.
	ActorName  string    `json:"actor_name,omitempty"`
	EntityType string    `json:"entity_type"` // see ListEntityTypes
	EntityID   string    `json:"entity_id"`
	Operation  Operation `json:"operation"`
	Message    string    `json:"message"`
	CreatedAt  time.Time `json:"created_at,omitzero"`
}

// ActorType says what kind of actor a log entry names.
type ActorType string

// The kinds of actors: a user of the embedding program (see [Client.AsUser]),
// or an application. Sessions act for the application that created them.
const (
	ActorUser        ActorType = core.ActorUser
	ActorApplication ActorType = core.ActorApplication
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

// ListLogsParams filters the log. Zero fields filter nothing.
type ListLogsParams struct {
	EntityType string
	EntityID   string
	StartDate  time.Time // created at or after it
	EndDate    time.Time // created before it
	Operation  Operation
	ActorID    uuid.UUID
	ActorType  ActorType
	PageParams
}

// filter checks the filters and returns them as the storage reads them.
func (p *ListLogsParams) filter(op *operation) (storage.LogFilter, error) {
	bad := &form.Problems{}
	form.CheckText(bad, "entity_type", p.EntityType)
	form.CheckText(bad, "entity_id", p.EntityID)
	form.CheckText(bad, "operation", string(p.Operation))
	form.CheckText(bad, "actor_type", string(p.ActorType))
	return storage.LogFilter{
		Tenant: op.TenantID(), EntityType: p.EntityType, EntityID: p.EntityID, From: p.StartDate, To: p.EndDate,
		Operation: string(p.Operation), ActorID: storage.ID(p.ActorID), ActorType: string(p.ActorType),
	}, fault.Of(bad)
}

// ListLogs returns a page of the tenant's audit log, newest first (permission
// log:read). With a filter by operation or actor the total is exact up to 10,000;
// beyond that it is 10,000, and TotalIsCapped is set.
func (c *Client) ListLogs(ctx context.Context, p ListLogsParams) (*Page[LogEntry], error) {
	return run(ctx, c, &verbListLogs, func(ctx context.Context, op *operation) (*Page[LogEntry], error) { return op.listLogs(ctx, p) })
}

func (op *operation) listLogs(ctx context.Context, p ListLogsParams) (*Page[LogEntry], error) {
	var err error
	if p.PageParams, err = p.normal(); err != nil {
		return nil, err
	}
	filter, err := p.filter(op)
	if err != nil {
		return nil, err
	}
	filter.Offset, filter.Limit = p.offset(), p.Size
	capped := p.Operation != "" || p.ActorType != "" || p.ActorID != uuid.UUID{}
	if capped {
		filter.CountUpTo = tokens.MaxTotal + 1
	}
	rows, total, err := op.DB().ListLogs(ctx, filter)
	if err != nil {
		return nil, err
	}
	page := newPage[LogEntry](p.PageParams, total)
	if capped {
		page = cappedPage[LogEntry](p.PageParams, total)
	}
	for _, row := range rows {
		page.Data = append(page.Data, entryOf(op.Tenant(), row))
	}
	return page, nil
}

// AllLogs iterates over all entries of the tenant's audit log that meet the
// filters, newest first (permission log:read): see [Client.AllTokens]. The page
// parameters do not count.
func (c *Client) AllLogs(ctx context.Context, p ListLogsParams) iter.Seq2[*LogEntry, error] {
	return walk(ctx, c, &verbAllLogs, func(ctx context.Context, op *operation, w *find.Walk, before *storage.ID) ([]LogEntry, bool, error) {
		filter, err := p.filter(op)
		if err != nil {
			return nil, false, err
		}
		filter.Before = *before
		rows, more, err := find.Next(w, func(limit int) ([]storage.Log, error) {
			filter.Limit = limit
			rows, _, err := op.DB().ListLogs(ctx, filter)
			return rows, err
		})
		if err != nil || len(rows) == 0 {
			return nil, false, err
		}
		*before = rows[len(rows)-1].ID
		batch := make([]LogEntry, len(rows))
		for i, row := range rows {
			batch[i] = entryOf(op.Tenant(), row)
		}
		return batch, more, nil
	})
}

func entryOf(tenant uuid.UUID, row storage.Log) LogEntry {
	return LogEntry{
		ID: uuid.UUID(row.ID), TenantID: tenant, ActorID: uuid.UUID(row.ActorID), ActorType: ActorType(row.ActorType), ActorName: row.ActorName,
		EntityType: row.EntityType, EntityID: row.EntityID,
		Operation: Operation(row.Operation), Message: row.Message, CreatedAt: row.CreatedAt,
	}
}

// ListEntityTypes returns the kinds of entities that log entries are about
// (permission log:read).
func (c *Client) ListEntityTypes(ctx context.Context) ([]EntityType, error) {
	return run(ctx, c, &verbListEntityTypes, func(context.Context, *operation) (all []EntityType, err error) {
		for _, value := range audit.EntityTypes() {
			all = append(all, EntityType{audit.DisplayName(value), value})
		}
		return all, nil
	})
}
