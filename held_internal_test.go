package vault

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
)

// slowWork writes through a client everything that can be sealed, and lets then
// happen what the test wants.
func slowWork(reactor uuid.UUID, then func(*pendingWrites) error) func(context.Context, *Client) (Answer, error) {
	return func(ctx context.Context, c *Client) (Answer, error) {
		_, err := c.CreateToken(ctx, TokenParams{ID: "made", Type: Card, Data: CardData{Number: "4242424242424242", CVC: "987"}})
		if err != nil {
			return Answer{}, err
		}
		app, err := c.CreateApplication(ctx, ApplicationParams{Name: "new", Type: Private, Permissions: []string{"token:read"}})
		if err != nil {
			return Answer{}, err
		}
		if _, err := c.React(ctx, reactor, ReactParams{CallbackURL: "https://example.com/"}); err != nil {
			return Answer{}, err
		}
		return Answer{Status: 200, Body: []byte(app.Key)}, then(c.pending)
	}
}

// Work that takes longer than its keys may be used is not done in vain: with
// effects outside of the database it cannot be done again.
func TestHeldWritesAreNotTooLate(t *testing.T) {
	t.Parallel()
	for name, lease := range map[string]time.Duration{"at once": 0, "leased": time.Hour} {
		for what, rotates := range map[string]bool{"slow work": false, "slow work and a rotation": true} {
			t.Run(name+", "+what, func(t *testing.T) {
				t.Parallel()
				heldWorkSurvives(t, lease, rotates)
			})
		}
	}
}

func heldWorkSurvives(t *testing.T, lease time.Duration, rotates bool) {
	t.Helper()
	ctx := t.Context()
	v, _, tenant := counted(t, Config{})
	c := v.Tenant(tenant)
	reactor, err := c.CreateReactor(ctx, ReactorParams{Name: "r", Code: "x", Configuration: map[string]string{}})
	if err != nil {
		t.Fatal(err)
	}
	runs := 0
	work := slowWork(reactor.ID, func(h *pendingWrites) error {
		if runs++; runs > 1 {
			return errors.New("the work is done again")
		}
		for _, ch := range h.changes {
			ch.Before = time.Now().Add(-time.Second) // what ten seconds of work come to
		}
		if rotates {
			return v.RotateKeys(ctx, tenant, nil)
		}
		return nil
	})
	a, _, err := c.Once(ctx, OnceKey{Key: "k", Lease: lease}, work)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := c.GetToken(ctx, "made")
	if err != nil || string(tok.Data) != `{"number":"4242424242424242","cvc":"987"}` {
		t.Errorf("the token that was made: %v", err)
	}
	if _, err := v.Authenticate(ctx, string(a.Body)); err != nil {
		t.Errorf("the application: %v", err)
	}
	if _, replayed, err := c.Once(ctx, OnceKey{Key: "k", Lease: lease}, work); err != nil || !replayed {
		t.Errorf("the answer: replayed %v, %v", replayed, err)
	}
	// A rotation opens everything that there is, the job too.
	if err := v.RotateKeys(ctx, tenant, nil); err != nil {
		t.Errorf("the rotation after it: %v", err)
	}
}

// What the work changed is not too late either, while nobody else has changed
// it: a rotation does.
func TestHeldUpdatesAreNotTooLate(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	v, _, tenant := counted(t, Config{})
	c := v.Tenant(tenant)
	if _, err := c.CreateToken(ctx, TokenParams{ID: "there", Type: Generic, Data: "x"}); err != nil {
		t.Fatal(err)
	}
	_, _, err := c.Once(ctx, OnceKey{Key: "k", Lease: time.Hour}, func(ctx context.Context, c *Client) (Answer, error) {
		_, err := c.UpdateToken(ctx, "there", JSON(`{"data":"changed"}`))
		for _, ch := range c.pending.changes {
			ch.Before = time.Now().Add(-time.Second)
		}
		return Answer{Status: 200}, err
	})
	if err != nil {
		t.Fatal(err)
	}
	if tok, err := c.GetToken(ctx, "there"); err != nil || string(tok.Data) != `"changed"` {
		t.Errorf("the token: %v", err)
	}
}
