package core

import (
	"context"

	"github.com/google/uuid"
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
