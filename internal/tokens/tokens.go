// Package tokens works with tokens and their rows: it creates, reads, patches,
// deletes, lists and searches them. All tokens are created by one [Batch],
// whether one at a time, from a document, or by an import.
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
	"github.com/seed-72ea4aab/vault/internal/ids"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/sealed"
	"github.com/seed-72ea4aab/vault/internal/token"
	"github.com/seed-72ea4aab/vault/storage"
)

// Token is a token as a caller sees it. The front has the same struct, with its
// own types for some fields.
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
}

// Enrichments is what the vault knows about a token's data beyond the data.
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

// stored lets pass whatever was accepted once, also through a merge.
var stored = jsonx.Limits{Depth: 1000}

// Clear is a token in plaintext, with its row. It lives for the length of a call.
type Clear struct {
	Row *storage.Token
	token.Body
}

// Entity names the token for the log.
func (t *Clear) Entity() core.Entity { return core.Entity{Type: t.Row.Type, ID: t.Row.ID} }

// Enrichments returns the enrichments of card types, and nil for others.
func (t *Clear) Enrichments() *Enrichments {
	number, ok := t.CardNumber()
	if !ok {
		return nil
	}
	return &Enrichments{Card: &CardEnrichment{Brand: token.Brand(number), BIN: token.BIN(number), Last4: number[len(number)-4:]}}
}

// seal fills in the sealed columns. All other columns must be set already.
func (t *Clear) seal(op *core.Op) error {
	row := t.Row
	row.KeyVersion = op.State.Ring.Version()
	var parts sealed.Parts
	place := sealed.TokenPlace(row, &parts)
	err := t.WithEncoded(func(plain []byte) (err error) {
		if len(plain) > op.Vault.MaxBytes {
			return fault.New(fault.ErrTooLarge, "a token must have at most %d bytes", op.Vault.MaxBytes)
		}
		row.Body, err = op.Seal(&place, plain)
		return err
	})
	if err != nil {
		return err
	}
	row.CVC = nil
	if t.CVC == "" {
		row.CVCExpiresAt = time.Time{}
		return nil
	}
	place = sealed.CVCPlace(row, &parts)
	row.CVC, err = op.Seal(&place, []byte(t.CVC))
	return err
}

// Open reads a row, which becomes part of the token.
func Open(ctx context.Context, op *core.Op, row *storage.Token) (Clear, error) {
	t := Clear{Row: row}
	if tree := Tree(row); tree > 0 {
		if err := cmp.Or(core.Hold(ctx, tree), core.Turn(ctx)); err != nil {
			return t, err
		}
	}
	row.Tenant = op.TenantID()
	var parts sealed.Parts
	place := sealed.TokenPlace(row, &parts)
	plain, err := op.Open(ctx, &place, row.KeyVersion, row.Body)
	if err != nil {
		return t, err
	}
	if t.Type = token.TypeOf(row.Type); t.Type == nil {
		err = errors.New("the type is unknown to this version")
	} else {
		err = t.Decode(plain)
	}
	if err != nil {
		return t, fmt.Errorf("vault: token %s: %w", uuid.UUID(row.Ord), err)
	}
	if row.CVC != nil && row.CVCExpiresAt.After(op.Now) {
		place = sealed.CVCPlace(row, &parts)
		cvc, err := op.Open(ctx, &place, row.KeyVersion, row.CVC)
		if err != nil {
			return t, err
		}
		t.CVC = string(cvc)
	}
	return t, nil
}

// fill returns everything but the data.
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

// View returns the token as a transform shows it. When the context has ended, a
// mask may not have been evaluated: the caller asks for that.
func (t *Clear) View(ctx context.Context, transform access.Transform) Token {
	out := t.fill()
	switch transform {
	case access.Reveal:
		out.Data = t.Plain().JSON()
	case access.None, access.Redact: // no data
	case access.Mask:
		out.Data = t.MaskedText(ctx)
	}
	return out
}

// Shown returns the data that a transform leaves; absent when it is redacted.
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

// Params returns what would create the token again, except its cvc.
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
