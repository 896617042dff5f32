package sweep

import (
	"context"
	"errors"
	"math"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/ledger"
	"github.com/seed-72ea4aab/vault/internal/logs/audit"
	"github.com/seed-72ea4aab/vault/storage"
)

// DeleteTenant deletes a tenant's keys, without which its data cannot be
// decrypted, and then its rows. If it is interrupted, the next sweep deletes
// the rest. The ledger, which may be nil, records the end of the tenant's log.
func DeleteTenant(ctx context.Context, v *core.Vault, l *ledger.Ledger, id uuid.UUID) error {
	_, err := v.Tenants.Get(ctx, id) // afterwards the ledger refuses the tenant
	unopened := core.KeyDenied(err)
	if l != nil {
		if err := recordDeletion(ctx, v, l, id); err != nil {
			return err
		}
	}
	if err := core.Retry(func() error { return dropTenant(ctx, v, id, unopened) }); err != nil {
		return err
	}
	if l != nil {
		l.Dropped(id)
	}
	v.Tenants.Forget(id)
	v.Tenants.Drop(id)
	v.ForgetIdentities()
	pieces := math.MaxInt
	return purge(ctx, v, storage.ID(id), &pieces)
}

// recordDeletion records the end of a tenant's log in the vault's tree.
// Tampering with the keys or the log of a tenant does not prevent its deletion.
func recordDeletion(ctx context.Context, v *core.Vault, l *ledger.Ledger, id uuid.UUID) error {
	if l.Deleted(id) {
		return nil // an earlier attempt has recorded it
	}
	_, err := v.Tenants.Reload(ctx, id)
	if core.KeyDenied(err) {
		_, err = v.Tenants.Front(ctx, id)
	}
	if err == nil {
		err = l.DeleteTenant(ctx, id)
	}
	if core.Unreadable(err) || errors.Is(err, ledger.ErrTampered) || errors.Is(err, ledger.ErrSuspended) {
		v.Logger.ErrorContext(ctx, "the end of a deleted tenant's log is not recorded", "tenant_id", id, "error", err)
		return nil
	}
	return err
}

func dropTenant(ctx context.Context, v *core.Vault, id uuid.UUID, unopened bool) error {
	op := v.System(storage.ID(id))
	ch := op.Change()
	for _, kind := range []string{keyring.KindTenant, keyring.KindRing} {
		recs, err := v.Store.Records(ctx, storage.ID(id), kind, []storage.ID{storage.ID(id)})
		if err != nil {
			return err
		}
		if len(recs) == 0 {
			return fault.ErrNoTenant
		}
		ch.DeleteRecords = append(ch.DeleteRecords, storage.RecordDelete{Kind: kind, ID: recs[0].ID, Rev: recs[0].Rev})
	}
	ch.InsertRecords = []storage.Record{{Kind: keyring.KindTombstone, ID: storage.ID(id), CreatedAt: op.Now}}
	entry := op.Entry(audit.Delete, keyring.KindTenant, id.String())
	if unopened {
		entry.Message += audit.Unopened
	}
	ch.Logs = []storage.Log{entry}
	return op.Apply(ctx, ch)
}

// purge deletes the rows of a tenant whose keys are destroyed. Other nodes
// may not know that yet and still write. A record outside of the tenant makes
// sweeps look again until no node can.
func purge(ctx context.Context, v *core.Vault, tenant storage.ID, pieces *int) error {
	now := v.Now()
	err := v.Store.Write(ctx, &storage.Change{Now: now, InsertRecords: []storage.Record{{Kind: keyring.KindTombstone, ID: tenant, CreatedAt: now}}})
	if err != nil && !errors.Is(err, storage.ErrExists) {
		return err
	}
	_, err = purgeRows(ctx, v, tenant, pieces)
	return err
}

// purgeRows deletes rows of a tenant, in at most the remaining pieces. It reports
// whether there may be more.
func purgeRows(ctx context.Context, v *core.Vault, tenant storage.ID, pieces *int) (more bool, err error) {
	const chunk = 5000
	for more = true; more && *pieces > 0; *pieces-- {
		if more, err = v.Store.Purge(ctx, tenant, chunk); err != nil {
			return false, err
		}
	}
	return more, nil
}
