package vault

import (
	"context"

	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/core"
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
	room := c.caller.Room(count)
	return room.In(ctx), &Admission{room}
}

// Arrive makes room for a body of so many bytes that is about to be read.
func (a *Admission) Arrive(ctx context.Context, bytes int) error {
	return core.RoomError(a.room.Arrive(ctx, bytes))
}

// Parse makes room for the JSON of a body that has been read. For a large body it
// also takes the tenant's turn, which lasts until the request waits for something,
// pauses or ends.
func (a *Admission) Parse(ctx context.Context, body []byte) error {
	a.room.Arrived()
	if len(body) < core.LargeText {
		return core.RoomError(a.room.Body(ctx, len(body)+jsonx.Weight(body)))
	}
	if err := a.room.Turn(ctx); err != nil {
		return err
	}
	return core.RoomError(a.room.Body(ctx, len(body)+jsonx.Weight(body)))
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

// OneWait returns a context for the calls that belong to one request of the
// program. While the database is out of reach a call waits for it, and fails with
// ErrUnavailable when that takes too long; those of one request then share one
// wait, which begins with the first. Without it each call waits by itself.
//
// Package httpserver does this for each request.
func OneWait(ctx context.Context) context.Context { return storage.OneWait(ctx) }
