package tokens

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/token"
	"github.com/seed-72ea4aab/vault/storage"
)

var sets = []storage.ContainerSet{
	{Set: storage.Hash{1}, Containers: []string{"/pci/high/"}},
	{Set: storage.Hash{2}, Containers: []string{"/pci/low/"}},
	{Set: storage.Hash{3}, Containers: []string{"/pci/high/", "/bank/"}},
}

// Values of a search are in the condition as hashes, never as text.
func TestSearch(t *testing.T) {
	t.Parallel()
	ring, err := seal.NewRing(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]storage.Cond{
		`data:"123-45-6789"`:        storage.HashIs(token.IndexHash(ring, "123-45-6789")),
		`metadata.user:Jane`:        storage.HashIs(token.MetadataHash(ring, "user", "jane")),
		`container:"/pci/*"`:        storage.SetIn{{1}, {2}, {3}},
		`container:"/bank/"`:        storage.SetIn{{3}},
		`type:card OR id:a`:         storage.Or{storage.TypeIn{"card"}, storage.IDIn{"a"}},
		`NOT type:card`:             storage.Not{Cond: storage.TypeIn{"card"}},
		`fingerprint:notafinger0OI`: storage.Or{},
	} {
		got, err := token.ParseQuery(text, &searchTerms{Ring: ring, Sets: func() []storage.ContainerSet { return sets }})
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		must.Same(t, text, want, got)
	}
}

func TestListFiltersAreANDed(t *testing.T) {
	t.Parallel()
	ring, err := seal.NewRing(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if got := listed(ring, nil, nil, nil); got != nil {
		t.Errorf("no filters: %v", got)
	}
	want := storage.And{storage.IDIn{"a"}, storage.TypeIn{"card"}, storage.HashIs(token.MetadataHash(ring, "k", "V"))}
	if diff := cmp.Diff(want, listed(ring, []string{"a"}, []string{"card"}, map[string]string{"k": "v"})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
