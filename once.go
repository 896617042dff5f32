package vault

import (
	"context"
	"net/http"
	"time"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/once"
)

// IdempotencyKey names a request that must be carried out at most once. The same key
// under another scope, or by another application, session or user, is another
// request.
type IdempotencyKey struct {
	// Scope says what kind of request it is, as a method and path do.
	Scope string
	// Key is chosen by the caller: 1 to 255 printable ASCII characters.
	Key string
	// Lease is for requests with effects outside of the database: the key is
	// claimed before the work and kept for this long if the process dies. It
	// must be longer than the work can take. Zero means that the work does
	// nothing but change the vault.
	Lease time.Duration
}

// Once carries out a request at most once for a key, across all nodes: do runs,
// and what it changed through the Client it is given is committed together with
// its answer. A later call with the same key gets the answer, and true. A
// request that fails leaves nothing, its claim included, so that it can be
// tried again. While one is under way, others get ErrInProgress.
//
// The answer of a reactor's run may hold the data of tokens. It is given again
// only while those who used the tokens could still see as much of them, else Once
// fails with ErrForbidden. The tokens, and a cvc that the run saw, must still
// exist, and nobody but the run may have changed the tokens; else Once fails with
// [ErrWithdrawn].
//
// Unless key.Lease is set, do should do nothing but call the Client: it may run
// again from the start when others changed what it read, and it may run in vain
// when another node has answered already. Its writes are held back until it
// returns, and reads within it do not see them.
func (c *Client) Once(ctx context.Context, key IdempotencyKey, do func(context.Context, *Client) (StoredResponse, error)) (answer StoredResponse, replayed bool, err error) {
	ctx, end := c.v.core.TellOnce(ctx)
	defer func() { end(err) }()
	answer, err = run(ctx, c, &verbOnce, func(ctx context.Context, op *operation) (StoredResponse, error) {
		work := func(ctx context.Context, caller core.Caller) (once.Response, error) {
			a, err := do(ctx, c.with(caller))
			return once.Response(a), err
		}
		stored, again, err := c.v.requests.Do(ctx, op.Op, once.Key(key), work)
		replayed = again
		return StoredResponse(stored), err
	})
	return answer, replayed, err
}

// StoredResponse is the outcome of a request, kept for later requests with the same key.
// Printed or logged it shows its status alone, except as JSON and in unexported
// fields: see the package comment.
type StoredResponse struct {
	Status int
	Header http.Header
	Body   []byte
}
