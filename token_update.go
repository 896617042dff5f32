package vault

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/audit"
	"github.com/seed-72ea4aab/vault/internal/budget"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/token"
	"github.com/seed-72ea4aab/vault/storage"
)

// PatchToken changes a token by a JSON merge patch (RFC 7386), which
// [EncodeJSON] reads, and returns it masked (permission token:update on its
// containers, and on the new ones if it moves). A client that may not read the
// token gets its id, type and containers alone. The patch may hold data, mask
// and metadata, which are merged, and containers, search_indexes, fingerprint_expression, deduplicate_token and
// expires_at, which are replaced; null brings a default back.
//
// A patch that changes mask, fingerprint expression or search indexes over data
// that stays stored needs the right to see that data in clear, and one that moves
// the token must not show the client more of it than before. One that would make
// the token a duplicate changes nothing and returns the existing token, as
// CreateToken does.
func (c *Client) PatchToken(ctx context.Context, id string, patch any) (*Token, error) {
	return run(ctx, c, &verbPatchToken, func(ctx context.Context, op *operation) (*Token, error) { return op.changeToken(ctx, id, patch) })
}

func (op *operation) changeToken(ctx context.Context, id string, patch any) (*Token, error) {
	text, _ := plainJSON(patch).(json.RawMessage)
	if err := core.RoomForText(ctx, text); err != nil {
		return nil, err
	}
	p, err := readPatch(patch)
	if err != nil {
		return nil, err
	}
	change := patching{op, p}
	for range core.MaxAttempts {
		t, err := core.RetryStale(func() (*Token, error) { return change.update(ctx, id) })
		if !errors.Is(err, errRetry) {
			return t, err
		}
	}
	return nil, fault.New(ErrConflict, "The token could not be updated because of concurrent changes; try again.")
}

// tokenPatch is a merge patch of a token. An absent field is zero; null is a
// value of its own.
type tokenPatch struct {
	data, mask, metadata, containers jsonx.Value
	indexes, fingerprint             jsonx.Value
	dedup, expires                   jsonx.Value

	texts tokenTexts

	steps *budget.Budget // for all attempts
}

// tokenTexts holds the replaced fields in their Go form.
type tokenTexts struct {
	containers, indexes []string
	fingerprint         string
	dedup               *bool
	expires             time.Time
}

func readPatch(patch any) (*tokenPatch, error) {
	v, err := parseJSON("", patch)
	if err != nil {
		return nil, err
	}
	p := &tokenPatch{}
	bad := &form.Problems{}
	form.Read(v, "", bad, func(r *form.Reader) {
		for name, dst := range map[string]*jsonx.Value{
			"data": &p.data, "mask": &p.mask, "metadata": &p.metadata, "containers": &p.containers, "search_indexes": &p.indexes,
			"fingerprint_expression": &p.fingerprint, "deduplicate_token": &p.dedup, "expires_at": &p.expires,
		} {
			*dst = r.Given(name)
		}
		p.texts = tokenTexts{r.Texts("containers"), r.Texts("search_indexes"), r.OptionalText("fingerprint_expression"),
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

// errRetry asks for another attempt at a write, after a conflict was cleared
// away.
var errRetry = fault.New(ErrConflict, "try again")

// patching is an operation that changes a token by a patch.
type patching struct {
	*operation
	*tokenPatch
}

// update reads, patches and writes a token once.
func (op *patching) update(ctx context.Context, id string) (*Token, error) {
	row, err := op.tokenRow(ctx, id)
	if errors.Is(err, ErrNotFound) {
		return nil, cmp.Or(op.fault(), err)
	}
	if err != nil {
		return nil, err
	}
	if _, ok := op.Grant().Decide(access.TokenUpdate, row.ID, row.Containers); !ok {
		return nil, fault.PermissionOnToken(access.TokenUpdate)
	}
	old, err := op.openToken(ctx, row)
	if err != nil {
		return nil, err
	}
	defer admission.Of(ctx).Free(treeOf(row))
	bad := &form.Problems{}
	t := op.patched(&old, bad)
	if bad.Any() {
		return nil, fault.Of(bad)
	}
	if _, ok := op.Grant().Decide(access.TokenUpdate, row.ID, t.row.Containers); !ok {
		return nil, fault.New(ErrForbidden, "The permission token:update is needed on the containers you move the token to.")
	}
	if err := op.mayLook(&old, t); err != nil {
		return nil, err
	}
	if op.evaluate(ctx, t, bad); bad.Any() {
		return nil, cmp.Or(op.steps.Canceled(), fault.Of(bad))
	}
	if op.dedup.IsZero() && t.row.Fingerprint == old.row.Fingerprint && t.row.Expression == old.row.Expression {
		t.row.Dedup = old.row.Dedup // no more and no less of a duplicate than before
	} else {
		dup, err := op.duplicateOf(ctx, t, t.row.ID)
		if err != nil {
			return nil, err
		}
		if dup != nil {
			return op.existingInstead(ctx, dup)
		}
	}
	return op.saveToken(ctx, &old, t)
}

// evaluate evaluates the expressions of a patched token. A mask that fails on
// new data shows nothing, but one that takes too much is refused.
func (op *patching) evaluate(ctx context.Context, t *clearToken, bad *form.Problems) {
	if op.steps == nil {
		op.steps = t.Budget(ctx)
	}
	if !op.mask.IsZero() || !op.data.IsZero() {
		if _, err := t.NewMaskedText(ctx, op.steps); op.steps.Err() != nil {
			bad.AddErr("mask", err)
		}
	}
	op.index(t, op.steps, bad)
}

// existingInstead returns the token that a patch would have duplicated. Without
// the right to read it the fingerprint is left out too: with token:create it
// would tell which value the token has.
func (op *patching) existingInstead(ctx context.Context, row *storage.Token) (*Token, error) {
	t, err := op.existing(ctx, row)
	if err != nil {
		return nil, err
	}
	if _, ok := op.Grant().Decide(access.TokenRead, row.ID, row.Containers); !ok {
		t.Fingerprint = ""
	}
	return t, nil
}

// patchedView returns a patched token as the caller may read it: masked, or no
// more than its name.
func (op *patching) patchedView(ctx context.Context, t *clearToken) *Token {
	if transform, ok := op.Grant().Decide(access.TokenRead, t.row.ID, t.row.Containers); ok {
		return t.view(ctx, min(transform, access.Mask))
	}
	full := t.view(ctx, access.Redact)
	return &Token{ID: full.ID, TenantID: full.TenantID, Type: full.Type, Containers: full.Containers}
}

// saveToken writes a patched token and returns it as the caller may read it.
func (op *patching) saveToken(ctx context.Context, old, t *clearToken) (*Token, error) {
	if err := cmp.Or(core.HoldCopies(ctx, t.Data), op.sealToken(t)); err != nil {
		return nil, err
	}
	out := op.patchedView(ctx, t)
	ch := op.Change()
	ch.UpdateTokens = []storage.TokenUpdate{{Rev: old.row.Rev, OldSet: old.row.Set, Token: *t.row}}
	ch.Logs = []storage.Log{op.Entry(audit.Update, t.row.Type, t.row.ID)}
	err := op.Write(ctx, ch)
	if err == nil {
		return out, nil
	}
	conflict, refused := fault.Guard(err)
	if !refused {
		return nil, err
	}
	if err := op.makeRoom(ctx, t, false, conflict); err != nil {
		return nil, err
	}
	return nil, errRetry
}

// patched returns the token as the patch makes it.
func (op *patching) patched(old *clearToken, bad *form.Problems) *clearToken {
	t, row := *old, *old.row
	t.row = &row
	t.row.ModifiedAt, t.row.ModifiedBy = op.Now, storage.ID(op.Creator())
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
		t.row.ExpiresAt = op.texts.expires
	}
	containers := old.row.Containers
	switch {
	case op.containers.IsNull():
		containers = []string{t.Type.Container}
	case !op.containers.IsZero():
		containers = op.texts.containers
	}
	op.checkToken(&t, containers, bad)
	return &t
}

// fault returns what is wrong with the patch whatever token it is for. What
// data may hold depends on the token.
func (op *patching) fault() error {
	bad := &form.Problems{}
	generic := token.TypeOf(token.Generic)
	blank := clearToken{&storage.Token{Containers: []string{generic.Container}}, token.Body{Type: generic}}
	rest := *op.tokenPatch
	rest.data = jsonx.Value{}
	(&patching{op.operation, &rest}).patched(&blank, bad)
	if !bad.Any() {
		token.CheckIndexes(op.texts.indexes, bad)
	}
	return fault.Of(bad)
}

// patchData merges data. A cvc in the patch starts a new hour; one that the
// patch does not name keeps what is left of its own.
func (op *patching) patchData(t *clearToken, bad *form.Problems) {
	if op.data.IsZero() {
		return
	}
	t.MergeData(op.data, bad)
	switch {
	case t.CVC == "":
		t.row.CVCExpiresAt = time.Time{}
	case !op.data.Get("cvc").IsZero():
		t.row.CVCExpiresAt = op.Now.Add(cvcLife)
	}
	if len(t.Data.JSON()) > op.Vault.MaxBytes {
		bad.Add("data", "must have at most %d bytes", op.Vault.MaxBytes)
	}
	if t.RevealedLater(t.row.ID) {
		bad.Add("data", "must not be data that the token's id contains: ids appear in URLs and logs")
	}
}

// mayLook refuses a patch that would be a way to see what one may not read: a
// new expression over data that was stored before, or a move to where the
// client's rules show more of it.
func (op *patching) mayLook(old, t *clearToken) error {
	if !old.KeepsData(op.data) {
		return nil
	}
	if op.looksAt(old, t) && op.Grant().Best(old.row.ID, old.row.Containers) != access.Reveal {
		return fault.New(ErrForbidden, "Changing mask, fingerprint_expression or search_indexes needs reveal access to the token's data.")
	}
	if op.sees(t.row) > op.sees(old.row) {
		return fault.New(ErrForbidden, "Moving this token would show you more of its data; that needs the same access where it is now.")
	}
	return nil
}

// sees returns the most that the client can see of a token: by reading or using
// it, or by searching for its data.
func (op *operation) sees(row *storage.Token) access.Transform {
	search, _ := op.Grant().Decide(access.TokenSearch, row.ID, row.Containers)
	return max(search, op.Grant().Best(row.ID, row.Containers))
}

// looksAt reports whether the patch changes what is evaluated over the data.
func (p *tokenPatch) looksAt(old, t *clearToken) bool {
	return !p.mask.IsZero() && !old.MaskInForce().Equal(t.MaskInForce()) ||
		!p.fingerprint.IsZero() && old.FingerprintInForce() != t.FingerprintInForce() ||
		!p.indexes.IsZero() && !slices.Equal(old.IndexesInForce(), t.IndexesInForce())
}
