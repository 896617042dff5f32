package statements

import (
	"slices"

	"github.com/seed-72ea4aab/vault/storage"
)

// callColumns are the columns that have the same value in all log entries of a
// call. They are sent once.
var callColumns = []string{"created_at", "actor_id", "actor_type", "operation", "message", "actor_name", "origin"}

// ofOneCall reports whether there are several log entries, and they differ only
// in id, entity and Mac.
func ofOneCall(logs []storage.Log) bool {
	first := logs[0]
	return len(logs) > 1 && !slices.ContainsFunc(logs, func(l storage.Log) bool {
		l.ID, l.EntityType, l.EntityID, l.Mac = first.ID, first.EntityType, first.EntityID, first.Mac
		return l != first
	})
}
