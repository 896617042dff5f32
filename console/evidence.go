package console

import (
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
)

// evidenceBody is the page about the evidence of the audit log.
type evidenceBody struct {
	Status *vault.EvidenceStatus // nil if evidence is off
	Key    string                // the public key; empty if it is unknown
	Note   string
	Age    time.Duration // of the newest note
	Alarms []alarmRow
	Raised int64 // alarms since the start of this node
}

// alarmRow is an alarm in a table.
type alarmRow struct {
	vault.Alarm
	Tenant, Entry ref
}

// evidence shows the newest checkpoint, the lag, the last full verification and the
// alarms.
func (q *request) evidence() error {
	b := &evidenceBody{}
	s, err := q.vault.EvidenceStatus()
	if errors.Is(err, vault.ErrNotFound) {
		return q.show(http.StatusOK, "evidence", q.view("evidence", "Evidence", nil, b))
	}
	if err != nil {
		return err
	}
	if b.Key, err = q.vault.EvidenceKey(); err != nil {
		return err
	}
	b.Status, b.Note = s, string(s.Note)
	if !s.SignedAt.IsZero() {
		b.Age = q.vault.Now().Sub(s.SignedAt)
	}
	for _, n := range s.Raised {
		b.Raised += n
	}
	for _, a := range s.Alarms {
		row := alarmRow{Alarm: a}
		if a.TenantID != (uuid.UUID{}) {
			row.Tenant = q.tenantRef(a.TenantID)
		}
		if a.EntryID != (uuid.UUID{}) {
			row.Entry = idRef(a.EntryID.String(), "")
		}
		b.Alarms = append(b.Alarms, row)
	}
	return q.show(http.StatusOK, "evidence", q.view("evidence", "Evidence", nil, b))
}

// tenantRef refers to a tenant by its id.
func (q *request) tenantRef(id uuid.UUID) ref {
	return idRef(id.String(), q.root()+"tenants/"+id.String())
}
