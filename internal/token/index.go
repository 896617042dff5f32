package token

import (
	"slices"

	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/expr"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/seal"
)

// Labels of keyed hashes. They separate the kinds of hashes, so that no hash
// of one kind can be used as another.
const (
	labelFingerprint = "fingerprint"
	labelExpression  = "expression"
	labelDuplicate   = "duplicate"
	labelMetadata    = "metadata"
	labelIndex       = "index"
	labelContainers  = "containers"
)

// FingerprintHash evaluates the fingerprint expression and returns the
// fingerprint. It is equal for tokens of the same tenant, type and content.
func (b *Body) FingerprintHash(ring *seal.Ring, steps *admission.Budget, bad *form.Problems) (fingerprint [32]byte) {
	if steps.Err() != nil {
		return fingerprint // the budget is used up
	}
	value, err := b.fingerprintValue(steps)
	if err != nil {
		bad.AddErr("fingerprint_expression", err)
		return fingerprint
	}
	return ring.MAC(labelFingerprint, b.Type.Name, value)
}

// ExpressionHash returns a hash of the effective fingerprint expression.
func (b *Body) ExpressionHash(ring *seal.Ring) [16]byte {
	return ring.HashName(labelExpression, b.FingerprintInForce())
}

// DuplicateHash returns a hash that is equal for tokens with the same
// fingerprint and the same expression, because a constant expression must not
// capture other values.
func (b *Body) DuplicateHash(ring *seal.Ring, fingerprint [32]byte) [16]byte {
	return ring.Hash(labelDuplicate, string(fingerprint[:]), b.FingerprintInForce())
}

// fingerprintValue evaluates the fingerprint expression to the text of the
// fingerprint.
func (b *Body) fingerprintValue(steps *admission.Budget) (string, error) {
	if b.Fingerprint == "" {
		steps = nil // the type's default is not counted
	}
	t, err := b.fingerprintTemplate()
	if err != nil {
		return "", err
	}
	var metadata jsonx.Value
	if t.RefersTo("metadata") {
		metadata = form.TextMapValue(b.Metadata)
	}
	v, err := t.Eval(expr.Data(b.Data, metadata, steps))
	if err != nil {
		return "", err
	}
	if v.IsNull() {
		return "", errNoValue
	}
	return stringOf(v), nil
}

// Hashes returns the hashes by which a token can be found, with the keys of
// its tenant: hashes of its metadata and of the values of its search indexes.
func Hashes[H ~[16]byte](b *Body, ring *seal.Ring, steps *admission.Budget, bad *form.Problems) []H {
	values := b.indexValues(steps, bad)
	out := make([]H, 0, len(b.Metadata)+len(values))
	add := func(h H) {
		if !slices.Contains(out, h) {
			out = append(out, h)
		}
	}
	for k, v := range b.Metadata {
		add(H(MetadataHash(ring, k, v)))
	}
	for _, v := range values {
		add(H(IndexHash(ring, v)))
	}
	return out
}

// MetadataHash returns the hash of a pair of metadata.
func MetadataHash(ring *seal.Ring, key, value string) [16]byte {
	return ring.Hash(labelMetadata, key, FoldMetadata(value))
}

// IndexHash returns the hash of a value of a search index.
func IndexHash(ring *seal.Ring, value string) [16]byte { return ring.Hash(labelIndex, value) }

// SetHash returns the hash of a set of containers.
func SetHash(ring *seal.Ring, containers []string) [16]byte {
	if len(containers) == 1 {
		return ring.HashName(labelContainers, containers[0])
	}
	return ring.Hash(labelContainers, slices.Sorted(slices.Values(containers))...)
}

// indexValues evaluates the search indexes. Each must have a value. It stops
// when the budget is used up.
func (b *Body) indexValues(steps *admission.Budget, bad *form.Problems) []string {
	indexes := b.IndexesInForce()
	if b.Indexes == nil {
		steps = nil // the type's defaults are not counted
	}
	if len(indexes) == 0 {
		return nil
	}
	values := make([]string, 0, len(indexes))
	for i, src := range indexes {
		if steps.Err() != nil {
			break
		}
		path := jsonx.JoinIndex("search_indexes", i)
		t, err := expr.Compile(src)
		if err != nil {
			bad.AddErr(path, err)
			continue
		}
		v, err := t.Eval(expr.Data(b.Data, jsonx.Value{}, steps))
		switch {
		case err != nil:
			bad.AddErr(path, err)
		case v.Kind() == jsonx.Array || v.Kind() == jsonx.Object || v.IsNull() || v.IsZero() || stringOf(v) == "":
			bad.Add(path, "must produce a single value that is not empty")
		default:
			values = append(values, stringOf(v))
		}
	}
	return values
}
