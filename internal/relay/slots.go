package relay

import (
	"sync"

	"github.com/google/uuid"
)

// slots count the open tunnels of tenants. A tenant that requests a tunnel while all
// are open gets the place of an idle tunnel of a tenant that has more. If none is
// idle, it gets a few beyond the total. So a few tenants cannot keep all tunnels, and
// no request is cut off.
type slots struct {
	total, each, few int

	mu   sync.Mutex
	n    int
	open map[uuid.UUID]map[*slot]bool
	time int64 // counts the ends of requests
}

// slot is the place of one tunnel.
type slot struct {
	all    *slots
	tenant uuid.UUID
	close  func() // set when the tunnel is open

	busy bool  // it has a request, or is not open yet
	last int64 // when its last request ended
	gone bool
}

func newSlots(total, each int) *slots {
	return &slots{total: total, each: each, few: max(1, each/100), open: map[uuid.UUID]map[*slot]bool{}}
}

// take returns a slot for a tunnel that is about to open, or nil.
func (s *slots) take(tenant uuid.UUID) *slot {
	made, victim := s.place(tenant)
	if victim != nil {
		victim.close()
	}
	return made
}

// place makes a slot, and returns the slot that it replaces, if any.
func (s *slots) place(tenant uuid.UUID) (made, victim *slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := len(s.open[tenant])
	if own >= s.each {
		return nil, nil
	}
	if s.n >= s.total {
		switch victim = s.idle(own); {
		case victim != nil:
			s.remove(victim)
		case own >= s.few:
			return nil, nil
		}
	}
	made = &slot{all: s, tenant: tenant, busy: true}
	if s.open[tenant] == nil {
		s.open[tenant] = map[*slot]bool{}
	}
	s.open[tenant][made] = true
	s.n++
	return made, victim
}

// idle returns the slot that has been idle for longest, of the tenant with the most
// slots that has an idle one. The tenant must have at least two more than own, so
// that it keeps as many as the other gets. A tenant without any gets its first also
// from a tenant with a single slot.
func (s *slots) idle(own int) (found *slot) {
	most := own + 1
	if own == 0 {
		most = 0
	}
	for _, some := range s.open {
		if len(some) <= most {
			continue
		}
		if one := longestIdle(some); one != nil {
			found, most = one, len(some)
		}
	}
	return found
}

func longestIdle(some map[*slot]bool) (found *slot) {
	for one := range some {
		if !one.busy && (found == nil || one.last < found.last) {
			found = one
		}
	}
	return found
}

func (s *slots) remove(one *slot) {
	if one.gone {
		return
	}
	one.gone = true
	s.n--
	if delete(s.open[one.tenant], one); len(s.open[one.tenant]) == 0 {
		delete(s.open, one.tenant)
	}
}

// opened makes the slot one of an idle tunnel, which close can end.
func (o *slot) opened(end func()) {
	o.close = end
	o.rest()
}

// work reports whether the tunnel may serve a request. The tunnel serves one at a
// time.
func (o *slot) work() bool {
	o.all.mu.Lock()
	defer o.all.mu.Unlock()
	o.busy = !o.gone
	return o.busy
}

// rest ends a request.
func (o *slot) rest() {
	o.all.mu.Lock()
	defer o.all.mu.Unlock()
	o.all.time++
	o.busy, o.last = false, o.all.time
}

// give frees the slot.
func (o *slot) give() {
	o.all.mu.Lock()
	defer o.all.mu.Unlock()
	o.all.remove(o)
}
