package access

import (
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// TestFilter checks the form of filters. TestFiltersAgreeWithDecide checks
// that they are correct.
func TestFilter(t *testing.T) {
	t.Parallel()
	sets := [][]string{{"/a/"}, {"/b/"}, {"/a/", "/b/"}, {"/b/", "/a/"}, {"/a/x/"}, {"/c/"}, {}}
	idStarts := func(v string) Condition { return Condition{ID, StartsWith, v} }
	idIs := func(v string) Condition { return Condition{ID, Equals, v} }
	within := func(v string) Condition { return Condition{Container, StartsWith, v} }
	for _, test := range []struct {
		name  string
		rules []Rule
		plain []string
		want  Filter
	}{
		{"nothing", nil, nil, Filter{}},
		{"another permission", nil, []string{TokenUse}, Filter{}},
		{"a plain permission", nil, []string{TokenRead}, Filter{All: true}},
		{"the root", []Rule{on(1, "/a/", Redact, TokenRead), on(2, "/", Mask, TokenRead)}, nil, Filter{All: true}},
		{"no such set", []Rule{on(1, "/d/", Mask, TokenRead)}, nil, Filter{}},
		{
			"containers", []Rule{on(1, "/a/", Mask, TokenRead)}, nil,
			Filter{Clauses: []Clause{{Sets: []int{0, 4}}}},
		},
		{
			"sets of several containers", []Rule{on(1, "/a/", Mask, TokenRead), on(2, "/b/", Reveal, TokenRead)}, nil,
			Filter{Clauses: []Clause{{Sets: []int{0, 1, 2, 3, 4}}}},
		},
		{
			"ids everywhere are one clause", []Rule{when(1, Mask, idIs("y")), when(2, Mask, idIs("x")), when(3, Mask, idStarts("p"))}, nil,
			Filter{Clauses: []Clause{
				{Sets: []int{0, 1, 2, 3, 4, 5}, IDs: []IDs{{Equal: []string{"x", "y"}, Prefixes: []string{"p"}}}},
			}},
		},
		{
			"wider ids replace narrower ones",
			[]Rule{when(1, Mask, idIs("pqr")), when(2, Mask, idStarts("pq")), when(3, Mask, idStarts("p")), when(4, Mask, idIs("px"))}, nil,
			Filter{Clauses: []Clause{{Sets: []int{0, 1, 2, 3, 4, 5}, IDs: []IDs{{Prefixes: []string{"p"}}}}}},
		},
		{
			"a whole container needs no ids", []Rule{when(1, Mask, idStarts("p"), within("/a/")), on(2, "/a/", Mask, TokenRead)}, nil,
			Filter{Clauses: []Clause{{Sets: []int{0, 4}}}},
		},
		{
			"a condition for each container",
			[]Rule{when(1, Mask, idStarts("p"), within("/a/")), when(2, Mask, idIs("pq"), within("/b/"))}, nil,
			Filter{Clauses: []Clause{
				{Sets: []int{0, 4}, IDs: []IDs{{Prefixes: []string{"p"}}}},
				{Sets: []int{1}, IDs: []IDs{{Equal: []string{"pq"}}}},
				{Sets: []int{2, 3}, IDs: []IDs{{Prefixes: []string{"p"}}, {Equal: []string{"pq"}}}},
			}},
		},
		{"contradictions", []Rule{when(1, Mask, idIs("x"), idIs("y")), when(2, Mask, within("/a/"), within("/b/"))}, nil, Filter{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := mustNew(t, test.rules, test.plain...).filter(TokenRead, Redact, sets)
			must.Same(t, "filter", test.want, got)
		})
	}
}
