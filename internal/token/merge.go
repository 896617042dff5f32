package token

import (
	"maps"

	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

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
