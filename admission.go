package vault

import (
	"cmp"
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/storage"
)

// Admission is the room that one request has in this process: the memory that it
// holds, and its tenant's turns at the CPUs. All requests of a tenant share half
// of [Config].MaxMemory, those of all tenants the whole, and calls of a tenant's
// proxies without an API key have a quarter of their own. A request that finds
// no room waits for two seconds and then fails with ErrUnavailable; one that
// could never fit is ErrTooLarge. Large changes of a tenant are written one after
// the other; one that waits for 30 seconds fails with ErrUnavailable too.
//
// A server asks for one with [Client.Admit] before it reads the body of a
// request, as package httpserver does. Operations that are called without one
// make room for themselves.
type Admission struct{ room *admission.Room }

// Admit returns the room for a request of this client, and a context for the
// operations that belong to the request. count, unless nil, is called when an
// operation knows how many tokens it makes or uses beyond the first, and before
// it does so; its error ends the operation. The server calls End when the answer
// is sent.
func (c *Client) Admit(ctx context.Context, count func(tokens int) error) (context.Context, *Admission) {
	room := c.v.admission.Enter(c.tenant, c.isStranger(), count)
	return room.In(ctx), &Admission{room}
}

// Arrive makes room for a body of so many bytes that is about to be read.
func (a *Admission) Arrive(ctx context.Context, bytes int) error {
	return roomError(a.room.Arrive(ctx, bytes))
}

// Parse makes room for the JSON of a body that has been read. For a large body it
// also takes the tenant's turn, which lasts until the request waits for something,
// pauses or ends.
func (a *Admission) Parse(ctx context.Context, body []byte) error {
	a.room.Arrived()
	if len(body) < largeText {
		return roomError(a.room.Body(ctx, len(body)+jsonx.Weight(body)))
	}
	if err := a.room.Turn(ctx); err != nil {
		return err
	}
	return roomError(a.room.Body(ctx, len(body)+jsonx.Weight(body)))
}

// Work runs work that takes as long as the request is large, such as reading or
// writing its JSON, in the tenant's turn. The turn lasts until the request waits
// for something or ends, so that the next request begins when this one is nearly
// done, and not all of them are held in memory at once.
func (a *Admission) Work(ctx context.Context, work func() error) error {
	if a.room.Held() >= largeRequest {
		if err := a.room.Turn(ctx); err != nil {
			return err
		}
	}
	return work()
}

// Pause ends the turn, before the server waits for its caller.
func (a *Admission) Pause() { a.room.Rest() }

// End gives back the room.
func (a *Admission) End() { a.room.Leave() }

// largeRequest is what a request holds, in bytes, when work on it needs a turn.
const largeRequest = 128 << 10

// Bounds on what is not charged, because it is over before it could add up, and
// estimates of what is.
const (
	largeText  = 8 << 10  // of JSON
	largeBody  = 64 << 10 // of a stored token
	treeTimes  = 14       // what the tree of a token takes of its sealed bytes, at most
	copyTimes  = 4        // what sealing, the database driver and the answer take of a token's data
	placeBytes = 2 << 10  // what a small token takes while it is made
	turnEvery  = 64       // tokens between looks at who waits for a turn
)

// isStranger reports whether the client is a stranger who calls a proxy. Such
// calls have a share of their own.
func (c *Client) isStranger() bool { return c.proxy != (uuid.UUID{}) }

// enter returns a context with a room for the operation, unless it belongs to a
// request that has one.
func (op *operation) enter(ctx context.Context) (inside context.Context, leave func()) {
	if admission.Of(ctx) != nil {
		return ctx, func() {}
	}
	room := op.v.admission.Enter(op.tenant, op.isStranger(), nil)
	return room.In(storage.OneWait(ctx)), room.Leave
}

// hold makes room for more of an operation.
func hold(ctx context.Context, bytes int) error {
	return roomError(admission.Of(ctx).Hold(ctx, bytes))
}

// holdCopies makes room for what becomes of the data of a token that is written.
func holdCopies(ctx context.Context, data jsonx.Value) error {
	size := data.Size()
	if size < largeBody {
		return nil
	}
	return cmp.Or(hold(ctx, copyTimes*size), turn(ctx))
}

// Changes that are large: they keep a database busy for long.
const (
	largeRows  = 200
	largeWrite = 256 << 10 // bytes
)

// roomToWrite ends the tenant's turn at the CPUs. Before a large change it waits
// for the tenant's turn to write one.
func roomToWrite(ctx context.Context, ch *storage.Change) (written func(), err error) {
	room := admission.Of(ctx)
	size := 0
	for i := range ch.InsertTokens {
		size += len(ch.InsertTokens[i].Body)
	}
	for i := range ch.UpdateTokens {
		size += len(ch.UpdateTokens[i].Token.Body)
	}
	if size < largeWrite && len(ch.InsertTokens) < largeRows {
		room.Rest()
		return func() {}, nil
	}
	written, err = room.Write(ctx)
	return written, roomError(err)
}

// turn waits for the tenant's turn.
func turn(ctx context.Context) error { return admission.Of(ctx).Turn(ctx) }

// roomError says why there was no room.
func roomError(err error) error {
	switch {
	case errors.Is(err, admission.ErrFull):
		return errorf(ErrUnavailable, "The server has no room for this request now; try again.")
	case errors.Is(err, admission.ErrNever):
		return errorf(ErrTooLarge, "The request takes more memory than a tenant may use; send or ask for less at a time.")
	}
	return err
}

// manyRows is how many tokens of a page are opened without a turn.
const manyRows = 16

// firstPage is how many sealed bytes a page may have before it is asked for
// again, with room for so many times more.
const (
	firstPage = 256 << 10
	nextPage  = 16
)

// listTokens reads rows of a list, and makes room for them beforehand. Most pages
// are small, so a large one is asked for twice, and the largest three times.
func (op *operation) listTokens(ctx context.Context, f storage.TokenFilter) ([]storage.Token, int, error) {
	room := admission.Of(ctx)
	most := op.maxPageBytes()
	room.Rest()
	for f.MaxBytes = min(firstPage, most); ; f.MaxBytes = min(nextPage*f.MaxBytes, most) {
		if err := hold(ctx, copyTimes*f.MaxBytes); err != nil {
			return nil, 0, err
		}
		rows, total, err := op.db().ListTokens(ctx, f)
		room.Free(copyTimes * (f.MaxBytes - sizeOf(rows)))
		if !errors.Is(err, storage.ErrTooLarge) || f.MaxBytes == most {
			return rows, total, err
		}
	}
}

func sizeOf(rows []storage.Token) int {
	size := 0
	for i := range rows {
		size += len(rows[i].Body) + len(rows[i].CVC)
	}
	return size
}

// treeOf returns what the tree of a stored token takes, if it is large.
func treeOf(row *storage.Token) int {
	if len(row.Body) < largeBody {
		return 0
	}
	return treeTimes * len(row.Body)
}
