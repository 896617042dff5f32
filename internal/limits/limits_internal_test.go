package limits

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"
)

// The code of one tenant has half of the turns, and that of another does not
// wait for it. The last ones are for all.
func TestTurnsOfTenants(t *testing.T) {
	t.Parallel()
	turns := NewTurns()
	half := cap(turns.all) / 2
	late, cancel := context.WithCancel(t.Context())
	cancel()
	var given []func()
	for _, tenant := range []uuid.UUID{uuid.New(), uuid.New()} {
		for range half {
			give, err := turns.Take(t.Context(), tenant)
			if err != nil {
				t.Fatal(err)
			}
			given = append(given, give)
		}
		for _, waiting := range turns.tenants {
			if len(waiting.taken) != half {
				t.Errorf("a tenant has %d turns, want %d", len(waiting.taken), half)
			}
		}
		if _, err := turns.Take(late, tenant); !errors.Is(err, context.Canceled) {
			t.Errorf("more than half: %v", err)
		}
	}
	third := uuid.New()
	if _, err := turns.Take(late, third); !errors.Is(err, context.Canceled) {
		t.Errorf("more than all: %v", err)
	}
	given[0]()
	give, err := turns.Take(t.Context(), third)
	if err != nil {
		t.Fatal(err)
	}
	for _, give := range append(given[1:], give) {
		give()
	}
	if len(turns.all) != 0 || len(turns.tenants) != 0 {
		t.Errorf("%d turns and %d tenants are left over", len(turns.all), len(turns.tenants))
	}
}
