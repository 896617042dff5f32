package vault

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/expr"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/storage"
)

// Bounds on what a token may carry.
const (
	maxMetadata      = 50
	maxMetadataKey   = 100
	maxMetadataValue = 1000
	maxIndexes       = 10
)

// CreateToken stores a value and returns the token that stands for it, with
// its data masked (permission token:create on each container).
//
// With deduplication on, a token of the same content is returned instead and
// nothing is stored; a client that may not read that token learns no more of
// it than its id, type, fingerprint and containers.
func (c *Client) CreateToken(ctx context.Context, p TokenParams) (*Token, error) {
	op, err := c.begin(ctx, access.TokenCreate)
	if err != nil {
		return nil, err
	}
	ins := &insertion{}
	d, bad := draft{token: token{row: &ins.tokens[0]}}, &form.Problems{}
	op.draft(&d, p, bad)
	if err := asInvalid(bad); err != nil {
		return nil, err
	}
	if err := op.mayCreate(&d); err != nil {
		return nil, err
	}
	return op.create(ctx, &d, ins)
}

// insertion is a change that creates one token, in one piece of memory with its
// row and its log entry.
type insertion struct {
	storage.Change
	tokens [1]storage.Token
	logs   [1]storage.Log
}

// draft is a token to be: checked, evaluated, and not yet named or sealed. Its
// row is where the caller wants it.
type draft struct {
	token
	fixedID string         // given as it is
	idExpr  *expr.Template // or to be evaluated
	shown   JSON           // the evaluated mask
	tries   int
}

// draft checks parameters and evaluates their expressions. What is wrong with
// them it adds to bad; then the draft is of no use.
func (op *call) draft(d *draft, p TokenParams, bad *form.Problems) {
	op.checkParams(d, p, bad)
	if !bad.Any() {
		op.evaluate(d, bad)
	}
}

// checkParams checks everything that can be told without evaluating.
func (op *call) checkParams(d *draft, p TokenParams, bad *form.Problems) {
	spec := tokenSpecs[p.Type]
	switch {
	case p.Type == "":
		bad.Add("type", "is required")
	case spec == nil:
		bad.Add("type", "must be one of %s", typeNames())
	}
	data, err := parseJSON("data", p.Data)
	if err != nil {
		bad.AddAll("", fieldsOf(err))
	} else if data.IsZero() || data.IsNull() {
		bad.Add("data", "is required")
	}
	if bad.Any() {
		return
	}
	d.row.Tenant, d.row.Type = op.tenantID(), string(p.Type)
	d.body.spec = spec
	d.setData(data, op.now, bad)
	mask, err := parseJSON("mask", p.Mask)
	if err != nil {
		bad.AddAll("", fieldsOf(err))
	}
	d.body.mask = nonNull(mask)
	d.body.metadata, d.body.indexes, d.body.dedup = p.Metadata, p.SearchIndexes, p.DeduplicateToken
	d.body.fingerprint = p.FingerprintExpression
	d.row.CreatedAt, d.row.CreatedBy = op.now, storage.ID(op.creator)
	if p.ExpiresAt != nil {
		d.row.ExpiresAt = p.ExpiresAt.UTC().Truncate(time.Microsecond)
	}
	containers := p.Containers
	if containers == nil {
		containers = []string{spec.container}
	}
	op.checkBody(&d.token, containers, bad)
	d.checkGivenID(p.ID, bad)
}

func nonNull(v jsonx.Value) jsonx.Value {
	if v.IsNull() {
		return jsonx.Value{}
	}
	return v
}

// setData validates data and takes the cvc out of it.
func (t *token) setData(data jsonx.Value, now time.Time, bad *form.Problems) {
	typ := t.typ()
	t.body.spec.check(bad, "data", data)
	if typ == Card || typ == Bank {
		data = withoutNulls(data)
	}
	if typ == Card {
		for i, m := range data.Members() {
			if m.Name == "cvc" {
				t.cvc, t.body.cvcAt = m.Value.Text(), i
				t.row.CVCExpiresAt = now.Add(cvcLife)
			}
		}
		data = data.Without("cvc")
	}
	t.body.data = data
}

// withoutNulls leaves out members that are null: they are the same as absent.
func withoutNulls(v jsonx.Value) jsonx.Value {
	var names []string
	for _, m := range v.Members() {
		if m.Value.IsNull() {
			names = append(names, m.Name)
		}
	}
	if names == nil {
		return v
	}
	return v.Without(names...)
}

// checkBody checks what create and update have in common, and puts the token
// in its containers.
func (op *call) checkBody(t *token, containers []string, bad *form.Problems) {
	clean, problems := access.CheckContainers(containers)
	bad.AddAll("", problems)
	op.setContainers(t.row, clean)
	checkMetadata(t.body.metadata, bad)
	if len(t.body.indexes) > maxIndexes {
		bad.Add("search_indexes", "must have at most %d expressions", maxIndexes)
	}
	checkMask(&t.body, bad)
	if _, err := t.body.fingerprintTemplate(); err != nil {
		bad.AddErr("fingerprint_expression", err)
	}
	if e := t.row.ExpiresAt; !e.IsZero() {
		form.CheckExpiry(e, op.now, bad)
	}
}

// checkMask refuses a mask that no data could be shown by: one that does not
// compile, or refers to more than data.
func checkMask(b *tokenBody, bad *form.Problems) {
	tree, err := b.maskTree()
	switch {
	case err != nil:
		bad.AddErr("mask", err)
	case b.mask.IsZero(): // the type's own
	case slices.ContainsFunc(tree.Refs(), func(r expr.Ref) bool { return r.ID != "data" }):
		bad.Add("mask", "must refer to data alone")
	}
}

func checkMetadata(metadata map[string]string, bad *form.Problems) {
	if len(metadata) > maxMetadata {
		bad.Add("metadata", "must have at most %d pairs", maxMetadata)
		return
	}
	for key, value := range metadata {
		if key == "" || form.Longer(key, maxMetadataKey) {
			bad.Add("metadata", "must have keys of 1 to %d characters", maxMetadataKey)
			continue
		}
		if form.Longer(value, maxMetadataValue) {
			bad.Add(jsonx.JoinName("metadata", key), "must have at most %d characters", maxMetadataValue)
		}
		if msg := form.TextProblem(key); msg != "" {
			bad.Add("metadata", "%s", msg)
		} else if msg := form.TextProblem(value); msg != "" {
			bad.Add(jsonx.JoinName("metadata", key), "%s", msg)
		}
	}
}

// evaluate computes the mask, the fingerprint and the indexes.
func (op *call) evaluate(d *draft, bad *form.Problems) {
	var err error
	if d.shown, err = d.body.maskJSON(); err != nil {
		bad.AddErr("mask", err)
	}
	if err := op.index(&d.token); err != nil {
		bad.AddAll("", fieldsOf(err))
	}
}

// mayCreate asks for token:create on the containers of a draft.
func (op *call) mayCreate(d *draft) error {
	if _, ok := op.grant.Decide(access.TokenCreate, d.fixedID, d.row.Containers); !ok {
		return errForbiddenToken(access.TokenCreate)
	}
	return nil
}

// create stores a draft whose row is that of the insertion, or returns the token
// that it duplicates.
func (op *call) create(ctx context.Context, d *draft, ins *insertion) (*Token, error) {
	for range maxAttempts {
		if dup, err := op.duplicateOf(ctx, &d.token, ""); err != nil || dup != nil {
			return op.existing(ctx, dup, err)
		}
		if err := op.name(ctx, d, nil); err != nil {
			return nil, err
		}
		if err := op.sealToken(&d.token); err != nil {
			return nil, err
		}
		op.start(&ins.Change)
		ins.logs[0] = op.entry(opCreate, d.row.Type, d.row.ID)
		ins.InsertTokens, ins.Logs = ins.tokens[:], ins.logs[:]
		err := op.write(ctx, &ins.Change)
		if err == nil {
			return d.created(), nil
		}
		if err := op.makeRoom(ctx, &d.token, d.fixedID != "", err); err != nil {
			return nil, err
		}
	}
	return nil, errorf(ErrConflict, "The token could not be created because others were faster; try again.")
}

// created returns a new token as its creator sees it: masked.
func (d *draft) created() *Token {
	out := d.view(access.Redact)
	out.Data, out.Metadata = d.shown, maps.Clone(out.Metadata) // the parameters' map is the caller's
	return out
}

// duplicateOf returns a token with the same content, if the token is to be
// deduplicated and there is one. Inside Once a write is held back, so those that
// have expired and would be in its way are deleted beforehand.
func (op *call) duplicateOf(ctx context.Context, t *token, except string) (*storage.Token, error) {
	if t.row.Dedup == (storage.Hash{}) {
		return nil, nil
	}
	like := storage.Duplicate{Fingerprint: t.row.Fingerprint, Expression: t.row.Expression, Except: except}
	if op.held == nil {
		like.Now = op.now
		return op.v.store.Duplicate(ctx, op.tenantID(), like)
	}
	for range maxAttempts {
		dup, err := op.v.store.Duplicate(ctx, op.tenantID(), like)
		if err != nil || dup == nil || !expiredRow(dup, op.now) {
			return dup, err
		}
		if err := op.v.expireTokens(ctx, []storage.Token{*dup}); err != nil {
			return nil, err
		}
	}
	return nil, errFaster
}

// existing returns a token that was there before: masked for a client that may
// read it, and otherwise no more than its name.
func (op *call) existing(ctx context.Context, row *storage.Token, err error) (*Token, error) {
	if err != nil {
		return nil, err
	}
	t, err := op.openToken(ctx, row)
	if err != nil {
		return nil, err
	}
	if err := op.logReads(ctx, opRead, t.entity()); err != nil {
		return nil, err
	}
	transform, ok := op.grant.Decide(access.TokenRead, row.ID, row.Containers)
	if ok {
		return t.view(min(transform, access.Mask)), nil
	}
	full := t.view(access.Redact)
	return &Token{ID: full.ID, TenantID: full.TenantID, Type: full.Type, Fingerprint: full.Fingerprint, Containers: full.Containers}, nil
}

var errTokenExists = errorf(ErrConflict, "A token with this id already exists.")

// makeRoom looks at why a token could not be written. It returns nil when the
// reason is gone and another attempt may succeed: the duplicate can now be
// read, an alias will be drawn anew, or the row that was in the way had
// expired and is deleted.
func (op *call) makeRoom(ctx context.Context, t *token, fixedID bool, err error) error {
	conflict, ok := asConflict(err)
	if !ok {
		return err
	}
	var rows []storage.Token
	switch conflict.Kind {
	case storage.TokenIDTaken:
		rows, err = op.v.store.Tokens(ctx, op.tenantID(), []string{t.row.ID})
	case storage.DuplicateTaken:
		var row *storage.Token
		row, err = op.v.store.Duplicate(ctx, op.tenantID(), storage.Duplicate{
			Fingerprint: t.row.Fingerprint, Expression: t.row.Expression, Except: t.row.ID,
		})
		if row != nil {
			rows = []storage.Token{*row}
		}
	default:
		return err
	}
	switch {
	case err != nil:
		return err
	case len(rows) > 0 && expiredRow(&rows[0], op.now):
		return op.v.expireTokens(ctx, rows)
	case conflict.Kind == storage.TokenIDTaken && fixedID:
		return errTokenExists // maybe by another token of the same change
	}
	return nil
}
