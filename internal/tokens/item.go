package tokens

import (
	"context"
	"encoding/json"
	"maps"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/expr"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/internal/token"
	"github.com/seed-72ea4aab/vault/storage"
)

// cvcLife is how long a cvc is kept.
const cvcLife = time.Hour

// Item is a token of a [Batch], in one allocation with its row.
type Item struct {
	Clear
	op      *core.Op
	fixedID string            // id that the caller gave
	idExpr  *expr.Template    // or the expression for the id
	shown   json.RawMessage   // the evaluated mask
	tries   int               // number of generated ids
	steps   *admission.Budget // budget of the request; nil: of this token alone
	ring    *seal.Ring        // ring that sealed the row; nil if it is not sealed yet

	// Index identifies the item for the owner of the batch.
	Index int
	// Same is the earlier item in the batch that it duplicates.
	Same *Item
	// Existing is the existing token that it duplicates, or that has its id.
	Existing *storage.Token
	// Done means that the token was created, or cannot be created.
	Done bool

	row [1]storage.Token
}

// check makes all checks that need no evaluation.
func (n *Item) check(p *Params, bad *form.Problems) {
	n.Type = token.TypeOf(p.Type)
	switch {
	case p.Type == "":
		bad.Add("type", "is required")
	case n.Type == nil:
		bad.Add("type", "must be one of %s", token.TypeNames())
	}
	data, err := core.ParseJSON("data", p.Data)
	bad.AddAll("", fault.Fields(err))
	if err == nil && (data.IsZero() || data.IsNull()) {
		bad.Add("data", "is required")
	}
	if bad.Any() {
		return
	}
	n.Row.Tenant, n.Row.Type = n.op.TenantID(), p.Type
	n.SetData(data, bad)
	if n.CVC != "" {
		n.Row.CVCExpiresAt = n.op.Now.Add(cvcLife)
	}
	mask, err := core.ParseJSON("mask", p.Mask)
	bad.AddAll("", fault.Fields(err))
	if !mask.IsNull() {
		n.Mask = mask
	}
	n.Metadata, n.Indexes, n.Dedup = p.Metadata, p.SearchIndexes, p.DeduplicateToken
	n.Fingerprint = p.FingerprintExpression
	n.Row.CreatedAt, n.Row.CreatedBy = n.op.Now, storage.ID(n.op.Creator())
	if !p.ExpiresAt.IsZero() {
		n.Row.ExpiresAt = p.ExpiresAt.UTC().Truncate(time.Microsecond)
	}
	containers := p.Containers
	if containers == nil {
		containers = []string{n.Type.Container}
	}
	n.checkCommon(n.op, containers, bad)
	n.checkID(p.ID, bad)
}

// checkCommon makes the checks that create and patch share, and sets the
// containers of the token.
func (t *Clear) checkCommon(op *core.Op, containers []string, bad *form.Problems) {
	clean, problems := access.CheckContainers(containers)
	bad.AddAll("", problems)
	t.Row.Containers, t.Row.Set = clean, token.SetHash(op.State.Ring, clean)
	t.Check(bad)
	if e := t.Row.ExpiresAt; !e.IsZero() {
		form.CheckExpiry(e, op.Now, bad)
	}
}

// index sets the columns that are computed from the body: fingerprint,
// duplicate key and hashes.
func (t *Clear) index(op *core.Op, steps *admission.Budget, bad *form.Problems) {
	ring, row := op.State.Ring, t.Row
	row.Fingerprint = t.FingerprintHash(ring, steps, bad)
	row.Hashes = token.Hashes[storage.Hash](&t.Body, ring, steps, bad)
	row.Expression = t.ExpressionHash(ring)
	row.Dedup = storage.Hash{}
	deduplicate := op.State.Doc.Settings.DeduplicateTokens
	if t.Dedup != nil {
		deduplicate = *t.Dedup
	}
	if deduplicate && !bad.Any() {
		row.Dedup = t.DuplicateHash(ring, row.Fingerprint)
	}
}

// checkID checks an id that the caller chose, or compiles its expression.
func (n *Item) checkID(id string, bad *form.Problems) {
	switch {
	case id == "":
	case expr.HasExpression(id):
		t, err := expr.Compile(id)
		if err != nil {
			bad.AddErr("id", err)
		}
		n.idExpr = t
	default:
		n.fixedID = id
		if msg := n.IDProblem(id); msg != "" {
			bad.Add("id", "%s", msg)
		}
	}
}

// MayCreate checks whether an operation may create the token.
func (n *Item) MayCreate(op *core.Op) error {
	if _, ok := op.Grant().Decide(access.TokenCreate, n.fixedID, n.Row.Containers); !ok {
		return fault.PermissionOnToken(access.TokenCreate)
	}
	return nil
}

// Canceled returns the error of a context that ended during the evaluation of
// expressions.
func (n *Item) Canceled() error { return n.steps.Canceled() }

// GivenID returns the literal id that the caller gave, or "".
func (n *Item) GivenID() string { return n.fixedID }

// Created returns the new token for its creator, with masked data.
func (n *Item) Created() Token {
	out := n.fill()
	out.Data, out.Metadata = n.shown, maps.Clone(out.Metadata) // the map of the parameters belongs to the caller
	return out
}

// maxAliasTries is how many ids are generated before a UUID is used instead.
const maxAliasTries = 10

// name gives the token its id and its position in lists. Inside Once the
// write happens later, so it looks up the id first. Ids of other items of the
// batch count as taken.
func (n *Item) name(ctx context.Context, others map[string]bool) error {
	for {
		err := n.draw()
		if err != nil || n.fixedID == "" && n.idExpr == nil {
			return err
		}
		free := !others[n.Row.ID]
		if free && n.op.Pending() != nil {
			free, err = n.isFree(ctx)
		}
		switch {
		case err != nil || free:
			return err
		case n.fixedID != "":
			return fault.ErrTokenExists
		}
	}
}

// draw sets the id: the caller's id, or a newly generated one.
func (n *Item) draw() error {
	ord := n.op.NewID()
	n.Row.Ord = storage.ID(ord)
	switch {
	case n.fixedID != "":
		n.Row.ID = n.fixedID
		return nil
	case n.idExpr == nil || n.tries >= maxAliasTries:
		n.Row.ID = ord.String()
		return nil
	}
	return n.alias(ord)
}

// alias evaluates an id expression. Aliases are random. An alias that
// contains the data is generated again, and an expression that always
// contains the data is rejected.
func (n *Item) alias(ord uuid.UUID) error {
	var problem string
	for ; n.tries < maxAliasTries; n.tries++ {
		id, err := n.Alias(n.idExpr, n.steps)
		if err != nil {
			return fault.Under("id", fault.Input(err))
		}
		if problem = n.IDProblem(id); problem == "" {
			n.Row.ID = id
			n.tries++
			return nil
		}
	}
	if problem != "" {
		return fault.Field("id", "%s", problem)
	}
	n.Row.ID = ord.String()
	return nil
}

// isFree reports whether no token has the id. It deletes an expired token
// with the id.
func (n *Item) isFree(ctx context.Context) (bool, error) {
	rows, err := n.op.DB().Tokens(ctx, n.op.TenantID(), []string{n.Row.ID})
	if err != nil || len(rows) == 0 {
		return err == nil, err
	}
	if !Expired(&rows[0], n.op.Now) {
		return false, nil
	}
	return true, expire(ctx, n.op, &rows[0])
}
