package vault

import (
	"context"
	"iter"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/applications"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/sessions"
	"github.com/seed-72ea4aab/vault/storage"
)

// Session is a new session: a short-lived API key that has no access until a
// private application authorizes it by the nonce. Printed or logged it shows
// neither: see the package comment.
type Session struct {
	SessionKey string    `json:"session_key"`
	Nonce      string    `json:"nonce"`
	ExpiresAt  time.Time `json:"expires_at"`
}

// SessionGrant authorizes a session: its rights, and its end. It is hidden when
// printed or logged: see the package comment.
type SessionGrant struct {
	Nonce       string       `json:"nonce"`
	Permissions []Permission `json:"permissions,omitempty"`
	Rules       []AccessRule `json:"rules,omitempty"`
	// ExpiresAt is the end of the session. Default: 3 minutes after it was created.
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}

// UnmarshalJSON is strict, as [TokenParams.UnmarshalJSON] is.
func (g *SessionGrant) UnmarshalJSON(data []byte) error {
	return readObject(data, func(r *form.Reader) {
		g.Nonce = r.Text("nonce")
		g.Permissions = as[Permission](r.Texts("permissions"))
		g.Rules = rulesOf(applications.ReadRules(r))
		g.ExpiresAt = r.Moment("expires_at")
	})
}

// CreateSession opens a session of the client's application, which must be a public
// application. The session key has no access until it is authorized.
func (c *Client) CreateSession(ctx context.Context) (*Session, error) {
	return run(ctx, c, &core.VerbCreateSession, func(ctx context.Context, op *core.Op) (*Session, error) {
		s, err := sessions.Create(ctx, op, c.v.cfg.MaxSessionLife)
		if err != nil {
			return nil, err
		}
		return &Session{SessionKey: s.Key, Nonce: s.Nonce, ExpiresAt: s.ExpiresAt}, nil
	})
}

// AuthorizeSession gives a session its rights, once. The client must be a private
// application or the tenant itself. An unknown or expired nonce is ErrNotFound, and
// a used nonce is ErrConflict.
//
// The client cannot grant more than it has: each permission only where it holds it,
// and no transform that shows more than the client sees by reading or using. This
// is checked again at each use. When the client loses rights, the session loses
// them too. The session ends with the client's application, and with the key or the
// identity that the client has shown. A client with a JWT authorizes a session for at
// most 24 hours, also through code that it runs.
func (c *Client) AuthorizeSession(ctx context.Context, g SessionGrant) error {
	return runErr(ctx, c, &core.VerbAuthorizeSession, func(ctx context.Context, op *core.Op) error {
		rights := core.Rights{Permissions: as[string](g.Permissions), Rules: accessRules(g.Rules)}
		return sessions.Authorize(ctx, op, &sessions.Grant{Nonce: g.Nonce, Rights: rights, ExpiresAt: g.ExpiresAt}, c.v.cfg.MaxSessionLife)
	})
}

// SessionInfo describes an active session. It does not hold the session's key.
type SessionInfo struct {
	ID            uuid.UUID `json:"id"`
	ApplicationID uuid.UUID `json:"application_id,omitzero"` // the application that created it
	// AuthorizedBy is the application that authorized the session, or the tenant's
	// id for the tenant itself. Zero means that the session is not authorized and
	// has no access.
	AuthorizedBy uuid.UUID    `json:"authorized_by,omitzero"`
	Permissions  []Permission `json:"permissions,omitempty"`
	Rules        []AccessRule `json:"rules,omitempty"`
	CreatedAt    time.Time    `json:"created_at,omitzero"`
	ExpiresAt    time.Time    `json:"expires_at,omitzero"`
	// Unreadable is set when the row of the session, or of an application it
	// depends on, was altered or does not open. Only ID and CreatedAt are set then.
	Unreadable bool `json:"unreadable,omitempty"`
}

// ListSessions returns a page of the active sessions, newest first (permission
// session:read). Permissions and Rules are the granted rights; the current rights
// also depend on the authorizer. ListSessions reads all sessions of the tenant to
// count the active ones.
func (c *Client) ListSessions(ctx context.Context, p PageParams) (*Page[SessionInfo], error) {
	return run(ctx, c, &core.VerbListSessions, func(ctx context.Context, op *core.Op) (*Page[SessionInfo], error) {
		p, err := p.normal()
		if err != nil {
			return nil, err
		}
		alive, total, err := sessions.List(ctx, op, form.Paging(p))
		if err != nil {
			return nil, err
		}
		page := newPage[SessionInfo](p, total)
		page.Data = sessionInfos(alive)
		return page, nil
	})
}

// AllSessions iterates over all active sessions, newest first (permission
// session:read). See [Client.AllTokens].
func (c *Client) AllSessions(ctx context.Context) iter.Seq2[*SessionInfo, error] {
	return walk(ctx, c, &core.VerbAllSessions, func(ctx context.Context, op *core.Op, w *core.Walk, before *storage.ID) ([]SessionInfo, bool, error) {
		alive, more, err := sessions.Next(ctx, op, w, before)
		return sessionInfos(alive), more, err
	})
}

func sessionInfos(alive []sessions.Info) []SessionInfo {
	out := make([]SessionInfo, len(alive))
	for i, s := range alive {
		out[i] = SessionInfo{
			ID: s.ID, ApplicationID: s.ApplicationID, AuthorizedBy: s.AuthorizedBy, Permissions: as[Permission](s.Permissions),
			Rules: rulesOf(s.Rules), CreatedAt: s.CreatedAt, ExpiresAt: s.ExpiresAt, Unreadable: s.Unreadable,
		}
	}
	return out
}

// DeleteSession ends a session (permission session:delete), at once on this node
// and within a second on every other node. If the session has already ended, it
// returns ErrNotFound.
func (c *Client) DeleteSession(ctx context.Context, id uuid.UUID) error {
	return runErr(ctx, c, &core.VerbDeleteSession, func(ctx context.Context, op *core.Op) error { return sessions.Delete(ctx, op, id) })
}
