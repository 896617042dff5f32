// Package bridge gives httpserver the parts of a vault that package vault does not
// export: the identity behind a client, the room for a request, and the reading of
// an entity that is put back. Package vault sets the functions when it is
// initialized.
package bridge

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/storage"
)

// Functions of package vault. They take a *vault.Client or a *vault.Vault as any,
// because this package cannot name the types.
var (
	// Caller returns the identity of a client.
	Caller func(client any) core.Caller
	// ProxyCaller returns a *vault.Client for the caller of a proxy that has no API
	// key, so that such calls can be counted before they are made. The client
	// belongs to the proxy's tenant and may do nothing by itself. An unknown key, and
	// a proxy that requires authentication, fail as they do in Vault.InvokeProxy.
	ProxyCaller func(ctx context.Context, vault any, key string) (client any, err error)
	// DecodeReplacement reads parameters for a Replace method from the JSON of an
	// entity. It ignores the fields that cannot be changed, so that the result of
	// a Get can be changed and put back. It reads the application_id of a proxy as
	// application.id.
	DecodeReplacement func(data []byte, params json.Unmarshaler) error
)

// ProxyID returns the proxy that a client of ProxyCaller calls, or a zero id for
// every other client.
func ProxyID(client any) uuid.UUID { return Caller(client).Proxy() }

// Denied enters in a full audit that a route refused a client.
func Denied(ctx context.Context, client any, route, permission string, err error) {
	Caller(client).Denied(ctx, route, permission, err)
}

// OneWait returns a context for the calls that belong to one request. While the
// database is out of reach, they share one time limit.
func OneWait(ctx context.Context) context.Context { return storage.OneWait(ctx) }

// Admission is the room that one request has in this process: the memory that it
// holds, and its tenant's turns at the CPUs. All requests of a tenant share half
// of Config.MaxMemory, and those of all tenants the whole. Calls of a tenant's
// proxies without an API key have a quarter of their own.
//
// A request that finds no room waits for two seconds and then fails with
// ErrUnavailable; a request that could never fit is ErrTooLarge. Large changes of
// a tenant are written one after the other; a change that waits for 30 seconds
// fails with ErrUnavailable too.
//
// A server asks for an Admission before it reads the body of a request.
// Operations that are called without one make room for themselves.
type Admission admission.Room

// Admit returns the room for a request of a caller, and a context for the
// operations that belong to the request. If count is not nil, it is called with the
// number of tokens beyond the first that an operation creates or uses, before it
// does so; its error ends the operation. The server calls End when the response is
// sent.
func Admit(ctx context.Context, caller core.Caller, count func(tokens int) error) (context.Context, *Admission) {
	room := caller.Room(count)
	return room.In(ctx), (*Admission)(room)
}

func (a *Admission) room() *admission.Room { return (*admission.Room)(a) }

// Arrive makes room for a body of so many bytes that is about to be read.
func (a *Admission) Arrive(ctx context.Context, bytes int) error {
	return core.RoomError(a.room().Arrive(ctx, bytes))
}

// Parse makes room for the JSON of a body that has been read. For a large body it
// also takes the tenant's turn, which lasts until the request waits for something,
// pauses or ends.
func (a *Admission) Parse(ctx context.Context, body []byte) error {
	a.room().Arrived()
	if len(body) >= core.LargeText {
		if err := a.room().Turn(ctx); err != nil {
			return err
		}
	}
	return core.RoomError(a.room().Body(ctx, len(body)+jsonx.Weight(body)))
}

// Work runs work that takes as long as the request is large, such as reading or
// writing its JSON, in the tenant's turn. The turn lasts until the request waits
// for something or ends. The next request therefore begins when this one is nearly
// done, and not all of them are held in memory at once.
func (a *Admission) Work(ctx context.Context, work func() error) error {
	if a.room().Held() >= largeRequest {
		if err := a.room().Turn(ctx); err != nil {
			return err
		}
	}
	return work()
}

// Pause ends the turn, before the server waits for its caller.
func (a *Admission) Pause() { a.room().Rest() }

// End gives back the room.
func (a *Admission) End() { a.room().Leave() }

// largeRequest is what a request holds, in bytes, when work on it needs a turn.
const largeRequest = 128 << 10
