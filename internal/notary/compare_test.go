package notary

import (
	"fmt"
	"testing"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/logs/audit"
	"github.com/seed-72ea4aab/vault/storage"
)

// A row must have the highest revision in its log, and a deleted one stays deleted:
// entries that come later do not take either back.
func TestHighestRevisionOrDeletionCounts(t *testing.T) {
	t.Parallel()
	entry := func(operation string, revision int) evidence.Entry {
		return evidence.Entry{Operation: operation, Message: fmt.Sprintf("Application changed (revision %d)", revision)}
	}
	created, updated, late := entry(audit.Create, 1), entry(audit.Update, 5), entry(audit.Update, 3)
	for name, test := range map[string]struct {
		entries  []evidence.Entry
		revision int64
		deleted  bool
	}{
		"in order":         {[]evidence.Entry{created, late, updated}, 5, false},
		"an old one later": {[]evidence.Entry{created, updated, late}, 5, false},
		"created again":    {[]evidence.Entry{updated, created}, 5, false},
		"deleted":          {[]evidence.Entry{created, {Operation: audit.Delete}}, 0, true},
		"after deletion":   {[]evidence.Entry{created, {Operation: audit.Delete}, updated, created}, 0, true},
		"no revision":      {[]evidence.Entry{updated, {Operation: audit.Update, Message: "Application changed"}}, 5, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, id := newComparison(nil, uuid.New()), uuid.New()
			for i, e := range test.entries {
				e.EntityType, e.EntityID = audit.Application, id.String()
				c.Entry(int64(i), &e)
			}
			got := c.rows[audit.Application][storage.ID(id)]
			if got.revision != test.revision || got.deleted != test.deleted || !got.known {
				t.Errorf("revision %d, deleted %t, known %t; want revision %d, deleted %t", got.revision, got.deleted, got.known, test.revision, test.deleted)
			}
		})
	}
}
