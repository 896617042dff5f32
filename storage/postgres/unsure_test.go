package postgres_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/pgtest"
	"github.com/seed-72ea4aab/vault/storage"
)

// A change whose connection was lost may still be applied by a server that has
// not noticed. When it comes too late to be tried again, the error does not say
// that nothing was written, and the next Write finds it out first.
func TestLateAfterALostConnectionIsNotKnown(t *testing.T) {
	t.Parallel()
	s, tenant := openAt(t, pgtest.URL(t), nil), newID()
	for _, unsure := range []bool{false, true} {
		late := sample(tenant, 1)
		late.Before, late.Unsure = time.Now().Add(-time.Second), unsure
		err := s.Write(t.Context(), late)
		if !errors.Is(err, storage.ErrLate) || late.Unsure != unsure {
			t.Errorf("%v, unsure %v; want ErrLate and %v", err, late.Unsure, unsure)
		}
		if err != nil && strings.Contains(err.Error(), "may or may not") != unsure {
			t.Errorf("sent before: %v; the error is %q", unsure, err)
		}
	}
}

// A change that was applied though its Write had failed is found by its log
// entry, in whatever way it was sealed meanwhile, and is not in its own way.
func TestUnsureChangeIsNotAppliedTwice(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	s, tenant := openAt(t, address, nil), newID()
	first := sample(tenant, 1)
	if err := s.Write(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	again := *first
	again.Unsure, again.InsertTokens = true, []storage.Token{first.InsertTokens[0]}
	again.InsertTokens[0].Body = []byte("sealed again")
	if err := s.Write(t.Context(), &again); err != nil {
		t.Errorf("the change is in its own way: %v", err)
	}
	again.Unsure = false
	if err := s.Write(t.Context(), &again); !errors.Is(err, storage.ErrExists) {
		t.Errorf("a change that is known not to be applied: %v, want ErrExists", err)
	}
	if got := number(t, database(t, address), "SELECT count(*) FROM vault_tokens"); got != 1 {
		t.Errorf("%d tokens, want 1", got)
	}
}
