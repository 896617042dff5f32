package console

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
)

// Actions returns the patterns of all actions, with the roles that they require.
func Actions(h http.Handler) map[string]string {
	all := map[string]string{}
	for _, rt := range h.(*handler).routes() {
		if !strings.HasPrefix(rt.pattern, "GET ") {
			all[rt.pattern] = rt.role.String()
		}
	}
	return all
}

// Join adds screens to a console. Round sends them the news once, and leave waits
// until their source has stopped.
func Join(c http.Handler, n int) (screens []<-chan []byte, round, leave func()) {
	h := c.(*handler)
	rounds, ended := make(chan struct{}), make(chan struct{})
	h.live.follow = func(ctx context.Context, s span, send func([]byte)) {
		defer close(ended)
		for {
			select {
			case <-ctx.Done():
				return
			case <-rounds:
				h.sendOverview(ctx, s, send)
			}
		}
	}
	var leaves []func()
	for range n {
		news, leave := h.live.join(lastHour)
		screens, leaves = append(screens, news), append(leaves, leave)
	}
	return screens, func() { rounds <- struct{}{} }, func() {
		for _, leave := range leaves {
			leave()
		}
		<-ended
	}
}

// Quiet serves a stream without news until it ends.
func Quiet(r *http.Request, authorize func(*http.Request) (User, error)) (ended bool, err error) {
	q := &request{handler: &handler{opts: Options{Authorize: authorize}}, w: httptest.NewRecorder(), r: r, role: Viewer}
	q.identify()
	quiet := &feeds[int, int]{follow: func(ctx context.Context, _ int, _ func(int)) { <-ctx.Done() }}
	err = follow(q, quiet, 0, "news", nil)
	return errors.Is(err, errRevoked), err
}

// Mark returns the mark of an application in its form.
func Mark(a *vault.Application) string { return mark(a) }

// At sets the time of a recorder.
func (r *Recorder) At(t time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = func() time.Time { return t }
}

// Call records a call with this duration.
func (r *Recorder) Call(name string, took time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endCall(vault.Event{Name: name}, took, err)
}

// ErrorsOf returns the number of failed calls of a tenant in the last day.
func (r *Recorder) ErrorsOf(tenant uuid.UUID) int { return r.errorsOf(tenant) }

// Forget empties a recorder.
func (r *Recorder) Forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.minutes = [minutesKept]minute{}
}

// Figures returns the figures of the last hour or day.
func (r *Recorder) Figures(day bool) (errors int, p50, p99 time.Duration, points int) {
	s := lastHour
	if day {
		s = lastDay
	}
	f := r.figures(s)
	return f.Errors, f.P50, f.P99, len(f.Points)
}

// SetClock sets the clock of a link.
func (l *Link) SetClock(now func() time.Time) { l.now = now }

// Formatting functions of the pages.
var (
	Mask   = mask
	Short  = short
	Lines  = lines
	Origin = origin
)
