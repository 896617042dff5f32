package console

import "time"

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
	r.endCall(name, took, err)
}

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
