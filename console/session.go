package console

import (
	"net/http"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
)

// sessionsBody is the page of the sessions that are alive.
type sessionsBody struct {
	Sessions []vault.SessionInfo
	Names    map[uuid.UUID]string // of applications
	Tenant   uuid.UUID
	Pager    pager
}

// Name is what an application is called.
func (b *sessionsBody) Name(id uuid.UUID) string {
	switch {
	case id == uuid.UUID{}:
		return ""
	case id == b.Tenant:
		return "the tenant itself"
	case b.Names[id] != "":
		return b.Names[id]
	default:
		return id.String()
	}
}

func (q *request) sessions() error {
	c, t, err := q.inTenant()
	if err != nil {
		return err
	}
	list, err := c.ListSessions(q.r.Context(), vault.ListSessionsParams{PageParams: q.pageParams()})
	if err != nil {
		return err
	}
	b := &sessionsBody{Sessions: list.Data, Names: map[uuid.UUID]string{}, Tenant: t.ID, Pager: q.pager(list.Pagination)}
	for _, s := range b.Sessions {
		for _, id := range []uuid.UUID{s.ApplicationID, s.AuthorizedBy} {
			if _, known := b.Names[id]; known || id == t.ID || id == (uuid.UUID{}) {
				continue
			}
			if a, err := c.GetApplication(q.r.Context(), id); err == nil {
				b.Names[id] = a.Name
			}
		}
	}
	return q.show(http.StatusOK, "sessions", q.view("sessions", "Sessions", t, b))
}

func (q *request) endSession() error {
	if err := q.client().DeleteSession(q.r.Context(), q.id("id")); err != nil {
		return err
	}
	return q.seeOther(q.tenantPath()+"/sessions", "ended")
}
