package transfer

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/logs/audit"
	"github.com/seed-72ea4aab/vault/internal/tokens"
	"github.com/seed-72ea4aab/vault/storage"
)

// Limits of a batch: a size that suits one change of the database.
const (
	importRows  = 1000
	importBytes = 1 << 20
)

// batch is a set of rows that are written in one change. It has its own room,
// because it is written while the next batch is prepared.
type batch struct {
	op    *core.Op // with the rights at the time of its preparation
	opts  *Options
	ctx   context.Context //nolint:containedctx // of the import, with the room
	room  *admission.Room
	rows  []row
	bytes int

	tokens *tokens.Batch
	reads  []core.Entity // existing tokens about which the caller learns something

	err  error         // why it could not be written
	done chan struct{} // closed when it is written
}

// row is a row that becomes a token. It has an outcome once it is done.
type row struct {
	result Result
	params tokens.Params
	item   tokens.Item
	taken  bool // another token has the id
}

func newBatch(ctx context.Context, op *core.Op, opts *Options) *batch {
	room := op.Room(nil)
	return &batch{opts: opts, ctx: room.In(ctx), room: room, done: make(chan struct{})}
}

func (b *batch) full() bool { return len(b.rows) == importRows || b.bytes >= importBytes }

// add adds a row. It parses the data first, to know its size.
func (b *batch) add(number int, p tokens.Params, rowErr error) error {
	text, _ := p.Data.(json.RawMessage)
	if len(text) >= core.LargeText {
		if err := core.Turn(b.ctx); err != nil {
			return err
		}
	}
	data, err := core.ParseJSON("data", p.Data)
	if p.Data != nil {
		p.Data = data
	}
	size := data.Size() + rowSize(&p)
	b.rows = append(b.rows, row{params: p})
	r := &b.rows[len(b.rows)-1]
	r.result.Row, r.item.Index = number, len(b.rows)-1
	if err := cmp.Or(rowErr, err); err != nil {
		r.fail(err)
		size += sizeOfFields(fault.Fields(err))
	}
	b.bytes += size
	room := core.SmallToken
	if size >= core.LargeText {
		room += core.CopyTimes*size + data.Weight() + weightOfMask(p.Mask)
	}
	return core.Reserve(b.ctx, room)
}

// rowSize returns the number of bytes of text in a row, without its data.
func rowSize(p *tokens.Params) int {
	size := len(p.ID) + len(p.FingerprintExpression) + sizeOfMask(p.Mask)
	for _, texts := range [][]string{p.Containers, p.SearchIndexes} {
		for _, text := range texts {
			size += len(text) + perText
		}
	}
	for name, value := range p.Metadata {
		size += len(name) + len(value) + 2*perText
	}
	return size
}

// sizeOfFields returns the size of the errors of a row, in bytes.
func sizeOfFields(fields map[string][]string) (size int) {
	for path, messages := range fields {
		size += len(path) + perText
		for _, message := range messages {
			size += len(message) + perText
		}
	}
	return size
}

// perText is the overhead of a text.
const perText = 16

func sizeOfMask(mask any) int {
	if v, ok := mask.(jsonx.Value); ok {
		return v.Size()
	}
	text, _ := mask.(json.RawMessage)
	return len(text)
}

func weightOfMask(mask any) int {
	if v, ok := mask.(jsonx.Value); ok {
		return v.Weight()
	}
	return sizeOfMask(mask)
}

// done reports whether the row has an outcome.
func (r *row) done() bool { return r.result.Outcome != "" }

func (r *row) end(outcome, id string) {
	r.result.Outcome, r.result.ID = outcome, id
	r.item.Done = true
}

// fail ends a row with an error.
func (r *row) fail(err error) {
	r.params, r.item = tokens.Params{}, tokens.Item{Index: r.item.Index} // no longer needs memory
	r.end(Failed, "")
	r.result.Err = err
}

// refuse ends a row if the error concerns only the row, and returns any
// other error.
func (r *row) refuse(err error) error {
	for _, kind := range []error{fault.ErrInvalid, fault.ErrForbidden, fault.ErrConflict, fault.ErrTooLarge, fault.ErrNotFound} {
		if errors.Is(err, kind) {
			r.fail(err)
			return nil
		}
	}
	return err
}

// prepare checks the rows and evaluates their expressions, in the tenant's
// turn. Each row has a separate budget.
func (b *batch) prepare(op *core.Op) error {
	defer b.room.Rest()
	b.op, b.tokens = op, tokens.NewBatch(op, len(b.rows))
	b.tokens.Refused, b.tokens.Found = b.refused, b.found
	for some := range slices.Chunk(b.rows, core.TurnEvery) {
		if err := core.Turn(b.ctx); err != nil {
			return err
		}
		if err := eachOpen(some, b.prepareRow); err != nil {
			return err
		}
	}
	return b.tokens.Seal(b.ctx)
}

// eachOpen calls do for the rows that have no outcome yet. It ends a row if the error
// concerns only the row, and returns any other error.
func eachOpen(rows []row, do func(*row) error) error {
	for i := range rows {
		if r := &rows[i]; !r.done() {
			if err := do(r); err != nil {
				if err := r.refuse(err); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (b *batch) prepareRow(r *row) error {
	if r.params.ID == "" && b.opts.Name != "" {
		r.params.ID = b.derivedID(r.result.Row)
	}
	bad := &form.Problems{}
	if b.tokens.Prepare(b.ctx, &r.item, &r.params, nil, bad); bad.Any() {
		return cmp.Or(r.item.Canceled(), fault.Of(bad))
	}
	return cmp.Or(b.tokens.Add(&r.item), b.ctx.Err())
}

// refused ends the row of a token that cannot be created. A row whose id
// is taken ends when the batch is written.
func (b *batch) refused(n *tokens.Item, err error) error {
	r := &b.rows[n.Index]
	if errors.Is(err, fault.ErrTokenExists) {
		r.taken = true
		return nil
	}
	return r.refuse(err)
}

// found ends a row with the content of an existing token.
func (b *batch) found(ctx context.Context, n *tokens.Item) error {
	if _, err := tokens.Open(ctx, b.op, n.Existing); err != nil {
		return err // the columns by which it was found may be altered
	}
	b.rows[n.Index].end(Skipped, n.Existing.ID)
	b.read(n.Existing) // because the caller learns its id
	return nil
}

func (b *batch) read(t *storage.Token) {
	b.reads = append(b.reads, core.Entity{Type: t.Type, ID: t.ID})
}

// recheck checks again, with current rights, whether the rows may be created.
func (b *batch) recheck(now *core.Op) error {
	return eachOpen(b.rows, func(r *row) error { return r.item.MayCreate(now) })
}

const labelImport = "import"

// derivedID returns the id for a row without one. It is always the same and
// reveals nothing: a hash with the tenant's key, in the form of a UUIDv8.
func (b *batch) derivedID(row int) string {
	id := uuid.UUID(b.op.State.Ring.Hash(labelImport, b.opts.Name, strconv.Itoa(row)))
	binary.BigEndian.PutUint16(id[6:], binary.BigEndian.Uint16(id[6:])&0x0fff|0x8000)
	id[8] = id[8]&0x3f | 0x80
	return id.String()
}

// save writes the batch and ends its rows.
func (b *batch) save() {
	defer close(b.done)
	for _, step := range []func() error{
		func() error { return b.tokens.Save(b.ctx) },
		b.endRest,
		func() error { return b.op.LogReads(b.ctx, audit.Read, b.reads...) },
		b.logOutcome,
	} {
		if b.err = step(); b.err != nil {
			return
		}
	}
}

// someTaken reports whether ids of the batch were taken.
func (b *batch) someTaken() bool {
	return slices.ContainsFunc(b.rows, func(r row) bool { return r.taken })
}

// logOutcome logs how many rows were refused and skipped. These rows leave no
// other entry, and their results may confirm a guess.
func (b *batch) logOutcome() error {
	refused, skipped := 0, 0
	for i := range b.rows {
		switch b.rows[i].result.Outcome {
		case Failed:
			refused++
		case Skipped:
			skipped++
		}
	}
	if refused+skipped == 0 {
		return nil
	}
	entry := b.op.Entry(audit.Import, audit.Tenant, b.op.Tenant().String())
	entry.Message = audit.ImportMessage(len(b.rows), refused, skipped)
	ch := b.op.Change()
	ch.Relaxed, ch.Logs = true, append([]storage.Log{entry}, b.refusals()...)
	return b.op.Write(b.ctx, ch)
}

// refusals returns a log entry for each refused row if the audit is full. It
// omits the reasons, because they name fields that the caller chose.
func (b *batch) refusals() (all []storage.Log) {
	if !b.op.Vault.FullAudit {
		return nil
	}
	for i := range b.rows {
		if r := &b.rows[i].result; r.Outcome == Failed {
			e := b.op.Entry(audit.Import, audit.Tenant, b.op.Tenant().String())
			e.Message = audit.RefusedMessage(r.Row)
			all = append(all, e)
		}
	}
	return all
}

// endRest ends the rows in order, because a row may change the token of
// an earlier row.
func (b *batch) endRest() error {
	return eachOpen(b.rows, func(r *row) error {
		switch {
		case r.item.Same != nil:
			b.endSame(r, &b.rows[r.item.Same.Index])
		case r.taken:
			return b.endTaken(r)
		default:
			r.end(Created, r.item.Row.ID)
		}
		return nil
	})
}

// endSame ends a row that duplicates an earlier row.
func (b *batch) endSame(r, first *row) {
	if first.result.Outcome == Failed {
		r.fail(first.result.Err)
		return
	}
	r.end(Skipped, first.result.ID)
}

var errTaken = &fault.Conflict{Fields: map[string][]string{"id": {"is the id of another token"}}}

// endTaken ends a row whose id another token has.
func (b *batch) endTaken(r *row) error {
	there := r.item.Existing
	if there == nil { // an earlier row has the id
		var err error
		if there, err = tokens.Row(b.ctx, b.op, r.item.GivenID()); err != nil {
			return err
		}
	}
	switch {
	case b.opts.OnDuplicate == Update:
		return b.updateTaken(r, there)
	case b.opts.OnDuplicate == Skip:
		r.end(Skipped, there.ID)
		return nil
	case b.opts.Resumed:
		return b.endDone(r, there)
	default:
		return errTaken
	}
}

// endDone ends a row that may already have been imported. If the caller
// may read the existing token, the contents are compared, and that is logged.
// Other callers could use the comparison to guess data.
func (b *batch) endDone(r *row, there *storage.Token) error {
	if _, ok := b.op.Grant().Decide(access.TokenRead, there.ID, there.Containers); ok {
		b.read(there)
		if _, err := tokens.Open(b.ctx, b.op, there); err != nil {
			return err
		}
		if there.Type != r.item.Row.Type || there.Fingerprint != r.item.Row.Fingerprint {
			return errTaken
		}
	}
	r.end(Skipped, there.ID)
	return nil
}

// updateTaken updates the existing token with the id of a row.
func (b *batch) updateTaken(r *row, there *storage.Token) error {
	if _, ok := b.op.Grant().Decide(access.TokenUpdate, there.ID, there.Containers); !ok {
		return fault.PermissionOnToken(access.TokenUpdate)
	}
	if there.Type != r.item.Row.Type {
		return fault.Field("type", "is not that of the token with this id, and cannot change")
	}
	p := r.params
	p.ID, p.Type = "", "" // cannot change
	patch, err := p.JSON()
	if err != nil {
		return err
	}
	op, err := b.op.Again(b.ctx, access.TokenUpdate)
	if err != nil {
		return err
	}
	t, err := tokens.Patch(b.ctx, op, there.ID, json.RawMessage(patch))
	if err != nil {
		return err
	}
	r.end(Updated, t.ID)
	if t.ID != there.ID {
		r.end(Skipped, t.ID) // it would have become a duplicate of that token
	}
	return nil
}
