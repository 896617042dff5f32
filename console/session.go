package console

import (
	"context"
	"net/http"

	"github.com/google/uuid"

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

func (q *request) sessions(c *vault.Owner, t *vault.Tenant) error {
	list, err := c.ListSessions(q.r.Context(), q.pageParams())
	if err != nil {
		return err
	}
	b := &sessionsBody{Pager: q.pager(list.Pagination)}
	in := q.in()
	for i := range list.Data {
		s := &list.Data[i]
		b.Rows = append(b.Rows, sessionRow{
			SessionInfo: s, Ref: idRef(s.ID.String(), ""), Creator: q.actorRef(c, in, s.ApplicationID), Authorizer: q.actorRef(c, in, s.AuthorizedBy),
		})
	}
	return q.show(http.StatusOK, "sessions", q.view("sessions", "Sessions", t, b))
}

func endSession(c *vault.Owner, ctx context.Context, id uuid.UUID) error { //nolint:revive // in the order of a method expression
	return c.DeleteSession(ctx, id)
}
