package core

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/storage"
)

// KindAlarm is the kind of the event of an alarm.
const KindAlarm = "alarm"

// The names of alarms.
const (
	AlarmAltered    = "altered"    // columns do not match what was sealed with them
	AlarmUnreadable = "unreadable" // a sealed part does not open
	AlarmRolledBack = "rolled_back"
)

// Alarm reports a row that cannot be trusted: to the logger, and to the observer,
// so that metrics count it. It returns err.
func (v *Vault) Alarm(ctx context.Context, name string, tenant uuid.UUID, e Entity, err error) error {
	v.Logger.ErrorContext(ctx, "a row of the database was altered or cannot be read",
		"alarm", name, "tenant", tenant, "entity_type", e.Type, "entity_id", e.ID, "error", err)
	_, end := v.Tell(ctx, Event{Kind: KindAlarm, Name: name, TenantID: tenant})
	end(err)
	return err
}

// alarmRecord reports a record that cannot be trusted. ErrAltered means that its
// revision is too old.
func (op *Op) alarmRecord(ctx context.Context, rec *storage.Record, err error) error {
	name := AlarmUnreadable
	if errors.Is(err, fault.ErrAltered) {
		name = AlarmRolledBack
	}
	return op.Vault.Alarm(ctx, name, op.Tenant(), Entity{Type: rec.Kind, ID: uuid.UUID(rec.ID).String()}, err)
}

// errDocument means that a document was decrypted but cannot be decoded.
var errDocument = errors.New("the sealed document has a format that this version does not know")

// Unreadable reports whether an error is about a row that cannot be decrypted or
// that was altered, and not about the database or the caller.
func Unreadable(err error) bool {
	for _, kind := range []error{seal.ErrOpen, seal.ErrNoKey, errDocument, fault.ErrAltered, keyring.ErrRing} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}
