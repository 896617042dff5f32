package core

import (
	"context"
	"fmt"

	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/storage"
)

// Verb describes an operation: who may call it, and where it works.
type Verb struct {
	// Name is the name of the method.
	Name string
	// Kind is the name for an observer, from a small set. A verb without a kind is
	// not reported.
	Kind string
	// Permission must be granted on at least one entity. Empty means that none is required.
	Permission string
	// Only completes the sentence "Only the tenant itself may ...". It is empty if
	// others may call the verb too.
	Only string
	// Where is the set of units of work in which the verb does not work.
	Where Where
	// Again means that the observer already knows of the call, and this is a later
	// look.
	Again bool
	// Keyless means that the verb needs no keys of the tenant. They are read only
	// for the tenant itself, to see whether it exists.
	Keyless bool
	// Front means that the verb works while the tenant's own key is denied.
	Front bool
	// OwnerFront is Front for the tenant itself only.
	OwnerFront bool
	// Large gives the operation a room, because it may take much memory or CPU.
	Large bool
}

// Where is a set of units of work in which a verb does not work.
type Where uint8

// The units of work of verbs.
const (
	OutsideTx   Where = 1 << iota // not in a transaction of the application
	OutsideOnce                   // not inside Once, because it writes in pieces

	Anywhere Where = 0
	Alone          = OutsideTx | OutsideOnce
)

// Check returns an error for a unit of work in which the verb does not work.
func (v *Verb) Check(u Unit) error {
	if v.Where&OutsideOnce != 0 && u.pending != nil {
		return fmt.Errorf("vault: %s cannot be part of Once: it writes piece by piece", v.Name)
	}
	if v.Where&OutsideTx != 0 && u.tx != nil {
		return fmt.Errorf("%w: %s; call it on the client that InTx was called on", fault.ErrInTx, v.Name)
	}
	return nil
}

// Do runs a verb for a caller. It is the only way to start an operation. It reports
// to the observer, and refuses a unit of work in which the verb does not work. Then
// it renews the rights of the caller, checks the permission, and reads the keys.
func Do[T any](ctx context.Context, c Caller, verb *Verb, do func(context.Context, *Op) (T, error)) (out T, err error) {
	op := &Op{Caller: c, State: c.readNow}
	op.readNow = nil
	ctx, end := op.tellCall(ctx, verb)
	inside := ctx
	if err = op.begin(ctx, verb); err == nil {
		if verb.Large && admission.Of(ctx) == nil {
			room := op.Room(nil)
			defer room.Leave()
			inside = room.In(storage.OneWait(ctx))
		}
		out, err = do(inside, op)
	}
	if err != nil && verb.Kind != "" {
		admission.Of(inside).Rest() // an entry about it waits for the database
		op.Denied(ctx, verb.Name, verb.Permission, err)
	}
	if end != nil {
		end(err)
	}
	return out, err
}

// May checks whether a caller has a permission, before the input of a verb is read. It
// looks at the rights as [Do] does, which looks again.
func (c Caller) May(ctx context.Context, permission string) error {
	op := &Op{Caller: c}
	return op.begin(ctx, &Verb{Permission: permission, Keyless: true})
}

// Again returns a new operation of the same caller, with its current rights and
// keys. Work that takes longer than a second calls it before each piece.
func (op *Op) Again(ctx context.Context, permission string) (*Op, error) {
	next := &Op{Caller: op.Caller}
	return next, next.begin(ctx, &Verb{Permission: permission})
}
