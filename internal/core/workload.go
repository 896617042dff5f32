package core

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/bounded"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/identity"
	"github.com/seed-72ea4aab/vault/internal/logs/audit"
	"github.com/seed-72ea4aab/vault/storage"
)

// rememberFor is how long a verified JWT is used without a check of its signature.
const rememberFor = 5 * time.Minute

// jwtSkew is how long after its end a JWT may still be used, because clocks differ.
const jwtSkew = time.Minute

// maxRemembered is how many JWTs a node remembers. Each further JWT takes the place of
// another one.
const maxRemembered = 10_000

// workload is what a verified JWT says about its sender.
type workload struct {
	mark    string // of the identity that it matched
	subject string
	end     time.Time // zero for a job, which outlives its JWT
}

// remembered is a verified JWT of an application.
type remembered struct {
	workload
	tenant storage.ID
	from   time.Time
	until  time.Time
}

// workloads are the verified JWTs by the hash of the application and the JWT. The zero
// value is empty.
type workloads struct {
	mu  sync.Mutex
	all bounded.Map[[sha256.Size]byte, remembered]
}

func (w *workloads) get(key [sha256.Size]byte, now time.Time) (remembered, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, ok := w.all[key]
	if ok && (!now.Before(r.until) || now.Before(r.from)) {
		delete(w.all, key)
		ok = false
	}
	return r, ok
}

func (w *workloads) put(key [sha256.Size]byte, r remembered) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all.Put(maxRemembered, key, r)
}

func (w *workloads) forget(key [sha256.Size]byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.all, key)
}

// ApplicationKey returns the key that the record of an application with identities is
// found by. It differs from the hash of any API key.
func ApplicationKey(id uuid.UUID) storage.Key {
	return sha256.Sum256([]byte("application\x00" + id.String()))
}

// splitJWT splits what a workload sends in place of an API key: the id of its
// application, a colon, and a JWT.
func splitJWT(key string) (application uuid.UUID, jwt string, ok bool) {
	text, jwt, ok := strings.Cut(key, ":")
	id, err := uuid.Parse(text)
	return id, jwt, ok && err == nil && len(text) == len(id.String()) && len(jwt) <= identity.MaxJWT
}

// identifyWorkload returns the application that a JWT may act as. The application and
// its identities are asked each time; a JWT without them causes no request to an
// issuer and no check of a signature.
func (v *Vault) identifyWorkload(ctx context.Context, application uuid.UUID, jwt string) (*principal, error) {
	if v.VerifyJWT == nil {
		return nil, fault.ErrUnauthenticated
	}
	key := sha256.Sum256(append(application[:], jwt...))
	if r, ok := v.workloads.get(key, v.Now()); ok {
		who, err := v.System(r.tenant).follow(ctx, application)
		if errors.Is(err, fault.ErrNotFound) {
			return nil, fault.ErrUnauthenticated
		}
		if err != nil {
			return nil, err
		}
		if as := who.shownBy(r.workload); as != nil {
			return as, nil
		}
		v.workloads.forget(key) // another identity of the application may match
	}
	return v.verifyWorkload(ctx, application, jwt, key)
}

func (v *Vault) verifyWorkload(ctx context.Context, application uuid.UUID, jwt string, key [sha256.Size]byte) (*principal, error) {
	issuer, err := identity.Peek(jwt)
	if err != nil {
		return nil, fault.Refused(err)
	}
	rec, err := Lookup(ctx, v.Store, ApplicationKey(application))
	if errors.Is(err, storage.ErrNotFound) || errors.Is(err, fault.ErrAltered) || err == nil && (rec.Kind != audit.Application || uuid.UUID(rec.ID) != application) {
		return nil, fault.Refused(errors.New("there is no such application with identities"))
	}
	if err != nil {
		return nil, err
	}
	op := v.System(rec.Tenant)
	app, err := op.application(ctx, application)
	suspended := errors.Is(err, fault.ErrForbidden) && app != nil
	switch {
	case errors.Is(err, fault.ErrNotFound), Unreadable(err):
		return nil, fault.Refused(err)
	case err != nil && !suspended:
		return nil, err
	case !app.trusts(issuer):
		return nil, fault.Refused(errors.New("the application has no identity of this issuer"))
	case !app.ExpiresAt.IsZero() && !app.ExpiresAt.After(v.Now()):
		return nil, fault.Refused(errors.New("the application has expired"))
	}
	now := v.Now()
	claims, refused := v.VerifyJWT(ctx, jwt)
	if errors.Is(refused, fault.ErrUnavailable) {
		return nil, refused
	}
	if refused == nil {
		var found workload
		if found, refused = app.match(claims); refused == nil {
			if suspended {
				return nil, err
			}
			who, err := app.principal()
			if err != nil {
				return nil, err
			}
			r := remembered{workload: found, tenant: rec.Tenant, from: now, until: now.Add(rememberFor)}
			if exp := found.end.Add(-jwtSkew); exp.Before(r.until) {
				r.until = exp
			}
			v.workloads.put(key, r)
			return who.shownBy(found), nil
		}
	}
	return nil, errors.Join(fault.CallerLeft(ctx), fault.Refused(refused))
}

// trusts reports whether the application has an identity of an issuer.
func (a *Application) trusts(issuer string) bool {
	for i := range a.Identities {
		if a.Identities[i].Issuer == issuer {
			return true
		}
	}
	return false
}

// match returns the workload that verified claims describe, if an identity of the
// application matches.
func (a *Application) match(claims map[string]any) (workload, error) {
	exp, ok := claims["exp"].(json.Number)
	seconds, err := exp.Float64()
	if !ok || err != nil {
		return workload{}, errors.New("the claim exp is not a number")
	}
	subject, _ := claims["sub"].(string)
	why := errors.New("the application has no identities")
	for _, id := range a.Identities {
		if why = identity.Match(id, claims); why == nil {
			end := time.UnixMicro(int64(min(seconds, maxExp) * 1e6)).Add(jwtSkew)
			return workload{mark: id.Mark, subject: oneLine(subject, maxActorName), end: end}, nil
		}
	}
	return workload{}, why
}

// maxExp is the largest exp that is computed with, in the year 9999.
const maxExp = 253_402_300_799

// shownBy returns the principal of an application as a workload acts as it, or nil if
// the application no longer has the workload's identity.
func (p *principal) shownBy(w workload) *principal {
	as := *p
	as.shown.workload = &w
	if _, ok := p.app.holds(as.shown.mark(p.app)); !ok {
		return nil
	}
	as.endBy(w.end)
	return &as
}

// ByWorkload reports whether the caller has shown a JWT.
func (id Identity) ByWorkload() bool { return id.who.shown.workload != nil }

// FromWorkload reports whether the caller has shown a JWT, or is a session that a caller
// with a JWT has authorized.
func (id Identity) FromWorkload() bool { return id.ByWorkload() || id.who.workload }
