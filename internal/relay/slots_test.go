package relay

import (
	"testing"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// TestSlots opens tunnels of tenants in a fixed order.
func TestSlots(t *testing.T) {
	t.Parallel()
	a, b, c := uuid.New(), uuid.New(), uuid.New()
	s, closed := newSlots(4, 2), 0
	open := func(tenant uuid.UUID) *slot {
		one := s.take(tenant)
		if one != nil {
			one.opened(func() { closed++; one.give() })
		}
		return one
	}
	a1, a2 := open(a), open(a)
	must.Same(t, "a third tunnel of a tenant", open(a) == nil, true)
	b1, b2 := open(b), open(b)
	for _, one := range []*slot{a1, b1, b2} {
		must.Same(t, "a request in an open tunnel", one.work(), true)
	}
	c1 := open(c)
	must.Same(t, "a third tenant gets a tunnel", c1 != nil, true)
	must.Same(t, "for the idle tunnel", [2]any{a2.gone, closed}, [2]any{true, 1})
	must.Same(t, "a request in a closed tunnel", a2.work(), false)
	must.Same(t, "busy tunnels stay", open(c) == nil, true)
	must.Same(t, "a request in the last idle tunnel", c1.work(), true)
	d1 := open(uuid.New())
	must.Same(t, "a tenant without a tunnel gets one beside the busy ones", [2]any{d1 != nil, closed}, [2]any{true, 1})
	must.Same(t, "but not a second one", s.take(d1.tenant) == nil, true)
	d1.give()
	c1.rest()
	b1.rest()
	must.Same(t, "a tenant with as many keeps its tunnels", open(a) == nil, true)
	must.Same(t, "b has one more than c", open(c) == nil, true)
	b2.rest()
	b1.give()
	c2 := open(c)
	must.Same(t, "a free place", [2]any{c2 != nil, closed}, [2]any{true, 1})
	for _, one := range []*slot{a1, a2, b1, b2, c1, c2} {
		one.give()
	}
	must.Same(t, "open at the end", [2]int{s.n, len(s.open)}, [2]int{})
}
