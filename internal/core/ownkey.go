package core

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/bounded"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/storage"
)

// KindOwnKey is the kind of the record with the last state of a tenant's own key that
// is in the log. The vault's own keys seal it, because the tenant's cannot be used
// while its own key is denied. All nodes share it, so that a change of state usually
// gets one entry. It has no words: each node enters what it has observed itself. A
// missing or older record costs further entries, never entries.
var KindOwnKey = seal.RecordKind("own_key_state")

// ownKeyState is the last state that was entered in the log.
type ownKeyState struct {
	State keyring.KeyState `json:"state"`
	At    time.Time        `json:"at"`
}

// ownKeysSeen is what this node has observed of tenants' own keys. The zero value is
// empty.
type ownKeysSeen struct {
	mu   sync.Mutex
	seen bounded.Map[uuid.UUID, ownKeySeen]
}

// ownKeySeen is the last observed state of a key that is in the log.
type ownKeySeen struct {
	keyring.KeyChange
	since time.Time // the beginning of the outage; zero while the key is available
}

func (s *ownKeysSeen) of(tenant uuid.UUID) ownKeySeen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[tenant]
}

// note remembers a change that is in the log.
func (s *ownKeysSeen) note(tenant uuid.UUID, c keyring.KeyChange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := ownKeySeen{KeyChange: c}
	if c.To != keyring.KeyOK {
		if now.since = s.seen[tenant].since; now.since.IsZero() {
			now.since = c.At
		}
	}
	s.seen.Put(maxRevisions, tenant, now)
}

// ownKeyChanged enters a change of state of a key in the logs of its tenants, unless
// another node has done so.
func (v *Vault) ownKeyChanged(ctx context.Context, tenants []uuid.UUID, c keyring.KeyChange) error {
	ring, err := keyring.Own(ctx, v.Store, v.Root)
	if err != nil {
		return err
	}
	ids := make([]storage.ID, len(tenants))
	for i := range tenants {
		ids[i] = storage.ID(tenants[i])
	}
	return v.forEach(ids, func(op *Op) error {
		op.vaultRing = ring
		err := Retry(func() error { return op.enterOwnKey(ctx, c, true) })
		if errors.Is(err, storage.ErrStale) || errors.Is(err, storage.ErrExists) {
			err = op.enterOwnKey(ctx, c, false) // the record cannot be replaced
		}
		if err == nil {
			v.ownSeen.note(op.Tenant(), c)
		}
		return err
	})
}

// enterOwnKey enters a change of state in the log of the operation's tenant, and in
// the record if record is true. It enters nothing if the record has this state since
// this node has observed another one.
func (op *Op) enterOwnKey(ctx context.Context, c keyring.KeyChange, record bool) error {
	rec, last, err := op.readOwnKey(ctx)
	if err != nil {
		return err
	}
	seen := op.Vault.ownSeen.of(op.Tenant())
	first, was := seen.To == "", seen.To
	if first {
		was, seen.At = keyring.KeyOK, op.Vault.opened
	}
	switch {
	case c.To == was && !(first && last.State != "" && last.State != c.To):
		return nil
	case last.State == c.To && !last.At.Before(seen.At) && !last.At.After(op.Now.Add(outageLease)):
		return nil // another node has entered it
	}
	ch := op.Change()
	if record {
		if err := op.writeOwnKey(ch, rec, ownKeyState{c.To, c.At}); err != nil {
			return err
		}
	}
	message := "Key " + string(c.To)
	if c.To == keyring.KeyOK {
		message = availableAgain(seen.since)
	}
	ch.Logs = []storage.Log{op.keyEntry(message)}
	return op.Apply(ctx, ch)
}

// readOwnKey returns the record, which is nil if it does not exist, and the state in it,
// which is empty if the record does not open.
func (op *Op) readOwnKey(ctx context.Context) (*storage.Record, ownKeyState, error) {
	var last ownKeyState
	recs, err := op.Vault.Store.Records(ctx, op.TenantID(), KindOwnKey, []storage.ID{op.TenantID()})
	if err != nil || len(recs) == 0 {
		return nil, last, err
	}
	plain, err := op.vaultRing.Open(op.ownKeyLocation(), recs[0].KeyVersion, recs[0].Body)
	if err != nil || json.Unmarshal(plain, &last) != nil {
		_ = op.Vault.Alarm(ctx, AlarmUnreadable, op.Tenant(), Entity{Type: KindOwnKey, ID: op.Tenant().String()}, fault.ErrAltered)
		return &recs[0], ownKeyState{}, nil //nolint:nilerr // it counts as none
	}
	return &recs[0], last, nil
}

// writeOwnKey puts the state into a change, in the place of a record.
func (op *Op) writeOwnKey(ch *storage.Change, was *storage.Record, state ownKeyState) error {
	plain, err := json.Marshal(state)
	if err != nil {
		return err
	}
	rec := storage.Record{Kind: KindOwnKey, ID: op.TenantID(), KeyVersion: op.vaultRing.Version(), CreatedAt: op.Now}
	if rec.Body, err = op.vaultRing.Seal(op.ownKeyLocation(), plain); err != nil {
		return err
	}
	if was == nil {
		ch.InsertRecords = []storage.Record{rec}
	} else {
		ch.UpdateRecords = []storage.RecordUpdate{{Rev: was.Rev, Record: rec}}
	}
	return nil
}

func (op *Op) ownKeyLocation() *seal.Location {
	return &seal.Location{Tenant: op.Tenant(), Entity: KindOwnKey, ID: op.Tenant().String(), Field: "state"}
}

// KeyDenied reports whether an error means that a tenant cannot be opened because a
// key is denied or unreachable.
func KeyDenied(err error) bool {
	return errors.Is(err, fault.ErrKeyDenied) || errors.Is(err, fault.ErrKeyUnavailable)
}
