package console

import (
	"net/http"

	"github.com/seed-72ea4aab/vault"
)

// sessionsBody is the page of active sessions.
type sessionsBody struct {
	Rows  []sessionRow
	Pager pager
}

// sessionRow is a session in a table.
type sessionRow struct {
	*vault.SessionInfo
	Ref, Creator, Authorizer ref
}

func (q *request) sessions() error {
	c, t, err := q.inTenant()
	if err != nil {
		return err
	}
	list, err := c.ListSessions(q.r.Context(), q.pageParams())
	if err != nil {
		return err
	}
	b := &sessionsBody{Pager: q.pager(list.Pagination)}
	in := q.root() + q.tenantPath() + "/"
	for i := range list.Data {
		s := &list.Data[i]
		b.Rows = append(b.Rows, sessionRow{
			SessionInfo: s, Ref: idRef(s.ID.String(), ""), Creator: q.actorRef(c, in, s.ApplicationID), Authorizer: q.actorRef(c, in, s.AuthorizedBy),
		})
	}
	return q.show(http.StatusOK, "sessions", q.view("sessions", "Sessions", t, b))
}

func (q *request) endSession() error {
	if err := q.client().DeleteSession(q.r.Context(), q.id("id")); err != nil {
		return err
	}
	return q.seeOther(q.tenantPath()+"/sessions", "ended")
}
