package core

import (
	"cmp"
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/storage"
)

// Sizes below which nothing is charged, because the work is too short to matter,
// and estimates of charges.
const (
	LargeText  = admission.LargeText // bytes of JSON
	LargeBody  = 64 << 10            // bytes of a stored token
	CopyTimes  = 4                   // memory for sealing, the driver and the response, per byte of a token's data
	SmallToken = 2 << 10             // memory for a small token while it is made
	TurnEvery  = 64                  // tokens between checks whether others wait for a turn
)

// Sizes of large changes, which keep a database busy for long.
const (
	largeRows  = 200
	largeWrite = 256 << 10 // bytes
)

// Enter returns a context with a room for the operation, unless its request
// already has one.
func (op *Op) Enter(ctx context.Context) (inside context.Context, leave func()) {
	if admission.Of(ctx) != nil {
		return ctx, func() {}
	}
	room := op.Room(nil)
	return room.In(storage.OneWait(ctx)), room.Leave
}

// Room returns a new room for a request of the caller. A server creates it before it
// reads the body, and calls Leave after it has sent the response. Operations without a
// room create their own. If count is not nil, it is called before an operation creates
// or uses tokens, with the number of tokens beyond the first. An error from count ends
// the operation.
func (c Caller) Room(count func(tokens int) error) *admission.Room {
	sender := c.Proxy()
	anonymous := sender != uuid.UUID{}
	if !anonymous {
		sender = c.ApplicationID()
	}
	return c.Vault.Admission.Enter(c.Tenant(), sender, anonymous, count)
}

// Reserve reserves more memory for an operation.
func Reserve(ctx context.Context, bytes int) error { return admission.Of(ctx).Reserve(ctx, bytes) }

// ReserveCopies reserves memory for the copies of a token's data while it is written.
func ReserveCopies(ctx context.Context, data jsonx.Value) error {
	size := data.Size()
	if size < LargeBody {
		return nil
	}
	return cmp.Or(Reserve(ctx, CopyTimes*size), Turn(ctx))
}

// Turn waits for the tenant's turn at the CPUs.
func Turn(ctx context.Context) error { return admission.Of(ctx).Turn(ctx) }

// Rest ends the turn before the operation waits for the database.
func Rest(ctx context.Context) { admission.Of(ctx).Rest() }

// isLarge reports whether a change keeps a database busy for long.
func isLarge(ch *storage.Change) bool {
	size := 0
	for i := range ch.InsertTokens {
		size += len(ch.InsertTokens[i].Body)
	}
	for i := range ch.UpdateTokens {
		size += len(ch.UpdateTokens[i].Token.Body)
	}
	return size >= largeWrite || len(ch.InsertTokens) >= largeRows
}

// awaits is how often Await waits for memory, two seconds each time. Operations that wait
// for each other's memory end then.
const awaits = 15

// errLate tells the caller that the operation may have had effects.
var errLate = fault.New(fault.ErrTimeout, "the server had no room for the result in time")

// Await is Reserve for an operation that has had effects: code has run, or a destination
// has been called. It waits longer, and its error is no invitation to repeat the request.
func Await(ctx context.Context, bytes int) error {
	for range awaits {
		err := Reserve(ctx, bytes)
		if !errors.Is(err, admission.ErrFull) || ctx.Err() != nil {
			return err
		}
	}
	return errLate
}

// ReserveJSON reserves memory for the tree of a JSON text that nothing was charged for when
// it arrived, and takes the turn that parsing it needs.
func ReserveJSON(ctx context.Context, text []byte) error { return roomForJSON(ctx, text, Reserve) }

// AwaitJSON is ReserveJSON for an operation that has had effects, as Await is Reserve.
func AwaitJSON(ctx context.Context, text []byte) error { return roomForJSON(ctx, text, Await) }

func roomForJSON(ctx context.Context, text []byte, room func(context.Context, int) error) error {
	if len(text) < LargeText {
		return nil
	}
	if err := room(ctx, jsonx.Weight(text)); err != nil {
		return err
	}
	return Turn(ctx)
}

// RoomForText reserves memory for parsing JSON text, and takes the turn that
// parsing needs.
func RoomForText(ctx context.Context, text []byte) error {
	if len(text) < LargeText {
		return nil
	}
	if err := Turn(ctx); err != nil {
		return err
	}
	if err := admission.Of(ctx).Body(ctx, jsonx.Weight(text)); err != nil {
		return err
	}
	return Turn(ctx)
}
