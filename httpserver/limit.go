package httpserver

import (
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/time/rate"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/core"
)

// EachApplication returns a function for [Options.RateLimit] that allows
// every application perSecond requests a second, and bursts of the given
// size. A request with several tokens counts once for each token. A request
// with more tokens than burst is admitted when a whole burst is free; the
// application then waits until the excess is paid off.
//
// A session counts as the application that created it, so that opening more
// sessions does not raise the limit. Proxy calls without an API key have the
// same limit for each proxy, and do not count against the proxy's
// application.
//
// The limits apply to one process: n processes behind a load balancer allow n
// times as much.
func EachApplication(perSecond rate.Limit, burst int) func(*http.Request, *vault.Client, int) (time.Duration, bool) {
	l := &limiters{limit: perSecond, burst: burst, recent: map[uuid.UUID]*rate.Limiter{}}
	return func(_ *http.Request, c *vault.Client, cost int) (time.Duration, bool) {
		id := core.CallerOf(c).Proxy()
		if id == (uuid.UUID{}) {
			id = c.ApplicationID()
		}
		return spend(l.of(id), cost, time.Now())
	}
}

// spend takes the cost of a request, or returns how long to wait.
func spend(l *rate.Limiter, cost int, now time.Time) (time.Duration, bool) {
	at := min(cost, l.Burst())
	if at <= 0 || !l.AllowN(now, at) {
		missing := float64(max(1, at)) - l.TokensAt(now)
		return time.Duration(missing / max(float64(l.Limit()), 1.0/maxRetryAfter) * float64(time.Second)), false
	}
	for cost -= at; cost > 0; cost -= at {
		l.ReserveN(now, min(cost, at)) // a debt that later requests wait for
	}
	return 0, true
}

// limiters keeps the limiters of recently active applications and proxies in
// two generations, the current and the previous one.
type limiters struct {
	limit rate.Limit
	burst int

	mu          sync.Mutex
	recent, old map[uuid.UUID]*rate.Limiter
}

// maxLimiters is the largest number of limiters in a generation.
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
