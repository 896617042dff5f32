//go:build !race

package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

// supply holds changes of a real vault for a bare writer. A catcher takes them
// before they reach the storage.
type supply struct {
	changes []*storage.Change
	next    atomic.Int64
	create  func() error
	catch   *catcher
	user    *user
}

// newSupply returns a supply of the changes that calls of create make. Their
// vault is on a database in memory.
func newSupply(b *testing.B, create func(*user) error) *supply {
	b.Helper()
	store := must.Get(sqlite.Open(b.Context(), ":memory:"))(b)
	s := &supply{catch: &catcher{Storage: store}}
	u := newUser(b, s.catch)
	s.user, s.create = u, func() error { return create(u) }
	return s
}

// prepare creates the changes of this many calls.
func (s *supply) prepare(calls int) error {
	s.catch.caught = make([]*storage.Change, 0, calls)
	for range calls {
		if err := s.create(); err != nil {
			return err
		}
	}
	s.changes = s.catch.caught
	s.next.Store(0)
	return nil
}

// prepareBatches creates changes of a thousand tokens each, for this many
// tokens.
func (s *supply) prepareBatches(tokens int) error { return s.prepare(tokens / 1000) }

// take returns a change that no other call receives.
func (s *supply) take() (*storage.Change, error) {
	if i := int(s.next.Add(1)) - 1; i < len(s.changes) {
		return s.changes[i], nil
	}
	return nil, errDry
}

// catcher keeps changes that create tokens, instead of writing them.
type catcher struct {
	storage.Storage
	caught []*storage.Change
}

func (c *catcher) Write(ctx context.Context, change *storage.Change) error {
	if len(change.InsertTokens) == 0 {
		return c.Storage.Write(ctx, change)
	}
	c.caught = append(c.caught, change)
	return nil
}

// withoutReadLog drops the log entries of reads.
type withoutReadLog struct{ storage.Storage }

func (w withoutReadLog) Write(ctx context.Context, change *storage.Change) error {
	if change.Relaxed {
		return nil
	}
	return w.Storage.Write(ctx, change)
}

// cards returns token requests that a shop could send.
var cards = sync.OnceValue(func() []vault.TokenParams {
	params := make([]vault.TokenParams, 4096)
	for i := range params {
		params[i] = vault.TokenParams{
			Type: vault.TypeCard,
			Data: vault.CardData{Number: cardNumber(), ExpirationMonth: 1 + i%12, ExpirationYear: 2031},
			Metadata: map[string]string{
				"customer": fmt.Sprintf("customer-%010d", rand.Uint32()), "source": "checkout",
			},
		}
	}
	return params
})

func createCard(ctx context.Context, c *vault.Client) error {
	return must.Err(c.CreateToken(ctx, cards()[rand.N(len(cards()))]))
}

// cardNumber returns a random 16-digit number with a valid check digit.
func cardNumber() string {
	digits := []byte("400000000000000")
	sum := 0
	for i := range digits {
		if i > 5 {
			digits[i] = '0' + byte(rand.N(10))
		}
		d := int(digits[i] - '0')
		if i%2 == 0 {
			d *= 2
		}
		sum += d/10 + d%10
	}
	return string(append(digits, '0'+byte((10-sum%10)%10)))
}
