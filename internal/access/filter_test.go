package access

import (
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
)

// setsOf returns sets of containers, which their position identifies.
func setsOf(containers ...[]string) (sets []storage.ContainerSet) {
	for i, c := range containers {
		sets = append(sets, storage.ContainerSet{Set: storage.Hash{byte(i)}, Containers: c})
	}
	return sets
}

// TestFilter checks the form of filters. TestConditionsAgreeWithDecide checks
// that they are correct.
func TestFilter(t *testing.T) {
	t.Parallel()
	sets := setsOf([]string{"/a/"}, []string{"/b/"}, []string{"/a/", "/b/"}, []string{"/b/", "/a/"}, []string{"/a/x/"}, []string{"/c/"}, nil)
	idStarts := func(v string) Condition { return Condition{ID, StartsWith, v} }
	idIs := func(v string) Condition { return Condition{ID, Equals, v} }
	within := func(v string) Condition { return Condition{Container, StartsWith, v} }
	for _, test := range []struct {
		name  string
		rules []Rule
		plain []string
		want  storage.Or // nil for every token
	}{
		{"nothing", nil, nil, storage.Or{}},
		{"another permission", nil, []string{TokenUse}, storage.Or{}},
		{"a plain permission", nil, []string{TokenRead}, nil},
		{"the root", []Rule{on(1, "/a/", Redact, TokenRead), on(2, "/", Mask, TokenRead)}, nil, nil},
		{"no such set", []Rule{on(1, "/d/", Mask, TokenRead)}, nil, storage.Or{}},
		{
			"containers", []Rule{on(1, "/a/", Mask, TokenRead)}, nil,
			storage.Or{storage.SetIn{{0}, {4}}},
		},
		{
			"sets of several containers", []Rule{on(1, "/a/", Mask, TokenRead), on(2, "/b/", Reveal, TokenRead)}, nil,
			storage.Or{storage.SetIn{{0}, {1}, {2}, {3}, {4}}},
		},
		{
			"ids everywhere are one clause", []Rule{when(1, Mask, idIs("y")), when(2, Mask, idIs("x")), when(3, Mask, idStarts("p"))}, nil,
			storage.Or{storage.And{storage.SetIn{{0}, {1}, {2}, {3}, {4}, {5}}, storage.Or{storage.IDIn{"x", "y"}, storage.IDPrefix("p")}}},
		},
		{
			"wider ids replace narrower ones",
			[]Rule{when(1, Mask, idIs("pqr")), when(2, Mask, idStarts("pq")), when(3, Mask, idStarts("p")), when(4, Mask, idIs("px"))}, nil,
			storage.Or{storage.And{storage.SetIn{{0}, {1}, {2}, {3}, {4}, {5}}, storage.Or{storage.IDPrefix("p")}}},
		},
		{
			"a whole container needs no ids", []Rule{when(1, Mask, idStarts("p"), within("/a/")), on(2, "/a/", Mask, TokenRead)}, nil,
			storage.Or{storage.SetIn{{0}, {4}}},
		},
		{
			"a condition for each container",
			[]Rule{when(1, Mask, idStarts("p"), within("/a/")), when(2, Mask, idIs("pq"), within("/b/"))}, nil,
			storage.Or{
				storage.And{storage.SetIn{{0}, {4}}, storage.Or{storage.IDPrefix("p")}},
				storage.And{storage.SetIn{{1}}, storage.Or{storage.IDIn{"pq"}}},
				storage.And{storage.SetIn{{2}, {3}}, storage.Or{storage.IDPrefix("p")}, storage.Or{storage.IDIn{"pq"}}},
			},
		},
		{"contradictions", []Rule{when(1, Mask, idIs("x"), idIs("y")), when(2, Mask, within("/a/"), within("/b/"))}, nil, storage.Or{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := mustNew(t, test.rules, test.plain...).filter(TokenRead, Redact, sets)
			must.Same(t, "filter", test.want, got)
		})
	}
}
