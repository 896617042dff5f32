package vault

import (
	"context"
	"crypto/sha256"
	"errors"
	"iter"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/apikey"
	"github.com/seed-72ea4aab/vault/internal/audit"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/ids"
	"github.com/seed-72ea4aab/vault/storage"
)

// Transform says how much of a token's data an access rule shows.
type Transform string

// The transforms: the data itself, its mask, or nothing.
const (
	TransformReveal Transform = "reveal"
	TransformMask   Transform = "mask"
	TransformRedact Transform = "redact"
)

// AccessRule grants permissions on some of a tenant's tokens. It covers either
// a container and all below it, or the tokens that meet all of its conditions.
// Of several rules that match, the one with the lowest priority number decides.
type AccessRule struct {
	Description string       `json:"description,omitempty"`
	Priority    int          `json:"priority"` // from 1 on, unique
	Container   string       `json:"container,omitempty"`
	Conditions  []Condition  `json:"conditions,omitempty"`
	Transform   Transform    `json:"transform"`
	Permissions []Permission `json:"permissions"` // on tokens, such as token:read
}

// Condition narrows an access rule. The Value for a container is a whole path
// ending in /.
type Condition struct {
	Attribute Attribute `json:"attribute"`
	Operator  Operator  `json:"operator"`
	Value     string    `json:"value"`
}

// Attribute is what a condition looks at.
type Attribute string

// The attributes of a token that a condition can look at.
const (
	AttributeID        Attribute = "id"
	AttributeContainer Attribute = "container"
)

// Operator is how a condition compares.
type Operator string

// The comparisons. Both are byte for byte.
const (
	OperatorEquals     Operator = "equals"
	OperatorStartsWith Operator = "starts_with"
)

func readRules(r *form.Reader) []AccessRule {
	var rules []AccessRule
	r.Each("rules", func(r *form.Reader) {
		rule := AccessRule{Description: r.Text("description"), Container: r.Text("container"),
			Transform: Transform(r.Text("transform")), Permissions: permissionsOf(r.Texts("permissions"))}
		rule.Priority, _ = r.Int("priority")
		r.Each("conditions", func(r *form.Reader) {
			rule.Conditions = append(rule.Conditions, Condition{Attribute(r.Text("attribute")), Operator(r.Text("operator")), r.Text("value")})
		})
		rules = append(rules, rule)
	})
	return rules
}

// accessRules returns rules as package access reads them. A transform that it
// does not know becomes one that it refuses.
func accessRules(rules []AccessRule) []access.Rule {
	out := make([]access.Rule, len(rules))
	for i, r := range rules {
		out[i] = access.Rule{Description: r.Description, Priority: r.Priority, Container: r.Container, Permissions: texts(r.Permissions)}
		_ = out[i].Transform.UnmarshalText([]byte(r.Transform))
		for _, c := range r.Conditions {
			out[i].Conditions = append(out[i].Conditions, access.Condition{
				Attribute: access.Attribute(c.Attribute), Operator: access.Operator(c.Operator), Value: c.Value})
		}
	}
	return out
}

func rulesOf(rules []access.Rule) []AccessRule {
	if len(rules) == 0 {
		return nil
	}
	out := make([]AccessRule, len(rules))
	for i, r := range rules {
		out[i] = AccessRule{Description: r.Description, Priority: r.Priority, Container: r.Container,
			Transform: Transform(r.Transform.String()), Permissions: permissionsOf(r.Permissions)}
		for _, c := range r.Conditions {
			out[i].Conditions = append(out[i].Conditions, Condition{Attribute(c.Attribute), Operator(c.Operator), c.Value})
		}
	}
	return out
}

// Session is a new session: a short-lived API key that has no access until a
// private application authorizes it by the nonce. Neither is shown when it is
// printed or logged, except as JSON and in unexported fields: see [Token].
type Session struct {
	SessionKey string    `json:"session_key"`
	Nonce      string    `json:"nonce"`
	ExpiresAt  time.Time `json:"expires_at"`
}

// Grant authorizes a session: what it may do, and until when. It is not shown when
// it is printed or logged, except as JSON and in unexported fields: see [Token].
type Grant struct {
	Nonce       string       `json:"nonce"`
	Permissions []Permission `json:"permissions,omitempty"`
	Rules       []AccessRule `json:"rules,omitempty"`
	// ExpiresAt ends the session. Default: 3 minutes after it was created.
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}

// UnmarshalJSON reads the JSON form strictly: an unknown field, a duplicate
// key or a wrong type is an [InvalidError].
func (g *Grant) UnmarshalJSON(data []byte) error {
	return readObject(data, func(r *form.Reader) {
		g.Nonce = r.Text("nonce")
		g.Permissions = permissionsOf(r.Texts("permissions"))
		g.Rules = readRules(r)
		g.ExpiresAt = r.Moment("expires_at")
	})
}

// nonceLength gives a nonce 140 random bits.
const nonceLength = 24

// sessionLife is how long a session lives unless its authorization says more.
const sessionLife = 3 * time.Minute

var sessionRights = map[Permission]func(*operation) error{
	PermissionSessionCreate:    (*operation).mayCreateSession,
	PermissionSessionAuthorize: (*operation).mayAuthorizeSession,
}

func (op *operation) mayCreateSession() error {
	if op.Application() == nil || op.Application().Type != string(ApplicationPublic) || op.Session() != (uuid.UUID{}) {
		return fault.New(ErrForbidden, "Creating a session needs the key of a public application.")
	}
	return nil
}

func (op *operation) mayAuthorizeSession() error {
	if op.Application() != nil && (op.Application().Type != string(ApplicationPrivate) || op.Session() != (uuid.UUID{})) {
		return fault.New(ErrForbidden, "Authorizing a session needs the key of a private application.")
	}
	return nil
}

// CreateSession opens a session of the client's application, which must be a
// public one. The session key has no access until it is authorized.
func (c *Client) CreateSession(ctx context.Context) (*Session, error) {
	return run(ctx, c, &verbCreateSession, func(ctx context.Context, op *operation) (*Session, error) { return op.createSession(ctx) })
}

func (op *operation) createSession(ctx context.Context) (*Session, error) {
	if err := op.mayCreateSession(); err != nil {
		return nil, err
	}
	life := sessionLife
	if most := op.v.cfg.MaxSessionLife; most > 0 {
		life = min(life, most)
	}
	s := &Session{SessionKey: apikey.New(apikey.Session), Nonce: ids.Random58(nonceLength), ExpiresAt: op.Now.Add(life)}
	rec := storage.Record{
		Kind: kindSession, ID: storage.ID(op.NewID()), Key: apikey.Hash(s.SessionKey), AltKey: op.nonceHash(s.Nonce),
		ExpiresAt: s.ExpiresAt, CreatedAt: op.Now,
	}
	if err := op.SealRecord(&rec, core.Session{Application: op.Application().ID, ApplicationKey: op.Application().KeyMark()}); err != nil {
		return nil, err
	}
	ch := op.Change()
	ch.InsertRecords = []storage.Record{rec}
	ch.Logs = []storage.Log{op.Entry(audit.Create, kindSession, uuid.UUID(rec.ID).String())}
	return s, op.Write(ctx, ch)
}

// nonceHash is what a nonce is looked up by. The tenant is part of it, so that
// a nonce means nothing elsewhere; and no API key has the same hash.
func (op *operation) nonceHash(nonce string) storage.Key {
	return sha256.Sum256([]byte("nonce\x00" + op.Tenant().String() + "\x00" + nonce))
}

// AuthorizeSession gives a session its rights, once. The client must be a
// private application, or the tenant itself, and cannot give more than it has:
// each permission only where it holds it, and no transform that shows more
// than the client sees by reading or using. That holds at each use too: when the
// client's rights are cut, so are those of the session, and when its application
// is deleted or expires, or gets a new key, the session ends. An unknown or
// expired nonce is ErrNotFound, a used one ErrConflict.
func (c *Client) AuthorizeSession(ctx context.Context, g Grant) error {
	return runErr(ctx, c, &verbAuthorizeSession, func(ctx context.Context, op *operation) error {
		if err := op.mayAuthorizeSession(); err != nil {
			return err
		}
		granted, err := g.check(op.Now, op.v.cfg.MaxSessionLife)
		if err != nil {
			return err
		}
		if !granted.Within(op.Grant()) {
			return fault.New(ErrForbidden, "A session cannot be given more access than its authorizer has.")
		}
		_, err = core.RetryStale(func() (struct{}, error) { return struct{}{}, op.authorizeSession(ctx, &g) })
		return err
	})
}

// check checks a grant and returns it as package access reads it.
func (g *Grant) check(now time.Time, longest time.Duration) (*access.Grant, error) {
	bad := &form.Problems{}
	if g.Nonce == "" {
		bad.Add("nonce", "is required")
	}
	rules, permissions, problems := access.Check(access.Session, accessRules(g.Rules), texts(g.Permissions))
	bad.AddAll("", problems)
	if !g.ExpiresAt.IsZero() {
		form.CheckExpiry(g.ExpiresAt, now, bad)
		if longest > 0 && g.ExpiresAt.After(now.Add(longest)) {
			bad.Add("expires_at", "must be at most %s from now", longest)
		}
	}
	if err := fault.Of(bad); err != nil {
		return nil, err
	}
	g.Rules, g.Permissions = rulesOf(rules), permissionsOf(permissions)
	return access.New(rules, permissions)
}

var errUnknownNonce = fault.New(ErrNotFound, "The nonce is unknown or its session has expired.")

func (op *operation) authorizeSession(ctx context.Context, g *Grant) error {
	hash := op.nonceHash(g.Nonce)
	rec, err := op.DB().Lookup(ctx, hash)
	if errors.Is(err, storage.ErrNotFound) {
		return errUnknownNonce
	}
	if err != nil {
		return err
	}
	if rec.Tenant != op.TenantID() || rec.Kind != kindSession || rec.AltKey != hash || !rec.ExpiresAt.After(op.Now) {
		return errUnknownNonce
	}
	var s core.Session
	if err := op.OpenRecord(ctx, &rec, &s); err != nil {
		return err
	}
	app, err := op.KeyHolder(ctx, s.Application, s.ApplicationKey)
	if errors.Is(err, ErrUnauthenticated) || err == nil && app.Expired(op.Now) {
		return errUnknownNonce // sessions end with the key that made them
	}
	if err != nil {
		return err
	}
	if s.Authorized {
		return fault.New(ErrConflict, "The nonce has already been used.")
	}
	s.Authorized, s.Rights = true, core.Rights{Permissions: texts(g.Permissions), Rules: accessRules(g.Rules)}
	s.AuthorizedBy, s.AuthorizerKey = op.Tenant(), ""
	if op.Application() != nil {
		s.AuthorizedBy, s.AuthorizerKey = op.Application().ID, op.Application().KeyMark()
	}
	if !g.ExpiresAt.IsZero() {
		rec.ExpiresAt = g.ExpiresAt.UTC().Truncate(time.Microsecond)
	}
	if err := op.SealRecord(&rec, s); err != nil {
		return err
	}
	ch := op.Change()
	ch.UpdateRecords = []storage.RecordUpdate{{Rev: rec.Rev, Record: rec}}
	ch.Logs = []storage.Log{op.Entry(audit.Authorize, kindSession, uuid.UUID(rec.ID).String())}
	return op.Write(ctx, ch)
}

// SessionInfo describes a session that is alive. It does not hold its key.
type SessionInfo struct {
	ID            uuid.UUID `json:"id"`
	ApplicationID uuid.UUID `json:"application_id"` // that created it
	// AuthorizedBy is the application that authorized it, or the tenant's id for
	// the tenant itself. Zero means that it was not authorized, and has no access.
	AuthorizedBy uuid.UUID    `json:"authorized_by,omitzero"`
	Permissions  []Permission `json:"permissions,omitempty"`
	Rules        []AccessRule `json:"rules,omitempty"`
	CreatedAt    time.Time    `json:"created_at,omitzero"`
	ExpiresAt    time.Time    `json:"expires_at"`
}

// ListSessionsParams asks for a page of sessions.
type ListSessionsParams struct {
	PageParams
}

// ListSessions returns a page of the sessions that are alive, newest first
// (permission session:read). Permissions and Rules are what they were granted;
// what they may do now also depends on their authorizer. It reads all sessions
// of the tenant to count those that are alive.
func (c *Client) ListSessions(ctx context.Context, p ListSessionsParams) (*Page[SessionInfo], error) {
	return run(ctx, c, &verbListSessions, func(ctx context.Context, op *operation) (*Page[SessionInfo], error) { return op.listSessions(ctx, p) })
}

func (op *operation) listSessions(ctx context.Context, p ListSessionsParams) (*Page[SessionInfo], error) {
	var err error
	if p.PageParams, err = p.normal(); err != nil {
		return nil, err
	}
	var alive []SessionInfo
	filter := storage.RecordFilter{Tenant: op.TenantID(), Kind: kindSession, Limit: sessionChunk}
	for {
		recs, _, err := op.DB().ListRecords(ctx, filter)
		if err != nil {
			return nil, err
		}
		for i := range recs {
			info, err := op.sessionInfo(ctx, &recs[i])
			if err != nil {
				return nil, err
			}
			if info != nil {
				alive = append(alive, *info)
			}
		}
		if len(recs) < sessionChunk {
			break
		}
		filter.Before = recs[len(recs)-1].ID
	}
	page := newPage[SessionInfo](p.PageParams, len(alive))
	from := min(p.offset(), len(alive))
	page.Data = append(page.Data, alive[from:min(from+p.Size, len(alive))]...)
	seen := make([]core.Entity, len(page.Data))
	for i := range page.Data {
		seen[i] = core.Entity{Type: kindSession, ID: page.Data[i].ID.String()}
	}
	return page, op.LogReads(ctx, audit.Read, seen...)
}

// AllSessions iterates over all sessions that are alive, newest first (permission
// session:read): see [Client.AllTokens]. The page parameters do not count.
func (c *Client) AllSessions(ctx context.Context, _ ListSessionsParams) iter.Seq2[*SessionInfo, error] {
	return walkRecords(ctx, c, &verbAllSessions,
		func(op *operation) (storage.RecordFilter, error) {
			return storage.RecordFilter{Tenant: op.TenantID(), Kind: kindSession}, nil
		},
		func(op *operation, recs []storage.Record) (alive []SessionInfo, err error) {
			var seen []core.Entity
			for i := range recs {
				info, err := op.sessionInfo(ctx, &recs[i])
				if err != nil {
					return nil, err
				}
				if info != nil {
					alive, seen = append(alive, *info), append(seen, core.Entity{Type: kindSession, ID: info.ID.String()})
				}
			}
			return alive, op.LogReads(ctx, audit.Read, seen...)
		})
}

// sessionChunk is how many sessions are read at a time.
const sessionChunk = 500

// sessionInfo describes the session of a record; nil when it has ended.
func (op *operation) sessionInfo(ctx context.Context, rec *storage.Record) (*SessionInfo, error) {
	var s core.Session
	if err := op.OpenRecord(ctx, rec, &s); err != nil {
		return nil, err
	}
	_, err := op.IdentifySession(ctx, rec)
	if errors.Is(err, ErrUnauthenticated) {
		return nil, nil //nolint:nilerr // it has ended, which is no failure of the list
	}
	if err != nil {
		return nil, err
	}
	info := &SessionInfo{
		ID: uuid.UUID(rec.ID), ApplicationID: s.Application, Permissions: permissionsOf(s.Permissions), Rules: rulesOf(s.Rules),
		CreatedAt: rec.CreatedAt, ExpiresAt: rec.ExpiresAt,
	}
	if s.Authorized {
		info.AuthorizedBy = s.AuthorizedBy
	}
	return info, nil
}

// DeleteSession ends a session (permission session:delete): at once on this
// node, and within a second on every other. One that has ended already is
// ErrNotFound.
func (c *Client) DeleteSession(ctx context.Context, id uuid.UUID) error {
	return runErr(ctx, c, &verbDeleteSession, func(ctx context.Context, op *operation) error {
		defer op.Afterwards(op.v.core.ForgetIdentities)
		rec, err := op.Record(ctx, kindSession, id)
		if err != nil {
			return err
		}
		info, err := op.sessionInfo(ctx, rec)
		if err != nil {
			return err
		}
		if info == nil {
			return fault.New(ErrNotFound, "There is no such session.")
		}
		return sessions.delete(ctx, op, id, nil)
	})
}

// sessions are deleted like other records; the rest of their life is their own.
var sessions = recordKind[core.Session]{name: kindSession}
