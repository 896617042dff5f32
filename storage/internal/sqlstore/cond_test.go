package sqlstore

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/seed-72ea4aab/vault/internal/test/must"
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
	const terms = "storage: a condition has more than 500 terms"
	for name, c := range map[string]struct {
		cond storage.Cond
		want string
	}{
		"a time compared as an actor": {storage.ByIs{Field: storage.CreatedAt}, "storage: ByIs compares CreatedBy or ModifiedBy"},
		"an actor compared as a time": {storage.TimeIn{Field: storage.ModifiedBy}, "storage: TimeIn compares CreatedAt or ModifiedAt"},
		"no field":                    {storage.TimeIn{From: time.Unix(1, 0)}, "storage: TimeIn compares CreatedAt or ModifiedAt"},
		"too many terms":              {make(storage.And, maxTerms), terms},
		"too deep":                    {deep, terms},
	} {
		must.Fail(compile(&Dialect{}, storage.ID{}, "t", c.cond))(t, name+" was not rejected", must.Text(c.want))
	}
}
