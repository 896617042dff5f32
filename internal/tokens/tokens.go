// Package tokens creates, reads, patches, deletes, lists and searches tokens.
// A [Batch] creates all tokens, whether one at a time, from a document, or by
// an import.
//
// It promises that each answer shows what the access rules permit, and nothing else: an
// input is refused before anything is looked up, so that an error does not reveal
// whether a value is stored. Two concurrent creates of one value give one token if they
// deduplicate. Lists leave out what the caller may not read, also in their totals.
//
// It rests on package core for the operation, on package access for decisions about one
// token and for conditions about many, and on package token for the body. The storage
// evaluates the conditions, and rows that it returns are opened before they are shown.
//
// Begin with [Create] and [Get] in tokens.go, then read [Batch]. Lists and searches
// share list.go; find.go has the terms of a search.
package tokens

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/ids"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/internal/token"
	"github.com/seed-72ea4aab/vault/storage"
)

// Token is a token as a caller sees it. Package vault has the same struct,
// with its own types for some fields.
type Token struct {
	ID                    string            `json:"id"`
	TenantID              uuid.UUID         `json:"tenant_id"`
	Type                  string            `json:"type"`
	Data                  json.RawMessage   `json:"data,omitempty"`
	Mask                  json.RawMessage   `json:"mask,omitempty"`
	Enrichments           *Enrichments      `json:"enrichments,omitempty"`
	Fingerprint           string            `json:"fingerprint,omitempty"`
	Containers            []string          `json:"containers,omitempty"`
	Metadata              map[string]string `json:"metadata,omitempty"`
	SearchIndexes         []string          `json:"search_indexes,omitempty"`
	FingerprintExpression string            `json:"fingerprint_expression,omitempty"`
	ExpiresAt             time.Time         `json:"expires_at,omitzero"`
	CreatedBy             uuid.UUID         `json:"created_by,omitzero"`
	CreatedAt             time.Time         `json:"created_at,omitzero"`
	ModifiedBy            uuid.UUID         `json:"modified_by,omitzero"`
	ModifiedAt            time.Time         `json:"modified_at,omitzero"`
	Unreadable            bool              `json:"unreadable,omitempty"`

	// Revealed means that Data is the data itself. Otherwise it is the mask, or
	// absent.
	Revealed bool `json:"-"`
}

// Enrichments is information that the vault derives from a token's data.
type Enrichments struct {
	Card *CardEnrichment `json:"card,omitempty"`
}

// CardEnrichment describes a card by its number.
type CardEnrichment struct {
	Brand string `json:"brand"`
	BIN   string `json:"bin"`
	Last4 string `json:"last4"`
}

// Value returns the JSON form of the token.
func (t *Token) Value() (jsonx.Value, error) {
	text, err := json.Marshal(t)
	if err != nil {
		return jsonx.Value{}, err
	}
	return jsonx.Parse(text, stored)
}

// stored allows every document that was accepted once, also by a merge.
var stored = jsonx.Limits{Depth: 1000}

// Clear is a token in plaintext, with its row. It lives only during a call.
type Clear struct {
	Row *storage.Token
	token.Body
}

// Entity returns the entity of the token for the log.
func (t *Clear) Entity() core.Entity { return core.Entity{Type: t.Row.Type, ID: t.Row.ID} }

// Enrichments returns the enrichments of card types, and nil for others.
func (t *Clear) Enrichments() *Enrichments {
	number, ok := t.CardNumber()
	if !ok {
		return nil
	}
	return &Enrichments{Card: &CardEnrichment{Brand: token.Brand(number), BIN: token.BIN(number), Last4: number[len(number)-4:]}}
}

// seal sets the sealed columns. All other columns must already be set.
func (t *Clear) seal(op *core.Op) error {
	row := t.Row
	row.KeyVersion = op.State.Ring.Version()
	t.Columns, t.Hashes = seal.TokenColumns(row), joined(row.Hashes)
	var parts seal.Parts
	location := seal.TokenLocation(row, &parts)
	plain := t.Encoded()
	defer plain.Wipe()
	if len(plain.Bytes) > op.Vault.MaxBytes {
		return fault.New(fault.ErrTooLarge, "a token must have at most %d bytes", op.Vault.MaxBytes)
	}
	var err error
	if row.Body, err = op.Seal(&location, plain.Bytes); err != nil {
		return err
	}
	row.CVC = nil
	if t.CVC == "" {
		row.CVCExpiresAt = time.Time{}
		return nil
	}
	location = seal.CVCLocation(row, &parts)
	row.CVC, err = op.Seal(&location, []byte(t.CVC))
	return err
}

// joined returns the concatenated hashes, or nil.
func joined(hashes []storage.Hash) []byte {
	if len(hashes) == 0 {
		return nil
	}
	out := make([]byte, 0, len(hashes)*len(hashes[0]))
	for i := range hashes {
		out = append(out, hashes[i][:]...)
	}
	return out
}

// Open decrypts a row, which becomes part of the token. A row that cannot be
// decrypted, or whose columns were altered, raises an alarm and an error that
// [Unreadable] reports.
func Open(ctx context.Context, op *core.Op, row *storage.Token) (Clear, error) {
	t := Clear{Row: row}
	return t, t.alarm(ctx, op, t.open(ctx, op))
}

// OpenExpired checks like [Open] that a row is genuine, and that it has expired.
func OpenExpired(ctx context.Context, op *core.Op, row *storage.Token) error {
	t, err := Open(ctx, op, row)
	if err == nil && !Expired(row, op.Now) {
		err = t.alarm(ctx, op, fault.ErrAltered)
	}
	return err
}

// OpenExpiredCVC checks that the cvc of a row is genuine, and that it has
// expired. The cvc is bound to everything that a log entry says about it.
func OpenExpiredCVC(ctx context.Context, op *core.Op, row *storage.Token) error {
	t := Clear{Row: row}
	var parts seal.Parts
	location := seal.CVCLocation(row, &parts)
	_, err := op.Open(ctx, &location, row.KeyVersion, row.CVC)
	if err == nil && (row.CVCExpiresAt.IsZero() || row.CVCExpiresAt.After(op.Now)) {
		err = fault.ErrAltered
	}
	return t.alarm(ctx, op, err)
}

// alarm raises an alarm if an error is about the row. It returns the error.
func (t *Clear) alarm(ctx context.Context, op *core.Op, err error) error {
	if err == nil || !Unreadable(err) {
		return err
	}
	name := core.AlarmUnreadable
	if errors.Is(err, fault.ErrAltered) {
		name = core.AlarmAltered
	}
	return op.Vault.Alarm(ctx, name, op.Tenant(), t.Entity(), err)
}

var errType = errors.New("the type is unknown to this version")

// Unreadable reports whether an error of Open is about the row itself, and
// not about the database or the caller.
func Unreadable(err error) bool {
	return core.Unreadable(err) || errors.Is(err, token.ErrBody) || errors.Is(err, errType)
}

func (t *Clear) open(ctx context.Context, op *core.Op) error {
	row := t.Row
	if tree := Tree(row); tree > 0 {
		if err := cmp.Or(core.Reserve(ctx, tree), core.Turn(ctx)); err != nil {
			return err
		}
	}
	row.Tenant = op.TenantID()
	var parts seal.Parts
	location := seal.TokenLocation(row, &parts)
	plain, err := op.Open(ctx, &location, row.KeyVersion, row.Body)
	if err != nil {
		return err
	}
	if t.Type = token.TypeOf(row.Type); t.Type == nil {
		err = errType
	} else {
		err = t.Decode(plain)
	}
	if err == nil {
		err = t.checkColumns()
	}
	if err != nil {
		return fmt.Errorf("vault: token %s: %w", uuid.UUID(row.Ord), err)
	}
	if row.CVC != nil && row.CVCExpiresAt.After(op.Now) {
		location = seal.CVCLocation(row, &parts)
		cvc, err := op.Open(ctx, &location, row.KeyVersion, row.CVC)
		if err != nil {
			return err
		}
		t.CVC = string(cvc)
	}
	return nil
}

// checkColumns compares the columns of the row with the sealed digest,
// because anyone who can write to the database can change them.
func (t *Clear) checkColumns() error {
	if seal.TokenColumns(t.Row) != t.Columns {
		return fault.ErrAltered
	}
	return nil
}

// foundBy reports whether the hashes that were sealed with the token can meet
// the condition that found its row.
func (t *Clear) foundBy(where storage.Cond) bool {
	return possible(where, func(h storage.Hash) bool {
		for rest := t.Hashes; len(rest) >= len(h); rest = rest[len(h):] {
			if storage.Hash(rest) == h {
				return true
			}
		}
		return false
	})
}

// fill returns the token without its data.
func (t *Clear) fill() Token {
	row := t.Row
	return Token{
		ID: row.ID, TenantID: uuid.UUID(row.Tenant), Type: row.Type, Mask: t.MaskText(),
		Fingerprint: ids.Encode58(row.Fingerprint), Containers: slices.Clone(row.Containers), Metadata: t.Metadata,
		SearchIndexes: slices.Clone(t.IndexesInForce()), FingerprintExpression: t.FingerprintInForce(),
		ExpiresAt: row.ExpiresAt, CreatedAt: row.CreatedAt, CreatedBy: uuid.UUID(row.CreatedBy),
		ModifiedAt: row.ModifiedAt, ModifiedBy: uuid.UUID(row.ModifiedBy),
	}
}

// View returns the token with a transform. If the context has ended, the mask
// may not have been evaluated; the caller must check that.
func (t *Clear) View(ctx context.Context, transform access.Transform) Token {
	out := t.fill()
	switch transform {
	case access.Reveal:
		out.Data, out.Revealed = t.Plain().JSON(), true
	case access.None, access.Redact: // no data
	case access.Mask:
		out.Data = t.MaskedText(ctx)
	}
	return out
}

// Shown returns the data with a transform, or zero if it is redacted.
func (t *Clear) Shown(ctx context.Context, transform access.Transform) jsonx.Value {
	switch transform {
	case access.Reveal:
		return t.Plain()
	case access.Mask:
		return t.Masked(ctx)
	default:
		return jsonx.Value{}
	}
}

// Params returns parameters that would create the token again, without its
// cvc.
func (t *Clear) Params() Params {
	p := Params{
		ID: t.Row.ID, Type: t.Row.Type, Data: json.RawMessage(t.Data.JSON()), Containers: t.Row.Containers,
		Metadata: t.Metadata, SearchIndexes: t.Indexes, FingerprintExpression: t.Fingerprint,
		DeduplicateToken: t.Dedup, ExpiresAt: t.Row.ExpiresAt,
	}
	if !t.Mask.IsZero() {
		p.Mask = json.RawMessage(t.Mask.JSON())
	}
	return p
}

// single is a batch that creates one token, in one allocation with its
// change, row and log entry.
type single struct {
	Batch
	change storage.Change
	item   Item
	items  [1]*Item
	sent   [1]*Item
	logs   [1]storage.Log
}

func newSingle(op *core.Op) *single {
	s := &single{}
	s.op, s.Batch.items, s.Batch.sent = op, s.items[:0], s.sent[:0]
	s.Batch.change, s.Batch.logs = &s.change, s.logs[:0]
	s.Batch.rows = s.item.row[:0]
	return s
}

// Create stores a value and returns its token, or the existing token that it
// duplicates.
func Create(ctx context.Context, op *core.Op, p *Params) (Token, error) {
	s, bad := newSingle(op), &form.Problems{}
	if s.Prepare(ctx, &s.item, p, nil, bad); bad.Any() {
		return Token{}, cmp.Or(s.item.Canceled(), fault.Of(bad))
	}
	if err := s.Add(&s.item); err != nil {
		return Token{}, err
	}
	if err := core.ReserveCopies(ctx, s.item.Data); err != nil {
		return Token{}, err
	}
	if err := s.Save(ctx); err != nil {
		return Token{}, err
	}
	if s.item.Existing != nil {
		return existing(ctx, op, s.item.Existing)
	}
	return s.item.Created(), nil
}

// Params are the parameters of a new token. Package vault documents the
// fields.
type Params struct {
	ID                    string
	Type                  string
	Data                  any // in the forms that core.ParseJSON accepts
	Mask                  any
	Containers            []string
	Metadata              map[string]string
	SearchIndexes         []string
	FingerprintExpression string
	DeduplicateToken      *bool
	ExpiresAt             time.Time
}

// Read reads the JSON form.
func (p *Params) Read(r *form.Reader) {
	*p = Params{
		ID: r.OptionalText("id"), Type: r.Text("type"), Containers: r.Texts("containers"),
		Metadata: r.TextMap("metadata"), SearchIndexes: r.Texts("search_indexes"),
		FingerprintExpression: r.OptionalText("fingerprint_expression"),
		DeduplicateToken:      r.OptionalBool("deduplicate_token"), ExpiresAt: r.Expiry("expires_at"),
	}
	if v := r.Value("data"); !v.IsZero() {
		p.Data = v
	}
	if v := r.Value("mask"); !v.IsZero() {
		p.Mask = v
	}
}

// JSON returns the JSON form, which Read accepts.
func (p *Params) JSON() ([]byte, error) {
	data, err := core.ParseJSON("data", p.Data)
	if err != nil {
		return nil, err
	}
	mask, err := core.ParseJSON("mask", p.Mask)
	if err != nil {
		return nil, err
	}
	w := &form.Writer{}
	w.Text("id", p.ID)
	w.Text("type", p.Type)
	w.Value("data", data)
	w.Value("mask", mask)
	w.Texts("containers", p.Containers)
	w.TextMap("metadata", p.Metadata)
	w.Texts("search_indexes", p.SearchIndexes)
	w.Text("fingerprint_expression", p.FingerprintExpression)
	if p.DeduplicateToken != nil {
		w.Value("deduplicate_token", jsonx.BoolValue(*p.DeduplicateToken))
	}
	if !p.ExpiresAt.IsZero() {
		w.Text("expires_at", p.ExpiresAt.Format(time.RFC3339Nano))
	}
	return w.JSON(), nil
}
