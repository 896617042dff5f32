// Package logs reads the audit log: pages and walks of one tenant's entries, calls
// that follow one log, and a position in the logs of all tenants.
//
// It promises that a follower sees each entry once, in the order of commits, and
// that a list of the log is itself logged. It rests on the storage for the order and
// on package core for the rights of the caller; a cursor carries a keyed hash of the
// tenant, so that a caller cannot make one. Callers that wait share a bound
// for each tenant and each application.
//
// Nothing here writes an entry: an operation does, in package core, with the words
// of package logs/audit. Package sinks sends entries elsewhere, and package ledger
// proves that none is missing. Begin with [Page], then [After].
package logs

import (
	"bytes"
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/storage"
)

// Filter selects entries of a log. Zero fields are ignored.
type Filter struct {
	EntityType, EntityID string
	From, To             time.Time // created at or after From, before To
	Operation            string
	ActorID              uuid.UUID
	ActorType            string
}

// convert checks the filters and converts them for the storage.
func (l *Filter) convert(op *core.Op) (storage.LogFilter, error) {
	bad := &form.Problems{}
	form.CheckText(bad, "entity_type", l.EntityType)
	form.CheckText(bad, "entity_id", l.EntityID)
	form.CheckText(bad, "operation", l.Operation)
	form.CheckText(bad, "actor_type", l.ActorType)
	return storage.LogFilter{
		Tenant: op.TenantID(), EntityType: l.EntityType, EntityID: l.EntityID, From: l.From, To: l.To,
		Operation: l.Operation, ActorID: storage.ID(l.ActorID), ActorType: l.ActorType,
	}, fault.Of(bad)
}

// Capped reports whether the total is counted only up to a limit, because the
// database has no totals by operation or actor.
func (l *Filter) Capped() bool {
	return l.Operation != "" || l.ActorType != "" || l.ActorID != uuid.UUID{}
}

// Page returns a page of the log, newest first, and the total number of
// entries. If the list is capped, the total is counted up to countUpTo. p
// must be complete: see [form.Paging.Check].
func Page(ctx context.Context, op *core.Op, l *Filter, p form.Paging, countUpTo int) (rows []storage.Log, total int, err error) {
	filter, err := l.convert(op)
	if err != nil {
		return nil, 0, err
	}
	filter.Offset, filter.Limit = p.Offset(), p.Size
	if l.Capped() {
		filter.CountUpTo = countUpTo
	}
	if rows, total, err = op.DB().ListLogs(ctx, filter); err != nil {
		return nil, 0, err
	}
	return rows, total, op.LogOwnRead(ctx)
}

// newest sorts after all entries. A walk starts there.
var newest = storage.ID(bytes.Repeat([]byte{0xff}, len(storage.ID{})))

// Next returns the next piece of a walk over the log, before an id. It moves
// the id to the end of the piece, and reports whether there may be another
// piece.
func Next(ctx context.Context, op *core.Op, l *Filter, w *core.Walk, before *storage.ID) (rows []storage.Log, more bool, err error) {
	filter, err := l.convert(op)
	if err != nil {
		return nil, false, err
	}
	filter.Before = *before
	if *before == newest {
		if err := op.LogOwnRead(ctx); err != nil {
			return nil, false, err
		}
	}
	rows, more, err = core.NextPage(w, func(limit int) ([]storage.Log, error) {
		filter.Limit = limit
		rows, _, err := op.DB().ListLogs(ctx, filter)
		return rows, err
	})
	if err == nil && len(rows) > 0 {
		*before = rows[len(rows)-1].ID
	}
	return rows, more, err
}
