// Package bridge gives httpserver and the command line access to parts of a vault
// that package vault does not export: the identity of a client, admission of
// requests, decoding of an entity that is put back, and former names of tenants.
// Package vault sets the functions when it is initialized.
package bridge

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/storage"
)

// Functions of package vault. They take a *vault.Client or a *vault.Vault as
// any, because this package cannot import the types.
var (
	// Caller returns the identity of a client.
	Caller func(client any) core.Caller
	// ProxyCaller returns a *vault.Client for a proxy call without an API
	// key, so that such calls can be counted before they are made. The client
	// belongs to the proxy's tenant and has no permissions. An unknown key
	// and a proxy that requires authentication fail as in Vault.InvokeProxy.
	ProxyCaller func(ctx context.Context, vault any, key string) (client any, err error)
	// NameOfAnother reports whether a tenant other than the given one had a name, and
	// was renamed or deleted.
	NameOfAnother func(ctx context.Context, vault any, name string, tenant uuid.UUID) (bool, error)
	// DecodeReplacement reads parameters for a Replace method from the JSON
	// of an entity. It ignores read-only fields, so that the result of a Get
	// can be changed and put back. It reads the application_id of a proxy as
	// application.id.
	DecodeReplacement func(data []byte, params json.Unmarshaler) error
)

// ProxyID returns the proxy of a client from ProxyCaller, or a zero id for
// any other client.
func ProxyID(client any) uuid.UUID { return Caller(client).Proxy() }

// Denied records in a full audit that a route refused a client.
func Denied(ctx context.Context, client any, route, permission string, err error) {
	Caller(client).Denied(ctx, route, permission, err)
}

// SkewProblem describes a clock that is more than 30 seconds ahead of the
// database's, or behind it, and is empty otherwise.
func SkewProblem(ahead time.Duration) string { return core.SkewProblem(ahead) }

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
func Admit(ctx context.Context, caller core.Caller, count func(tokens int) error) (context.Context, *Admission) {
	room := caller.Room(count)
	return room.In(ctx), (*Admission)(room)
}

func (a *Admission) room() *admission.Room { return (*admission.Room)(a) }

// Arrive reserves memory for a body of the given size that is about to be
// read.
func (a *Admission) Arrive(ctx context.Context, bytes int) error {
	return core.RoomError(a.room().Arrive(ctx, bytes))
}

// Parse reserves memory for the JSON of a complete body. For a large body it
// also takes the tenant's turn, which lasts until the request waits, pauses
// or ends.
func (a *Admission) Parse(ctx context.Context, body []byte) error {
	a.room().Arrived()
	if len(body) >= core.LargeText {
		if err := a.room().Turn(ctx); err != nil {
			return err
		}
	}
	return core.RoomError(a.room().Body(ctx, len(body)+jsonx.Weight(body)))
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
