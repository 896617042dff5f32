package core

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/logs/audit"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/internal/trace"
	"github.com/seed-72ea4aab/vault/storage"
)

// Event describes a piece of work for an observer. It never holds a value.
type Event struct {
	Kind     string
	Name     string
	Method   string // the verb of a call; otherwise empty
	TenantID uuid.UUID
	EntityID uuid.UUID
	Trace    trace.Trace
	Header   http.Header // of a request to a destination; otherwise nil
}

// KindCall is the kind of the event of a verb, and KindEcho of a response in which
// data was replaced.
const (
	KindCall = "call"
	KindEcho = "echo"
)

// Tell reports the start of work to the observer, if one is set. The returned
// function must be called with the result when the work has ended.
func (v *Vault) Tell(ctx context.Context, e Event) (context.Context, func(error)) {
	if v.Observe == nil {
		return ctx, func(error) {}
	}
	e.Trace = trace.Of(ctx)
	return v.Observe(ctx, e)
}

// tellCall reports a verb to the observer. The returned function is nil without an
// observer.
func (c *Caller) tellCall(ctx context.Context, verb *Verb) (context.Context, func(error)) {
	if c.Vault.Observe == nil || verb.Kind == "" || verb.Again {
		return ctx, nil
	}
	held, _ := ctx.Value(firstCallKey{}).(*firstCall)
	ctx, end := c.Vault.Tell(ctx, Event{Kind: KindCall, Name: verb.Kind, Method: verb.Name, TenantID: c.Tenant()})
	if held != nil && held.begun.CompareAndSwap(false, true) {
		return ctx, func(error) { held.end = end } // the call lasts until its commit
	}
	return ctx, end
}

// firstCall is the first call inside Once. It ends when Once ends.
type firstCall struct {
	begun atomic.Bool
	end   func(error)
}

type firstCallKey struct{}

// TellOnce returns a context for the work of Once. For the observer, the first
// call in it ends when the returned function is called with the error of Once.
func (v *Vault) TellOnce(ctx context.Context) (context.Context, func(error)) {
	if v.Observe == nil {
		return ctx, func(error) {}
	}
	held := &firstCall{}
	return context.WithValue(ctx, firstCallKey{}, held), func(err error) {
		if held.end != nil {
			held.end(err)
		}
	}
}

// KindAlarm is the kind of the event of an alarm.
const KindAlarm = "alarm"

// The names of alarms.
const (
	AlarmAltered    = "altered"    // columns do not match what was sealed with them
	AlarmUnreadable = "unreadable" // a sealed part does not open
	AlarmRolledBack = "rolled_back"
)

// Alarm reports a row that cannot be trusted: to the logger, and to the observer,
// so that metrics count it. It returns err.
func (v *Vault) Alarm(ctx context.Context, name string, tenant uuid.UUID, e Entity, err error) error {
	v.Logger.ErrorContext(ctx, "a row of the database was altered or cannot be read",
		"alarm", name, "tenant", tenant, "entity_type", e.Type, "entity_id", e.ID, "error", err)
	_, end := v.Tell(ctx, Event{Kind: KindAlarm, Name: name, TenantID: tenant})
	end(err)
	return err
}

// errDocument means that a document was decrypted but cannot be decoded.
var errDocument = errors.New("the sealed document has a format that this version does not know")

// Unreadable reports whether an error is about a row that cannot be decrypted or
// that was altered, and not about the database or the caller.
func Unreadable(err error) bool {
	for _, kind := range []error{seal.ErrOpen, seal.ErrNoKey, errDocument, fault.ErrAltered, keyring.ErrRing} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// Entity is the subject of a log entry.
type Entity struct {
	Type, ID string
	// Host is where data of a token was sent that the caller may not see, or "".
	Host string
	// Use is how much of a token was seen. It is nil for other entities, and may be
	// nil if no response is stored.
	Use *TokenUse
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
// when it returns, so that no value is shown without an entry in the log. A
// response that will be stored depends on the tokens among the entities.
func (op *Op) LogReads(ctx context.Context, operation string, seen ...Entity) error {
	if len(seen) == 0 {
		return nil
	}
	if uses := op.Uses(ctx); uses != nil {
		op.bind(uses, seen)
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
