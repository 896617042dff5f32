package tokens

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/logs/audit"
	"github.com/seed-72ea4aab/vault/internal/token"
	"github.com/seed-72ea4aab/vault/storage"
)

// Patch changes a token by a JSON merge patch and returns it as the caller
// may read it.
func Patch(ctx context.Context, op *core.Op, id string, merge any) (Token, error) {
	text, _ := merge.(json.RawMessage)
	if err := core.RoomForText(ctx, text); err != nil {
		return Token{}, err
	}
	p, err := readPatch(merge)
	if err != nil {
		return Token{}, err
	}
	change := patching{op, p}
	for range core.MaxAttempts {
		t, err := core.RetryStale(func() (Token, error) { return change.update(ctx, id) })
		if !errors.Is(err, errRetry) {
			return t, err
		}
	}
	return Token{}, fault.ErrFaster
}

// patch is a merge patch of a token. An absent field is zero, which differs
// from null.
type patch struct {
	data, mask, metadata, containers jsonx.Value
	indexes, fingerprint             jsonx.Value
	dedup, expires                   jsonx.Value

	texts patchTexts

	steps *admission.Budget // for all attempts
}

// patchTexts holds the replaced fields as Go values.
type patchTexts struct {
	containers, indexes []string
	fingerprint         string
	dedup               *bool
	expires             time.Time
}

func readPatch(merge any) (*patch, error) {
	v, err := core.ParseJSON("", merge)
	if err != nil {
		return nil, err
	}
	p := &patch{}
	bad := &form.Problems{}
	form.Read(v, "", bad, func(r *form.Reader) {
		for name, dst := range map[string]*jsonx.Value{
			"data": &p.data, "mask": &p.mask, "metadata": &p.metadata, "containers": &p.containers, "search_indexes": &p.indexes,
			"fingerprint_expression": &p.fingerprint, "deduplicate_token": &p.dedup, "expires_at": &p.expires,
		} {
			*dst = r.Given(name)
		}
		p.texts = patchTexts{r.Texts("containers"), r.Texts("search_indexes"), r.OptionalText("fingerprint_expression"),
			r.OptionalBool("deduplicate_token"), r.Expiry("expires_at")}
		if p.metadata.Kind() != jsonx.Object && !p.metadata.IsNull() && !p.metadata.IsZero() {
			bad.Add("metadata", "must be of type object")
		}
	})
	if p.data.IsNull() {
		bad.Add("data", "is required: it can be changed but not removed")
	}
	return p, fault.Of(bad)
}

// patching is an operation that changes a token by a patch.
type patching struct {
	*core.Op
	*patch
}

// update reads, patches and writes a token once.
func (op *patching) update(ctx context.Context, id string) (Token, error) {
	row, err := Row(ctx, op.Op, id)
	if errors.Is(err, fault.ErrNotFound) {
		return Token{}, cmp.Or(op.fault(), err)
	}
	if err != nil {
		return Token{}, err
	}
	if _, ok := op.Grant().Decide(access.TokenUpdate, row.ID, row.Containers); !ok {
		return Token{}, fault.PermissionOnToken(access.TokenUpdate)
	}
	old, err := Open(ctx, op.Op, row)
	if err != nil {
		return Token{}, err
	}
	defer admission.Of(ctx).Free(Tree(row))
	bad := &form.Problems{}
	t := op.patched(&old, bad)
	if bad.Any() {
		return Token{}, fault.Of(bad)
	}
	if _, ok := op.Grant().Decide(access.TokenUpdate, row.ID, t.Row.Containers); !ok {
		return Token{}, fault.New(fault.ErrForbidden, "permission token:update required on the containers that the token is moved to")
	}
	if err := op.mayLook(&old, t); err != nil {
		return Token{}, err
	}
	if op.evaluate(ctx, t, bad); bad.Any() {
		return Token{}, cmp.Or(op.steps.Canceled(), fault.Of(bad))
	}
	same := op.dedup.IsZero() && t.Row.Fingerprint == old.Row.Fingerprint && t.Row.Expression == old.Row.Expression
	if same {
		t.Row.Dedup = old.Row.Dedup // the deduplication does not change
	}
	// Sealing can reject the token, so it comes before the search for
	// duplicates.
	if err := cmp.Or(core.ReserveCopies(ctx, t.Data), t.seal(op.Op)); err != nil {
		return Token{}, err
	}
	if !same {
		dup, err := duplicate(ctx, op.Op, t, t.Row.ID)
		if err != nil {
			return Token{}, err
		}
		if dup != nil {
			out, err := existing(ctx, op.Op, dup)
			// The fingerprint would reveal the token's value to a caller with token:create.
			if _, ok := op.Grant().Decide(access.TokenRead, dup.ID, dup.Containers); !ok {
				out.Fingerprint = ""
			}
			return out, err
		}
	}
	return op.saveToken(ctx, &old, t)
}

// evaluate evaluates the expressions of a patched token. A mask that fails on
// new data shows nothing, but a mask that exceeds the budget is rejected.
func (op *patching) evaluate(ctx context.Context, t *Clear, bad *form.Problems) {
	if op.steps == nil {
		op.steps = t.Budget(ctx)
	}
	if !op.mask.IsZero() || !op.data.IsZero() {
		if _, err := t.NewMaskedText(ctx, op.steps); op.steps.Err() != nil {
			bad.AddErr("mask", err)
		}
	}
	t.index(op.Op, op.steps, bad)
}

// patchedView returns a patched token as the caller may read it: masked, or
// only its name.
func (op *patching) patchedView(ctx context.Context, t *Clear) Token {
	if transform, ok := op.Grant().Decide(access.TokenRead, t.Row.ID, t.Row.Containers); ok {
		return t.View(ctx, min(transform, access.Mask))
	}
	return t.name()
}

// saveToken writes a patched and sealed token, and returns it as the caller
// may read it.
func (op *patching) saveToken(ctx context.Context, old, t *Clear) (Token, error) {
	out := op.patchedView(ctx, t)
	ch := op.Change()
	ch.UpdateTokens = []storage.TokenUpdate{{Rev: old.Row.Rev, OldSet: old.Row.Set, Token: *t.Row}}
	ch.Logs = []storage.Log{op.Entry(audit.Update, t.Row.Type, t.Row.ID)}
	err := op.Write(ctx, ch)
	if err == nil {
		if uses := op.Uses(ctx); uses != nil { // the response will be stored
			uses.Changed(uuid.UUID(t.Row.Ord), old.Row.ModifiedAt, t.Row.ModifiedAt)
			if transform, ok := op.Grant().Decide(access.TokenRead, t.Row.ID, t.Row.Containers); ok {
				op.Bind(uses, *t.seenMasked(ctx, op.Op, transform).Use)
			}
		}
		return out, nil
	}
	conflict, refused := fault.Guard(err)
	if !refused {
		return Token{}, err
	}
	switch conflict.Kind {
	case storage.DuplicateTaken:
		return Token{}, cmp.Or(clearDuplicate(ctx, op.Op, t), errRetry)
	default:
		return Token{}, conflict
	}
}

// modified returns the time of the change. It is later than every earlier
// change, so that two states of a token never have the same time.
func (op *patching) modified(old *Clear) time.Time {
	if earliest := old.Row.ModifiedAt.Add(time.Microsecond); earliest.After(op.Now) {
		return earliest
	}
	return op.Now
}

// patched returns the token after the patch.
func (op *patching) patched(old *Clear, bad *form.Problems) *Clear {
	t, row := *old, *old.Row
	t.Row = &row
	t.Row.ModifiedAt, t.Row.ModifiedBy = op.modified(old), storage.ID(op.Creator())
	op.patchData(&t, bad)
	switch {
	case op.mask.IsNull():
		t.Mask = jsonx.Value{}
	case !op.mask.IsZero():
		t.Mask = jsonx.Merge(old.MaskInForce(), op.mask)
	}
	t.Metadata = token.MergeMetadata(old.Metadata, op.metadata, bad)
	if !op.indexes.IsZero() {
		t.Indexes = op.texts.indexes
	}
	if !op.fingerprint.IsZero() {
		t.Fingerprint = op.texts.fingerprint
	}
	if !op.dedup.IsZero() {
		t.Dedup = op.texts.dedup
	}
	if !op.expires.IsZero() {
		t.Row.ExpiresAt = op.texts.expires
	}
	containers := old.Row.Containers
	switch {
	case op.containers.IsNull():
		containers = []string{t.Type.Container}
	case !op.containers.IsZero():
		containers = op.texts.containers
	}
	t.checkCommon(op.Op, containers, bad)
	return &t
}

// fault returns the problems of the patch that do not depend on the token.
// The rules for data depend on the token.
func (op *patching) fault() error {
	bad := &form.Problems{}
	generic := token.TypeOf(token.Generic)
	blank := Clear{&storage.Token{Containers: []string{generic.Container}}, token.Body{Type: generic}}
	rest := *op.patch
	rest.data = jsonx.Value{}
	(&patching{op.Op, &rest}).patched(&blank, bad)
	if !bad.Any() {
		token.CheckIndexes(op.texts.indexes, bad)
	}
	return fault.Of(bad)
}

// patchData merges data. A cvc in the patch starts a new hour. If the patch
// has no cvc, the existing cvc keeps its expiry.
func (op *patching) patchData(t *Clear, bad *form.Problems) {
	if op.data.IsZero() {
		return
	}
	t.MergeData(op.data, bad)
	switch {
	case t.CVC == "":
		t.Row.CVCExpiresAt = time.Time{}
	case !op.data.Get("cvc").IsZero():
		t.Row.CVCExpiresAt = op.Now.Add(cvcLife)
	}
	if len(t.Data.JSON()) > op.Vault.MaxBytes {
		bad.Add("data", "must have at most %d bytes", op.Vault.MaxBytes)
	}
	if t.RevealedLater(t.Row.ID) {
		bad.Add("data", "must not be data that the token's id contains: ids appear in URLs and logs")
	}
}

// mayLook rejects a patch that would show data which the caller may not read:
// a new expression over stored data, or a move to a container where the
// caller's rules show more or permit other destinations.
func (op *patching) mayLook(old, t *Clear) error {
	if !old.KeepsData(op.data) {
		return nil
	}
	if op.looksAt(old, t) && op.Grant().Best(old.Row.ID, old.Row.Containers) != access.Reveal {
		return fault.New(fault.ErrForbidden, "changing mask, fingerprint_expression or search_indexes needs reveal access to the token's data")
	}
	if op.sees(t.Row) > op.sees(old.Row) {
		return fault.New(fault.ErrForbidden, "moving this token would show you more of its data; that needs the same access where it is now")
	}
	if op.sees(old.Row) < access.Reveal && !op.sends(t.Row).Within(op.sends(old.Row)) {
		return fault.New(fault.ErrForbidden, "moving this token would let you send its data to other destinations")
	}
	return nil
}

// sends returns the destinations that the caller can send the plaintext of a
// token to, without seeing it.
func (op *patching) sends(row *storage.Token) access.Limits {
	if to := op.Grant().DecideTo(access.TokenUse, row.ID, row.Containers, access.Target{}).To; to != nil {
		return to
	}
	return access.Limits{{}} // nowhere
}

// sees returns the most that the caller can see of a token, by reading it,
// using it, or searching its data.
func (op *patching) sees(row *storage.Token) access.Transform {
	search, _ := op.Grant().Decide(access.TokenSearch, row.ID, row.Containers)
	return max(search, op.Grant().Best(row.ID, row.Containers))
}

// looksAt reports whether the patch changes an expression over the data.
func (p *patch) looksAt(old, t *Clear) bool {
	return !p.mask.IsZero() && !old.MaskInForce().Equal(t.MaskInForce()) ||
		!p.fingerprint.IsZero() && old.FingerprintInForce() != t.FingerprintInForce() ||
		!p.indexes.IsZero() && !slices.Equal(old.IndexesInForce(), t.IndexesInForce())
}
