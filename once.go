package vault

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/kept"
	"github.com/seed-72ea4aab/vault/internal/sealed"
	"github.com/seed-72ea4aab/vault/storage"
)

// OnceKey names a request that must be carried out at most once. The same key
// under another scope, or by another application, session or user, is another
// request.
type OnceKey struct {
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

// answerLife is how long an answer is kept.
const answerLife = 24 * time.Hour

// Once carries out a request at most once for a key, across all nodes: do runs,
// and what it changed through the Client it is given is committed together with
// its answer. A later call with the same key gets the answer, and true. A
// request that fails leaves nothing, its claim included, so that it can be
// tried again. While one is under way, others get ErrInProgress.
//
// An answer that holds what a run of a reactor gave may hold the data of tokens.
// It is given again only while those who used the tokens could still see as much
// of them, else Once fails with ErrForbidden, and while the tokens, and a cvc
// that the run saw, still exist, else with [ErrWithdrawn].
//
// Unless key.Lease is set, do should do nothing but call the Client: it may run
// again from the start when others changed what it read, and it may run in vain
// when another node has answered already. Its writes are held back until it
// returns, and reads within it do not see them.
func (c *Client) Once(ctx context.Context, key OnceKey, do func(context.Context, *Client) (Answer, error)) (answer Answer, replayed bool, err error) {
	ctx, end := c.v.core.TellOnce(ctx)
	defer func() { end(err) }()
	answer, err = run(ctx, c, &verbOnce, func(ctx context.Context, op *operation) (answer Answer, err error) {
		if err := checkOnceKey(key.Key); err != nil {
			return answer, err
		}
		answer, replayed, err = op.once(ctx, key, do)
		return answer, err
	})
	return answer, replayed, err
}

func (op *operation) once(ctx context.Context, key OnceKey, do func(context.Context, *Client) (Answer, error)) (answer Answer, replayed bool, err error) {
	o := &onceCall{operation: op, key: key.hash(op.Identity), lease: key.Lease, owner: op.NewID()}
	flight := flightKey{op.Tenant(), o.key}
	if !op.v.flights.Enter(flight) {
		return Answer{}, false, ErrInProgress
	}
	defer op.v.flights.Leave(flight)
	// A key that this node has not met is most likely new. Work without effects
	// outside then begins at once: if the key is not new after all, the claim,
	// which is taken together with the work's changes, will tell.
	if key.Lease > 0 || op.v.flights.Met(flight) {
		if answer, found, err := o.answer(ctx); err != nil || found {
			return answer, found, err
		}
	}
	if key.Lease > 0 {
		return o.runLeased(ctx, do)
	}
	return o.runPending(ctx, do)
}

func checkOnceKey(key string) error {
	if len(key) < 1 || len(key) > 255 || !form.IsPlain(key) {
		return fault.Field("idempotency_key", "must have 1 to 255 printable ASCII characters")
	}
	return nil
}

// hash is what the database knows of a key. Who asks is part of it: the session
// or application, and the user that it acts for.
func (key *OnceKey) hash(id core.Identity) storage.Key {
	holder := id.ApplicationID()
	if id.Session() != (uuid.UUID{}) {
		holder = id.Session()
	}
	actor, _, _ := id.Actor()
	return sha256.Sum256([]byte(holder.String() + actor.String() + "\x00" + key.Scope + "\x00" + key.Key))
}

// flightKey names a request that this process is carrying out, so that a second
// one is refused at once. Across processes the claim decides.
type flightKey struct {
	tenant uuid.UUID
	key    storage.Key
}

// onceCall is a request with an idempotency key under way.
type onceCall struct {
	*operation
	key   storage.Key
	lease time.Duration
	owner uuid.UUID
}

// answer returns the stored answer, if there is one. It is ErrInProgress while
// another request with the key is being processed.
func (o *onceCall) answer(ctx context.Context) (Answer, bool, error) {
	claim, err := o.Vault.Store.Claim(ctx, o.TenantID(), o.key)
	if errors.Is(err, storage.ErrNotFound) || err == nil && !claim.Live(o.Now) {
		return Answer{}, false, nil
	}
	if err != nil {
		return Answer{}, false, err
	}
	if claim.Answer == nil {
		return Answer{}, false, ErrInProgress
	}
	place := sealed.ClaimPlace(o.key)
	plain, err := o.Open(ctx, &place, claim.KeyVersion, claim.Answer)
	if err != nil {
		return Answer{}, false, err
	}
	var a kept.Answer
	if err := a.Decode(plain); err != nil {
		return Answer{}, false, err
	}
	if err := o.replay(ctx, &a); err != nil {
		return Answer{}, false, err
	}
	return Answer{a.Status, a.Header, a.Body}, true, nil
}

// claim seals an answer for the claim that keeps it. The work may have taken
// longer than keys may be used unread.
func (o *onceCall) claim(ctx context.Context, a Answer, writes *core.Pending) (storage.Claim, error) {
	if err := o.Refresh(ctx); err != nil {
		return storage.Claim{}, err
	}
	answer := kept.Answer{Status: a.Status, Header: a.Header, Body: a.Body}
	answer.DependOn(&writes.Uses)
	plain, err := answer.Encode()
	if err != nil {
		return storage.Claim{}, err
	}
	place := sealed.ClaimPlace(o.key)
	sealed, err := o.Seal(&place, plain)
	return storage.Claim{
		Key: o.key, Owner: storage.ID(o.owner), LeaseUntil: o.Now, ExpiresAt: o.Now.Add(answerLife),
		KeyVersion: o.State.Ring.Version(), Answer: sealed,
	}, err
}

// runPending runs do with its writes held back, and commits them together with
// the claim and the answer.
func (o *onceCall) runPending(ctx context.Context, do func(context.Context, *Client) (Answer, error)) (Answer, bool, error) {
	for range core.MaxAttempts {
		writes := &core.Pending{}
		a, err := do(ctx, o.client().with(o.Holding(writes)))
		if err != nil {
			return o.failed(ctx, a, err)
		}
		claim, err := o.claim(ctx, a, writes)
		if err != nil {
			return a, false, err
		}
		ch, err := writes.Change(o.Op)
		if err != nil {
			return a, false, err
		}
		ch.Claim = &storage.ClaimChange{Op: storage.ClaimTake, Claim: claim}
		err = o.Write(ctx, ch)
		conflict, refused := fault.Guard(err)
		switch {
		case !refused:
			writes.Committed()
			return a, false, err
		case conflict.Kind == storage.ClaimTaken:
			if stored, found, err := o.answer(ctx); err != nil || found {
				return stored, found, err
			}
		}
	}
	return Answer{}, false, fault.ErrFaster
}

// failed is the outcome of work that failed: perhaps because it had been done
// before, and what it made is in its way.
func (o *onceCall) failed(ctx context.Context, a Answer, err error) (Answer, bool, error) {
	stored, found, lookup := o.answer(ctx)
	if found || errors.Is(lookup, ErrConflict) {
		return stored, found, lookup
	}
	return a, false, err
}

// runLeased claims the key, runs do with its writes held back, and finishes the
// claim with them, provided that it is still ours.
func (o *onceCall) runLeased(ctx context.Context, do func(context.Context, *Client) (Answer, error)) (Answer, bool, error) {
	ch := o.Change()
	ch.Claim = &storage.ClaimChange{Op: storage.ClaimTake, Claim: storage.Claim{
		Key: o.key, Owner: storage.ID(o.owner), LeaseUntil: o.Now.Add(o.lease), ExpiresAt: o.Now.Add(answerLife),
	}}
	if err := o.Write(ctx, ch); errors.Is(err, storage.ErrExists) {
		return o.answerOrBusy(ctx)
	} else if err != nil {
		return Answer{}, false, err
	}
	writes := &core.Pending{Leased: true}
	a, err := do(ctx, o.client().with(o.Holding(writes)))
	if err == nil {
		err = o.finish(ctx, writes, a)
	}
	if err != nil {
		if dropped := o.drop(ctx); dropped != nil {
			o.Vault.Logger.ErrorContext(ctx, "an idempotency claim could not be released; it ends with its lease", "tenant", o.Tenant(), "error", dropped)
		}
		return a, false, err
	}
	return a, false, nil
}

func (o *onceCall) answerOrBusy(ctx context.Context) (Answer, bool, error) {
	a, found, err := o.answer(ctx)
	if err == nil && !found {
		err = ErrInProgress
	}
	return a, found, err
}

func (o *onceCall) finish(ctx context.Context, writes *core.Pending, a Answer) error {
	claim, err := o.claim(ctx, a, writes)
	if err != nil {
		return err
	}
	ch, err := writes.Change(o.Op)
	if err != nil {
		return err
	}
	ch.Claim = &storage.ClaimChange{Op: storage.ClaimFinish, Claim: claim}
	defer writes.Committed()
	err = o.Write(ctx, ch)
	if _, refused := fault.Guard(err); refused {
		return fault.ErrFaster // the work cannot be done again
	}
	return err
}

// drop gives a claim up after a failure, even when the caller has gone.
func (o *onceCall) drop(ctx context.Context) error {
	ch := &storage.Change{Tenant: o.TenantID(), Now: o.Now} // seals nothing, so it is never too late
	ch.Claim = &storage.ClaimChange{Op: storage.ClaimDrop, Claim: storage.Claim{Key: o.key, Owner: storage.ID(o.owner)}}
	admission.Of(ctx).Rest()
	err := o.Vault.Store.Write(context.WithoutCancel(ctx), ch)
	if errors.Is(err, storage.ErrStale) {
		return nil // another owner has it by now
	}
	return err
}

// Answer is the outcome of a request, kept for later requests with the same key.
// Printed or logged it shows its status alone, except as JSON and in unexported
// fields: see [Token].
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}
