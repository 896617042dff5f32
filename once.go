package vault

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/seal"
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
// its answer. Who comes later with the same key gets the answer, and true. A
// request that fails leaves nothing, its claim included, so that it can be
// tried again. While one is under way, others get ErrInProgress.
//
// Unless key.Lease is set, do should do nothing but call the Client: it may run
// again from the start when others changed what it read, and it may run in vain
// when another node has answered already. Its writes are held back until it
// returns, and reads within it do not see them.
func (c *Client) Once(ctx context.Context, key OnceKey, do func(context.Context, *Client) (Answer, error)) (answer Answer, replayed bool, err error) {
	if err := checkOnceKey(key.Key); err != nil {
		return Answer{}, false, err
	}
	op, err := c.begin(ctx, "")
	if err != nil {
		return Answer{}, false, err
	}
	o := &onceCall{call: op, key: op.onceHash(key), lease: key.Lease, owner: op.v.idAt(op.now)}
	if !op.v.flight.enter(op.tenant, o.key) {
		return Answer{}, false, ErrInProgress
	}
	defer op.v.flight.leave(op.tenant, o.key)
	// A key that this node has not met is most likely new. Work without effects
	// outside then begins at once: if the key is not new after all, the claim,
	// which is taken together with the work's changes, will tell.
	if key.Lease > 0 || op.v.flight.met(op.tenant, o.key) {
		if answer, found, err := o.answer(ctx); err != nil || found {
			return answer, found, err
		}
	}
	if key.Lease > 0 {
		return o.runLeased(ctx, do)
	}
	return o.runHeld(ctx, do)
}

var errFaster = errorf(ErrConflict, "The request could not be carried out because others were faster; try again.")

func checkOnceKey(key string) error {
	if len(key) < 1 || len(key) > 255 || !form.IsPlain(key) {
		return invalid("idempotency_key", "must have 1 to 255 printable ASCII characters")
	}
	return nil
}

// onceHash is what the database knows of a key. Who asks is part of it: the
// session or application, and the user that it acts for.
func (op *call) onceHash(key OnceKey) storage.Key {
	holder := op.ApplicationID()
	if op.session != (uuid.UUID{}) {
		holder = op.session
	}
	return sha256.Sum256([]byte(holder.String() + op.actor.String() + "\x00" + key.Scope + "\x00" + key.Key))
}

// onceCall is a request with an idempotency key under way.
type onceCall struct {
	*call
	key   storage.Key
	lease time.Duration
	owner uuid.UUID
}

// claimPlace is where a claim's answer belongs.
func claimPlace(key storage.Key) seal.Place {
	return seal.Place{Entity: "claim", ID: string(key[:]), Field: "answer"}
}

// jobPlace is where a job's payload belongs.
func jobPlace(id storage.ID) seal.Place {
	return seal.Place{Entity: "job", ID: uuid.UUID(id).String(), Field: "payload"}
}

// answer returns the stored answer, if there is one. It is ErrInProgress while
// somebody else is at work.
func (o *onceCall) answer(ctx context.Context) (Answer, bool, error) {
	claim, err := o.v.store.Claim(ctx, o.tenantID(), o.key)
	if errors.Is(err, storage.ErrNotFound) || err == nil && !claim.Live(o.now) {
		return Answer{}, false, nil
	}
	if err != nil {
		return Answer{}, false, err
	}
	if claim.Answer == nil {
		return Answer{}, false, ErrInProgress
	}
	place := claimPlace(o.key)
	plain, err := o.open(ctx, &place, claim.KeyVersion, claim.Answer)
	if err != nil {
		return Answer{}, false, err
	}
	var a Answer
	return a, true, a.decode(plain)
}

// claim seals an answer for the claim that keeps it. The work may have taken
// longer than keys may be used unread.
func (o *onceCall) claim(ctx context.Context, a Answer) (storage.Claim, error) {
	if err := o.refresh(ctx); err != nil {
		return storage.Claim{}, err
	}
	place := claimPlace(o.key)
	sealed, err := o.seal(&place, a.encode())
	return storage.Claim{
		Key: o.key, Owner: storage.ID(o.owner), LeaseUntil: o.now, ExpiresAt: o.now.Add(answerLife),
		KeyVersion: o.state.ring.Version(), Answer: sealed,
	}, err
}

// runHeld runs do with its writes held back, and commits them together with
// the claim and the answer.
func (o *onceCall) runHeld(ctx context.Context, do func(context.Context, *Client) (Answer, error)) (Answer, bool, error) {
	for range maxAttempts {
		client := *o.Client
		client.held = &held{}
		a, err := do(ctx, &client)
		if err != nil {
			return o.failed(ctx, a, err)
		}
		claim, err := o.claim(ctx, a)
		if err != nil {
			return a, false, err
		}
		ch, err := client.held.change(ctx, o.call)
		if err != nil {
			return a, false, err
		}
		ch.Claim = &storage.ClaimChange{Op: storage.ClaimTake, Claim: claim}
		err = o.v.store.Write(ctx, ch)
		conflict, refused := asConflict(err)
		switch {
		case errors.Is(err, storage.ErrLate): // again, under newer keys
		case !refused:
			client.held.committed()
			return a, false, err
		case conflict.Kind == storage.ClaimTaken:
			if stored, found, err := o.answer(ctx); err != nil || found {
				return stored, found, err
			}
		}
	}
	return Answer{}, false, errFaster
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
	ch := o.change()
	ch.Claim = &storage.ClaimChange{Op: storage.ClaimTake, Claim: storage.Claim{
		Key: o.key, Owner: storage.ID(o.owner), LeaseUntil: o.now.Add(o.lease), ExpiresAt: o.now.Add(answerLife),
	}}
	if err := o.v.store.Write(ctx, ch); errors.Is(err, storage.ErrExists) {
		return o.answerOrBusy(ctx)
	} else if err != nil {
		return Answer{}, false, err
	}
	client := *o.Client
	client.held = &held{leased: true}
	a, err := do(ctx, &client)
	if err == nil {
		err = o.finish(ctx, client.held, a)
	}
	if err != nil {
		if dropped := o.drop(ctx); dropped != nil {
			o.v.cfg.Logger.ErrorContext(ctx, "an idempotency claim could not be given up and ends with its lease", "tenant", o.tenant, "error", dropped)
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

func (o *onceCall) finish(ctx context.Context, h *held, a Answer) error {
	claim, err := o.claim(ctx, a)
	if err != nil {
		return err
	}
	ch, err := h.change(ctx, o.call)
	if err != nil {
		return err
	}
	ch.Claim = &storage.ClaimChange{Op: storage.ClaimFinish, Claim: claim}
	defer h.committed()
	err = o.v.store.Write(ctx, ch)
	if _, refused := asConflict(err); refused {
		return errFaster // the work cannot be done again
	}
	return err
}

// drop gives a claim up after a failure, even when the caller has gone.
func (o *onceCall) drop(ctx context.Context) error {
	ch := &storage.Change{Tenant: o.tenantID(), Now: o.now} // seals nothing, so it is never too late
	ch.Claim = &storage.ClaimChange{Op: storage.ClaimDrop, Claim: storage.Claim{Key: o.key, Owner: storage.ID(o.owner)}}
	err := o.v.store.Write(context.WithoutCancel(ctx), ch)
	if errors.Is(err, storage.ErrStale) {
		return nil // somebody else's by now
	}
	return err
}

// inFlight knows the requests that this process is carrying out, so that a
// second one is told at once, and most of those that it has carried out. Across
// processes the claim decides.
type inFlight struct {
	mu   sync.Mutex
	keys map[flightKey]bool
	// young and old are keys that were here before. When young is full it
	// becomes old, and what was old is forgotten.
	young, old map[flightKey]bool
}

// maxMet is how many keys a generation of inFlight has.
const maxMet = 10_000

type flightKey struct {
	tenant uuid.UUID
	key    storage.Key
}

func (f *inFlight) enter(tenant uuid.UUID, key storage.Key) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	k := flightKey{tenant, key}
	if f.keys[k] {
		return false
	}
	if f.keys == nil {
		f.keys = map[flightKey]bool{}
	}
	f.keys[k] = true
	return true
}

func (f *inFlight) leave(tenant uuid.UUID, key storage.Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	k := flightKey{tenant, key}
	delete(f.keys, k)
	if f.young == nil || len(f.young) >= maxMet {
		f.young, f.old = map[flightKey]bool{}, f.young
	}
	f.young[k] = true
}

// met reports whether a key is remembered from an earlier request.
func (f *inFlight) met(tenant uuid.UUID, key storage.Key) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	k := flightKey{tenant, key}
	return f.young[k] || f.old[k]
}
