package console

import (
	"bytes"
	"sync"
	"time"

	"github.com/google/uuid"
)

// rotations are the key rotations that this console has started.
type rotations struct {
	mu  sync.Mutex
	all map[uuid.UUID]*rotationView
}

// rotationView is the progress of a rotation.
type rotationView struct {
	Running  bool
	Failed   bool
	Done     int
	Total    int // an estimate, because more rows than tokens are sealed
	Finished time.Time
}

// Value returns the finished part of Total.
func (v *rotationView) Value() int { return min(v.Done, v.Total) }

// view returns the progress of a tenant's rotation, or nil if none was started.
func (r *rotations) view(tenant uuid.UUID) *rotationView {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := r.all[tenant]
	if v == nil {
		return nil
	}
	shown := *v
	return &shown
}

// start begins a rotation, unless one is already running for the tenant.
func (r *rotations) start(tenant uuid.UUID, tokens int, rotate func(progress func(rows, tenants int)) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if v := r.all[tenant]; v != nil && v.Running {
		return
	}
	v := &rotationView{Running: true, Total: max(tokens, 1)}
	r.all[tenant] = v
	go func() {
		err := rotate(func(n, _ int) {
			r.mu.Lock()
			defer r.mu.Unlock()
			v.Done = n
		})
		r.mu.Lock()
		defer r.mu.Unlock()
		v.Running, v.Failed, v.Finished = false, err != nil, time.Now().UTC()
	}()
}

// progressEvery is how often a page gets the progress of a rotation.
const progressEvery = 500 * time.Millisecond

// rotationEvents updates the progress bar until the rotation ends.
func (q *request) rotationEvents() error {
	s, err := q.stream()
	if err != nil {
		return err
	}
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		v := q.rotations.view(q.id("tenant"))
		var html bytes.Buffer
		if err := pages["tenant"].ExecuteTemplate(&html, "rotation", v); err != nil {
			return err
		}
		if err := s.send("rotation", html.Bytes()); err != nil {
			return err
		}
		if v == nil || !v.Running {
			return s.send("end", nil)
		}
		select {
		case <-q.r.Context().Done():
			return errGone
		case <-q.opts.Stop:
			return nil
		case <-tick.C:
		}
	}
}
