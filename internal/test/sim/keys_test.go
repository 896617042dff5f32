//go:build !race

package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
)

// credentials are the API keys and session keys that clients know.
type credentials struct {
	mu  sync.Mutex
	all []*credential
}

// credential is an API key or the key of a session.
type credential struct {
	name   string
	text   string
	app    uuid.UUID
	id     uuid.UUID   // of an API key
	parent *credential // of a session: the key that authorized it
	state  credentialState
	since  time.Time
}

type credentialState uint8

const (
	live credentialState = iota
	unsure
	dead
)

// add adds a credential that works.
func (c *credentials) add(k *credential) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k.parent != nil && k.parent.state != live {
		k.state = unsure // its parent has ended since
	}
	k.name, k.since = fmt.Sprintf("%s %d", k.name, len(c.all)), time.Now()
	c.all = append(c.all, k)
}

// set sets the state of the credentials that a function selects, and of sessions that
// one of them authorized. It changes none that is dead already.
func (c *credentials) set(state credentialState, selected func(*credential) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.all {
		if k.state != dead && (selected(k) || k.parent != nil && selected(k.parent)) {
			k.state, k.since = state, time.Now()
		}
	}
}

// pick returns a random credential that a function accepts, or nil.
func (c *credentials) pick(r *rand.Rand, accepts func(*credential) bool) *credential {
	c.mu.Lock()
	defer c.mu.Unlock()
	var some []*credential
	for _, k := range c.all {
		if accepts(k) {
			some = append(some, k)
		}
	}
	if len(some) == 0 {
		return nil
	}
	return some[r.IntN(len(some))]
}

// now returns the state of a credential, and since when it has it.
func (c *credentials) now(k *credential) (credentialState, time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return k.state, k.since
}

// standing is the token that credentials read. It exists throughout a history.
const standing = "standing"

// withinASecond is how long a key that was withdrawn may still work on another node.
const withinASecond = time.Second

// use reads a token with a key. A key that was withdrawn a second ago must not work,
// and a key that was not withdrawn must work.
func (c *client) use(q request, k *credential) request {
	q.step = step{kind: "use", thing: k.name}
	keys, w := &c.w.keys, c.w
	q.do = func(ctx context.Context, v *vault.Vault, _ *vault.Client) (string, error) {
		before, since := keys.now(k)
		began := time.Now()
		as, err := v.Authenticate(ctx, k.text)
		if err == nil {
			_, err = as.GetToken(ctx, standing)
		}
		after, at := keys.now(k)
		switch refused := errors.Is(err, vault.ErrUnauthenticated) || errors.Is(err, vault.ErrForbidden) || errors.Is(err, vault.ErrNotFound); {
		case err == nil && before == dead && began.Sub(since) > withinASecond:
			w.failf("%s worked %s after it was withdrawn", k.name, began.Sub(since))
		case refused && before == live && after == live && since.Equal(at):
			w.failf("%s, which nobody has withdrawn, does not work: %v", k.name, err)
		case refused:
			err = nil
		}
		return "", err
	}
	return q
}

// mine selects the API keys of the client's own application that work or may work.
func (c *client) mine(k *credential) bool {
	return k.app == c.app && k.parent == nil && k.state != dead
}

// newKey gives the client's application another key.
func (c *client) newKey(q request) request {
	q.step = step{kind: "new key"}
	q.do = func(ctx context.Context, _ *vault.Vault, as *vault.Client) (string, error) {
		key, err := as.CreateApplicationKey(ctx, c.app, vault.ApplicationKeyParams{})
		if err == nil {
			c.w.keys.add(&credential{name: "key", text: key.Key, app: c.app, id: key.ID})
		}
		return "", err
	}
	return q
}

// dropKey deletes a key of the client's application while all nodes use it, and uses it
// again a second later.
func (c *client) dropKey(q request, k *credential) request {
	q.step = step{kind: "drop key", thing: k.name}
	is := func(o *credential) bool { return o == k }
	q.do = func(ctx context.Context, _ *vault.Vault, as *vault.Client) (string, error) {
		var uses sync.WaitGroup
		defer uses.Wait()
		everywhere := func() {
			for _, n := range c.w.live() {
				uses.Go(func() { _, _ = c.use(q, k).do(ctx, n.v, nil) })
			}
		}
		everywhere()
		c.w.keys.set(unsure, is)
		err := as.DeleteApplicationKey(ctx, c.app, k.id)
		if err == nil || errors.Is(err, vault.ErrNotFound) {
			c.w.keys.set(dead, is)
			c.w.sleep(ctx, withinASecond+time.Millisecond)
			everywhere()
		}
		return "", err
	}
	return q
}

// regenerate replaces all keys of the client's application.
func (c *client) regenerate(q request) request {
	q.step = step{kind: "regenerate"}
	q.do = func(ctx context.Context, _ *vault.Vault, as *vault.Client) (string, error) {
		c.w.keys.set(unsure, c.mine)
		app, err := as.RegenerateKey(ctx, c.app)
		if err == nil {
			c.w.keys.set(dead, c.mine)
			err = c.know(ctx, as, app)
		}
		return "", err
	}
	return q
}

// know adds the only key of an application, which the client has just made.
func (c *client) know(ctx context.Context, as *vault.Client, app *vault.Application) error {
	all, err := as.ListApplicationKeys(ctx, app.ID)
	if err == nil && len(all) == 1 {
		c.w.keys.add(&credential{name: "key", text: app.Key, app: app.ID, id: all[0].ID})
	}
	return err
}

// session creates a session, and authorizes it with a key of the client's application.
func (c *client) session(q request, k *credential) request {
	q.step = step{kind: "session", thing: k.name}
	q.do = func(ctx context.Context, v *vault.Vault, _ *vault.Client) (string, error) {
		public, err := v.Authenticate(ctx, c.w.public)
		if err != nil {
			return "", err
		}
		s, err := public.CreateSession(ctx)
		if err != nil {
			return "", err
		}
		private, err := v.Authenticate(ctx, k.text)
		if errors.Is(err, vault.ErrUnauthenticated) {
			return "", nil // withdrawn
		}
		if err != nil {
			return "", err
		}
		err = private.AuthorizeSession(ctx, vault.SessionGrant{Nonce: s.Nonce, Permissions: []vault.Permission{"token:read"}, ExpiresAt: time.Now().Add(30 * 24 * time.Hour)})
		switch {
		case err == nil:
			c.w.keys.add(&credential{name: "session", text: s.SessionKey, app: c.app, parent: k})
		case errors.Is(err, vault.ErrUnauthenticated), errors.Is(err, vault.ErrForbidden), errors.Is(err, vault.ErrNotFound):
			return "", nil // the key was withdrawn, or the session ended, in between
		}
		return "", err
	}
	return q
}
