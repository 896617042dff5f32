package token

import (
	"slices"

	"github.com/seed-72ea4aab/vault/internal/expr"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

// Limits on the fields of a token.
const (
	MaxMetadata      = 50
	maxMetadataKey   = 100
	maxMetadataValue = 1000
	maxIndexes       = 10
)

// Check checks all fields of a body except the data, which SetData checks.
// Index checks what only an evaluation can show.
func (b *Body) Check(bad *form.Problems) {
	checkMetadata(b.Metadata, bad)
	if len(b.Indexes) > maxIndexes {
		bad.Add("search_indexes", "must have at most %d expressions", maxIndexes)
	}
	b.checkMask(bad)
	if _, err := b.fingerprintTemplate(); err != nil {
		bad.AddErr("fingerprint_expression", err)
	}
}

// CheckIndexes checks that the index expressions compile. It does not
// evaluate them.
func CheckIndexes(indexes []string, bad *form.Problems) {
	for i, e := range indexes {
		if _, err := expr.Compile(e); err != nil {
			bad.AddErr(jsonx.JoinIndex("search_indexes", i), err)
		}
	}
}

// checkMask rejects a mask that does not compile, or refers to more than
// data.
func (b *Body) checkMask(bad *form.Problems) {
	tree, err := b.maskTree()
	switch {
	case err != nil:
		bad.AddErr("mask", err)
	case b.Mask.IsZero(): // the type's default
	case slices.ContainsFunc(tree.Refs(), func(r expr.Ref) bool { return r.ID != "data" }):
		bad.Add("mask", "must refer only to data")
	}
}

func checkMetadata(metadata map[string]string, bad *form.Problems) {
	if len(metadata) > MaxMetadata {
		bad.Add("metadata", "must have at most %d pairs", MaxMetadata)
		return
	}
	for key, value := range metadata {
		if key == "" || form.Longer(key, maxMetadataKey) {
			bad.Add("metadata", "must have keys of 1 to %d characters", maxMetadataKey)
			continue
		}
		if form.Longer(value, maxMetadataValue) {
			bad.Add(jsonx.JoinName("metadata", key), "must have at most %d characters", maxMetadataValue)
		}
		if msg := form.TextProblem(key); msg != "" {
			bad.Add("metadata", "%s", msg)
		} else if msg := form.TextProblem(value); msg != "" {
			bad.Add(jsonx.JoinName("metadata", key), "%s", msg)
		}
	}
}
