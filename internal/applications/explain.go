package applications

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/identity"
	"github.com/seed-72ea4aab/vault/internal/logs/audit"
	"github.com/seed-72ea4aab/vault/internal/tokens"
)

// Question is about one permission of an application or a session, on a token
// or in containers.
type Question struct {
	ApplicationID, SessionID uuid.UUID // exactly one of them
	Permission               string
	Containers               []string
	TokenID                  string // instead of containers
	JWT                      string // of a workload; the permission may then be left out
}

// The holders of rules. A session has the rules it was granted, limited to
// what its authorizer could grant now.
const (
	HolderApplication = "application"
	HolderSession     = "session"
	HolderAuthorizer  = "authorizer"
)

// Answer is an explanation.
type Answer struct {
	Allowed   bool
	Transform access.Transform // what the caller sees; None if the permission is not on tokens
	// To are the destinations of a use that shows nothing to the caller. Nil
	// means no limit.
	To         access.Destinations
	Reason     string // one sentence
	Looks      []Look
	Identities []IdentityLook // with a JWT
}

// IdentityLook is the comparison of a JWT with an identity.
type IdentityLook struct {
	Issuer, Audience string
	Matches          bool
	Reason           string // why not
}

// Look is the evaluation of one holder's rules for one container.
type Look struct {
	access.Look
	Holder string
	// Descriptions are the descriptions of the rules by priority.
	Descriptions map[int]string
}

// Ask returns the explanation for a question. Only the tenant itself may ask
// about a token, so that the holder of a management key does not learn which
// ids exist.
func Ask(ctx context.Context, op *core.Op, q Question) (*Answer, error) {
	if q.TokenID != "" && !op.IsOwner() {
		return nil, fault.New(fault.ErrForbidden, "only the tenant itself may ask about a token; ask about containers")
	}
	if err := q.check(); err != nil {
		return nil, err
	}
	h, err := findHolder(ctx, op, &q)
	if err != nil {
		return nil, err
	}
	seen := []core.Entity{h.entity}
	if q.TokenID != "" {
		row, err := tokens.Row(ctx, op, q.TokenID)
		if err != nil {
			return nil, err
		}
		q.Containers = row.Containers
		seen = append(seen, core.Entity{Type: row.Type, ID: row.ID, Use: &core.TokenUse{ID: row.ID, Ord: uuid.UUID(row.Ord)}})
	}
	a := h.explain(&q)
	if q.JWT != "" {
		h.compare(ctx, op, q.JWT, a)
	}
	return a, op.LogReads(ctx, audit.Read, seen...)
}

// check validates the question, and converts the containers to their stored
// form.
func (q *Question) check() error {
	bad := &form.Problems{}
	if (q.ApplicationID == uuid.UUID{}) == (q.SessionID == uuid.UUID{}) {
		bad.Add("application_id", "an application or a session is required, and not both")
	}
	switch {
	case q.JWT != "" && q.ApplicationID == (uuid.UUID{}):
		bad.Add("jwt", "goes with application_id: only applications have identities")
	case len(q.JWT) > identity.MaxJWT:
		bad.Add("jwt", "must have at most %d bytes", identity.MaxJWT)
	}
	switch {
	case q.Permission == "" && q.JWT != "" && len(q.Containers) == 0 && q.TokenID == "":
	case !access.Known(q.Permission):
		bad.Add("permission", "must be a known permission, such as token:read")
	case !access.OnTokens(q.Permission):
		if len(q.Containers) > 0 || q.TokenID != "" {
			bad.Add("containers", "must be left out for a permission that is not on tokens")
		}
	case q.TokenID != "" && len(q.Containers) > 0:
		bad.Add("containers", "must be left out when a token is given")
	case q.TokenID == "":
		clean, problems := access.CheckContainers(q.Containers)
		bad.AddAll("", problems)
		q.Containers = clean
	}
	return fault.Of(bad)
}

// holder has the rules to explain.
type holder struct {
	entity core.Entity
	of     string
	grant  *access.Grant
	rules  [][]access.Rule // its own rules, and the rules of its authorizer
	ended  string          // why it may do nothing, or empty

	identities []identity.Identity
}

func findHolder(ctx context.Context, op *core.Op, q *Question) (*holder, error) {
	if q.SessionID != (uuid.UUID{}) {
		return findSession(ctx, op, q.SessionID)
	}
	id, err := op.Holder(ctx, q.ApplicationID)
	if err != nil {
		return nil, err
	}
	h := &holder{entity: core.Entity{Type: audit.Application, ID: q.ApplicationID.String()}, of: HolderApplication,
		grant: id.Grant(), rules: [][]access.Rule{id.Rules()}, identities: id.Application().Identities}
	if id.Live(op.Now) != nil {
		h.ended = "The application has expired."
	}
	return h, nil
}

func findSession(ctx context.Context, op *core.Op, id uuid.UUID) (*holder, error) {
	if err := op.Require(access.SessionRead); err != nil {
		return nil, err
	}
	rec, err := op.Record(ctx, audit.Session, id)
	if err != nil {
		return nil, err
	}
	var s core.Session
	if err := op.OpenRecord(ctx, rec, &s); err != nil {
		return nil, err
	}
	h := &holder{entity: core.Entity{Type: audit.Session, ID: id.String()}, of: HolderSession, grant: new(access.Grant)}
	is, err := op.IdentifySession(ctx, rec)
	switch {
	case errors.Is(err, fault.ErrUnauthenticated):
		h.ended = "The session has ended."
		return h, nil // the explanation is that it has ended
	case err != nil:
		return nil, err
	case !s.Authorized:
		h.ended = "The session has not been authorized."
		return h, nil
	}
	h.grant, h.rules = is.Grant(), [][]access.Rule{s.Rules}
	if s.AuthorizerKey == "" {
		return h, nil
	}
	authorizer, err := op.Holder(ctx, s.AuthorizedBy)
	if err != nil {
		return nil, err
	}
	h.rules = append(h.rules, authorizer.Rules())
	return h, nil
}

func (h *holder) explain(q *Question) *Answer {
	a := &Answer{Reason: h.ended}
	if h.ended != "" || q.Permission == "" {
		return a
	}
	if !access.OnTokens(q.Permission) {
		a.Allowed = h.grant.Has(q.Permission)
		a.Reason = map[bool]string{true: "The permission is held.", false: "The permission is not held."}[a.Allowed]
		return a
	}
	d := h.grant.DecideTo(q.Permission, q.TokenID, q.Containers, access.Target{})
	a.Transform, a.To, a.Allowed = d.Transform, d.To.Common(), d.Transform != access.None || len(d.To.Common()) > 0
	for _, l := range h.grant.Explain(q.Permission, q.TokenID, q.Containers) {
		a.Looks = append(a.Looks, h.look(l))
	}
	a.Reason = a.reason(q.Permission)
	return a
}

// compare adds to the Answer whether the application may be used with a JWT, and why.
// A JWT that is refused may do nothing, whatever the rights of the application are.
func (h *holder) compare(ctx context.Context, op *core.Op, jwt string, a *Answer) {
	claims, problem := identity.Unverified(jwt)
	fits := 0
	for i, id := range h.identities {
		look := IdentityLook{Issuer: id.Issuer, Audience: id.Audience}
		if problem == nil {
			err := identity.Match(id, claims)
			if look.Matches = err == nil; err != nil {
				look.Reason = sentence(err)
			} else if fits == 0 {
				fits = i + 1
			}
		}
		a.Identities = append(a.Identities, look)
	}
	refused := ""
	switch {
	case h.ended != "":
		return
	case problem != nil:
		refused = sentence(problem)
	case fits == 0:
		refused = "No identity of the application matches the JWT."
	case op.Vault.VerifyJWT == nil:
		refused = "The claims match, but this process has no issuers, so it cannot verify the JWT."
	default:
		if _, err := op.Vault.VerifyJWT(ctx, jwt); err != nil {
			refused = "The claims match, but the JWT is refused: " + strings.TrimPrefix(err.Error(), "vaultoidc: ") + "."
		}
	}
	switch {
	case refused != "":
		a.Allowed, a.Transform, a.To, a.Reason = false, access.None, nil, refused
	case a.Reason == "":
		a.Allowed, a.Reason = true, fmt.Sprintf("Identity %d of the application matches the JWT, which is valid.", fits)
	}
}

// sentence returns the text of an error as a sentence.
func sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

func (h *holder) look(l access.Look) Look {
	out := Look{Look: l, Holder: h.of, Descriptions: map[int]string{}}
	if l.Limit > 0 {
		out.Holder = HolderAuthorizer
	}
	for _, r := range h.rules[l.Limit] {
		out.Descriptions[r.Priority] = r.Description
	}
	return out
}

// shows returns the resulting transform of the look.
func (l *Look) shows() access.Transform {
	switch {
	case l.To != nil:
		return access.None
	case l.Transform != access.None:
		return max(l.Best, l.Transform)
	}
	return l.Transform
}

// reason returns a sentence about the deciding look: the first look that
// refuses, or the first look with the strictest transform.
func (a *Answer) reason(permission string) string {
	var strictest *Look
	for i := range a.Looks {
		l := &a.Looks[i]
		if l.Transform == access.None {
			return fmt.Sprintf("No rule and no plain permission of the %s allows %s in %s.", l.Holder, permission, l.Container)
		}
		if strictest == nil || l.shows() < strictest.shows() {
			strictest = l
		}
	}
	outcome := a.Transform.String()
	switch {
	case strictest == nil:
		return "The token is in no container."
	case a.To != nil && len(a.To) == 0:
		return "The rules have no destination in common."
	case a.To != nil:
		outcome = "only to " + a.To.String()
	}
	for _, s := range strictest.Steps {
		if s.Outcome == access.Decides && s.Priority > 0 {
			return fmt.Sprintf("Rule %d of the %s decides: %s.", s.Priority, strictest.Holder, outcome)
		}
	}
	return fmt.Sprintf("The plain permission of the %s decides: %s.", strictest.Holder, outcome)
}
