package core

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/storage"
)

// KindOwnKey is the kind of the record with the last state of a tenant's own key. It
// is not sealed, because it is written while the key is denied. All nodes share it,
// so that each change of state gets one entry in the log.
const KindOwnKey = "own_key_state"

// ownKeyState is the last state that was entered in the log.
type ownKeyState struct {
	State keyring.KeyState `json:"state"`
	At    time.Time        `json:"at"`
}

// ownKeyChanged enters a change of state of a key in the logs of its tenants, unless
// another node has done so.
func (v *Vault) ownKeyChanged(ctx context.Context, tenants []uuid.UUID, c keyring.KeyChange) error {
	ring, err := keyring.Own(ctx, v.Store, v.Master)
	if err != nil {
		return err
	}
	ids := make([]storage.ID, len(tenants))
	for i := range tenants {
		ids[i] = storage.ID(tenants[i])
	}
	return v.forEach(ids, func(op *Op) error {
		op.vaultRing = ring
		err := Retry(func() error { return op.enterOwnKey(ctx, c) })
		if errors.Is(err, storage.ErrExists) {
			return errOutageLeased
		}
		return err
	})
}

// enterOwnKey enters a change of state in the log of the operation's tenant.
func (op *Op) enterOwnKey(ctx context.Context, c keyring.KeyChange) error {
	recs, err := op.Vault.Store.Records(ctx, op.TenantID(), KindOwnKey, []storage.ID{op.TenantID()})
	if err != nil {
		return err
	}
	last := ownKeyState{State: keyring.KeyOK}
	if len(recs) > 0 && json.Unmarshal(recs[0].Body, &last) != nil {
		return fault.Wrap(errDocument, "the state of the key of tenant %s", op.Tenant())
	}
	if last.State == c.To || !c.At.After(last.At) {
		return nil
	}
	body, err := json.Marshal(ownKeyState{c.To, c.At})
	if err != nil {
		return err
	}
	rec := storage.Record{Kind: KindOwnKey, ID: op.TenantID(), Body: body, CreatedAt: op.Now}
	ch := op.Change()
	if len(recs) == 0 {
		ch.InsertRecords = []storage.Record{rec}
	} else {
		ch.UpdateRecords = []storage.RecordUpdate{{Rev: recs[0].Rev, Record: rec}}
	}
	message := "Key " + string(c.To)
	if c.To == keyring.KeyOK {
		message = "Key available again; unavailable since " + last.At.UTC().Format(time.RFC3339)
	}
	ch.Logs = []storage.Log{op.keyEntry(message)}
	return op.Apply(ctx, ch)
}

// KeyDenied reports whether an error means that a tenant cannot be opened because a
// key is denied or unreachable.
func KeyDenied(err error) bool {
	return errors.Is(err, fault.ErrKeyDenied) || errors.Is(err, fault.ErrKeyUnavailable)
}
