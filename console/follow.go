package console

import (
	"context"
	"sync"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
)

// followers follow the logs of tenants. Each log that open pages show is followed
// once for all of them.
type followers struct {
	h *handler

	mu  sync.Mutex
	all map[uuid.UUID]*follower
}

// follower follows one log.
type follower struct {
	screens map[chan []vault.LogEntry]bool
	stop    context.CancelFunc
}

func newFollowers(h *handler) *followers { return &followers{h: h, all: map[uuid.UUID]*follower{}} }

// join adds a screen until leave is called.
func (f *followers) join(tenant uuid.UUID) (batches <-chan []vault.LogEntry, leave func()) {
	c := make(chan []vault.LogEntry, 16)
	f.mu.Lock()
	defer f.mu.Unlock()
	one := f.all[tenant]
	if one == nil {
		ctx, stop := context.WithCancel(context.Background())
		one = &follower{screens: map[chan []vault.LogEntry]bool{}, stop: stop}
		f.all[tenant] = one
		go f.run(ctx, tenant, one)
	}
	one.screens[c] = true
	return c, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(one.screens, c)
		if len(one.screens) == 0 {
			one.stop()
			if f.all[tenant] == one {
				delete(f.all, tenant)
			}
		}
	}
}

// run sends entries to the screens. When it ends, their streams end and the
// browsers reconnect.
func (f *followers) run(ctx context.Context, tenant uuid.UUID, one *follower) {
	for batch, err := range f.h.vault.Tenant(tenant).From(fromConsole).FollowLogs(ctx, "") {
		if err != nil {
			break
		}
		f.mu.Lock()
		for c := range one.screens {
			select {
			case c <- batch.Data:
			default: // a slow browser misses entries; the page has them after a reload
			}
		}
		f.mu.Unlock()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all[tenant] == one {
		delete(f.all, tenant)
	}
	for c := range one.screens {
		close(c)
		delete(one.screens, c)
	}
}
