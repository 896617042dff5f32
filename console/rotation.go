package console

import (
	"bytes"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
)

// rotations are those that this console has begun.
type rotations struct {
	mu  sync.Mutex
	all map[uuid.UUID]*rotationView
}

func newRotations() *rotations { return &rotations{all: map[uuid.UUID]*rotationView{}} }

// rotationView is how far a rotation has come.
type rotationView struct {
	Running  bool
	Failed   bool
	Done     int
	Total    int // about: other rows than tokens are sealed too
	Finished time.Time
}

// Value is the part of Total that is done.
func (v *rotationView) Value() int { return min(v.Done, v.Total) }

// view returns how far the rotation of a tenant has come; nil if none was begun.
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

// start begins a rotation, unless one of the tenant is under way.
func (r *rotations) start(tenant uuid.UUID, tokens int, rotate func(progress func(int)) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if v := r.all[tenant]; v != nil && v.Running {
		return
	}
	v := &rotationView{Running: true, Total: max(tokens, 1)}
	r.all[tenant] = v
	go func() {
		err := rotate(func(n int) {
			r.mu.Lock()
			defer r.mu.Unlock()
			v.Done = n
		})
		r.mu.Lock()
		defer r.mu.Unlock()
		v.Running, v.Failed, v.Finished = false, err != nil, time.Now().UTC()
	}()
}

// progressEvery is how often a page hears of a rotation.
const progressEvery = 500 * time.Millisecond

// rotationEvents keeps the progress bar up to date, until the rotation is over.
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

// asInvalid returns an error about fields.
func asInvalid(err error) (*vault.InvalidError, bool) {
	var bad *vault.InvalidError
	return bad, errors.As(err, &bad)
}
