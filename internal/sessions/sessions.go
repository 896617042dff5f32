// Package sessions manages sessions. A public application creates a session,
// and a private application or the tenant itself authorizes it. It ends by
// time, by deletion, or with the key of either application.
//
// It promises that a session has no right without an authorization, that the authorizer
// grants only what it holds, and that nothing is copied: on each call, package core
// compares the session with the rights that its authorizer has then. The nonce that
// connects both sides can be used once.
//
// It rests on package access for the limits of a grant, and on package records for the
// stored form. Begin with [Create], then [Authorize].
package sessions

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/ids"
	"github.com/seed-72ea4aab/vault/internal/logs/audit"
	"github.com/seed-72ea4aab/vault/internal/records"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/storage"
)

const (
	// nonceLength is the length of a nonce, which has 140 random bits.
	nonceLength = 24
	// life is how long a session lives by default.
	life = 3 * time.Minute
	// workloadLife is how long a session lives at most that a caller with a JWT, or
	// code that it runs, authorizes.
	workloadLife = 24 * time.Hour
	// chunk is the number of sessions read at a time.
	chunk = 500
)

// kind stores sessions as records. It is used to delete them; this package
// does the rest.
var kind = records.Kind[core.Session]{Name: seal.RecordKind(audit.Session), Changed: func(op *core.Op) { op.Vault.ForgetIdentities() }}

// Session is a new session with its secrets.
type Session struct {
	Key       string
	Nonce     string
	ExpiresAt time.Time
}

// Grant is the rights that a session gets, and their expiry.
type Grant struct {
	Nonce string
	core.Rights
	ExpiresAt time.Time // zero for the session's own expiry
}

// Info describes an active session.
type Info struct {
	ID            uuid.UUID
	ApplicationID uuid.UUID // that created it
	AuthorizedBy  uuid.UUID // zero if it is not authorized
	core.Rights
	CreatedAt, ExpiresAt time.Time
	// Unreadable means that the session, or an application that it depends
	// on, cannot be decrypted. Only ID and CreatedAt are set then.
	Unreadable bool
}

// Create creates a session of the caller's application. longest limits its
// life; zero means no limit.
func Create(ctx context.Context, op *core.Op, longest time.Duration) (*Session, error) {
	lives := life
	if longest > 0 {
		lives = min(lives, longest)
	}
	s := &Session{Key: ids.NewKey(ids.SessionKey), Nonce: ids.Random58(nonceLength), ExpiresAt: op.Now.Add(lives)}
	rec := storage.Record{
		Kind: kind.Name, ID: storage.ID(op.NewID()), Key: ids.HashKey(s.Key), AltKey: nonceHash(op, s.Nonce),
		ExpiresAt: s.ExpiresAt, CreatedAt: op.Now,
	}
	if err := op.SealRecord(&rec, core.Session{Application: op.Application().ID, ApplicationKey: op.Credential()}); err != nil {
		return nil, err
	}
	op.GivesKey()
	return s, op.SaveRecord(ctx, audit.Create, "", &rec)
}

// nonceHash returns the lookup key of a nonce. It includes the tenant, so
// that a nonce is useless elsewhere, and differs from the hash of any API
// key.
func nonceHash(op *core.Op, nonce string) storage.Key {
	return sha256.Sum256([]byte("nonce\x00" + op.Tenant().String() + "\x00" + nonce))
}

// Authorize gives a session its rights, once. They must be within the
// caller's rights. longest limits how far in the future the session may end;
// zero means no limit.
func Authorize(ctx context.Context, op *core.Op, g *Grant, longest time.Duration) error {
	if (op.FromWorkload() || core.LineageOf(ctx).Workload) && (longest == 0 || longest > workloadLife) {
		longest = workloadLife
	}
	granted, err := g.check(op, longest)
	if err != nil {
		return err
	}
	if !granted.Within(op.Grant()) {
		return fault.New(fault.ErrForbidden, "a session cannot be given more access than its authorizer has")
	}
	return core.Retry(func() error { return authorize(ctx, op, g) })
}

// check validates a grant, and returns it as an access.Grant.
func (g *Grant) check(op *core.Op, longest time.Duration) (*access.Grant, error) {
	bad := &form.Problems{}
	if g.Nonce == "" {
		bad.Add("nonce", "is required")
	}
	rules, permissions, problems := access.Check(access.Session, g.Rules, g.Permissions, op.Vault.AllowPrivate)
	bad.AddAll("", problems)
	if !g.ExpiresAt.IsZero() {
		form.CheckExpiry(g.ExpiresAt, op.Now, bad)
		if longest > 0 && g.ExpiresAt.After(op.Now.Add(longest)) {
			bad.Add("expires_at", "must be at most %s from now", longest)
		}
	}
	if err := fault.Of(bad); err != nil {
		return nil, err
	}
	g.Rights = core.Rights{Permissions: permissions, Rules: rules}
	return access.New(rules, permissions)
}

var errUnknownNonce = fault.New(fault.ErrNotFound, "the nonce is unknown or its session has expired")

func authorize(ctx context.Context, op *core.Op, g *Grant) error {
	rec, s, err := waiting(ctx, op, g.Nonce)
	if err != nil {
		return err
	}
	if s.Authorized {
		return fault.New(fault.ErrConflict, "the nonce has already been used")
	}
	s.Authorized, s.Rights = true, g.Rights
	s.AuthorizedBy, s.AuthorizerKey = op.Tenant(), ""
	if op.Application() != nil {
		s.AuthorizedBy, s.AuthorizerKey = op.Application().ID, op.Credential()
	}
	if !g.ExpiresAt.IsZero() {
		rec.ExpiresAt = g.ExpiresAt.UTC().Truncate(time.Microsecond)
	}
	rec.Rev++
	if err := op.SealRecord(rec, s); err != nil {
		return err
	}
	return op.SaveRecord(ctx, audit.Authorize, "", rec)
}

// waiting returns the session of a nonce, if it is active.
func waiting(ctx context.Context, op *core.Op, nonce string) (*storage.Record, *core.Session, error) {
	hash := nonceHash(op, nonce)
	rec, err := core.Lookup(ctx, op.DB(), hash)
	if errors.Is(err, storage.ErrNotFound) || errors.Is(err, fault.ErrAltered) {
		return nil, nil, errUnknownNonce
	}
	if err != nil {
		return nil, nil, err
	}
	if rec.Tenant != op.TenantID() || rec.Kind != kind.Name || rec.AltKey != hash || !rec.ExpiresAt.After(op.Now) {
		return nil, nil, errUnknownNonce
	}
	s := &core.Session{}
	err = op.OpenRecord(ctx, &rec, s)
	if errors.Is(err, fault.ErrNotFound) {
		return nil, nil, errUnknownNonce // ended since the lookup
	}
	if err != nil {
		return nil, nil, err
	}
	_, end, err := op.KeyHolder(ctx, s.Application, s.ApplicationKey)
	if errors.Is(err, fault.ErrUnauthenticated) || err == nil && !end.IsZero() && !end.After(op.Now) {
		return nil, nil, errUnknownNonce // sessions end with the key that created them
	}
	return &rec, s, err
}

// List returns a page of the active sessions, newest first, and the total
// number over all pages. p must be complete: see [form.Paging.Check].
func List(ctx context.Context, op *core.Op, p form.Paging) (page []Info, total int, err error) {
	all := core.NewRecordPage(p.Offset(), p.Size)
	for rec, err := range op.AllRecords(ctx, storage.RecordFilter{Tenant: op.TenantID(), Kind: kind.Name, Limit: chunk}) {
		var alive *Info
		if err == nil {
			alive, err = aliveOf(ctx, op, rec)
		}
		shown := false
		if err == nil && alive != nil {
			shown, err = all.Add(ctx, op, rec)
		}
		if err != nil {
			return nil, 0, err
		}
		if shown {
			page = append(page, *alive)
		}
	}
	return page, all.Total, logReads(ctx, op, page)
}

// Next returns the next piece of a walk over the active sessions: see
// [records.Kind.Next].
func Next(ctx context.Context, op *core.Op, w *core.Walk, before *storage.ID) (alive []Info, more bool, err error) {
	recs, more, err := records.Piece(ctx, op, storage.RecordFilter{Tenant: op.TenantID(), Kind: kind.Name}, w, before)
	if err != nil {
		return nil, false, err
	}
	for i := range recs {
		one, err := aliveOf(ctx, op, &recs[i])
		if err != nil {
			return nil, false, err
		}
		if one != nil {
			alive = append(alive, *one)
		}
	}
	return alive, more, logReads(ctx, op, alive)
}

// Delete ends a session. A session that has already ended is not found.
func Delete(ctx context.Context, op *core.Op, id uuid.UUID) error {
	rec, err := op.Record(ctx, kind.Name, id)
	if err != nil {
		return err
	}
	if _, err := kind.Open(ctx, op, rec); err != nil {
		return err
	}
	_, err = op.IdentifySession(ctx, rec)
	switch {
	case errors.Is(err, fault.ErrUnauthenticated):
		return fault.New(fault.ErrNotFound, "session not found")
	case err != nil && !core.Unreadable(err): // an unreadable application may still lose a session
		return err
	}
	return kind.Delete(ctx, op, id)
}

// aliveOf returns the session of a record, or nil if it has ended.
func aliveOf(ctx context.Context, op *core.Op, rec *storage.Record) (*Info, error) {
	var s core.Session
	err := op.OpenRecord(ctx, rec, &s)
	if err == nil {
		_, err = op.IdentifySession(ctx, rec)
	}
	switch {
	case errors.Is(err, fault.ErrNotFound), errors.Is(err, fault.ErrUnauthenticated), errors.Is(err, fault.ErrForbidden): // ended, or suspended
		return nil, nil
	case core.Unreadable(err):
		return &Info{ID: uuid.UUID(rec.ID), CreatedAt: rec.CreatedAt, Unreadable: true}, nil
	case err != nil:
		return nil, err
	}
	info := &Info{ID: uuid.UUID(rec.ID), ApplicationID: s.Application, Rights: s.Rights, CreatedAt: rec.CreatedAt, ExpiresAt: rec.ExpiresAt}
	if s.Authorized {
		info.AuthorizedBy = s.AuthorizedBy
	}
	return info, nil
}

func logReads(ctx context.Context, op *core.Op, sessions []Info) error {
	seen := make([]core.Entity, 0, len(sessions))
	for i := range sessions {
		if !sessions[i].Unreadable {
			seen = append(seen, core.Entity{Type: kind.Name, ID: sessions[i].ID.String()})
		}
	}
	return op.LogReads(ctx, audit.Read, seen...)
}
