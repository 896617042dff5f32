package vault

import (
	"cmp"
	"context"
	"maps"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/audit"
	"github.com/seed-72ea4aab/vault/internal/budget"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/expr"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/token"
	"github.com/seed-72ea4aab/vault/storage"
)

// cvcLife is how long a cvc is kept.
const cvcLife = time.Hour

// CreateToken stores a value and returns the token that stands for it, with
// its data masked (permission token:create on each container).
//
// With deduplication on, a token of the same content is returned instead and
// nothing is stored; a client that may not read that token learns no more of
// it than its id, type, fingerprint and containers.
func (c *Client) CreateToken(ctx context.Context, p TokenParams) (*Token, error) {
	return run(ctx, c, &verbCreateToken, func(ctx context.Context, op *operation) (*Token, error) { return op.createNew(ctx, p) })
}

func (op *operation) createNew(ctx context.Context, p TokenParams) (*Token, error) {
	ins := &insertion{}
	n, bad := newToken{operation: op, clearToken: clearToken{row: &ins.tokens[0]}}, &form.Problems{}
	if n.prepare(ctx, p, bad); bad.Any() {
		return nil, cmp.Or(n.steps.Canceled(), fault.Of(bad))
	}
	if err := n.mayCreate(); err != nil {
		return nil, err
	}
	if err := core.HoldCopies(ctx, n.Data); err != nil {
		return nil, err
	}
	return n.create(ctx, ins)
}

// insertion is a change that creates one token, in one piece of memory with its
// row and its log entry.
type insertion struct {
	storage.Change
	tokens [1]storage.Token
	logs   [1]storage.Log
}

// newToken is a token that is to be created. Its row is where the caller wants
// it.
type newToken struct {
	*operation
	clearToken
	fixedID string         // given as it is
	idExpr  *expr.Template // or to be evaluated
	shown   JSON           // the evaluated mask
	tries   int            // at an id that is free
	steps   *budget.Budget // of the request; nil: of this token alone
}

// prepare checks parameters and evaluates their expressions, until one takes
// too much. When it finds problems, the token must not be used.
func (n *newToken) prepare(ctx context.Context, p TokenParams, bad *form.Problems) {
	n.check(p, bad)
	if bad.Any() {
		return
	}
	if n.steps == nil {
		n.steps = n.Budget(ctx)
	}
	var err error
	if n.shown, err = n.NewMaskedText(ctx, n.steps); err != nil {
		bad.AddErr("mask", err)
	}
	n.index(&n.clearToken, n.steps, bad)
}

// check checks everything that needs no evaluation.
func (n *newToken) check(p TokenParams, bad *form.Problems) {
	n.Type = token.TypeOf(string(p.Type))
	switch {
	case p.Type == "":
		bad.Add("type", "is required")
	case n.Type == nil:
		bad.Add("type", "must be one of %s", token.TypeNames())
	}
	data, err := parseJSON("data", p.Data)
	bad.AddAll("", fieldsOf(err))
	if err == nil && (data.IsZero() || data.IsNull()) {
		bad.Add("data", "is required")
	}
	if bad.Any() {
		return
	}
	n.row.Tenant, n.row.Type = n.TenantID(), string(p.Type)
	n.SetData(data, bad)
	if n.CVC != "" {
		n.row.CVCExpiresAt = n.Now.Add(cvcLife)
	}
	mask, err := parseJSON("mask", p.Mask)
	bad.AddAll("", fieldsOf(err))
	if !mask.IsNull() {
		n.Mask = mask
	}
	n.Metadata, n.Indexes, n.Dedup = p.Metadata, p.SearchIndexes, p.DeduplicateToken
	n.Fingerprint = p.FingerprintExpression
	n.row.CreatedAt, n.row.CreatedBy = n.Now, storage.ID(n.Creator())
	if !p.ExpiresAt.IsZero() {
		n.row.ExpiresAt = p.ExpiresAt.UTC().Truncate(time.Microsecond)
	}
	containers := p.Containers
	if containers == nil {
		containers = []string{n.Type.Container}
	}
	n.checkToken(&n.clearToken, containers, bad)
	n.checkID(p.ID, bad)
}

// checkToken checks what create and update have in common, and puts the token
// in its containers.
func (op *operation) checkToken(t *clearToken, containers []string, bad *form.Problems) {
	clean, problems := access.CheckContainers(containers)
	bad.AddAll("", problems)
	t.row.Containers, t.row.Set = clean, token.SetHash(op.State.Ring, clean)
	t.Check(bad)
	if e := t.row.ExpiresAt; !e.IsZero() {
		form.CheckExpiry(e, op.Now, bad)
	}
}

// index fills in the columns that are computed from the body: fingerprint,
// duplicate key and hashes.
func (op *operation) index(t *clearToken, steps *budget.Budget, bad *form.Problems) {
	ring, row := op.State.Ring, t.row
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

// mayCreate asks for token:create on the containers.
func (n *newToken) mayCreate() error {
	if _, ok := n.Grant().Decide(access.TokenCreate, n.fixedID, n.row.Containers); !ok {
		return fault.PermissionOnToken(access.TokenCreate)
	}
	return nil
}

// create stores a token whose row is that of the insertion, or returns the
// token that it duplicates.
func (n *newToken) create(ctx context.Context, ins *insertion) (*Token, error) {
	for range core.MaxAttempts {
		dup, err := n.duplicateOf(ctx, &n.clearToken, "")
		if err != nil {
			return nil, err
		}
		if dup != nil {
			return n.existing(ctx, dup)
		}
		if err := n.name(ctx, nil); err != nil {
			return nil, err
		}
		if err := n.sealToken(&n.clearToken); err != nil {
			return nil, err
		}
		n.Start(&ins.Change)
		ins.logs[0] = n.Entry(audit.Create, n.row.Type, n.row.ID)
		ins.InsertTokens, ins.Logs = ins.tokens[:], ins.logs[:]
		err = n.Write(ctx, &ins.Change)
		if err == nil {
			return n.created(), nil
		}
		conflict, refused := fault.Guard(err)
		if !refused {
			return nil, err
		}
		if err := n.makeRoom(ctx, &n.clearToken, n.fixedID != "", conflict); err != nil {
			return nil, err
		}
	}
	return nil, fault.New(ErrConflict, "The token could not be created because of concurrent changes; try again.")
}

// created returns a new token as its creator sees it: masked.
func (n *newToken) created() *Token {
	out := n.redacted()
	out.Data, out.Metadata = n.shown, maps.Clone(out.Metadata) // the parameters' map is the caller's
	return out
}

// checkID checks an id that the caller chose, or compiles its expression.
func (n *newToken) checkID(id string, bad *form.Problems) {
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

// maxAliasTries bounds how often an id is drawn before a UUID is taken instead.
const maxAliasTries = 10

// name gives a token its id and its place in lists. Inside Once a write is held
// back, so whether an id is taken has to be asked beforehand. That of another
// token of the same document is taken always.
func (n *newToken) name(ctx context.Context, others map[string]bool) error {
	for {
		err := n.draw()
		if err != nil || n.fixedID == "" && n.idExpr == nil {
			return err
		}
		free := !others[n.row.ID]
		if free && n.Pending() != nil {
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

// draw names a token: as the caller said, or by another draw each time.
func (n *newToken) draw() error {
	ord := n.NewID()
	n.row.Ord = storage.ID(ord)
	switch {
	case n.fixedID != "":
		n.row.ID = n.fixedID
		return nil
	case n.idExpr == nil || n.tries >= maxAliasTries:
		n.row.ID = ord.String()
		return nil
	}
	return n.alias(ord)
}

// alias evaluates an id expression. An alias is random, so one that happens to
// give the data away is drawn again; one that always does is refused.
func (n *newToken) alias(ord uuid.UUID) error {
	var problem string
	for ; n.tries < maxAliasTries; n.tries++ {
		id, err := n.Alias(n.idExpr, n.steps)
		if err != nil {
			return fault.Under("id", fault.Input(err))
		}
		if problem = n.IDProblem(id); problem == "" {
			n.row.ID = id
			n.tries++
			return nil
		}
	}
	if problem != "" {
		return fault.Field("id", "%s", problem)
	}
	n.row.ID = ord.String()
	return nil
}

// isFree reports whether no token has the id. One that has expired makes room.
func (n *newToken) isFree(ctx context.Context) (bool, error) {
	rows, err := n.DB().Tokens(ctx, n.TenantID(), []string{n.row.ID})
	if err != nil || len(rows) == 0 {
		return err == nil, err
	}
	if !expiredRow(&rows[0], n.Now) {
		return false, nil
	}
	return true, n.expire(ctx, rows)
}

// duplicateOf returns a token with the same content, if the token is to be
// deduplicated and there is one. Inside Once a write is held back, so those that
// have expired and would be in its way are deleted beforehand.
func (op *operation) duplicateOf(ctx context.Context, t *clearToken, except string) (*storage.Token, error) {
	if t.row.Dedup == (storage.Hash{}) {
		return nil, nil
	}
	like := storage.Duplicate{Fingerprint: t.row.Fingerprint, Expression: t.row.Expression, Except: except}
	if op.Pending() == nil {
		like.Now = op.Now
		return op.DB().Duplicate(ctx, op.TenantID(), like)
	}
	for range core.MaxAttempts {
		dup, err := op.DB().Duplicate(ctx, op.TenantID(), like)
		if err != nil || dup == nil || !expiredRow(dup, op.Now) {
			return dup, err
		}
		if err := op.expire(ctx, []storage.Token{*dup}); err != nil {
			return nil, err
		}
	}
	return nil, fault.ErrFaster
}

// existing returns a token that was there before: masked for a client that may
// read it, and otherwise no more than its name.
func (op *operation) existing(ctx context.Context, row *storage.Token) (*Token, error) {
	t, err := op.openToken(ctx, row)
	if err != nil {
		return nil, err
	}
	if err := op.LogReads(ctx, audit.Read, t.entity()); err != nil {
		return nil, err
	}
	transform, ok := op.Grant().Decide(access.TokenRead, row.ID, row.Containers)
	if ok {
		return t.view(ctx, min(transform, access.Mask)), ctx.Err()
	}
	full := t.redacted()
	return &Token{ID: full.ID, TenantID: full.TenantID, Type: full.Type, Fingerprint: full.Fingerprint, Containers: full.Containers}, nil
}

// makeRoom looks at why a token could not be written. It returns nil when the
// reason is gone and another attempt may succeed: the duplicate can now be
// read, another alias will be drawn, or the row that was in the way had expired
// and is deleted. A conflict of another kind it returns.
func (op *operation) makeRoom(ctx context.Context, t *clearToken, fixedID bool, conflict *storage.Conflict) error {
	var rows []storage.Token
	var err error
	switch conflict.Kind {
	case storage.TokenIDTaken:
		rows, err = op.DB().Tokens(ctx, op.TenantID(), []string{t.row.ID})
	case storage.DuplicateTaken:
		var row *storage.Token
		row, err = op.DB().Duplicate(ctx, op.TenantID(), storage.Duplicate{
			Fingerprint: t.row.Fingerprint, Expression: t.row.Expression, Except: t.row.ID,
		})
		if row != nil {
			rows = []storage.Token{*row}
		}
	default:
		return conflict
	}
	switch {
	case err != nil:
		return err
	case len(rows) > 0 && expiredRow(&rows[0], op.Now):
		return op.expire(ctx, rows)
	case conflict.Kind == storage.TokenIDTaken && fixedID:
		return fault.ErrTokenExists // maybe by another token of the same change
	}
	return nil
}
