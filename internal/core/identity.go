package core

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/storage"
)

// The kinds of actors in the log.
const (
	ActorUser        = "user"
	ActorApplication = "application"
)

// Identity is the caller of an operation: the tenant itself, one of its
// applications, a session, or a stranger that calls a proxy without a key. An
// Identity is immutable; its methods return derived identities.
//
// An Identity has two parts. The principal is the key or application that it
// follows, with its rights; it is replaced when the rights are read again. The
// manner holds limits and roles, and always stays, so that a limit cannot get lost.
type Identity struct {
	who    *principal
	manner *manner       // nil for an identity that acts in no special way
	grant  *access.Grant // the principal's, within the limits of the manner
	origin string        // where calls come from; empty when unknown
}

// principal is the key or application that an identity follows, as last read.
type principal struct {
	tenant uuid.UUID
	grant  *access.Grant
	rights Rights // the source of grant; empty for the tenant itself

	shown   credential   // to act as the application
	key     storage.Key  // the API key that the identity follows; zero for none
	app     *Application // nil for the tenant itself; without a key it is followed
	session uuid.UUID    // zero unless the key is a session's
	// workload is set for a session that a caller with a JWT has authorized.
	workload bool

	unauthorized bool      // a session that may yet be authorized
	expiresAt    time.Time // when the first of its parts expires; zero for never
	read         Stamp     // zero when it must be read for each operation
}

// Estimates of the memory of parts of a principal, in bytes, in addition to their texts.
const (
	principalBytes = 1 << 10 // and its key
	ruleBytes      = 512     // and its place in the grant
	keyBytes       = 256
	textBytes      = 32 // of a text in a list
)

// size estimates the memory of the principal, for a cache. Callers choose how long rules,
// permissions and identities are.
func (p *principal) size() int {
	size := principalBytes + p.rights.size()
	if p.app == nil {
		return size
	}
	size += Rights{p.app.Permissions, p.app.Rules}.size() + len(p.app.Keys)*keyBytes
	for i := range p.app.Identities {
		id := &p.app.Identities[i]
		size += ruleBytes + len(id.Issuer) + len(id.Audience)
		for name, value := range id.Claims {
			size += 4*textBytes + len(name)
			switch value := value.(type) {
			case string:
				size += len(value)
			case json.Number:
				size += len(value)
			}
		}
	}
	return size
}

// size estimates the memory of rights with their grant.
func (r Rights) size() int {
	size := 0
	add := func(texts []string) {
		for _, text := range texts {
			size += textBytes + len(text)
		}
	}
	add(r.Permissions)
	for i := range r.Rules {
		rule := &r.Rules[i]
		size += ruleBytes + len(rule.Description) + len(rule.Container)
		add(rule.Permissions)
		add(rule.Destinations)
		for _, c := range rule.Conditions {
			size += 4*textBytes + len(c.Value)
		}
	}
	return size
}

// manner is how an identity acts. It does not depend on the principal.
type manner struct {
	user     user
	limits   []limit // rights that it never exceeds
	masked   bool    // it sees no plaintext, and does not search by data
	scripted bool    // running code is the caller
	proxy    uuid.UUID
}

// user is a user of the embedding program.
type user struct {
	id   uuid.UUID
	name string
}

// Rights are permissions and rules, as an application or a session holds them.
type Rights struct {
	Permissions []string      `json:"permissions,omitempty"`
	Rules       []access.Rule `json:"rules,omitempty"`
}

// limit is rights that an identity never exceeds, and their grant.
type limit struct {
	Rights
	grant *access.Grant
}

// unlimited is the grant of the tenant itself.
var unlimited = access.Unlimited()

// masked is the grant of an identity that sees no plaintext.
var masked = func() *access.Grant {
	var others, onTokens []string
	for _, p := range access.Catalogue() {
		switch {
		case !access.OnTokens(p.Type):
			others = append(others, p.Type)
		case p.Type != access.TokenUse:
			onTokens = append(onTokens, p.Type)
		}
	}
	g, err := access.New([]access.Rule{{Priority: 1, Container: "/", Transform: access.Mask, Permissions: onTokens}}, others)
	if err != nil {
		panic(err) // unreachable: the rule is constant
	}
	return g
}()

// Owner returns the tenant itself, which may do everything.
func Owner(tenant uuid.UUID) Identity {
	return Identity{who: &principal{tenant: tenant, grant: unlimited}, grant: unlimited}
}

// Stranger returns a caller of a proxy that has no key and no rights.
func Stranger(tenant, proxy uuid.UUID) Identity {
	none := new(access.Grant)
	return Identity{who: &principal{tenant: tenant, grant: none}, grant: none, manner: &manner{proxy: proxy}}
}

// in returns the identity with another manner.
func (id Identity) in(change func(*manner)) Identity {
	m := manner{}
	if id.manner != nil {
		m = *id.manner
		m.limits = slices.Clip(m.limits)
	}
	change(&m)
	id.manner = &m
	return id
}

// renewed returns the identity with a newer principal.
func (id Identity) renewed(now *principal) Identity {
	id.who, id.grant = now, now.grant
	if id.manner == nil {
		return id
	}
	for _, l := range id.manner.limits {
		id.grant = id.grant.Under(l.grant)
	}
	if id.manner.masked {
		id.grant = id.grant.Under(masked)
	}
	return id
}

// Masked returns the identity without the right to see plaintext: it reads masked
// data at most, uses no tokens, and does not search by data.
func (id Identity) Masked() Identity {
	return id.in(func(m *manner) { m.masked = true }).renewed(id.who)
}

// derived is the version of the UUIDs that are made from other subjects.
const derived = 5

// AsUser returns the identity acting for a user of the embedding program. Users may choose
// their subjects, so the text of an id that is made from a subject is no id itself.
// Otherwise it would be the name of another user.
func (id Identity) AsUser(subject string) Identity {
	u, err := uuid.Parse(subject)
	if err != nil || len(subject) != len(u.String()) || u.Version() == derived {
		u = uuid.NewSHA1(id.Tenant(), []byte(subject))
	}
	return id.in(func(m *manner) { m.user = user{u, oneLine(subject, maxActorName)} })
}

// From returns the identity with another origin of its calls.
func (id Identity) From(origin string) Identity {
	id.origin = oneLine(origin, maxOrigin)
	return id
}

// WithUserOf returns the identity acting for the same user as another.
func (id Identity) WithUserOf(other Identity) Identity {
	u := other.user()
	if u == nil {
		return id
	}
	return id.in(func(m *manner) { m.user = *u })
}

// Scripted returns the identity as running code uses it.
func (id Identity) Scripted() Identity { return id.in(func(m *manner) { m.scripted = true }) }

// Calling returns the identity for calls of a proxy without a key, when it is the
// application of that proxy.
func (id Identity) Calling(proxy uuid.UUID) Identity {
	return id.in(func(m *manner) { m.proxy = proxy })
}

// Tenant returns the tenant that the identity belongs to.
func (id Identity) Tenant() uuid.UUID { return id.who.tenant }

// TenantID returns the tenant as the storage knows it.
func (id Identity) TenantID() storage.ID { return storage.ID(id.who.tenant) }

// Grant returns the rights of the identity.
func (id Identity) Grant() *access.Grant { return id.grant }

// IsOwner reports whether the identity is the tenant itself, without limits.
func (id Identity) IsOwner() bool { return id.grant == unlimited }

// Application returns the application that the identity acts as; nil for the
// tenant itself.
func (id Identity) Application() *Application { return id.who.app }

// ApplicationID returns the id of the application that the identity acts as, or
// a zero id.
func (id Identity) ApplicationID() uuid.UUID {
	if id.who.app == nil {
		return uuid.UUID{}
	}
	return id.who.app.ID
}

// Session returns the session that the identity is, or a zero id.
func (id Identity) Session() uuid.UUID { return id.who.session }

// Rules returns the rules that the principal's grant was made of.
func (id Identity) Rules() []access.Rule { return id.who.rights.Rules }

// Proxy returns the proxy that is called without a key, or a zero id.
func (id Identity) Proxy() uuid.UUID {
	if id.manner == nil {
		return uuid.UUID{}
	}
	return id.manner.proxy
}

// Origin returns where calls of the identity come from, or "".
func (id Identity) Origin() string { return id.origin }

// IsStranger reports whether a proxy is called without a key. Such calls have their
// own share of the process.
func (id Identity) IsStranger() bool { return id.Proxy() != uuid.UUID{} }

// IsScripted reports whether running code is the caller.
func (id Identity) IsScripted() bool { return id.manner != nil && id.manner.scripted }

// MaySearchData reports whether the identity may search by data at all.
func (id Identity) MaySearchData() bool { return id.manner == nil || !id.manner.masked }

// Creator returns the id for created_by and modified_by.
func (id Identity) Creator() uuid.UUID {
	if u := id.user(); u != nil {
		return u.id
	}
	if id.who.app != nil {
		return id.who.app.ID
	}
	return id.who.tenant
}

// Actor returns the actor of log entries. For the tenant itself the id is zero and
// the texts are empty.
func (id Identity) Actor() (actor uuid.UUID, kind, name string) {
	if u := id.user(); u != nil {
		return u.id, ActorUser, u.name
	}
	if w := id.who.shown.workload; w != nil {
		return id.who.app.ID, ActorApplication, w.subject
	}
	if id.who.app != nil {
		return id.who.app.ID, ActorApplication, ""
	}
	return uuid.UUID{}, "", ""
}

func (id Identity) user() *user {
	if id.manner == nil || id.manner.user == (user{}) {
		return nil
	}
	return &id.manner.user
}

// live returns ErrUnauthenticated once the principal has expired.
func (p *principal) live(now time.Time) error {
	if !p.expiresAt.IsZero() && !p.expiresAt.After(now) {
		return fault.ErrUnauthenticated
	}
	return nil
}

// endBy lets the principal expire at a time, unless it expires earlier.
func (p *principal) endBy(end time.Time) {
	if !end.IsZero() && (p.expiresAt.IsZero() || end.Before(p.expiresAt)) {
		p.expiresAt = end
	}
}

// Live returns ErrUnauthenticated once the identity has expired.
func (id Identity) Live(now time.Time) error { return id.who.live(now) }

// Bounds on texts of the caller in a log entry, in characters.
const (
	maxActorName = 200
	maxOrigin    = 45 // the longest text of an IPv6 address
)

// oneLine prepares a text for the log. It replaces invalid UTF-8 and control
// characters, so that the text has one line and every database accepts it, and
// cuts it at limit characters.
func oneLine(text string, limit int) string {
	clean := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(text, string(utf8.RuneError)))
	if utf8.RuneCountInString(clean) <= limit {
		return clean
	}
	return string([]rune(clean)[:limit])
}
