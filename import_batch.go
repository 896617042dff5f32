package vault

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"strconv"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/audit"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/storage"
)

// Bounds of a batch of an import: what one change of the database takes well.
const (
	importRows  = 1000
	importBytes = 1 << 20
)

// importBatch is rows that are written in one change. It has a room of its own,
// since it is written while the next one is prepared.
type importBatch struct {
	op    *operation // with the rights of the moment when it was prepared
	opts  *ImportOptions
	ctx   context.Context //nolint:containedctx // of the import, with the room
	room  *admission.Room
	rows  []importRow
	bytes int

	names map[string]bool             // ids that rows of the batch have
	first map[storage.Hash]*importRow // rows by duplicate key

	err  error         // why it could not be written
	done chan struct{} // it is
}

// importRow is a row on its way to a token. It has an outcome once it is settled.
type importRow struct {
	result ImportResult
	params TokenParams
	new    newToken
	stored storage.Token
	taken  bool       // another token has the id
	same   *importRow // the row before it that it duplicates
}

func (im *importer) newBatch(ctx context.Context) *importBatch {
	room := im.op.Room(nil)
	return &importBatch{opts: &im.opts, ctx: room.In(ctx), room: room, done: make(chan struct{}),
		rows: make([]importRow, 0, importRows)}
}

func (b *importBatch) full() bool { return len(b.rows) == importRows || b.bytes >= importBytes }

// add gathers a row, with its data parsed, so that it is known how large it is.
func (b *importBatch) add(number int, p TokenParams, rowErr error) error {
	text, _ := plainJSON(p.Data).(json.RawMessage)
	if len(text) >= core.LargeText {
		if err := core.Turn(b.ctx); err != nil {
			return err
		}
	}
	data, err := parseJSON("data", p.Data)
	if p.Data != nil {
		p.Data = data
	}
	size := data.Size() + rowSize(&p)
	b.rows = append(b.rows, importRow{params: p})
	r := &b.rows[len(b.rows)-1]
	r.result.Row = number
	if err := cmp.Or(rowErr, err); err != nil {
		r.fail(err)
		size += sizeOfFields(r.result.Errors)
	}
	b.bytes += size
	room := core.PlaceBytes
	if size >= core.LargeText {
		room += core.CopyTimes*size + data.Weight() + weightOfMask(p.Mask)
	}
	return core.Hold(b.ctx, room)
}

// rowSize is how many bytes of text a row has beside its data.
func rowSize(p *TokenParams) int {
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

// sizeOfFields is how many bytes the errors of a row take.
func sizeOfFields(fields map[string][]string) (size int) {
	for path, messages := range fields {
		size += len(path) + perText
		for _, message := range messages {
			size += len(message) + perText
		}
	}
	return size
}

// perText is what a text takes beside its bytes.
const perText = 16

func sizeOfMask(mask any) int {
	if v, ok := mask.(jsonx.Value); ok {
		return v.Size()
	}
	text, _ := plainJSON(mask).(json.RawMessage)
	return len(text)
}

func weightOfMask(mask any) int {
	if v, ok := mask.(jsonx.Value); ok {
		return v.Weight()
	}
	return sizeOfMask(mask)
}

// settled reports whether it is known what becomes of the row.
func (r *importRow) settled() bool { return r.result.Outcome != "" }

func (r *importRow) settle(outcome ImportOutcome, id string) {
	r.result.Outcome, r.result.ID = outcome, id
}

// fail settles a row that has an error of its own.
func (r *importRow) fail(err error) {
	r.settle(ImportFailed, "")
	r.params, r.new, r.stored = TokenParams{}, newToken{}, storage.Token{} // it needs no memory any more
	r.result.Err, r.result.Errors = public(err), fieldsOf(err)
	if conflict, ok := errors.AsType[*fault.Conflict](internal(err)); ok {
		r.result.Errors = conflict.Fields
	}
	if r.result.Errors == nil {
		r.result.Detail = err.Error()
	}
}

// refuse settles a row whose error is its own, and returns every other error.
func (r *importRow) refuse(err error) error {
	for _, kind := range []error{ErrInvalid, ErrForbidden, ErrConflict, ErrTooLarge, ErrNotFound} {
		if errors.Is(err, kind) {
			r.fail(err)
			return nil
		}
	}
	return err
}

// prepare checks the rows and evaluates their expressions, in the tenant's turn.
// Each row has a budget of work of its own.
func (b *importBatch) prepare(op *operation) error {
	defer b.room.Rest()
	b.op = op
	b.names, b.first = make(map[string]bool, len(b.rows)), map[storage.Hash]*importRow{}
	for i := range b.rows {
		if i%core.TurnEvery == 0 {
			if err := core.Turn(b.ctx); err != nil {
				return err
			}
		}
		r := &b.rows[i]
		if r.settled() {
			continue
		}
		if err := b.prepareRow(r); err != nil {
			if err := r.refuse(err); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *importBatch) prepareRow(r *importRow) error {
	if r.params.ID == "" && b.opts.Name != "" {
		r.params.ID = b.derivedID(r.result.Row)
	}
	r.new.operation, r.new.row = b.op, &r.stored
	bad := &form.Problems{}
	if r.new.prepare(b.ctx, r.params, bad); bad.Any() {
		return cmp.Or(r.new.steps.Canceled(), fault.Of(bad))
	}
	if err := cmp.Or(r.new.mayCreate(), b.ctx.Err()); err != nil {
		return err
	}
	if same := b.first[r.stored.Dedup]; same != nil {
		r.same = same
		return nil
	}
	if r.stored.Dedup != (storage.Hash{}) {
		b.first[r.stored.Dedup] = r
	}
	return b.name(r)
}

// name gives a row its id, and seals it. An id that a row before it has is taken.
func (b *importBatch) name(r *importRow) error {
	if b.names[r.new.fixedID] {
		r.taken = true
		return nil
	}
	if err := r.new.name(b.ctx, b.names); err != nil {
		return err
	}
	b.names[r.stored.ID] = true
	return b.op.sealToken(&r.new.clearToken)
}

// recheck asks again whether the rows may be created, with the rights of another
// moment.
func (b *importBatch) recheck(now *operation) error {
	for i := range b.rows {
		r := &b.rows[i]
		if r.settled() {
			continue
		}
		again := r.new
		again.operation = now
		if err := again.mayCreate(); err != nil {
			if err := r.refuse(err); err != nil {
				return err
			}
		}
	}
	return nil
}

const labelImport = "import"

// derivedID returns the id of a row that has none. It is the same each time, and
// tells nothing: it is a hash under the tenant's key, in the form of a UUIDv8.
func (b *importBatch) derivedID(row int) string {
	id := uuid.UUID(b.op.State.Ring.Hash(labelImport, b.opts.Name, strconv.Itoa(row)))
	binary.BigEndian.PutUint16(id[6:], binary.BigEndian.Uint16(id[6:])&0x0fff|0x8000)
	id[8] = id[8]&0x3f | 0x80
	return id.String()
}

// save writes the batch, and settles its rows.
func (b *importBatch) save() {
	defer close(b.done)
	for range core.MaxAttempts {
		if b.err = b.write(); !errors.Is(b.err, errRetry) {
			break
		}
	}
	if b.err == nil {
		b.err = b.settleRest()
	}
}

// write writes the rows that are not settled in one change. When a guard refuses
// it, what stands in the way is found, and another attempt is asked for.
func (b *importBatch) write() error {
	ch := b.op.Change()
	ch.InsertTokens = make([]storage.Token, 0, len(b.rows))
	ch.Logs = make([]storage.Log, 0, len(b.rows))
	sent := make([]*importRow, 0, len(b.rows))
	for i := range b.rows {
		r := &b.rows[i]
		if r.settled() || r.taken || r.same != nil {
			continue
		}
		if err := b.findDuplicate(r); err != nil || r.settled() {
			if err != nil {
				return err
			}
			continue
		}
		sent = append(sent, r)
		ch.InsertTokens = append(ch.InsertTokens, r.stored)
		ch.Logs = append(ch.Logs, b.op.Entry(audit.Create, r.stored.Type, r.stored.ID))
	}
	if len(sent) == 0 {
		return nil
	}
	err := b.op.Write(b.ctx, ch)
	if conflict, refused := fault.Guard(err); refused {
		return b.makeRoom(sent, conflict)
	}
	if err != nil {
		return err
	}
	for _, r := range sent {
		r.settle(ImportCreated, r.stored.ID)
	}
	return nil
}

// findDuplicate settles a row that has the content of a token which is there.
func (b *importBatch) findDuplicate(r *importRow) error {
	dup, err := b.op.duplicateOf(b.ctx, &r.new.clearToken, "")
	if err != nil || dup == nil {
		return err
	}
	r.settle(ImportSkipped, dup.ID)
	return b.op.LogReads(b.ctx, audit.Read, core.Entity{Type: dup.Type, ID: dup.ID}) // its id was told
}

// makeRoom finds out which rows have ids that are taken. Tokens that have expired
// make room, and an id that was drawn is drawn again.
func (b *importBatch) makeRoom(sent []*importRow, conflict *storage.Conflict) error {
	if conflict.Kind != storage.TokenIDTaken {
		r := sent[conflict.Index]
		if err := b.op.makeRoom(b.ctx, &r.new.clearToken, false, conflict); err != nil {
			return err
		}
		return errRetry
	}
	byID := make(map[string]*importRow, len(sent))
	ids := make([]string, len(sent))
	for i, r := range sent {
		byID[r.stored.ID], ids[i] = r, r.stored.ID
	}
	found, err := b.op.rows(b.ctx, ids)
	if err != nil {
		return err
	}
	for i := range found {
		r := byID[found[i].ID]
		switch {
		case expiredRow(&found[i], b.op.Now):
			err = b.op.expire(b.ctx, found[i:i+1])
		case r.new.fixedID == "":
			err = cmp.Or(r.new.name(b.ctx, b.names), b.op.sealToken(&r.new.clearToken))
		default:
			r.taken = true
		}
		if err != nil {
			return err
		}
	}
	return errRetry
}

// settleRest settles the rows that no token was to be created for, in their order:
// a row may change the token of a row before it.
func (b *importBatch) settleRest() error {
	for i := range b.rows {
		r := &b.rows[i]
		switch {
		case r.settled():
			continue
		case r.same != nil:
			r.settle(ImportSkipped, r.same.result.ID)
			if r.same.result.Outcome == ImportFailed {
				r.fail(r.same.result.Err)
			}
			continue
		}
		if err := b.settleTaken(r); err != nil {
			if err := r.refuse(err); err != nil {
				return err
			}
		}
	}
	return nil
}

var errImportTaken = &fault.Conflict{Fields: map[string][]string{"id": {"is the id of another token"}}}

// settleTaken settles a row whose id another token has.
func (b *importBatch) settleTaken(r *importRow) error {
	there, err := b.op.tokenRow(b.ctx, r.new.fixedID)
	if err != nil {
		return err
	}
	switch {
	case b.opts.OnDuplicate == DuplicateUpdates:
		return b.updateTaken(r, there)
	case b.opts.OnDuplicate == DuplicateSkips:
		r.settle(ImportSkipped, there.ID)
		return nil
	case b.opts.Resumed:
		return b.settleDone(r, there)
	default:
		return errImportTaken
	}
}

// settleDone settles a row that may have been imported before. Whether the token
// that has its id has the same content is looked at, and entered in the log, for
// a client that may read it: to tell others would be a way to guess its data.
func (b *importBatch) settleDone(r *importRow, there *storage.Token) error {
	if _, ok := b.op.Grant().Decide(access.TokenRead, there.ID, there.Containers); ok {
		if err := b.op.LogReads(b.ctx, audit.Read, core.Entity{Type: there.Type, ID: there.ID}); err != nil {
			return err
		}
		if there.Type != r.stored.Type || there.Fingerprint != r.stored.Fingerprint {
			return errImportTaken
		}
	}
	r.settle(ImportSkipped, there.ID)
	return nil
}

// updateTaken changes the token that has the id of a row.
func (b *importBatch) updateTaken(r *importRow, there *storage.Token) error {
	if _, ok := b.op.Grant().Decide(access.TokenUpdate, there.ID, there.Containers); !ok {
		return fault.PermissionOnToken(access.TokenUpdate)
	}
	if there.Type != r.stored.Type {
		return fault.Field("type", "is not that of the token with this id, and cannot change")
	}
	patch, err := patchOf(r.params)
	if err != nil {
		return err
	}
	t, err := b.op.client().PatchToken(b.ctx, there.ID, patch)
	if err != nil {
		return err
	}
	r.settle(ImportUpdated, t.ID)
	if t.ID != there.ID {
		r.settle(ImportSkipped, t.ID) // it would have become a duplicate of that
	}
	return nil
}

// patchOf returns a row as a patch: without what cannot change.
func patchOf(p TokenParams) (JSON, error) {
	p.ID, p.Type = "", ""
	return p.MarshalJSON()
}
