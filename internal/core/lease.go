package core

import (
	"time"

	"github.com/google/uuid"
)

// Lease is the part of a document that names the node that works on it. Each write of
// the document depends on its revision, so if two nodes take an expired lease, one of
// them fails.
type Lease struct {
	Owner uuid.UUID `json:"owner,omitzero"`
	Until time.Time `json:"until,omitzero"`
}

// Others reports whether a node must leave the work to another one.
func (l *Lease) Others(node uuid.UUID, now time.Time) bool {
	return l.Owner != node && l.Until.After(now)
}
