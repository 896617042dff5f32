package core

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/logs/audit"
	"github.com/seed-72ea4aab/vault/storage"
)

// A stored response may contain the data of tokens that its work has seen. The
// log binds the response to them: work shows nothing of a token without a log
// entry, and [Op.LogReads] adds every token that it enters to the uses of the
// response. If an entry does not record how much was seen, the response is never
// replayed.

// maxUses is the maximum number of tokens that a response can depend on. A
// response with more dependencies is not replayed.
const maxUses = 1000

// TokenUse is a token that work has seen, with the identity of the work and how
// much it saw. The response of the work may contain the token's data. It is
// replayed only while that identity may still see as much, and the data still
// exists.
type TokenUse struct {
	// As is the application that saw the token, if it is another one than the
	// caller, such as the application of the client instance. Zero means the caller.
	As uuid.UUID `json:"as,omitzero"`
	// Permission is the permission that showed the token. It is empty if only the
	// name or the place of the token was seen.
	Permission string           `json:"permission"`
	ID         string           `json:"id"`
	Ord        uuid.UUID        `json:"ord"` // distinguishes it from a later token with the same id
	Shown      access.Transform `json:"shown"`
	// To is where data was sent that the work did not see, or zero.
	To access.Target `json:"to,omitzero"`
	// Modified is when the token was last changed. Zero means never.
	Modified time.Time `json:"modified,omitzero"`
	// AnyState means that the response may be replayed after a change of the
	// token. The response of a write shows a token as the write left it, masked.
	AnyState bool `json:"any_state,omitempty"`
	// CVCEnds is when the cvc expires that the work saw. Zero means that it
	// saw none.
	CVCEnds time.Time `json:"cvc_ends,omitzero"`
}

// Depends are the dependencies of a stored response or result.
type Depends struct {
	Uses []TokenUse `json:"uses,omitempty"`
	// TooMany means that the response depends on more than maxUses tokens, or on
	// tokens that are not known. It is never replayed.
	TooMany bool `json:"too_many,omitempty"`
	// Named holds the 16 bytes of the Ord of each token that the work has created
	// or changed, or whose name it saw. An erasure of such a token also erases the
	// response. Other deletions leave the response, because it reports what the work
	// did.
	Named []byte `json:"named,omitempty"`
	// Maker is the credential of the caller if the response has a key: see
	// [Identity.Credential]. A caller whose credential ends must not get a key that
	// another one has made.
	Maker string `json:"maker,omitempty"`
}

// On reports whether a response was made from one of these tokens.
func (d *Depends) On(ords map[uuid.UUID]bool) bool {
	for ord := range slices.Chunk(d.Named, len(uuid.UUID{})) {
		if len(ord) == len(uuid.UUID{}) && ords[uuid.UUID(ord)] {
			return true
		}
	}
	return slices.ContainsFunc(d.Uses, func(u TokenUse) bool { return ords[u.Ord] })
}

// TokenUses collects the tokens that work sees and writes, including the runs
// that it starts. The zero value is ready to use. TokenUses is safe for
// concurrent use.
type TokenUses struct {
	by    Identity   // the caller of the work
	outer *TokenUses // of the Once around it, whose response may contain the same data

	mu    sync.Mutex
	all   []TokenUse
	over  bool // there were more than maxUses, or unknown ones
	named []byte
	known map[uuid.UUID]bool // in named
	maker string             // of a key in the response
}

// Add records a use.
func (u *TokenUses) Add(use TokenUse) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case slices.Contains(u.all, use):
	case len(u.all) >= maxUses:
		u.over = true
	default:
		u.all = append(u.all, use)
	}
	if u.outer != nil {
		u.outer.Add(use)
	}
}

// refuse records that the response depends on something that cannot be judged.
func (u *TokenUses) refuse() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.over = true
	if u.outer != nil {
		u.outer.refuse()
	}
}

// Changed records that the work itself has changed a token. A response that
// depended on the previous state of the token now depends on the new state.
func (u *TokenUses) Changed(ord uuid.UUID, from, to time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for i := range u.all {
		if use := &u.all[i]; use.Ord == ord && use.Modified.Equal(from) {
			use.Modified = to
		}
	}
	if u.outer != nil {
		u.outer.Changed(ord, from, to)
	}
}

// name records tokens of which the response has no more than a name, or what the
// work itself has written.
func (u *TokenUses) name(ords ...uuid.UUID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.known == nil {
		u.known = map[uuid.UUID]bool{}
	}
	for _, ord := range ords {
		if !u.known[ord] {
			u.known[ord] = true
			u.named = append(u.named, ord[:]...)
		}
	}
	if u.outer != nil {
		u.outer.name(ords...)
	}
}

// wrote records the tokens that a change creates or changes.
func (u *TokenUses) wrote(ch *storage.Change) {
	ords := make([]uuid.UUID, 0, len(ch.InsertTokens)+len(ch.UpdateTokens))
	for i := range ch.InsertTokens {
		ords = append(ords, uuid.UUID(ch.InsertTokens[i].Ord))
	}
	for i := range ch.UpdateTokens {
		ords = append(ords, uuid.UUID(ch.UpdateTokens[i].Token.Ord))
	}
	if len(ords) > 0 {
		u.name(ords...)
	}
}

// Depends returns what was recorded.
func (u *TokenUses) Depends() Depends {
	u.mu.Lock()
	defer u.mu.Unlock()
	return Depends{slices.Clone(u.all), u.over, slices.Clone(u.named), u.maker}
}

// GivesKey records that the result of the operation has a new key.
func (op *Op) GivesKey() {
	if op.pending == nil {
		return
	}
	for u := &op.pending.Uses; u != nil; u = u.outer {
		if u.by.Application() == nil {
			continue
		}
		u.mu.Lock()
		u.maker = u.by.Credential()
		u.mu.Unlock()
	}
}

// Uses returns where the tokens are collected that the operation sees, or nil if
// no response is stored.
func (op *Op) Uses(ctx context.Context) *TokenUses {
	if op.pending != nil {
		return &op.pending.Uses
	}
	return LineageOf(ctx).Uses
}

// bind adds the tokens among entities to the uses of a response.
func (op *Op) bind(uses *TokenUses, seen []Entity) {
	for i := range seen {
		switch {
		case seen[i].Use != nil:
			op.Bind(uses, *seen[i].Use)
		case audit.IsToken(seen[i].Type):
			uses.refuse()
		}
	}
}

// Bind adds a use by the operation's own identity to the uses of a response.
func (op *Op) Bind(uses *TokenUses, use TokenUse) {
	if use.Permission == "" {
		uses.name(use.Ord)
		return
	}
	by := uses.by
	if use.As == (uuid.UUID{}) && (op.IsScripted() || op.ApplicationID() != by.ApplicationID() || op.Session() != by.Session()) {
		use.As = op.ApplicationID()
		if use.As == (uuid.UUID{}) || op.Session() != (uuid.UUID{}) {
			uses.refuse() // the identity cannot be found again
			return
		}
	}
	if op.Tenant() != by.Tenant() {
		uses.refuse()
		return
	}
	uses.Add(use)
}
