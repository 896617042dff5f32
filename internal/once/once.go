// Package once runs requests at most once for an idempotency key. It claims
// the key, commits the response together with the changes of the request, and
// returns the stored response to later requests with the same key.
//
// It promises that a request takes effect once on all nodes, that a failed request
// leaves nothing, and that a stored response is shown only to a caller who may still
// see what is in it. A request with effects outside the database claims its key before
// it begins, with a lease; the claim of a process that died ends with the lease.
//
// It rests on the storage for changes with guards, on package seal for the stored
// response, and on package core, which holds back the writes of the work.
//
// Begin with [Requests.Do]. The checks before a replay are in replay.go.
package once

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/bounded"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/storage"
)

// Key identifies a request that must run at most once. The same key with
// another scope, or from another application, session or user, is another
// request.
type Key struct {
	// Scope is the kind of request, such as its method and path.
	Scope string
	// Key is chosen by the caller: 1 to 255 printable ASCII characters.
	Key string
	// Lease is for requests with effects outside the database. The key is
	// claimed before the work, and kept for this long if the process dies.
	// Zero means that the work only changes the vault.
	Lease time.Duration
}

// Response is the result of a request, stored for later requests with the
// same key.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// responseLife is how long a response is stored.
const responseLife = 24 * time.Hour

// Work performs a request as the given caller, whose writes are held back.
type Work = func(context.Context, core.Caller) (Response, error)

// Do runs a request at most once for a key, across all nodes, and reports
// whether the response is a stored one. The changes of the work are committed
// together with its response. Work that fails leaves nothing behind,
// including its claim. While a request with the key is in progress, others
// get ErrInProgress.
//
// If the key has no lease, the work may run again from the start if the data
// it read has changed. It may also run in vain if another node has already
// responded.
func (all *Requests) Do(ctx context.Context, op *core.Op, key Key, do Work) (response Response, replayed bool, err error) {
	if err := key.check(); err != nil {
		return Response{}, false, err
	}
	r := &request{Op: op, key: key.hash(op.Identity), lease: key.Lease, owner: op.NewID()}
	name := flight{op.Tenant(), r.key}
	if !all.enter(name) {
		return Response{}, false, fault.ErrInProgress
	}
	defer all.leave(name)
	// A key that this node has not seen is most likely new. Work without
	// external effects then starts at once. If the key is not new after all,
	// its claim fails, which is committed together with the work's changes.
	if key.Lease > 0 || all.met(name) {
		if stored, found, err := r.stored(ctx); err != nil || found {
			return stored, found, err
		}
	}
	if key.Lease > 0 {
		return r.runLeased(ctx, do)
	}
	return r.runPending(ctx, do)
}

// check rejects a key that is too long or not printable ASCII.
func (key *Key) check() error {
	if len(key.Key) < 1 || len(key.Key) > 255 || !form.IsPlain(key.Key) {
		return fault.Field("idempotency_key", "must have 1 to 255 printable ASCII characters")
	}
	return nil
}

// hash returns the stored form of a key. It includes the caller: the session
// or application, and the user that it acts for.
func (key *Key) hash(id core.Identity) storage.Key {
	holder := id.ApplicationID()
	if id.Session() != (uuid.UUID{}) {
		holder = id.Session()
	}
	actor, _, _ := id.Actor()
	return sha256.Sum256([]byte(holder.String() + actor.String() + "\x00" + key.Scope + "\x00" + key.Key))
}

// request is a request with an idempotency key in progress.
type request struct {
	*core.Op
	key   storage.Key
	lease time.Duration
	owner uuid.UUID
}

// stored returns the stored response, if it exists, or ErrInProgress while
// another request with the key is in progress.
func (r *request) stored(ctx context.Context) (Response, bool, error) {
	claim, err := r.claim(ctx)
	if errors.Is(err, storage.ErrNotFound) || err == nil && !claim.Live(r.Now) {
		return Response{}, false, nil
	}
	if err != nil {
		return Response{}, false, err
	}
	if claim.Answer == nil {
		return Response{}, false, fault.ErrInProgress
	}
	location := seal.ClaimLocation(r.key)
	plain, err := r.OpenSealed(ctx, &location, claim.KeyVersion, claim.Answer)
	if err != nil {
		return Response{}, false, err
	}
	var a core.StoredResponse
	if err := a.Decode(plain); err != nil {
		return Response{}, false, err
	}
	if err := Judge(ctx, r.Op, &a.Depends); err != nil {
		return Response{}, false, err
	}
	return Response{a.Status, a.Header, a.Body}, true, nil
}

// claim reads the claim of the key. Memory is reserved for a large response before it is
// read again, because a request that waits for memory must not hold much.
func (r *request) claim(ctx context.Context) (storage.Claim, error) {
	claim, err := r.Vault.Store.Claim(ctx, r.TenantID(), r.key)
	if err != nil || len(claim.Answer) < core.LargeBody {
		return claim, err
	}
	if err := core.Reserve(ctx, core.CopyTimes*len(claim.Answer)); err != nil {
		return storage.Claim{}, err
	}
	return r.Vault.Store.Claim(ctx, r.TenantID(), r.key)
}

// change returns the writes that were held back, with the claim that stores a
// response. It reads the keys again, because the work may have taken longer than
// keys may be used.
func (r *request) change(ctx context.Context, a Response, writes *core.Pending, op storage.ClaimOp) (*storage.Change, error) {
	if err := r.Refresh(ctx); err != nil {
		return nil, err
	}
	answer := core.StoredResponse{Status: a.Status, Header: a.Header, Body: a.Body, Depends: writes.Uses.Depends()}
	plain, err := json.Marshal(&answer)
	if err != nil {
		return nil, err
	}
	location := seal.ClaimLocation(r.key)
	sealed, err := r.Seal(&location, plain)
	if err != nil {
		return nil, err
	}
	ch, err := writes.Change(r.Op)
	if err != nil {
		return nil, err
	}
	ch.Claim = &storage.ClaimChange{Op: op, Claim: storage.Claim{
		Key: r.key, Owner: storage.ID(r.owner), LeaseUntil: r.Now, ExpiresAt: r.Now.Add(responseLife),
		KeyVersion: r.State.Ring.Version(), Answer: sealed,
	}}
	return ch, nil
}

// runPending runs do with its writes held back, and commits them together
// with the claim and the response.
func (r *request) runPending(ctx context.Context, do Work) (Response, bool, error) {
	for range core.MaxAttempts {
		writes := &core.Pending{}
		a, err := r.work(ctx, writes, do)
		if err != nil {
			return r.failed(ctx, a, err)
		}
		ch, err := r.change(ctx, a, writes, storage.ClaimTake)
		if err != nil {
			return a, false, err
		}
		err = r.Write(ctx, ch)
		conflict, refused := fault.Guard(err)
		switch {
		case !refused:
			writes.Committed()
			return a, false, err
		case conflict.Kind == storage.ClaimTaken:
			if stored, found, err := r.stored(ctx); err != nil || found {
				return stored, found, err
			}
		}
	}
	return Response{}, false, fault.ErrFaster
}

// work runs do with its writes held back. The response depends on what do sees
// through the client that it gets, and on what other clients see with its context.
func (r *request) work(ctx context.Context, writes *core.Pending, do Work) (Response, error) {
	caller := r.Collecting(writes)
	return do(core.LineageOf(ctx).Tracking(&writes.Uses).In(ctx), caller)
}

// failed returns the result of failed work. The work may have failed because
// an earlier request with the key has already created the same rows.
func (r *request) failed(ctx context.Context, a Response, err error) (Response, bool, error) {
	stored, found, lookup := r.stored(ctx)
	if found || errors.Is(lookup, fault.ErrConflict) || errors.Is(lookup, fault.ErrForbidden) {
		return stored, found, lookup
	}
	return a, false, err
}

// runLeased claims the key, runs do with its writes held back, and finishes
// the claim together with them, if this node still owns the claim.
func (r *request) runLeased(ctx context.Context, do Work) (Response, bool, error) {
	ch := r.Change()
	ch.Claim = &storage.ClaimChange{Op: storage.ClaimTake, Claim: storage.Claim{
		Key: r.key, Owner: storage.ID(r.owner), LeaseUntil: r.Now.Add(r.lease), ExpiresAt: r.Now.Add(responseLife),
	}}
	if err := r.Write(ctx, ch); errors.Is(err, storage.ErrExists) {
		a, found, err := r.stored(ctx)
		if err == nil && !found {
			err = fault.ErrInProgress
		}
		return a, found, err
	} else if err != nil {
		return Response{}, false, err
	}
	writes := &core.Pending{Leased: true}
	a, err := r.work(ctx, writes, do)
	if err == nil {
		err = r.finish(ctx, writes, a)
	}
	if err != nil {
		if dropped := r.drop(ctx); dropped != nil {
			r.Vault.Logger.ErrorContext(ctx, "an idempotency claim could not be released; it ends with its lease", "tenant", r.Tenant(), "error", dropped)
		}
		return a, false, err
	}
	return a, false, nil
}

func (r *request) finish(ctx context.Context, writes *core.Pending, a Response) error {
	ch, err := r.change(ctx, a, writes, storage.ClaimFinish)
	if err != nil {
		return err
	}
	defer writes.Committed()
	err = r.Write(ctx, ch)
	if _, refused := fault.Guard(err); refused {
		return fault.ErrFaster // the work cannot be repeated
	}
	return err
}

// drop releases the claim after a failure, even if the caller has left.
func (r *request) drop(ctx context.Context) error {
	ch := &storage.Change{Tenant: r.TenantID(), Now: r.Now} // seals nothing, so it is never late
	ch.Claim = &storage.ClaimChange{Op: storage.ClaimDrop, Claim: storage.Claim{Key: r.key, Owner: storage.ID(r.owner)}}
	admission.Of(ctx).Rest()
	err := r.Vault.Store.Write(context.WithoutCancel(ctx), ch)
	if errors.Is(err, storage.ErrStale) {
		return nil // another owner has the claim now
	}
	return err
}

// maxMet is the maximum number of keys of completed requests.
const maxMet = 20_000

// Requests tracks the requests in progress in this process, and most of the
// completed requests. The zero value is ready to use.
type Requests struct {
	mu   sync.Mutex
	keys map[flight]bool
	done bounded.Map[flight, bool] // completed requests
}

// flight identifies a request in progress in this process, so that a second
// request is rejected at once. Across processes the claim decides.
type flight struct {
	tenant uuid.UUID
	key    storage.Key
}

// enter starts a request. It reports false if a request with the same key is
// in progress.
func (all *Requests) enter(key flight) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.keys[key] {
		return false
	}
	if all.keys == nil {
		all.keys = map[flight]bool{}
	}
	all.keys[key] = true
	return true
}

// leave ends a request.
func (all *Requests) leave(key flight) {
	all.mu.Lock()
	defer all.mu.Unlock()
	delete(all.keys, key)
	all.done.Put(maxMet, key, true)
}

// met reports whether the key of an earlier request is known.
func (all *Requests) met(key flight) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.done[key]
}
