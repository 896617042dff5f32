package sinks

import (
	"encoding/json"
	"testing"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/logs/audit"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
)

// A denied call is a failure in OCSF.
func TestOCSFStatus(t *testing.T) {
	t.Parallel()
	for operation, want := range map[string]int{audit.Create: 1, audit.Read: 1, audit.Denied: 2} {
		batch, _, err := encodeOCSF(nil, uuid.New(), []item{{Log: &storage.Log{Operation: operation, EntityType: audit.Log}}})
		must.Do(t, err)
		var event struct {
			Status int `json:"status_id"`
		}
		if err := json.Unmarshal(batch, &event); err != nil || event.Status != want {
			t.Errorf("%s: status %d, want %d (%v)", operation, event.Status, want, err)
		}
	}
}
