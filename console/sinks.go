package console

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
)

// sinkView is a sink with its tenants.
type sinkView struct {
	vault.SinkStatus
	Here      bool // this node sends to it
	Failures  int64
	LastError string
	Lag       time.Duration
	Rows      []sinkRow
	More      int // tenants not shown
}

// sinkRow is the position of a sink in the log of a tenant.
type sinkRow struct {
	vault.SinkTenantStatus
	Tenant   ref
	Failures int64
	Lag      time.Duration
}

// mostSinkRows bounds the number of tenants shown for a sink.
const mostSinkRows = 100

// sinks shows the lag of each sink, in total and by tenant. Tenants with the most
// lag come first.
func (q *request) sinks() error {
	all, err := q.vault.ListSinks(q.r.Context())
	if err != nil {
		return err
	}
	var b []sinkView
	health := q.vault.SinkHealth()
	names := q.tenantNames()
	for i := range all {
		h, here := health[all[i].Name]
		s := sinkView{SinkStatus: all[i], Here: here, Failures: h.Failures, LastError: h.LastError, Lag: lag(q.vault.Now(), all[i].Oldest)}
		for _, t := range all[i].Tenants {
			row := sinkRow{SinkTenantStatus: t, Tenant: q.tenantRef(t.TenantID), Failures: h.Failed[t.TenantID], Lag: lag(q.vault.Now(), t.Oldest)}
			if name := names[t.TenantID]; name != "" {
				row.Tenant.Text, row.Tenant.ID = name, false
			}
			s.Rows = append(s.Rows, row)
		}
		slices.SortStableFunc(s.Rows, func(a, b sinkRow) int {
			return cmp.Or(cmp.Compare(b.Lag, a.Lag), cmp.Compare(b.Failures, a.Failures))
		})
		if len(s.Rows) > mostSinkRows {
			s.Rows, s.More = s.Rows[:mostSinkRows], len(s.Rows)-mostSinkRows
		}
		b = append(b, s)
	}
	return q.show(http.StatusOK, "sinks", q.view("sinks", "Log sinks", nil, b))
}

// lag returns how long the oldest entry has waited, or zero if no entry waits.
func lag(now, oldest time.Time) time.Duration {
	if oldest.IsZero() {
		return 0
	}
	return max(0, now.Sub(oldest))
}

// tenantNames returns the names of the newest tenants. The page shows the ids of
// others.
func (q *request) tenantNames() map[uuid.UUID]string {
	names := map[uuid.UUID]string{}
	list, err := q.vault.ListTenants(q.r.Context(), vault.PageParams{Size: 100})
	if err != nil {
		return names
	}
	for i := range list.Data {
		names[list.Data[i].ID] = list.Data[i].Name
	}
	return names
}
