package tokens

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/ids"
	"github.com/seed-72ea4aab/vault/internal/logs/audit"
	"github.com/seed-72ea4aab/vault/storage"
)

// Batch creates tokens, all in one change. Its caller prepares items, adds
// them, and saves the batch:
//
//   - Prepare checks parameters and evaluates expressions.
//   - Add checks the permission to create the token, and finds duplicates in the batch.
//   - Save names and seals the items, searches for existing tokens, and writes the others in one
//     change. If a guard rejects the change, it resolves the conflict and tries again.
//
// Every check that can reject an item comes before the search for existing
// tokens. So a rejected item never reveals whether its value exists.
//
// An item that cannot be created fails the batch, unless Refused accepts the
// error.
type Batch struct {
	// Refused is called with an item that cannot be created. It returns nil
	// to continue without the item, or the error of the batch. A nil Refused
	// returns the error.
	Refused func(*Item, error) error
	// Found is called with an item whose Existing was found. It may be nil.
	Found func(context.Context, *Item) error
	// LookFirst means that many given ids are probably taken. The batch then
	// looks them up before it writes anything.
	LookFirst bool

	op    *core.Op
	items []*Item
	names map[string]bool        // ids of items
	first map[storage.Hash]*Item // items by duplicate key

	change *storage.Change
	rows   []storage.Token
	logs   []storage.Log
	sent   []*Item // items that the change creates
}

// NewBatch returns an empty batch with room for n items.
func NewBatch(op *core.Op, n int) *Batch {
	return &Batch{op: op, items: make([]*Item, 0, n)}
}

// Prepare checks parameters and evaluates their expressions within a budget.
// Nil means a separate budget for the item. If it finds problems, the item
// must not be added.
func (b *Batch) Prepare(ctx context.Context, n *Item, p *Params, steps *admission.Budget, bad *form.Problems) {
	n.op, n.Row, n.steps = b.op, &n.row[0], steps
	if n.check(p, bad); bad.Any() {
		return
	}
	if n.steps == nil {
		n.steps = n.Budget(ctx)
	}
	var err error
	if n.shown, err = n.NewMaskedText(ctx, n.steps); err != nil {
		bad.AddErr("mask", err)
	}
	n.index(b.op, n.steps, bad)
}

// Add adds a prepared item.
func (b *Batch) Add(n *Item) error {
	if err := n.MayCreate(b.op); err != nil {
		return b.refuse(n, err)
	}
	b.items = append(b.items, n)
	if n.Row.Dedup != (storage.Hash{}) {
		if n.Same = b.first[n.Row.Dedup]; n.Same != nil {
			return nil
		}
		if b.first == nil {
			b.first = map[storage.Hash]*Item{}
		}
		b.first[n.Row.Dedup] = n
	}
	return nil
}

// refuse handles an item that cannot be created.
func (b *Batch) refuse(n *Item, err error) error {
	if b.Refused == nil {
		return err
	}
	err = b.Refused(n, err)
	n.Done = n.Done || err == nil
	return err
}

// Seal names and seals the items in advance. Save does the same for items
// that are not sealed yet.
func (b *Batch) Seal(ctx context.Context) error {
	for i, n := range b.items {
		if i%core.TurnEvery == 0 && len(b.items) > 1 { // for one large token, ReserveCopies takes the turn
			if err := core.Turn(ctx); err != nil {
				return err
			}
		}
		if n.Done || n.Same != nil {
			continue
		}
		if err := b.seal(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// seal names and seals an item with the current keys of the operation.
func (b *Batch) seal(ctx context.Context, n *Item) error {
	if n.ring == b.op.State.Ring {
		return nil
	}
	if n.ring == nil {
		if err := n.name(ctx, b.names); err != nil {
			return b.refuse(n, err)
		}
		if n.fixedID != "" || n.idExpr != nil {
			if b.names == nil {
				b.names = map[string]bool{}
			}
			b.names[n.Row.ID] = true
		}
	}
	if err := n.Clear.seal(b.op); err != nil {
		return b.refuse(n, err)
	}
	n.ring = b.op.State.Ring
	return nil
}

// rename makes the next seal give the item another name.
func (b *Batch) rename(n *Item) {
	delete(b.names, n.Row.ID)
	n.ring = nil
}

// errRetry means that a conflict was resolved and the write may succeed now.
var errRetry = errors.New("try again")

// Save creates the tokens of all items that are neither done nor
// duplicates. When it returns nil, every item is done, has an Existing
// token, or is the Same as another item.
func (b *Batch) Save(ctx context.Context) error {
	for range core.MaxAttempts {
		if err := b.try(ctx); !errors.Is(err, errRetry) {
			return err
		}
	}
	return fault.ErrFaster
}

// try writes the items in one change.
func (b *Batch) try(ctx context.Context) error {
	if err := b.fill(ctx); err != nil || len(b.sent) == 0 {
		return err
	}
	err := b.op.Write(ctx, b.change)
	if conflict, refused := fault.Guard(err); refused {
		return cmp.Or(b.resolve(ctx, conflict), errRetry)
	}
	if err == nil {
		for _, n := range b.sent {
			n.Done = true
		}
	}
	return err
}

// fill builds the change.
func (b *Batch) fill(ctx context.Context) error {
	if b.change == nil {
		b.change = &storage.Change{}
		b.rows, b.logs = make([]storage.Token, 0, len(b.items)), make([]storage.Log, 0, len(b.items))
		b.sent = make([]*Item, 0, len(b.items))
	}
	b.rows, b.logs, b.sent = b.rows[:0], b.logs[:0], b.sent[:0]
	if err := b.Seal(ctx); err != nil {
		return err
	}
	if err := b.refuseTaken(ctx); err != nil {
		return err
	}
	for _, n := range b.items {
		if n.Done || n.Same != nil {
			continue
		}
		if err := b.put(ctx, n); err != nil {
			return err
		}
	}
	b.op.Start(b.change)
	b.change.InsertTokens, b.change.Logs = b.rows, b.logs
	return nil
}

// refuseTaken rejects items whose given id is taken: deduplicated items, or all
// with LookFirst. It must come before any search for duplicates. Otherwise a
// caller with a taken id would learn whether a value exists without creating a
// token.
func (b *Batch) refuseTaken(ctx context.Context) error {
	var byID map[string]*Item
	for _, n := range b.items {
		if n.Done || n.Same != nil || n.fixedID == "" || !b.LookFirst && n.Row.Dedup == (storage.Hash{}) {
			continue
		}
		if byID == nil {
			byID = map[string]*Item{}
		}
		byID[n.fixedID] = n
	}
	if byID == nil {
		return nil
	}
	return b.clear(ctx, byID)
}

// put adds a sealed item to the change, or finds the token that it
// duplicates.
func (b *Batch) put(ctx context.Context, n *Item) error {
	var err error
	if n.Existing, err = duplicate(ctx, b.op, &n.Clear, ""); err != nil {
		return err
	}
	if n.Existing != nil {
		if b.Found == nil {
			return nil
		}
		return b.Found(ctx, n)
	}
	b.rows = append(b.rows, *n.Row)
	b.logs = append(b.logs, b.op.Entry(audit.Create, n.Row.Type, n.Row.ID))
	b.sent = append(b.sent, n)
	return nil
}

// resolve removes the cause of a guard's conflict, or rejects the items in
// question.
func (b *Batch) resolve(ctx context.Context, conflict *storage.Conflict) error {
	switch conflict.Kind {
	case storage.DuplicateTaken:
		return clearDuplicate(ctx, b.op, &b.sent[conflict.Index].Clear)
	case storage.TokenIDTaken:
		return b.clearIDs(ctx, b.sent[conflict.Index])
	default:
		return conflict
	}
}

// clearIDs resolves a conflict about a taken id.
func (b *Batch) clearIDs(ctx context.Context, taken *Item) error {
	byID := map[string]*Item{}
	for _, n := range b.sent {
		if n.fixedID != "" || n.idExpr != nil {
			byID[n.Row.ID] = n
		}
	}
	if taken.fixedID == "" {
		b.rename(taken)
	}
	return b.clear(ctx, byID)
}

// clear looks up which ids are taken. It deletes expired tokens, renames
// items with a generated id, and rejects items with a given id.
func (b *Batch) clear(ctx context.Context, byID map[string]*Item) error {
	found, err := Rows(ctx, b.op, slices.Sorted(maps.Keys(byID)))
	if err != nil {
		return err
	}
	for i := range found {
		n := byID[found[i].ID]
		switch {
		case Expired(&found[i], b.op.Now):
			err = expire(ctx, b.op, &found[i])
		case n.fixedID == "":
			b.rename(n)
		default:
			n.Existing = &found[i]
			err = b.refuse(n, fault.ErrTokenExists)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// duplicate returns an existing token with the same content, if the token is
// deduplicated. Inside Once the write happens later, so expired tokens that
// would conflict with it are deleted first.
func duplicate(ctx context.Context, op *core.Op, t *Clear, except string) (*storage.Token, error) {
	if t.Row.Dedup == (storage.Hash{}) {
		return nil, nil
	}
	like := storage.Duplicate{Fingerprint: t.Row.Fingerprint, Expression: t.Row.Expression, Except: except}
	if op.Pending() == nil {
		like.Now = op.Now
		return op.DB().Duplicate(ctx, op.TenantID(), like)
	}
	for range core.MaxAttempts {
		dup, err := op.DB().Duplicate(ctx, op.TenantID(), like)
		if err != nil || dup == nil || !Expired(dup, op.Now) {
			return dup, err
		}
		if err := expire(ctx, op, dup); err != nil {
			return nil, err
		}
	}
	return nil, fault.ErrFaster
}

// clearDuplicate deletes the token that holds a duplicate key, if it has
// expired. Otherwise the next attempt finds the token.
func clearDuplicate(ctx context.Context, op *core.Op, t *Clear) error {
	row, err := op.DB().Duplicate(ctx, op.TenantID(), storage.Duplicate{
		Fingerprint: t.Row.Fingerprint, Expression: t.Row.Expression, Except: t.Row.ID,
	})
	if err != nil || row == nil || !Expired(row, op.Now) {
		return err
	}
	return expire(ctx, op, row)
}

// existing returns an existing token: masked for a caller that may read it,
// and otherwise only its name and its fingerprint.
func existing(ctx context.Context, op *core.Op, row *storage.Token) (Token, error) {
	t, err := Open(ctx, op, row)
	if err != nil {
		return Token{}, err
	}
	transform, ok := op.Grant().Decide(access.TokenRead, row.ID, row.Containers)
	seen := t.seenMasked(ctx, op, transform)
	if !ok && seen.Use != nil {
		seen.Use.Permission = ""
	}
	if err := op.LogReads(ctx, audit.Read, seen); err != nil {
		return Token{}, err
	}
	if ok {
		return t.View(ctx, min(transform, access.Mask)), ctx.Err()
	}
	out := t.name()
	out.Fingerprint = ids.Encode58(row.Fingerprint)
	return out, nil
}

// name returns what a caller that may not read the token sees of it.
func (t *Clear) name() Token {
	return Token{ID: t.Row.ID, TenantID: uuid.UUID(t.Row.Tenant), Type: t.Row.Type, Containers: slices.Clone(t.Row.Containers)}
}
