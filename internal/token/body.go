// Package token defines tokens: their types and rules, the encoding of their
// body, masks, fingerprints and indexes, and the rules for ids. It does not
// depend on databases or permissions.
//
// It promises that a mask fails closed, that no expression sees the cvc of a card, and
// that no id is the data of its token. Columns for lookups get keyed hashes; package
// tokens seals the body.
//
// It rests on package expr for expressions, on package jsonx for data that comes back as
// it was written, and on package seal for keyed hashes.
//
// Begin with [Body]. The types and their checks are a table in type.go. The language of
// searches is here too, because it names the fields of tokens: [ParseQuery].
package token

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/expr"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

// Body is the content of a token in plaintext. It lives only during a call.
// Mask, indexes and fingerprint expression are as the caller gave them. If
// one is absent, the type's default is computed each time.
type Body struct {
	Type        *Type
	Data        jsonx.Value // without the cvc
	Mask        jsonx.Value
	Metadata    map[string]string
	Indexes     []string // nil: the default; empty: no indexes
	Fingerprint string   // expression; empty: the default
	Dedup       *bool

	// Columns is a digest of the columns of the row, and Hashes the joined
	// hashes by which the token is found.
	Columns [16]byte
	Hashes  []byte

	// CVC is empty without a cvc, and after its hour. It is sealed
	// separately: Encode leaves it out, and expressions do not see it.
	CVC   string
	CVCAt int // original index among the members of the data
}

// SetData validates data and separates the cvc from it.
func (b *Body) SetData(data jsonx.Value, bad *form.Problems) {
	b.Type.check(bad, "data", data)
	if b.Type.Name == Card || b.Type.Name == Bank {
		data = withoutNulls(data)
	}
	if b.Type.Name == Card {
		for i, m := range data.Members() {
			if m.Name == "cvc" {
				b.CVC, b.CVCAt = m.Value.Text(), i
			}
		}
		data = data.Without("cvc")
	}
	b.Data = data
}

// withoutNulls removes null members, which are the same as absent members.
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

// Plain returns the data with the cvc in its original position.
func (b *Body) Plain() jsonx.Value {
	if b.CVC == "" {
		return b.Data
	}
	members := slices.Clone(b.Data.Members())
	at := min(b.CVCAt, len(members))
	cvc := jsonx.Member{Name: "cvc", Value: jsonx.StringValue(b.CVC)}
	return jsonx.ObjectValue(slices.Insert(members, at, cvc)...)
}

// MaskInForce returns the effective mask, or the zero Value.
func (b *Body) MaskInForce() jsonx.Value {
	if !b.Mask.IsZero() {
		return b.Mask
	}
	if m := b.Type.mask(b.Data); m != nil {
		return m.value
	}
	return jsonx.Value{}
}

// MaskText returns the effective mask as JSON, or nil without a mask. The
// caller may change the result.
func (b *Body) MaskText() []byte {
	if !b.Mask.IsZero() {
		return b.Mask.JSON()
	}
	if m := b.Type.mask(b.Data); m != nil {
		return bytes.Clone(m.text)
	}
	return nil
}

// maskTree returns the compiled effective mask, or nil without a mask.
func (b *Body) maskTree() (*expr.Tree, error) {
	if !b.Mask.IsZero() {
		return expr.CompileTree(b.Mask)
	}
	if m := b.Type.mask(b.Data); m != nil {
		return m.tree, nil
	}
	return nil, nil
}

// Masked evaluates the mask, within the limits of a mask. A mask that is
// absent or fails on this data shows nothing.
func (b *Body) Masked(ctx context.Context) jsonx.Value {
	tree, err := b.maskTree()
	if err != nil || tree == nil {
		return jsonx.Value{}
	}
	v, err := tree.Eval(expr.Data(b.Data, jsonx.Value{}, b.maskBudget(ctx)))
	if err != nil {
		return jsonx.Value{}
	}
	return v
}

// MaskedText evaluates the mask to JSON text, within the limits of a mask. It
// returns nil if the mask is absent or fails on this data.
func (b *Body) MaskedText(ctx context.Context) []byte {
	text, err := b.maskedText(b.maskBudget(ctx))
	if err != nil {
		return nil
	}
	return text
}

// Masked evaluates the mask of a token whose plaintext a caller has. It returns nil
// if the mask is absent or fails, or if it cannot be read.
func Masked(ctx context.Context, typ string, data, mask []byte) []byte {
	plain, err := jsonx.Parse(data, jsonx.Limits{})
	if err != nil || len(mask) == 0 {
		return nil
	}
	b := Body{Data: plain}
	if typ == Card {
		b.Data = plain.Without("cvc") // expressions never see the cvc
	}
	if b.Mask, err = jsonx.Parse(mask, jsonx.Limits{}); err != nil {
		return nil
	}
	return b.MaskedText(ctx)
}

// NewMaskedText evaluates a mask that is being written to JSON text. It
// returns nil if there is no mask. The request pays for the evaluation: a
// mask that exceeds the limits of a mask, or the rest of the budget, ends the
// budget.
func (b *Body) NewMaskedText(ctx context.Context, request *admission.Budget) ([]byte, error) {
	own := b.maskBudget(ctx)
	text, err := b.maskedText(own)
	paid := request.Pay(own)
	return text, cmp.Or(err, paid)
}

// maskedText evaluates the mask. It returns nil if there is no mask.
func (b *Body) maskedText(own *admission.Budget) ([]byte, error) {
	tree, err := b.maskTree()
	if err != nil || tree == nil {
		return nil, err
	}
	return tree.JSON(expr.Data(b.Data, jsonx.Value{}, own))
}

// maskBudget returns the budget of an evaluation of the mask. The type's
// default mask is not counted.
func (b *Body) maskBudget(ctx context.Context) *admission.Budget {
	if b.Mask.IsZero() {
		return nil
	}
	return admission.MaskBudget(ctx, b.Data.Size())
}

// IndexesInForce returns the effective search indexes.
func (b *Body) IndexesInForce() []string {
	if b.Indexes == nil {
		return b.Type.indexes
	}
	return b.Indexes
}

// FingerprintInForce returns the effective fingerprint expression.
func (b *Body) FingerprintInForce() string {
	if b.Fingerprint == "" {
		return b.Type.fingerprint.source
	}
	return b.Fingerprint
}

// fingerprintTemplate returns the compiled effective fingerprint expression.
func (b *Body) fingerprintTemplate() (*expr.Template, error) {
	if b.Fingerprint == "" {
		return b.Type.fingerprint.template, nil
	}
	return expr.Compile(b.Fingerprint)
}

// Budget returns the budget for the expressions of a request that writes this
// token.
func (b *Body) Budget(ctx context.Context) *admission.Budget {
	return admission.RequestBudget(ctx, 1, b.Data.Size()+b.Mask.Size())
}

// errNoValue prevents tokens without a value from sharing one fingerprint, or
// requesting the same id.
var errNoValue = errors.New("must produce a value for this data")

// stringOf returns a string unchanged, and anything else as compact JSON.
func stringOf(v jsonx.Value) string {
	if v.Kind() == jsonx.String {
		return v.Text()
	}
	return string(v.JSON())
}

// CardValue returns the data of a card. It omits zero fields.
func CardValue(number string, month, year int, cvc string) jsonx.Value {
	members := append(make([]jsonx.Member, 0, 4), jsonx.Member{Name: "number", Value: jsonx.StringValue(number)})
	if month != 0 {
		members = append(members, jsonx.Member{Name: "expiration_month", Value: jsonx.IntValue(int64(month))})
	}
	if year != 0 {
		members = append(members, jsonx.Member{Name: "expiration_year", Value: jsonx.IntValue(int64(year))})
	}
	if cvc != "" {
		members = append(members, jsonx.Member{Name: "cvc", Value: jsonx.StringValue(cvc)})
	}
	return jsonx.ObjectValue(members...)
}

// MergeData applies a merge patch to the data. If the patch has no cvc, the
// cvc stays.
func (b *Body) MergeData(patch jsonx.Value, bad *form.Problems) {
	cvc := b.CVC
	b.CVC = ""
	b.SetData(jsonx.Merge(b.Data, patch), bad)
	named := &form.Problems{}
	b.Type.check(named, "data", patch) // the merge has removed null fields
	bad.AddUnknown(named.Fields)
	if b.Type.Name == Card && patch.Get("cvc").IsZero() {
		b.CVC = cvc
	}
}

// KeepsData reports whether some of the stored data remains after a patch of
// the data, which may be absent.
func (b *Body) KeepsData(patch jsonx.Value) bool {
	return patch.IsZero() || patch.Kind() == jsonx.Object && b.Data.Kind() == jsonx.Object
}

// MergeMetadata applies a merge patch to metadata.
func MergeMetadata(old map[string]string, patch jsonx.Value, bad *form.Problems) map[string]string {
	if patch.IsZero() {
		return old
	}
	merged := map[string]string{}
	if patch.Kind() == jsonx.Object {
		maps.Copy(merged, old)
	}
	for _, m := range patch.Members() {
		switch m.Value.Kind() {
		case jsonx.Null:
			delete(merged, m.Name)
		case jsonx.String:
			merged[m.Name] = m.Value.Text()
		default:
			bad.Add(jsonx.JoinName("metadata", m.Name), "must be of type string")
		}
	}
	return merged
}

// Encoded is an encoded body, in memory that is used again.
type Encoded struct{ Bytes []byte }

var spareEncoded = sync.Pool{New: func() any { return &Encoded{make([]byte, 0, 512)} }}

// maxSpare is the maximum size of memory that is kept.
const maxSpare = 4096

// Encoded returns the encoded body. The caller calls Wipe after sealing it.
func (b *Body) Encoded() *Encoded {
	e := spareEncoded.Get().(*Encoded)
	e.Bytes = b.Encode(e.Bytes)
	return e
}

// Wipe clears the body, which must not be used any more.
func (e *Encoded) Wipe() {
	clear(e.Bytes)
	if e.Bytes = e.Bytes[:0]; cap(e.Bytes) > maxSpare {
		e.Bytes = nil
	}
	spareEncoded.Put(e)
}
