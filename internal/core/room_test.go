package core_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// What has had effects waits longer for memory, and then ends like a request whose outcome
// is unknown. Other work is refused after a while, so that the caller repeats it.
func TestEffectsWaitForMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		process, tenant := admission.New(1<<20), uuid.New()
		room := func() (*admission.Room, context.Context) {
			r := process.Enter(tenant, uuid.New(), false, nil)
			return r, r.In(t.Context())
		}
		first, holding := room()
		must.Do(t, core.Reserve(holding, 400<<10))
		_, refused := room()
		must.Match(t, "work without effects", core.Reserve(refused, 100<<10), admission.ErrFull)
		_, parsed := room()
		must.Match(t, "JSON of a request", core.ReserveJSON(parsed, make([]byte, 50<<10)), admission.ErrFull)
		_, never := room()
		must.Match(t, "work that never fits", core.Await(never, 1<<20), admission.ErrNever)
		_, late := room()
		must.Match(t, "work that waits for too long", core.Await(late, 100<<10), fault.ErrTimeout)
		time.AfterFunc(20*time.Second, first.Leave)
		second, waiting := room()
		must.Do(t, core.Await(waiting, 100<<10))
		second.Leave()
	})
}
