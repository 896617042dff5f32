package main

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Limits on orders.
const (
	maxOrders   = 10_000
	maxAttempts = 20 // to pay an order: as many sessions, and as many charges
)

// errTooOften means that there were too many attempts to pay an order.
var errTooOften = errors.New("too many attempts to pay the order")

// order is an order of a customer. Anyone who knows its id may pay it and see
// its receipt.
type order struct {
	id string

	mu       sync.Mutex // held while the order is being paid
	sessions int
	until    time.Time   // when the last session ends
	charges  int         // including tokens that were rejected before a charge
	open     bool        // a charge was requested, and its result is unknown
	paid     *maskedCard // nil until it is paid
}

// receipt returns the card that the order was paid with, or nil.
func (o *order) receipt() *maskedCard {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.paid
}

// session counts a session and reports whether it is allowed.
func (o *order) session() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.sessions == maxAttempts {
		return false
	}
	o.sessions++
	o.until = time.Now().Add(sessionLife)
	return true
}

// pay checks a card and charges it, unless the order is already paid or there
// were too many attempts. Concurrent calls wait for each other, so an order
// is paid once.
func (o *order) pay(check func() (*maskedCard, error), charge func() error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.paid != nil {
		return nil
	}
	if o.charges == maxAttempts {
		return errTooOften
	}
	o.charges++
	card, err := check()
	if err != nil {
		return err
	}
	if err := charge(); err != nil {
		var no *declinedError
		o.open = o.open || !errors.As(err, &no)
		return err
	}
	o.paid = card
	return nil
}

// mayGo reports whether the order can be dropped: it is neither paid nor
// being paid.
func (o *order) mayGo() bool {
	if !o.mu.TryLock() {
		return false
	}
	defer o.mu.Unlock()
	return o.paid == nil && !o.open && time.Now().After(o.until)
}

// orders are the orders of the shop, oldest first. A real shop keeps them in
// a database.
type orders struct {
	mu   sync.Mutex
	byID map[string]*order
	line []string
}

// add creates an order. If there are too many, it replaces the oldest order
// that can be dropped. If no order can be dropped, it returns nil.
func (s *orders) add() *order {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID == nil {
		s.byID = map[string]*order{}
	}
	if len(s.line) == maxOrders && !s.forgetOne() {
		return nil
	}
	o := &order{id: uuid.NewString()}
	s.byID[o.id] = o
	s.line = append(s.line, o.id)
	return o
}

// forgetOne drops the oldest order that can be dropped, and reports whether
// it found one.
func (s *orders) forgetOne() bool {
	i := slices.IndexFunc(s.line, func(id string) bool { return s.byID[id].mayGo() })
	if i < 0 {
		return false
	}
	delete(s.byID, s.line[i])
	s.line = slices.Delete(s.line, i, i+1)
	return true
}

// find returns the order, or nil if it does not exist.
func (s *orders) find(id string) *order {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byID[id]
}
