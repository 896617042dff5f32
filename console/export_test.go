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

// Look asks the database for the overview, whatever is remembered.
func Look(ctx context.Context, h http.Handler) (tokens int, err error) {
	o, err := h.(*handler).lookAtDatabase(ctx)
	if err != nil {
		return 0, err
	}
	return o.Tokens, nil
}

// Actions are the patterns of all actions, each with the role that it needs.
func Actions(h http.Handler) map[string]string {
	all := map[string]string{}
	for _, rt := range h.(*handler).routes() {
		if !strings.HasPrefix(rt.pattern, "GET ") {
			all[rt.pattern] = rt.role.String()
		}
	}
	return all
}

// Join adds screens to a console, and Round sends them the news once.
func Join(h http.Handler, n int) (screens []<-chan []byte, round func() bool, leave func()) {
	b := h.(*handler).live
	b.mu.Lock()
	b.running = true // the caller makes the rounds
	b.mu.Unlock()
	var leaves []func()
	for range n {
		news, leave := b.join(lastHour)
		screens, leaves = append(screens, news), append(leaves, leave)
	}
	return screens, b.round, func() {
		for _, leave := range leaves {
			leave()
		}
	}
}

// Quiet serves a stream without news, until it ends.
func Quiet(r *http.Request, authorize func(*http.Request) (User, error)) (ended bool, err error) {
	q := &request{handler: &handler{opts: Options{Authorize: authorize}}, w: httptest.NewRecorder(), r: r, role: Viewer}
	q.identify()
	s, err := q.stream()
	if err != nil {
		return false, err
	}
	err = q.each(s, "news", nil)
	return errors.Is(err, errRevoked), err
}

// Mark is what the form of an application has of what the application was.
func Mark(a *vault.Application) string { return mark(a) }

// At has a recorder believe that it is another time.
func (r *Recorder) At(t time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = func() time.Time { return t }
}

// Call enters a call that took so long.
func (r *Recorder) Call(name string, took time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endCall(vault.Event{Name: name}, took, err)
}

// ErrorsOf is how many calls of a tenant failed in the last day.
func (r *Recorder) ErrorsOf(tenant uuid.UUID) int { return r.errorsOf(tenant) }

// Forget makes a recorder new.
func (r *Recorder) Forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.minutes = [minutesKept]minute{}
}

// Figures are those of the last hour, or day.
func (r *Recorder) Figures(day bool) (calls, creates, reads, errors int, p50, p99 time.Duration, points int) {
	s := lastHour
	if day {
		s = lastDay
	}
	f := r.figures(s)
	return f.Calls(), f.Creates, f.Reads, f.Errors, f.P50, f.P99, len(f.Points)
}

// SetClock has a link believe a clock.
func (l *Link) SetClock(now func() time.Time) { l.now = now }

// What pages write.
var (
	Mask   = mask
	Short  = short
	Lines  = lines
	Origin = origin
)
