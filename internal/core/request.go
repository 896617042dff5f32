package core

import (
	"context"

	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/storage"
)

// Handle is the caller of a client of package vault. The client embeds it under an
// unexported name, so that packages of this module can get the caller with
// [CallerOf] and programs cannot.
type Handle struct{ caller Caller }

// NewHandle returns the handle of a caller.
func NewHandle(c Caller) Handle { return Handle{c} }

func (h *Handle) handle() Caller { return h.caller }

// CallerOf returns the caller of a *vault.Client.
func CallerOf(client interface{ handle() Caller }) Caller { return client.handle() }

// OneWait returns a context for the calls that belong to one request. While the
// database is out of reach, they share one time limit.
func OneWait(ctx context.Context) context.Context { return storage.OneWait(ctx) }

// Admission holds the resources of one request in this process: its memory,
// and its tenant's turns on the CPUs. All requests of a tenant share half of
// Config.MaxMemory, and all tenants share the whole. Anonymous calls of a
// tenant's proxies share a separate quarter.
//
// A request without room waits for two seconds and then fails with
// ErrUnavailable. A request that could never fit fails with ErrTooLarge.
// Large changes of a tenant are written one after the other; a change that
// waits for 30 seconds also fails with ErrUnavailable.
//
// A server creates an Admission before it reads the body of a request.
// Operations without an Admission create their own.
type Admission admission.Room

// Admit returns the admission of a request, and a context for the operations
// of the request. If count is not nil, it is called before an operation
// creates or uses tokens, with the number of tokens beyond the first. An
// error from count ends the operation. The server calls End after it has sent
// the response.
func (c Caller) Admit(ctx context.Context, count func(tokens int) error) (context.Context, *Admission) {
	room := c.Room(count)
	return room.In(ctx), (*Admission)(room)
}

func (a *Admission) room() *admission.Room { return (*admission.Room)(a) }

// Arrive reserves memory for a body of the given size that is about to be
// read.
func (a *Admission) Arrive(ctx context.Context, bytes int) error {
	return RoomError(a.room().Arrive(ctx, bytes))
}

// Parse reserves memory for the JSON of a complete body. For a large body it
// also takes the tenant's turn, which lasts until the request waits, pauses
// or ends.
func (a *Admission) Parse(ctx context.Context, body []byte) error {
	a.room().Arrived()
	if len(body) >= LargeText {
		if err := a.room().Turn(ctx); err != nil {
			return err
		}
	}
	return RoomError(a.room().Body(ctx, len(body)+jsonx.Weight(body)))
}

// Work runs work that grows with the size of the request, such as reading or
// writing its JSON, in the tenant's turn. The turn lasts until the request
// waits or ends. The next request therefore starts when this one is nearly
// done, so that not all of them are in memory at once.
func (a *Admission) Work(ctx context.Context, work func() error) error {
	if a.room().Held() >= largeRequest {
		if err := a.room().Turn(ctx); err != nil {
			return err
		}
	}
	return work()
}

// Pause ends the turn before the server waits for its caller.
func (a *Admission) Pause() { a.room().Rest() }

// End releases everything that the request holds.
func (a *Admission) End() { a.room().Leave() }

// largeRequest is the memory of a request, in bytes, from which its work
// needs a turn.
const largeRequest = 128 << 10
