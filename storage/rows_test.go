package storage_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
)

// A merged change has the writes of both changes. The test walks the struct
// fields, so that a new field cannot be forgotten.
func TestMergeCoversEveryField(t *testing.T) {
	t.Parallel()
	early, late := time.Unix(1, 0), time.Unix(2, 0)
	rules := map[string]func(merged, other storage.Change) bool{
		"Tenant":  func(merged, _ storage.Change) bool { return merged.Tenant == storage.ID{1} },
		"Now":     func(merged, _ storage.Change) bool { return merged.Now.Equal(early) },
		"Before":  func(merged, _ storage.Change) bool { return merged.Before.Equal(early) },
		"Unsure":  func(merged, _ storage.Change) bool { return merged.Unsure },
		"Hold":    func(merged, other storage.Change) bool { return merged.Hold == other.Hold },
		"Claim":   func(merged, other storage.Change) bool { return merged.Claim == other.Claim },
		"Relaxed": func(merged, _ storage.Change) bool { return !merged.Relaxed },
	}
	merged := storage.Change{Tenant: storage.ID{1}, Now: early, Before: early}
	other := storage.Change{Tenant: storage.ID{2}, Now: late, Before: late, Unsure: true, Relaxed: true,
		Hold: &storage.Hold{}, Claim: &storage.ClaimChange{}}
	for _, ch := range []*storage.Change{&merged, &other} {
		for _, field := range reflect.ValueOf(ch).Elem().Fields() {
			if field.Kind() == reflect.Slice {
				field.Set(reflect.MakeSlice(field.Type(), 1, 1))
			}
		}
	}
	merged.Merge(&other)
	for field, value := range reflect.ValueOf(merged).Fields() {
		rule, known := rules[field.Name]
		switch {
		case field.Type.Kind() == reflect.Slice:
			must.Same(t, field.Name, 2, value.Len())
		case !known:
			t.Errorf("the test has no rule for the field %s", field.Name)
		case !rule(merged, other):
			t.Errorf("%s is %v", field.Name, value)
		}
	}
}

// If only one of two changes has a Before, the merged change takes it.
func TestMergeKeepsTheEarlierBefore(t *testing.T) {
	t.Parallel()
	early, late := time.Unix(1, 0), time.Unix(2, 0)
	for _, c := range []struct{ one, other, want time.Time }{
		{time.Time{}, late, late}, {late, time.Time{}, late}, {late, early, early}, {early, late, early},
	} {
		ch := storage.Change{Before: c.one}
		ch.Merge(&storage.Change{Before: c.other})
		if !ch.Before.Equal(c.want) {
			t.Errorf("%v and %v: %v, want %v", c.one, c.other, ch.Before, c.want)
		}
	}
}
