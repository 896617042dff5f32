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

// Recorder times the operations of a vault and counts their errors and runs for the pages of a
// [Handler]. It is a [vault.Observer] of this process. It keeps one day in a fixed
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
	running int // runs in progress
	failed  map[uuid.UUID]*failures
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

// failures counts the failed calls of a tenant by hour.
type failures struct {
	last  int64 // the newest hour with a failure, in hours since 1970
	hours [hoursKept]uint32
}

const (
	hoursKept   = 24
	maxFailures = 500 // tenants whose failures are counted
)

// NewRecorder returns an empty recorder.
func NewRecorder() *Recorder {
	return &Recorder{now: time.Now, failed: map[uuid.UUID]*failures{}}
}

// Start implements [vault.Observer].
func (r *Recorder) Start(ctx context.Context, w vault.Event) (context.Context, func(error)) {
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
		r.fail(w.TenantID)
	}
	m.took[bucketOf(took)]++
}

// fail counts a failed call of a tenant. If too many tenants have failures, it
// forgets the tenant whose last failure is oldest. The caller holds the lock.
func (r *Recorder) fail(tenant uuid.UUID) {
	hour := r.now().Unix() / 3600
	f := r.failed[tenant]
	if f == nil {
		if len(r.failed) >= maxFailures {
			delete(r.failed, r.quietest())
		}
		f = &failures{last: hour}
		r.failed[tenant] = f
	}
	f.turn(hour)
	f.hours[hour%hoursKept]++
}

// quietest returns the tenant whose last failure is oldest.
func (r *Recorder) quietest() (tenant uuid.UUID) {
	oldest := int64(1<<63 - 1)
	for id, f := range r.failed {
		if f.last < oldest {
			tenant, oldest = id, f.last
		}
	}
	return tenant
}

// turn clears the hours that have passed since the newest one.
func (f *failures) turn(hour int64) {
	for h := max(f.last+1, hour-hoursKept+1); h <= hour; h++ {
		f.hours[h%hoursKept] = 0
	}
	f.last = max(f.last, hour)
}

// errorsOf returns the number of failed calls of a tenant in the last 24 hours.
func (r *Recorder) errorsOf(tenant uuid.UUID) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.failed[tenant]
	if f == nil {
		return 0
	}
	f.turn(r.now().Unix() / 3600)
	sum := 0
	for _, n := range f.hours {
		sum += int(n)
	}
	return sum
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
