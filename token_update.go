package vault

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/budget"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/token"
	"github.com/seed-72ea4aab/vault/storage"
)

// UpdateToken changes a token by a JSON merge patch (RFC 7386) and returns it
// masked, or redacted where that is the client's transform (permission
// token:update on its containers, and on the new ones if it moves). The patch
// may hold data, mask and metadata, which are merged, and
// containers, search_indexes, fingerprint_expression, deduplicate_token and
// expires_at, which are replaced; null brings a default back.
//
// A patch that changes mask, fingerprint expression or search indexes over data
// that stays stored needs the right to see that data in clear, and so does one
// that moves it to where the client would see it. One that would make
// the token a duplicate changes nothing and returns the existing token, as
// CreateToken does.
func (c *Client) UpdateToken(ctx context.Context, id string, patch any) (*Token, error) {
	op, err := c.begin(ctx, access.TokenUpdate)
	if err != nil {
		return nil, err
	}
	p, err := readPatch(patch)
	if err != nil {
		return nil, err
	}
	for range maxAttempts {
		t, err := retryStale(func() (*Token, error) { return op.update(ctx, id, p) })
		if err != errRetry {
			return t, err
		}
	}
	return nil, errorf(ErrConflict, "The token could not be updated because of concurrent changes; try again.")
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
	expires             *time.Time
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
	return p, asInvalid(bad)
}

// errRetry asks for another attempt at a write, after a conflict was cleared
// away.
var errRetry = errorf(ErrConflict, "try again")

// update reads, patches and writes a token once.
func (op *operation) update(ctx context.Context, id string, p *tokenPatch) (*Token, error) {
	row, err := op.tokenRow(ctx, id)
	if errors.Is(err, ErrNotFound) {
		return nil, cmp.Or(op.faultOf(p), err)
	}
	if err != nil {
		return nil, err
	}
	shown, ok := op.grant.Decide(access.TokenUpdate, row.ID, row.Containers)
	if !ok {
		return nil, errForbiddenToken(access.TokenUpdate)
	}
	old, err := op.openToken(ctx, row)
	if err != nil {
		return nil, err
	}
	bad := &form.Problems{}
	t := op.patched(&old, p, bad)
	if bad.Any() {
		return nil, asInvalid(bad)
	}
	shownThere, ok := op.grant.Decide(access.TokenUpdate, row.ID, t.row.Containers)
	if !ok {
		return nil, errorf(ErrForbidden, "The permission token:update is needed on the containers you move the token to.")
	}
	if err := op.mayLook(&old, t, p); err != nil {
		return nil, err
	}
	if op.evaluate(ctx, t, p, bad); bad.Any() {
		return nil, cmp.Or(p.steps.Canceled(), asInvalid(bad))
	}
	if p.dedup.IsZero() && t.row.Fingerprint == old.row.Fingerprint && t.row.Expression == old.row.Expression {
		t.row.Dedup = old.row.Dedup // no more and no less of a duplicate than before
	} else {
		dup, err := op.duplicateOf(ctx, t, t.row.ID)
		if err != nil {
			return nil, err
		}
		if dup != nil {
			return op.existing(ctx, dup)
		}
	}
	return op.saveToken(ctx, &old, t, min(shown, shownThere, access.Mask))
}

// evaluate evaluates the expressions of a patched token. A mask that fails on
// new data shows nothing, but one that takes too much is refused.
func (op *operation) evaluate(ctx context.Context, t *clearToken, p *tokenPatch, bad *form.Problems) {
	if p.steps == nil {
		p.steps = t.Budget(ctx)
	}
	if !p.mask.IsZero() || !p.data.IsZero() {
		if _, err := t.NewMaskedText(ctx, p.steps); p.steps.Err() != nil {
			bad.AddErr("mask", err)
		}
	}
	op.index(t, p.steps, bad)
}

// saveToken writes a patched token and returns it as a transform shows it.
func (op *operation) saveToken(ctx context.Context, old, t *clearToken, transform access.Transform) (*Token, error) {
	if err := op.sealToken(t); err != nil {
		return nil, err
	}
	out := t.view(ctx, transform)
	ch := op.change()
	ch.UpdateTokens = []storage.TokenUpdate{{Rev: old.row.Rev, OldSet: old.row.Set, Token: *t.row}}
	ch.Logs = []storage.Log{op.entry(opUpdate, t.row.Type, t.row.ID)}
	err := op.write(ctx, ch)
	if err == nil {
		return out, nil
	}
	conflict, refused := asConflict(err)
	if !refused {
		return nil, err
	}
	if err := op.makeRoom(ctx, t, false, conflict); err != nil {
		return nil, err
	}
	return nil, errRetry
}

// patched returns the token as the patch makes it.
func (op *operation) patched(old *clearToken, p *tokenPatch, bad *form.Problems) *clearToken {
	t, row := *old, *old.row
	t.row = &row
	t.row.ModifiedAt, t.row.ModifiedBy = op.now, storage.ID(op.creator)
	op.patchData(&t, p, bad)
	switch {
	case p.mask.IsNull():
		t.Mask = jsonx.Value{}
	case !p.mask.IsZero():
		t.Mask = jsonx.Merge(old.MaskInForce(), p.mask)
	}
	t.Metadata = token.MergeMetadata(old.Metadata, p.metadata, bad)
	if !p.indexes.IsZero() {
		t.Indexes = p.texts.indexes
	}
	if !p.fingerprint.IsZero() {
		t.Fingerprint = p.texts.fingerprint
	}
	if !p.dedup.IsZero() {
		t.Dedup = p.texts.dedup
	}
	if !p.expires.IsZero() {
		t.row.ExpiresAt = time.Time{}
		if p.texts.expires != nil {
			t.row.ExpiresAt = *p.texts.expires
		}
	}
	containers := old.row.Containers
	switch {
	case p.containers.IsNull():
		containers = []string{t.Type.Container}
	case !p.containers.IsZero():
		containers = p.texts.containers
	}
	op.checkToken(&t, containers, bad)
	return &t
}

// faultOf returns what is wrong with a patch whatever token it is for. What
// data may hold depends on the token.
func (op *operation) faultOf(p *tokenPatch) error {
	bad := &form.Problems{}
	generic := token.TypeOf(token.Generic)
	blank := clearToken{&storage.Token{Containers: []string{generic.Container}}, token.Body{Type: generic}}
	rest := *p
	rest.data = jsonx.Value{}
	op.patched(&blank, &rest, bad)
	if !bad.Any() {
		token.CheckIndexes(p.texts.indexes, bad)
	}
	return asInvalid(bad)
}

// patchData merges data. A cvc in the patch starts a new hour; one that the
// patch does not name keeps what is left of its own.
func (op *operation) patchData(t *clearToken, p *tokenPatch, bad *form.Problems) {
	if p.data.IsZero() {
		return
	}
	t.MergeData(p.data, bad)
	switch {
	case t.CVC == "":
		t.row.CVCExpiresAt = time.Time{}
	case !p.data.Get("cvc").IsZero():
		t.row.CVCExpiresAt = op.now.Add(cvcLife)
	}
	if len(t.Data.JSON()) > op.v.cfg.MaxBytes {
		bad.Add("data", "must have at most %d bytes", op.v.cfg.MaxBytes)
	}
	if t.RevealedLater(t.row.ID) {
		bad.Add("data", "must not be data that the token's id contains: ids appear in URLs and logs")
	}
}

// mayLook refuses a patch that would be a way to see what one may not read: a
// new expression over data that was stored before, or a move to where the
// client's rules show it in clear.
func (op *operation) mayLook(old, t *clearToken, p *tokenPatch) error {
	best := op.grant.Best(old.row.ID, old.row.Containers)
	if !old.KeepsData(p.data) || best == access.Reveal {
		return nil
	}
	if p.looksAt(old, t) {
		return errorf(ErrForbidden, "Changing mask, fingerprint_expression or search_indexes needs reveal access to the token's data.")
	}
	if op.grant.Best(t.row.ID, t.row.Containers) == access.Reveal {
		return errorf(ErrForbidden, "Moving this token would let you read its data; that needs reveal access where it is now.")
	}
	return nil
}

// looksAt reports whether the patch changes what is evaluated over the data.
func (p *tokenPatch) looksAt(old, t *clearToken) bool {
	return !p.mask.IsZero() && !old.MaskInForce().Equal(t.MaskInForce()) ||
		!p.fingerprint.IsZero() && old.FingerprintInForce() != t.FingerprintInForce() ||
		!p.indexes.IsZero() && !slices.Equal(old.IndexesInForce(), t.IndexesInForce())
}
