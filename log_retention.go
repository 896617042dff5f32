package vault

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/storage"
)

// minLogRetention is the shortest Config.LogRetention. The newest entries are
// also how a write that lost its connection finds out whether it was committed.
const minLogRetention = 24 * time.Hour

func checkLogRetention(d time.Duration) error {
	if d != 0 && d < minLogRetention {
		return fmt.Errorf("vault: Config.LogRetention is %s; it must be 0, which keeps the log for ever, or at least %s", d, minLogRetention)
	}
	return nil
}

const (
	// maxLogPieces bounds what one sweep deletes of the log, to two million
	// entries, so that what expires does not wait for a large backlog.
	maxLogPieces = 10_000
	// maxLogFailures is for how many tenants it may fail before a sweep leaves
	// the others to the next one.
	maxLogFailures = 10
)

// sweepLogs deletes the log entries whose retention is over, tenant by tenant.
// What fails for one tenant does not keep the others' from being deleted.
func (v *Vault) sweepLogs(ctx context.Context, swept *Swept) error {
	if v.cfg.LogRetention == 0 {
		return nil
	}
	before := v.now().Add(-v.cfg.LogRetention)
	pieces := maxLogPieces
	var errs []error
	for after := (storage.ID{}); ; {
		tenants, err := v.store.LogTenants(ctx, before, after, sweepChunk)
		if err != nil || len(tenants) == 0 {
			return errors.Join(append(errs, err)...)
		}
		for _, tenant := range tenants {
			if err := v.deleteLogs(ctx, tenant, before, &pieces, swept); err != nil {
				errs = append(errs, fmt.Errorf("deleting log entries of tenant %s: %w", uuid.UUID(tenant), err))
			}
			if pieces == 0 || len(errs) == maxLogFailures {
				return errors.Join(errs...)
			}
		}
		after = tenants[len(tenants)-1]
	}
}

// deleteLogs deletes the entries of a tenant, in no more pieces than are left.
func (v *Vault) deleteLogs(ctx context.Context, tenant storage.ID, before time.Time, pieces *int, swept *Swept) error {
	for *pieces > 0 {
		*pieces--
		n, err := v.store.DeleteLogs(ctx, tenant, before, sweepChunk)
		swept.Logs += n
		if err != nil || n < sweepChunk {
			return err
		}
	}
	return nil
}
