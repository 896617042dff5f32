package core

import (
	"github.com/seed-72ea4aab/vault/internal/fault"
)

// Hold suspends an application, a reactor or a proxy that a restore brought back in
// an older state. It is part of the sealed document, so write access to the database
// can no more lift it than grant a right. A positive Hold is the newest revision in
// the log, which the restored row lacks. It becomes negative when a person has
// confirmed the row in spite of that revision.
type Hold int64

// Suspended reports whether the entity must not be used.
func (h Hold) Suspended() bool { return h > 0 }

// Err returns the error for a use of a suspended entity.
func (h Hold) Err(kind string) error {
	if h.Suspended() {
		return fault.Suspended(kind)
	}
	return nil
}

// Covers reports whether a person has looked, or has to look, at a revision.
func (h Hold) Covers(revision int64) bool { return int64(max(h, -h)) >= revision }
