package console

import (
	"context"
	"errors"
	"math/bits"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
)

// Recorder times the operations of a vault for the pages of a [Handler]. It counts
// their errors, runs, and the requests in whose responses data was replaced. It is a [vault.Observer] of this process. It keeps one day in a fixed
// amount of memory, less than a megabyte.
//
//	rec := console.NewRecorder()
//	v, err := vault.Open(ctx, store, key, &vault.Config{Observer: rec})
//	mux.Handle("/console/", http.StripPrefix("/console", console.Handler(v, &console.Options{Recorder: rec, ...})))
//
// [vault.Observers] combines it with another observer.
type Recorder struct {
	now func() time.Time

	mu      sync.Mutex
	minutes [minutesKept]minute
	running int     // runs in progress
	failed  tallies // failed calls, by tenant
	echoes  tallies // requests in whose responses data was replaced, by application
}

const (
	minutesKept = 24 * 60
	// latencyBuckets is the number of buckets for durations: four for each doubling
	// of microseconds, up to more than an hour.
	latencyBuckets = 128
)

// minute counts the calls of one minute.
type minute struct {
	at              int64 // minutes since 1970
	errors          uint32
	runs, runErrors uint32
	took            [latencyBuckets]uint32
}

// tallies counts by tenant or application, for the last 24 hours.
type tallies map[uuid.UUID]*hourly

// hourly counts by hour.
type hourly struct {
	last  int64 // the newest hour with a count, in hours since 1970
	hours [hoursKept]uint32
}

const (
	hoursKept  = 24
	maxTallies = 500 // ids that are counted
)

// NewRecorder returns an empty recorder.
func NewRecorder() *Recorder {
	return &Recorder{now: time.Now, failed: tallies{}, echoes: tallies{}}
}

// Start implements [vault.Observer].
func (r *Recorder) Start(ctx context.Context, w vault.Event) (context.Context, func(error)) {
	if w.Kind == vault.EventEcho {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.echoes.add(w.EntityID, r.hour())
	}
	if w.Kind != vault.EventCall && w.Kind != vault.EventRun {
		return ctx, func(error) {}
	}
	if w.Kind == vault.EventRun {
		r.mu.Lock()
		r.running++
		r.mu.Unlock()
	}
	began := time.Now()
	return ctx, func(err error) {
		took := time.Since(began)
		r.mu.Lock()
		defer r.mu.Unlock()
		if w.Kind == vault.EventRun {
			r.endRun(err)
			return
		}
		r.endCall(w, took, err)
	}
}

// minute returns the current minute. The caller holds the lock.
func (r *Recorder) minute() *minute {
	at := r.now().Unix() / 60
	m := &r.minutes[at%minutesKept]
	if m.at != at {
		*m = minute{at: at}
	}
	return m
}

func (r *Recorder) endCall(w vault.Event, took time.Duration, err error) {
	m := r.minute()
	if err != nil && !errors.Is(err, context.Canceled) {
		m.errors++
		r.failed.add(w.TenantID, r.hour())
	}
	m.took[bucketOf(took)]++
}

func (r *Recorder) hour() int64 { return r.now().Unix() / 3600 }

// add counts one more. If there are too many ids, it forgets the id whose last count is
// oldest.
func (all tallies) add(id uuid.UUID, hour int64) {
	h := all[id]
	if h == nil {
		if len(all) >= maxTallies {
			delete(all, all.quietest())
		}
		h = &hourly{last: hour}
		all[id] = h
	}
	h.turn(hour)
	h.hours[hour%hoursKept]++
}

// quietest returns the id whose last count is oldest.
func (all tallies) quietest() (quietest uuid.UUID) {
	oldest := int64(1<<63 - 1)
	for id, h := range all {
		if h.last < oldest {
			quietest, oldest = id, h.last
		}
	}
	return quietest
}

// turn clears the hours that have passed since the newest one.
func (h *hourly) turn(hour int64) {
	for at := max(h.last+1, hour-hoursKept+1); at <= hour; at++ {
		h.hours[at%hoursKept] = 0
	}
	h.last = max(h.last, hour)
}

// of returns the count of the last 24 hours.
func (all tallies) of(id uuid.UUID, hour int64) int {
	h := all[id]
	if h == nil {
		return 0
	}
	h.turn(hour)
	sum := 0
	for _, n := range h.hours {
		sum += int(n)
	}
	return sum
}

// errorsOf returns the number of failed calls of a tenant in the last 24 hours.
func (r *Recorder) errorsOf(tenant uuid.UUID) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed.of(tenant, r.hour())
}

// echoesOf returns the number of requests of an application in the last 24 hours in
// whose responses data was replaced.
func (r *Recorder) echoesOf(application uuid.UUID) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.echoes.of(application, r.hour())
}

func (r *Recorder) endRun(err error) {
	r.running--
	m := r.minute()
	m.runs++
	if err != nil {
		m.runErrors++
	}
}

// bucketOf returns the bucket of a duration.
func bucketOf(d time.Duration) int {
	us := uint64(max(d.Microseconds(), 1))
	doubling := bits.Len64(us) - 1
	quarter := 0
	if doubling >= 2 {
		quarter = int(us>>(doubling-2)) & 3
	}
	return min(doubling*4+quarter, latencyBuckets-1)
}

// bucketTime returns the middle of a bucket.
func bucketTime(b int) time.Duration {
	doubling, quarter := b/4, b%4
	low := float64(uint64(1)<<doubling) * (1 + float64(quarter)/4)
	return time.Duration(low * 1.1 * float64(time.Microsecond))
}
