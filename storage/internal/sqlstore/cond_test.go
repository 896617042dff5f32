package sqlstore

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/seed-72ea4aab/vault/storage"
)

func FuzzAfterPrefix(f *testing.F) {
	for _, seed := range [][2]string{
		{"a", "ab"}, {"a", "b"}, {"\uD7FF", "\uD7FFx"}, {"\uD7FF", "\uE000"}, {"\U0010FFFF", "\U0010FFFFa"},
		{"a\U0010FFFF", "b"}, {"größe", "größer"}, {"é", "è"}, {"\x7f", "\u0080"}, {"\uFFFD", "\uFFFE"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, prefix, text string) {
		if prefix == "" || !utf8.ValidString(prefix) || !utf8.ValidString(text) {
			return
		}
		end, ok := afterPrefix(prefix)
		if ok && !utf8.ValidString(end) {
			t.Fatalf("the end of the range of %q is %q, which is not UTF-8", prefix, end)
		}
		inRange := text >= prefix && (!ok || text < end)
		if want := strings.HasPrefix(text, prefix); inRange != want {
			t.Errorf("%q in the range of %q: got %v, want %v", text, prefix, inRange, want)
		}
	})
}

func TestInvalidConditionsAreRejected(t *testing.T) {
	t.Parallel()
	deep := storage.Cond(storage.TypeIn{"card"})
	for range maxTerms {
		deep = storage.Not{Cond: deep}
	}
	for name, cond := range map[string]storage.Cond{
		"a time compared as an actor": storage.ByIs{Field: storage.CreatedAt},
		"an actor compared as a time": storage.TimeIn{Field: storage.ModifiedBy},
		"no field":                    storage.TimeIn{From: time.Unix(1, 0)},
		"too many terms":              make(storage.And, maxTerms),
		"too deep":                    deep,
	} {
		if _, err := compile(&Dialect{}, storage.ID{}, "t", cond); err == nil {
			t.Errorf("%s was not rejected", name)
		}
	}
}

// sample has the fields that the conditions of TestDisjoint use.
type sample struct {
	set  storage.Hash
	kind string
	id   string
}

func (s sample) holds(cond storage.Cond) bool {
	switch cond := cond.(type) {
	case storage.And:
		for _, part := range cond {
			if !s.holds(part) {
				return false
			}
		}
		return true
	case storage.Or:
		for _, part := range cond {
			if s.holds(part) {
				return true
			}
		}
		return false
	case storage.Not:
		return !s.holds(cond.Cond)
	case storage.SetIn:
		return len(cond) > 0 && cond[0] == s.set
	case storage.TypeIn:
		return len(cond) > 0 && cond[0] == s.kind
	case storage.IDPrefix:
		return strings.HasPrefix(s.id, string(cond))
	default:
		return cond == nil
	}
}

func randomCond(r *rand.Rand, depth int) storage.Cond {
	kind := r.IntN(6)
	if depth == 0 {
		kind = r.IntN(3)
	}
	parts := func() []storage.Cond {
		all := make([]storage.Cond, r.IntN(4))
		for i := range all {
			all[i] = randomCond(r, depth-1)
		}
		return all
	}
	switch kind {
	case 0:
		return storage.SetIn{{byte(r.IntN(2))}}
	case 1:
		return storage.TypeIn{string(rune('a' + r.IntN(2)))}
	case 2:
		return storage.IDPrefix(rune('x' + r.IntN(2)))
	case 3:
		return storage.Not{Cond: randomCond(r, depth-1)}
	case 4:
		return storage.And(parts())
	default:
		return storage.Or(parts())
	}
}

func TestDisjoint(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	split := 0
	for range 20_000 {
		cond := randomCond(r, 4)
		parts := disjoint(cond)
		if len(parts) > 1 {
			split++
		}
		for bits := range 8 {
			s := sample{storage.Hash{byte(bits & 1)}, string(rune('a' + bits>>1&1)), string(rune('x' + bits>>2&1))}
			n := 0
			for _, part := range parts {
				if s.holds(part) {
					n++
				}
			}
			if want := s.holds(cond); n > 1 || (n == 1) != want {
				t.Fatalf("%#v is in %d parts of %#v, and in the whole: %v", s, n, cond, want)
			}
		}
	}
	if split < 100 {
		t.Errorf("only %d conditions were split", split)
	}
}
