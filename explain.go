package vault

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/audit"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/tokens"
)

// ExplainParams asks what a key may do, and why: that of an application or of a
// session, with one permission, on a token or in containers.
type ExplainParams struct {
	ApplicationID uuid.UUID  `json:"application_id,omitzero"` // or a session
	SessionID     uuid.UUID  `json:"session_id,omitzero"`
	Permission    Permission `json:"permission"`
	// Containers are those of the token in question. Rules about ids are asked as
	// for a token whose id no rule names. They are left out for a permission that
	// is not on tokens.
	Containers []string `json:"containers,omitempty"`
	// TokenID names a token instead. Only the tenant itself may ask about one, so
	// that the holder of a management key does not learn which ids exist.
	TokenID string `json:"-"`
}

// UnmarshalJSON reads the JSON form strictly: an unknown field, a duplicate
// key or a wrong type is an [InvalidError].
func (p *ExplainParams) UnmarshalJSON(data []byte) error {
	return readObject(data, func(r *form.Reader) {
		p.ApplicationID = readID(r, "application_id")
		p.SessionID = readID(r, "session_id")
		p.Permission = Permission(r.Text("permission"))
		p.Containers = r.Texts("containers")
	})
}

// readID reads the id of an entity; the zero id when it is absent.
func readID(r *form.Reader, name string) uuid.UUID {
	text := r.Text(name)
	if text == "" {
		return uuid.UUID{}
	}
	id, err := uuid.Parse(text)
	if err != nil || len(text) != len(id.String()) {
		r.Problem(name, "must be a UUID")
	}
	return id
}

// check checks the parameters, and puts the containers in the form in which they
// are stored.
func (p *ExplainParams) check() error {
	bad := &form.Problems{}
	if (p.ApplicationID == uuid.UUID{}) == (p.SessionID == uuid.UUID{}) {
		bad.Add("application_id", "an application or a session is required, and not both")
	}
	switch {
	case !access.Known(string(p.Permission)):
		bad.Add("permission", "must be a known permission, such as token:read")
	case !access.OnTokens(string(p.Permission)):
		if len(p.Containers) > 0 || p.TokenID != "" {
			bad.Add("containers", "must be left out for a permission that is not on tokens")
		}
	case p.TokenID != "" && len(p.Containers) > 0:
		bad.Add("containers", "must be left out when a token is given")
	case p.TokenID == "":
		clean, problems := access.CheckContainers(p.Containers)
		bad.AddAll("", problems)
		p.Containers = clean
	}
	return fault.Of(bad)
}

// Explanation says what a key may do, and how that was decided.
type Explanation struct {
	Permission Permission `json:"permission"`
	Allowed    bool       `json:"allowed"`
	// Transform is how much of the token's data the caller gets; empty when it is
	// not allowed, or the permission is not on tokens.
	Transform Transform `json:"transform,omitempty"`
	// Reason is one sentence.
	Reason string `json:"reason"`
	// Looks are how the rules were asked: for each container, those of the
	// application or session, and for a session also those of its authorizer.
	Looks []RuleLook `json:"looks,omitempty"`
}

// RuleHolder is whose rules were asked.
type RuleHolder string

// Whose rules are asked. A session has what it was granted, as far as its
// authorizer could grant it now.
const (
	HolderApplication RuleHolder = "application"
	HolderSession     RuleHolder = "session"
	HolderAuthorizer  RuleHolder = "authorizer"
)

// RuleLook is how the rules of one holder were asked about one container. A token
// in several containers needs the permission in each, and gets the strictest of
// the transforms.
type RuleLook struct {
	Holder    RuleHolder `json:"holder"`
	Container string     `json:"container"`
	Allowed   bool       `json:"allowed"`
	Transform Transform  `json:"transform,omitempty"`
	// Best is the most that an authorizer sees of the token by reading or using
	// it. A session may have this much, where the authorizer has the permission.
	Best  Transform   `json:"best,omitempty"`
	Rules []AskedRule `json:"rules,omitempty"` // in the order in which they are asked
}

// AskedRule is a rule and what came of asking it.
type AskedRule struct {
	// Priority is that of the rule; 0 stands for the plain permissions, which are
	// asked after all rules.
	Priority    int         `json:"priority"`
	Description string      `json:"description,omitempty"`
	Outcome     RuleOutcome `json:"outcome"`
}

// RuleOutcome is what came of asking a rule.
type RuleOutcome string

// The outcomes.
const (
	RuleDecides         RuleOutcome = "decides"
	RuleOtherPermission RuleOutcome = "other_permission" // it does not carry the permission
	RuleOtherContainer  RuleOutcome = "other_container"  // it does not cover the container
	RuleOtherID         RuleOutcome = "other_id"         // it covers other ids only
	RuleNotAsked        RuleOutcome = "not_asked"        // a rule before it decides
)

var ruleOutcomes = [...]RuleOutcome{
	access.OtherPermission: RuleOtherPermission, access.OtherContainer: RuleOtherContainer, access.OtherID: RuleOtherID,
	access.Decides: RuleDecides, access.NotAsked: RuleNotAsked,
}

// Explain says whether an application or a session may do something, how much it
// would see, and which rule decides (permission application:read; for a session
// session:read too). It asks the same rules in the same order as the operation
// itself. An application or session that is unknown is ErrNotFound.
func (c *Client) Explain(ctx context.Context, p ExplainParams) (*Explanation, error) {
	return run(ctx, c, &verbExplain, func(ctx context.Context, op *operation) (*Explanation, error) { return op.explain(ctx, p) })
}

func (op *operation) explain(ctx context.Context, p ExplainParams) (*Explanation, error) {
	if p.TokenID != "" && !op.IsOwner() {
		return nil, fault.New(ErrForbidden, "Only the tenant itself may ask about a token; ask about containers.")
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	holder, err := op.ruleHolder(ctx, &p)
	if err != nil {
		return nil, err
	}
	seen := []core.Entity{holder.entity}
	if p.TokenID != "" {
		token, err := tokens.Row(ctx, op.Op, p.TokenID)
		if err != nil {
			return nil, err
		}
		p.Containers = token.Containers
		seen = append(seen, core.Entity{Type: token.Type, ID: token.ID})
	}
	return holder.explain(&p), op.LogReads(ctx, audit.Read, seen...)
}

// ruleHolder is whose rules are explained.
type ruleHolder struct {
	entity core.Entity
	of     RuleHolder
	grant  *access.Grant
	rules  [][]AccessRule // its own, and those of its authorizer
	ended  string         // why it may do nothing; empty while it may
}

func (op *operation) ruleHolder(ctx context.Context, p *ExplainParams) (*ruleHolder, error) {
	if p.SessionID != (uuid.UUID{}) {
		return op.sessionHolder(ctx, p.SessionID)
	}
	id, err := op.Holder(ctx, p.ApplicationID)
	if err != nil {
		return nil, err
	}
	h := &ruleHolder{entity: core.Entity{Type: kindApplication, ID: p.ApplicationID.String()}, of: HolderApplication,
		grant: id.Grant(), rules: [][]AccessRule{rulesOf(id.Rules())}}
	if id.Live(op.Now) != nil {
		h.ended = "The application has expired."
	}
	return h, nil
}

func (op *operation) sessionHolder(ctx context.Context, id uuid.UUID) (*ruleHolder, error) {
	if !op.Grant().Has(access.SessionRead) {
		return nil, fault.New(ErrForbidden, "The permission %s is needed.", access.SessionRead)
	}
	rec, err := op.Record(ctx, kindSession, id)
	if err != nil {
		return nil, err
	}
	var s core.Session
	if err := op.OpenRecord(ctx, rec, &s); err != nil {
		return nil, err
	}
	h := &ruleHolder{entity: core.Entity{Type: kindSession, ID: id.String()}, of: HolderSession, grant: new(access.Grant)}
	is, err := op.IdentifySession(ctx, rec)
	switch {
	case errors.Is(err, ErrUnauthenticated):
		h.ended = "The session has ended."
		return h, nil //nolint:nilerr // that it has ended is the answer
	case err != nil:
		return nil, err
	case !s.Authorized:
		h.ended = "The session has not been authorized."
		return h, nil
	}
	h.grant, h.rules = is.Grant(), [][]AccessRule{rulesOf(s.Rules)}
	if s.AuthorizerKey == "" {
		return h, nil
	}
	authorizer, err := op.Holder(ctx, s.AuthorizedBy)
	if err != nil {
		return nil, err
	}
	h.rules = append(h.rules, rulesOf(authorizer.Rules()))
	return h, nil
}

func (h *ruleHolder) explain(p *ExplainParams) *Explanation {
	e := &Explanation{Permission: p.Permission, Reason: h.ended}
	if h.ended != "" {
		return e
	}
	permission := string(p.Permission)
	if !access.OnTokens(permission) {
		e.Allowed = h.grant.Has(permission)
		e.Reason = map[bool]string{true: "The permission is held.", false: "The permission is not held."}[e.Allowed]
		return e
	}
	transform, allowed := h.grant.Decide(permission, p.TokenID, p.Containers)
	e.Allowed, e.Transform = allowed, Transform(transform.String())
	for _, look := range h.grant.Explain(permission, p.TokenID, p.Containers) {
		e.Looks = append(e.Looks, h.look(look))
	}
	e.Reason = e.reason()
	return e
}

func (h *ruleHolder) look(l access.Look) RuleLook {
	out := RuleLook{Holder: h.of, Container: l.Container, Allowed: l.Transform != access.None,
		Transform: Transform(l.Transform.String()), Best: Transform(l.Best.String())}
	if l.Limit > 0 {
		out.Holder = HolderAuthorizer
	}
	for _, s := range l.Steps {
		rule := AskedRule{Priority: s.Priority, Outcome: ruleOutcomes[s.Outcome]}
		for _, r := range h.rules[l.Limit] {
			if r.Priority == s.Priority {
				rule.Description = r.Description
			}
		}
		out.Rules = append(out.Rules, rule)
	}
	return out
}
