// Package token says what a token is: its types and their rules, its body and
// how that is written, masks, fingerprints and indexes, and the rules for ids.
// It knows no database and no rights.
package token

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/seed-72ea4aab/vault/internal/budget"
	"github.com/seed-72ea4aab/vault/internal/expr"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

// Body is the content of a token in clear. It lives for the length of a call.
// Mask, indexes and fingerprint expression are as the caller gave them; what is
// not given is the type's default and computed each time.
type Body struct {
	Type        *Type
	Data        jsonx.Value // without the cvc
	Mask        jsonx.Value
	Metadata    map[string]string
	Indexes     []string // nil: the default; empty: none
	Fingerprint string   // the expression; empty: the default
	Dedup       *bool

	// Columns is a digest of the columns beside the body, and Hashes what the token
	// is found by, joined. Bodies of earlier versions have neither: Columns is zero.
	Columns [16]byte
	Hashes  []byte

	// CVC is empty without one, and once its hour has passed. It is sealed by
	// itself: Encode leaves it out, and no expression sees it.
	CVC   string
	CVCAt int // where among the members of the data it was given
}

// SetData validates data and takes the cvc out of it.
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

// withoutNulls leaves out members that are null: they are the same as absent.
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

// Plain returns the data with the cvc where it was given.
func (b *Body) Plain() jsonx.Value {
	if b.CVC == "" {
		return b.Data
	}
	members := slices.Clone(b.Data.Members())
	at := min(b.CVCAt, len(members))
	cvc := jsonx.Member{Name: "cvc", Value: jsonx.StringValue(b.CVC)}
	return jsonx.ObjectValue(slices.Insert(members, at, cvc)...)
}

// MaskInForce returns the mask, absent where there is none.
func (b *Body) MaskInForce() jsonx.Value {
	if !b.Mask.IsZero() {
		return b.Mask
	}
	if m := b.Type.mask(b.Data); m != nil {
		return m.value
	}
	return jsonx.Value{}
}

// MaskText returns the mask in force as JSON, which is the caller's to change;
// nil where there is none.
func (b *Body) MaskText() []byte {
	if !b.Mask.IsZero() {
		return b.Mask.JSON()
	}
	if m := b.Type.mask(b.Data); m != nil {
		return bytes.Clone(m.text)
	}
	return nil
}

// maskTree returns the mask in force, compiled; nil where there is none.
func (b *Body) maskTree() (*expr.Tree, error) {
	if !b.Mask.IsZero() {
		return expr.CompileTree(b.Mask)
	}
	if m := b.Type.mask(b.Data); m != nil {
		return m.tree, nil
	}
	return nil, nil
}

// Masked evaluates the mask, within the bounds of a mask. One that is absent, or
// fails on this data, shows nothing.
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

// MaskedText evaluates the mask to JSON text, within the bounds of a mask. It
// returns nil for one that is absent or fails on this data.
func (b *Body) MaskedText(ctx context.Context) []byte {
	text, err := b.maskedText(b.maskBudget(ctx))
	if err != nil {
		return nil
	}
	return text
}

// NewMaskedText evaluates a mask that is being written to JSON text; nil where
// there is no mask. The request pays for it: one that takes more than a mask may
// take, or more than is left, ends the budget.
func (b *Body) NewMaskedText(ctx context.Context, request *budget.Budget) ([]byte, error) {
	own := b.maskBudget(ctx)
	text, err := b.maskedText(own)
	paid := request.Pay(own)
	return text, cmp.Or(err, paid)
}

// maskedText evaluates the mask; nil where there is none.
func (b *Body) maskedText(own *budget.Budget) ([]byte, error) {
	tree, err := b.maskTree()
	if err != nil || tree == nil {
		return nil, err
	}
	return tree.JSON(expr.Data(b.Data, jsonx.Value{}, own))
}

// maskBudget returns what an evaluation of the mask may take. The type's own is
// not counted.
func (b *Body) maskBudget(ctx context.Context) *budget.Budget {
	if b.Mask.IsZero() {
		return nil
	}
	return budget.Mask(ctx, b.Data.Size())
}

// IndexesInForce returns the search indexes.
func (b *Body) IndexesInForce() []string {
	if b.Indexes == nil {
		return b.Type.indexes
	}
	return b.Indexes
}

// FingerprintInForce returns the fingerprint expression.
func (b *Body) FingerprintInForce() string {
	if b.Fingerprint == "" {
		return b.Type.fingerprint.source
	}
	return b.Fingerprint
}

// fingerprintTemplate returns the fingerprint expression in force, compiled.
func (b *Body) fingerprintTemplate() (*expr.Template, error) {
	if b.Fingerprint == "" {
		return b.Type.fingerprint.template, nil
	}
	return expr.Compile(b.Fingerprint)
}

// Budget returns what the expressions of a request may take that writes this
// token.
func (b *Body) Budget(ctx context.Context) *budget.Budget {
	return budget.Request(ctx, 1, b.Data.Size()+b.Mask.Size())
}

// errNoValue keeps tokens that lack a value from all having one fingerprint, or
// asking for one id.
var errNoValue = errors.New("must produce a value for this data")

// stringOf returns a string as it is, and anything else as compact JSON.
func stringOf(v jsonx.Value) string {
	if v.Kind() == jsonx.String {
		return v.Text()
	}
	return string(v.JSON())
}

// CardValue returns the data of a card. What is zero is left out.
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
