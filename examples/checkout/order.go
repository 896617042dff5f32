package main

import (
	"sync"

	"github.com/google/uuid"
)

// Bounds on orders.
const (
	maxOrders   = 10_000 // kept; a further one takes the place of the oldest
	maxAttempts = 20     // to pay an order
)

// order is what a customer is about to buy, or has bought. Whoever knows its id
// may pay it and see its receipt.
type order struct {
	id string

	mu       sync.Mutex
	attempts int
	paid     *maskedCard // nil until then
}

// receipt returns the card that the order was paid with, or nil.
func (o *order) receipt() *maskedCard {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.paid
}

// attempt counts a try to pay, and reports whether there may be one.
func (o *order) attempt() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.attempts++
	return o.attempts <= maxAttempts
}

// pay calls charge, unless the order is paid already. Of calls at the same time
// the later ones wait for the first, so an order is paid once.
func (o *order) pay(charge func() (*maskedCard, error)) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.paid != nil {
		return nil
	}
	card, err := charge()
	if err != nil {
		return err
	}
	o.paid = card
	return nil
}

// orders are the orders of the shop, the oldest first in line.
type orders struct {
	mu   sync.Mutex
	byID map[string]*order
	line []string
}

func (s *orders) add() *order {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID == nil {
		s.byID = map[string]*order{}
	}
	if len(s.line) == maxOrders {
		delete(s.byID, s.line[0])
		s.line = s.line[1:]
	}
	o := &order{id: uuid.NewString()}
	s.byID[o.id] = o
	s.line = append(s.line, o.id)
	return o
}

// find returns nil for an order that is not there.
func (s *orders) find(id string) *order {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byID[id]
}
