package sqlstore

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/mr-tron/base58"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/token"
	"github.com/seed-72ea4aab/vault/storage"
)

// searchUpTo is where the total of a search in TestSearchesTouch ends: in the third
// of the ranges in which a list is read.
const searchUpTo = 6 * firstRange

// searchCase is a search, with the tokens that match it.
type searchCase struct {
	query string
	is    func(i int) bool
	// rows and notRows are how many rows the search and its negation may touch.
	rows, notRows int
}

// searchCases has at least one search for each field of the language.
func searchCases(n int) map[string][]searchCase {
	const counted = searchUpTo
	every := func(m int) func(int) bool { return func(i int) bool { return i%m == 0 } }
	none := func(int) bool { return false }
	all := func(int) bool { return true }
	nobody := "00000000-0000-4000-8000-000000000001"
	fifth := base58.Encode(append(bytes.Repeat([]byte{0}, 31), 5))
	return map[string][]searchCase{
		"id":          {{`id:"token 5"`, func(i int) bool { return i == 5 }, 1, counted}},
		"type":        {{`type:card`, every(4), shown, shown}},
		"fingerprint": {{`fingerprint:` + fifth, func(i int) bool { return i == 5 }, 1, counted}, {`fingerprint:none`, none, 0, shown}},
		"data":        {{`data:tenth`, every(10), n / 10, counted}, {`data:thousandth`, every(1000), n / 1000, counted}},
		"metadata.": {
			{`metadata.share:tenth`, every(10), n / 10, counted},
			{`metadata.share:most`, func(i int) bool { return i%10 != 0 }, counted, 2 * n},
		},
		"container": {{`container:/0/`, every(10), shown, shown}, {`container:/*`, all, shown, 0}},
		// No index has the actors, so a search for an actor without tokens reads all.
		"created_by":  {{`created_by:` + nobody, none, 2 * n, counted}},
		"modified_by": {{`modified_by:` + nobody, none, 2 * n, counted}},
		"created_at": {
			{`created_at:[2020-01-01 TO *]`, all, counted, 0},
			{`created_at:[* TO 2020-01-01]`, none, 0, counted},
			{`created_at:[2026-03-01 TO 2026-03-02]`, all, counted, 2 * n},
			{`created_at:2026-03-01T00:00:01`, func(i int) bool { return i/1000 == 1 }, 2000, counted},
			{`created_at:{2026-03-01T00:00:01.0005 TO *}`, func(i int) bool { return i > 1000 }, counted, 2000},
		},
		"modified_at": {{`modified_at:[2026-12-31 TO *]`, every(1000), n / 1000, counted}},
	}
}

// hashTerms implements token.QueryTerms with the hashes and sets of the loaded tokens.
type hashTerms struct{}

func (hashTerms) Data(value string) storage.Cond {
	return storage.HashIs(map[string]storage.Hash{"tenth": tenth, "thousandth": thousandth, "most": most}[value])
}

func (h hashTerms) Metadata(_, value string) storage.Cond { return h.Data(value) }

func (hashTerms) Container(path string, prefix bool) storage.Cond {
	in := storage.SetIn{}
	for i := range 10 {
		if prefix || path == fmt.Sprintf("/%d/", i) {
			in = append(in, setOf(i))
		}
	}
	return in
}

// holdSearches compares the cost of a search by each field of the language, and of its
// negation, with a budget. A field without a search fails.
func (s *shelf) holdSearches(t *testing.T, n int) {
	cases := searchCases(n)
	for _, field := range token.QueryFields() {
		if len(cases[field]) == 0 {
			t.Errorf("no search by %s is measured", field)
		}
		for _, c := range cases[field] {
			s.holdSearch(t, n, c.query, c.rows, c.is)
			s.holdSearch(t, n, "NOT "+c.query, c.notRows, func(i int) bool { return !c.is(i) })
		}
	}
}

func (s *shelf) holdSearch(t *testing.T, n int, text string, rows int, is func(int) bool) {
	where := must.Get(token.ParseQuery(text, hashTerms{}))(t)
	total := 0
	for i := range n {
		if i%5000 != 77 && is(i) {
			total++
		}
	}
	f := storage.TokenFilter{Where: storage.And{where}, CountUpTo: searchUpTo}
	t.Run(text, func(t *testing.T) { s.hold(t, tokenCase{text, f, total, rows}) })
}
