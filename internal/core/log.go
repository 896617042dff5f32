package core

import (
	"context"

	"github.com/seed-72ea4aab/vault/internal/audit"
	"github.com/seed-72ea4aab/vault/storage"
)

// Entity is the subject of a log entry.
type Entity struct {
	Type, ID string
	// Host is where data of a token was sent that the caller may not see, or "".
	Host string
}

// Entry returns a log entry of the caller about an entity.
func (op *Op) Entry(operation, entityType, entityID string) storage.Log {
	actor, kind, name := op.Actor()
	return storage.Log{
		ID:      storage.ID(op.NewID()),
		ActorID: storage.ID(actor), ActorType: kind, ActorName: name,
		EntityType: entityType, EntityID: entityID,
		Operation: operation, Message: audit.Message(entityType, operation),
		Origin: op.origin, CreatedAt: op.Now,
	}
}

// LogReads enters that entities were read or used. The entries are in the database
// when it returns, so that no value is shown without an entry in the log.
func (op *Op) LogReads(ctx context.Context, operation string, seen ...Entity) error {
	if len(seen) == 0 {
		return nil
	}
	ch := op.changeOfLogs(len(seen))
	ch.Relaxed = true
	for i, e := range seen {
		ch.Logs[i] = op.Entry(operation, e.Type, e.ID)
		if e.Host != "" {
			ch.Logs[i].Message += audit.To(e.Host)
		}
	}
	return op.Write(ctx, ch)
}

// LogRead enters one entry, as durably as [Op.LogReads] does.
func (op *Op) LogRead(ctx context.Context, entry *storage.Log) error {
	ch := op.changeOfLogs(1)
	ch.Relaxed, ch.Logs[0] = true, *entry
	return op.Write(ctx, ch)
}

// changeOfLogs returns a change with capacity for n entries. Most operations read
// one entity, and then the entry is allocated together with its change.
func (op *Op) changeOfLogs(n int) *storage.Change {
	if n != 1 {
		ch := op.Change()
		ch.Logs = make([]storage.Log, n)
		return ch
	}
	single := &struct {
		storage.Change
		logs [1]storage.Log
	}{}
	op.Start(&single.Change)
	single.Logs = single.logs[:]
	return &single.Change
}
