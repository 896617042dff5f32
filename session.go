package vault

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/apikey"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/ids"
	"github.com/seed-72ea4aab/vault/storage"
)

// Transform says how much of a token's data an access rule shows.
type Transform string

// The transforms: the data itself, its mask, or nothing.
const (
	Reveal Transform = "reveal"
	Mask   Transform = "mask"
	Redact Transform = "redact"
)

// AccessRule grants permissions on some of a tenant's tokens. It covers either
// a container and all below it, or the tokens that meet all of its conditions.
// Of several rules that match, the one with the lowest priority number decides.
type AccessRule struct {
	Description string      `json:"description,omitempty"`
	Priority    int         `json:"priority"` // from 1 on, unique
	Container   string      `json:"container,omitempty"`
	Conditions  []Condition `json:"conditions,omitempty"`
	Transform   Transform   `json:"transform"`
	Permissions []string    `json:"permissions"` // on tokens, such as token:read
}

// Condition narrows an access rule: Attribute is id or container, Operator is
// equals or starts_with, and a container's Value is a whole path ending in /.
type Condition struct {
	Attribute string `json:"attribute"`
	Operator  string `json:"operator"`
	Value     string `json:"value"`
}

func readRules(r *form.Reader) []AccessRule {
	var rules []AccessRule
	r.Each("rules", func(r *form.Reader) {
		rule := AccessRule{Description: r.Text("description"), Container: r.Text("container"),
			Transform: Transform(r.Text("transform")), Permissions: r.Texts("permissions")}
		rule.Priority, _ = r.Int("priority")
		r.Each("conditions", func(r *form.Reader) {
			rule.Conditions = append(rule.Conditions, Condition{r.Text("attribute"), r.Text("operator"), r.Text("value")})
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
		out[i] = access.Rule{Description: r.Description, Priority: r.Priority, Container: r.Container, Permissions: r.Permissions}
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
			Transform: Transform(r.Transform.String()), Permissions: r.Permissions}
		for _, c := range r.Conditions {
			out[i].Conditions = append(out[i].Conditions, Condition{string(c.Attribute), string(c.Operator), c.Value})
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

// Grant authorizes a session: what it may do, and until when.
type Grant struct {
	Nonce       string       `json:"nonce"`
	Permissions []string     `json:"permissions,omitempty"`
	Rules       []AccessRule `json:"rules,omitempty"`
	// ExpiresAt ends the session. Default: 3 minutes after it was created.
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
}

// UnmarshalJSON reads the JSON form strictly: an unknown field, a duplicate
// key or a wrong type is an [InvalidError].
func (g *Grant) UnmarshalJSON(data []byte) error {
	return readObject(data, func(r *form.Reader) {
		g.Nonce = r.Text("nonce")
		g.Permissions = r.Texts("permissions")
		g.Rules = readRules(r)
		g.ExpiresAt = r.Moment("expires_at")
	})
}

// session is a session as it is sealed.
type session struct {
	Application uuid.UUID    `json:"application"`
	Authorized  bool         `json:"authorized"`
	Permissions []string     `json:"permissions,omitempty"`
	Rules       []AccessRule `json:"rules,omitempty"`
}

// nonceLength gives a nonce 140 random bits.
const nonceLength = 24

// sessionLife is how long a session lives unless its authorization says more.
const sessionLife = 3 * time.Minute

// Rights that come with a type of key and cannot be granted.
const (
	// CreateSessions is the right of public applications to open sessions.
	CreateSessions = "session:create"
	// AuthorizeSessions is the right of private applications, and of the tenant
	// itself, to authorize them.
	AuthorizeSessions = "session:authorize"
)

var sessionRights = map[string]func(*operation) error{
	CreateSessions:    (*operation).mayCreateSession,
	AuthorizeSessions: (*operation).mayAuthorizeSession,
}

func (op *operation) mayCreateSession() error {
	if op.app == nil || op.app.Type != Public || op.session != (uuid.UUID{}) {
		return errorf(ErrForbidden, "Creating a session needs the key of a public application.")
	}
	return nil
}

func (op *operation) mayAuthorizeSession() error {
	if op.app != nil && (op.app.Type != Private || op.session != (uuid.UUID{})) {
		return errorf(ErrForbidden, "Authorizing a session needs the key of a private application.")
	}
	return nil
}

// CreateSession opens a session of the client's application, which must be a
// public one. The session key has no access until it is authorized.
func (c *Client) CreateSession(ctx context.Context) (*Session, error) {
	op, err := c.begin(ctx, "")
	if err != nil {
		return nil, err
	}
	if err := op.mayCreateSession(); err != nil {
		return nil, err
	}
	s := &Session{SessionKey: apikey.New(apikey.Session), Nonce: ids.Random58(nonceLength), ExpiresAt: op.now.Add(sessionLife)}
	rec := storage.Record{
		Kind: kindSession, ID: storage.ID(op.v.ids.At(op.now)), Key: apikey.Hash(s.SessionKey), AltKey: op.nonceHash(s.Nonce),
		ExpiresAt: s.ExpiresAt, CreatedAt: op.now,
	}
	if err := op.sealRecord(&rec, session{Application: op.app.ID}); err != nil {
		return nil, err
	}
	ch := op.change()
	ch.InsertRecords = []storage.Record{rec}
	ch.Logs = []storage.Log{op.entry(opCreate, kindSession, uuid.UUID(rec.ID).String())}
	return s, op.write(ctx, ch)
}

// nonceHash is what a nonce is looked up by. The tenant is part of it, so that
// a nonce means nothing elsewhere; and no API key has the same hash.
func (c *Client) nonceHash(nonce string) storage.Key {
	return sha256.Sum256([]byte("nonce\x00" + c.tenant.String() + "\x00" + nonce))
}

// AuthorizeSession gives a session its rights, once. The client must be a
// private application, or the tenant itself, and cannot give more than it has:
// each permission only where it holds it, and no transform that shows more
// than the client sees by reading or using. An unknown or expired nonce is
// ErrNotFound, a used one ErrConflict.
func (c *Client) AuthorizeSession(ctx context.Context, g Grant) error {
	op, err := c.begin(ctx, "")
	if err != nil {
		return err
	}
	if err := op.mayAuthorizeSession(); err != nil {
		return err
	}
	granted, err := g.check(op.now)
	if err != nil {
		return err
	}
	if !granted.Within(op.grant) {
		return errorf(ErrForbidden, "A session cannot be given more access than its authorizer has.")
	}
	_, err = retryStale(func() (struct{}, error) { return struct{}{}, op.authorizeSession(ctx, &g) })
	return err
}

// check checks a grant and returns it as package access reads it.
func (g *Grant) check(now time.Time) (*access.Grant, error) {
	bad := &form.Problems{}
	if g.Nonce == "" {
		bad.Add("nonce", "is required")
	}
	rules, permissions, problems := access.Check(access.Session, accessRules(g.Rules), g.Permissions)
	bad.AddAll("", problems)
	if g.ExpiresAt != nil {
		form.CheckExpiry(*g.ExpiresAt, now, bad)
	}
	if err := asInvalid(bad); err != nil {
		return nil, err
	}
	g.Rules, g.Permissions = rulesOf(rules), permissions
	return access.New(rules, permissions)
}

var errUnknownNonce = errorf(ErrNotFound, "The nonce is unknown or its session has expired.")

func (op *operation) authorizeSession(ctx context.Context, g *Grant) error {
	hash := op.nonceHash(g.Nonce)
	rec, err := op.v.store.Lookup(ctx, hash)
	if errors.Is(err, storage.ErrNotFound) {
		return errUnknownNonce
	}
	if err != nil {
		return err
	}
	if rec.Tenant != op.tenantID() || rec.Kind != kindSession || rec.AltKey != hash || !rec.ExpiresAt.After(op.now) {
		return errUnknownNonce
	}
	var s session
	if err := op.openRecord(ctx, &rec, &s); err != nil {
		return err
	}
	app, err := applications.read(ctx, op, s.Application)
	if errors.Is(err, ErrNotFound) || err == nil && app.expired(op.now) {
		return errUnknownNonce // sessions end with their application
	}
	if err != nil {
		return err
	}
	if s.Authorized {
		return errorf(ErrConflict, "The nonce has already been used.")
	}
	s.Authorized, s.Permissions, s.Rules = true, g.Permissions, g.Rules
	if g.ExpiresAt != nil {
		rec.ExpiresAt = g.ExpiresAt.UTC().Truncate(time.Microsecond)
	}
	if err := op.sealRecord(&rec, s); err != nil {
		return err
	}
	ch := op.change()
	ch.UpdateRecords = []storage.RecordUpdate{{Rev: rec.Rev, Record: rec}}
	ch.Logs = []storage.Log{op.entry(opAuthorize, kindSession, uuid.UUID(rec.ID).String())}
	return op.write(ctx, ch)
}
