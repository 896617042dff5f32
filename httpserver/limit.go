package httpserver

import (
	"net/http"
	"sync"

	"github.com/google/uuid"
	"golang.org/x/time/rate"

	"github.com/seed-72ea4aab/vault"
)

// EachApplication returns a function for [Options.RateLimit] that allows every
// application so many requests a second, and bursts of so many. A session
// counts as the application that created it: opening sessions gains nothing.
// Calls of a proxy without an API key are allowed as many, for each proxy, and
// take nothing from its application.
//
// The limits are those of one process; n processes behind a balancer allow n
// times as much.
func EachApplication(perSecond rate.Limit, burst int) func(*http.Request, *vault.Client) *rate.Limiter {
	l := &limiters{limit: perSecond, burst: burst, recent: map[uuid.UUID]*rate.Limiter{}}
	return func(_ *http.Request, c *vault.Client) *rate.Limiter {
		if proxy := c.ProxyID(); proxy != (uuid.UUID{}) {
			return l.of(proxy)
		}
		return l.of(c.ApplicationID())
	}
}

// limiters keeps the limiters of the applications, and proxies, that called or
// were called lately: those of the current generation, and those of the one
// before.
type limiters struct {
	limit rate.Limit
	burst int

	mu          sync.Mutex
	recent, old map[uuid.UUID]*rate.Limiter
}

// maxLimiters bounds a generation.
const maxLimiters = 10_000

func (l *limiters) of(id uuid.UUID) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if lim := l.recent[id]; lim != nil {
		return lim
	}
	lim := l.old[id]
	if lim == nil {
		lim = rate.NewLimiter(l.limit, l.burst)
	}
	if len(l.recent) >= maxLimiters {
		l.old, l.recent = l.recent, map[uuid.UUID]*rate.Limiter{}
	}
	l.recent[id] = lim
	return lim
}
