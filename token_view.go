package vault

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/storage"
)

// view returns the token as a transform shows it.
func (t *token) view(transform access.Transform) *Token {
	out := &Token{}
	t.show(out, transform)
	return out
}

// show fills in the token as a transform shows it.
func (t *token) show(out *Token, transform access.Transform) {
	row, body := t.row, &t.body
	*out = Token{
		ID: row.ID, TenantID: uuid.UUID(row.Tenant), Type: TokenType(row.Type), Mask: body.maskText(),
		Fingerprint: encode58(row.Fingerprint), Containers: slices.Clone(row.Containers), Metadata: body.metadata,
		SearchIndexes: slices.Clone(body.indexesInForce()), FingerprintExpression: body.fingerprintInForce(),
		ExpiresAt: momentOf(row.ExpiresAt),
	}
	out.CreatedAt, out.CreatedBy = stampOf(row.CreatedAt, row.CreatedBy)
	out.ModifiedAt, out.ModifiedBy = stampOf(row.ModifiedAt, row.ModifiedBy)
	switch transform {
	case access.Reveal:
		out.Data = t.plain().JSON()
	case access.Mask:
		out.Data, _ = body.maskJSON() // a mask that fails shows nothing
	}
}

// shown returns the data that a transform leaves; absent when it is redacted.
func (t *token) shown(transform access.Transform) jsonx.Value {
	switch transform {
	case access.Reveal:
		return t.plain()
	case access.Mask:
		return t.body.masked()
	default:
		return jsonx.Value{}
	}
}

func jsonOf(v jsonx.Value) JSON {
	if v.IsZero() {
		return nil
	}
	return v.JSON()
}

func momentOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	moment := t // not t itself, which would be on the heap even when it is zero
	return &moment
}

// stampOf returns when something was done and by whom, nil for what is zero. The
// two lie in one piece of memory.
func stampOf(at time.Time, by storage.ID) (when *time.Time, who *uuid.UUID) {
	if at.IsZero() && by.IsZero() {
		return nil, nil
	}
	stamp := &struct {
		at time.Time
		by uuid.UUID
	}{at, uuid.UUID(by)}
	if !at.IsZero() {
		when = &stamp.at
	}
	if !by.IsZero() {
		who = &stamp.by
	}
	return when, who
}
