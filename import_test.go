package vault_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/given"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// imported returns the results of an import that must not fail.
func imported(t testing.TB, c *vault.Client, rows iter.Seq2[vault.TokenParams, error], opts *vault.ImportOptions) []vault.ImportResult {
	t.Helper()
	var all []vault.ImportResult
	for result, err := range c.Import(t.Context(), rows, opts) {
		if err != nil {
			t.Fatalf("after %d rows: %v", len(all), err)
		}
		all = append(all, result)
	}
	return all
}

// outcomes returns the outcomes of rows as text.
func outcomes(results []vault.ImportResult) []string {
	out := make([]string, len(results))
	for i, r := range results {
		out[i] = fmt.Sprintf("%d %s %s", r.Row, r.Outcome, r.ID)
		if r.Outcome == vault.ImportFailed {
			out[i] = fmt.Sprintf("%d %s %v %s", r.Row, r.Outcome, r.Errors, r.Detail)
		}
	}
	return out
}

func wantOutcomes(t testing.TB, results []vault.ImportResult, want ...string) {
	t.Helper()
	given.Same(t, "results", outcomes(results), want)
}

func TestImport(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	given.Create(t, v.Owner.Client, given.Text("there", "as it was"))
	results := imported(t, v.Owner.Client, given.Rows(
		vault.TokenParams{ID: "card", Type: vault.TypeCard, Data: vault.CardData{Number: given.Visa, ExpirationMonth: 3, ExpirationYear: 2031, CVC: "123"}},
		vault.TokenParams{ID: "bad", Type: vault.TypeCard, Data: vault.CardData{Number: "4242424242424241"}},
		given.Text("there", "another"),
		given.Text("once", "one"),
		given.Text("once", "two"),
		vault.TokenParams{ID: "text", Type: vault.TypeGeneric, Data: vault.JSON(`{"a": 1.10}`), Metadata: map[string]string{"k": "v"}, Containers: []string{"/a/"}},
		vault.TokenParams{ID: "none", Type: "unknown", Data: "x"},
		vault.TokenParams{ID: "no data", Type: vault.TypeGeneric},
	), nil)
	wantOutcomes(t, results,
		"1 created card",
		"2 failed map[data.number:[must have a valid check digit (Luhn)]] ",
		"3 failed map[id:[is the id of another token]] ",
		"4 created once",
		"5 failed map[id:[is the id of another token]] ",
		"6 created text",
		"7 failed map[type:[must be one of bank, card, card_number, employer_id_number, social_security_number, token, us_bank_account_number, us_bank_routing_number]] ",
		"8 failed map[data:[is required]] ",
	)
	must.Match(t, "row 2", results[1].Err, vault.ErrInvalid)
	must.Match(t, "row 3", results[2].Err, vault.ErrConflict)
	c := given.Revealing(t, v)
	given.WantData(t, "the card", given.Get(t, c, "card").Data, `{"number":"4242424242424242","expiration_month":3,"expiration_year":2031,"cvc":"123"}`)
	given.WantData(t, "the text", given.Get(t, c, "text").Data, `{"a":1.10}`)
	given.WantData(t, "the first of two", given.Get(t, c, "once").Data, `"one"`)
	given.WantData(t, "what was there", given.Get(t, c, "there").Data, `"as it was"`)
	given.Same(t, "log", given.Operations(t, v, "card"), []string{"create", "read"})
}

func TestImportOnDuplicate(t *testing.T) {
	t.Parallel()
	rows := given.Rows(given.Text("there", "new"), given.Text("other", "first"), given.Text("other", "second"),
		vault.TokenParams{ID: "there", Type: vault.TypeCardNumber, Data: given.Visa})
	for _, test := range []struct {
		how   vault.OnDuplicate
		want  []string
		there string
		other string
	}{
		{vault.DuplicateSkips, []string{"1 skipped there", "2 created other", "3 skipped other", "4 skipped there"}, `"old"`, `"first"`},
		{vault.DuplicateUpdates, []string{"1 updated there", "2 created other", "3 updated other",
			"4 failed map[type:[is not that of the token with this id, and cannot change]] "}, `"new"`, `"second"`},
		{vault.DuplicateFails, []string{"1 failed map[id:[is the id of another token]] ", "2 created other",
			"3 failed map[id:[is the id of another token]] ", "4 failed map[id:[is the id of another token]] "}, `"old"`, `"first"`},
	} {
		t.Run(string(test.how), func(t *testing.T) {
			t.Parallel()
			v := vaulttest.New(t)
			given.Create(t, v.Owner.Client, vault.TokenParams{ID: "there", Type: vault.TypeGeneric, Data: "old", Metadata: map[string]string{"kept": "yes"}})
			wantOutcomes(t, imported(t, v.Owner.Client, rows, &vault.ImportOptions{OnDuplicate: test.how}), test.want...)
			c := given.Revealing(t, v)
			there := given.Get(t, c, "there")
			given.WantData(t, "the token that was there", there.Data, test.there)
			given.Same(t, "metadata that the row lacks", there.Metadata["kept"], "yes")
			given.WantData(t, "the other", given.Get(t, c, "other").Data, test.other)
		})
	}
}

// TestImportReplacesExpiredTokens imports rows with ids of expired tokens, and rows whose
// content duplicates an expired token.
func TestImportReplacesExpiredTokens(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	yes := true
	soon := v.Clock.Now().Add(time.Minute)
	given.Create(t, v.Owner.Client, vault.TokenParams{ID: "old", Type: vault.TypeGeneric, Data: "x", ExpiresAt: soon})
	given.Create(t, v.Owner.Client, vault.TokenParams{ID: "dup", Type: vault.TypeGeneric, Data: "same", DeduplicateToken: &yes, ExpiresAt: soon})
	v.Clock.Advance(time.Hour)
	wantOutcomes(t, imported(t, v.Owner.Client, given.Rows(given.Text("old", "new"),
		vault.TokenParams{ID: "dup2", Type: vault.TypeGeneric, Data: "same", DeduplicateToken: &yes},
		vault.TokenParams{ID: "dup3", Type: vault.TypeGeneric, Data: "same", DeduplicateToken: &yes},
	), nil), "1 created old", "2 created dup2", "3 skipped dup2")
	wantOutcomes(t, imported(t, v.Owner.Client, given.Rows(
		vault.TokenParams{ID: "dup4", Type: vault.TypeGeneric, Data: "same", DeduplicateToken: &yes}),
		nil), "1 skipped dup2")
}

// TestImportResumes repeats an interrupted import.
func TestImportResumes(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	rows := func(n int) iter.Seq2[vault.TokenParams, error] {
		return func(yield func(vault.TokenParams, error) bool) {
			for i := range n {
				p := vault.TokenParams{Type: vault.TypeGeneric, Data: fmt.Sprintf("value %d", i)}
				if i%3 == 0 {
					p.ID = fmt.Sprintf("row-%d", i)
				}
				if !yield(p, nil) {
					return
				}
			}
		}
	}
	opts := &vault.ImportOptions{Name: "cards.csv", Resumed: true}
	imported(t, v.Owner.Client, rows(20), opts)
	results := imported(t, v.Owner.Client, rows(50), opts)
	for i, r := range results {
		if want := map[bool]vault.ImportOutcome{true: vault.ImportSkipped, false: vault.ImportCreated}[i < 20]; r.Outcome != want || r.ID == "" {
			t.Errorf("row %d: %s %s, want %s", r.Row, r.Outcome, r.ID, want)
		}
	}
	if _, n := given.List(t, v.Owner.Client, vault.ListTokensParams{}); n != 50 {
		t.Errorf("got %d tokens, want 50", n)
	}
	// An import that resumes in the middle continues with the number of its row.
	later := func(yield func(vault.TokenParams, error) bool) {
		i := 0
		for p, err := range rows(60) {
			if i++; i > 40 && !yield(p, err) {
				return
			}
		}
	}
	opts.FirstRow = 41
	results = imported(t, v.Owner.Client, later, opts)
	if _, n := given.List(t, v.Owner.Client, vault.ListTokensParams{}); n != 60 || results[0].Row != 41 {
		t.Errorf("got %d tokens and first row %d, want 60 and 41", n, results[0].Row)
	}
	// Under another name the rows are different rows, and an id with other content
	// is taken.
	opts = &vault.ImportOptions{Name: "other.csv", Resumed: true}
	wantOutcomes(t, imported(t, v.Owner.Client, given.Rows(given.Text("row-0", "something else")), opts), "1 failed map[id:[is the id of another token]] ")
	imported(t, v.Owner.Client, given.Rows(vault.TokenParams{Type: vault.TypeGeneric, Data: "value 1"}), opts)
	if _, n := given.List(t, v.Owner.Client, vault.ListTokensParams{}); n != 61 {
		t.Errorf("got %d tokens, want 61", n)
	}
}

// TestImportReadsExistingRowsAtOnce imports three batches of rows again. It reads
// each batch once, and tries to write the first one only.
func TestImportReadsExistingRowsAtOnce(t *testing.T) {
	t.Parallel()
	var rows []vault.TokenParams
	for i := range 2100 {
		rows = append(rows, vault.TokenParams{ID: fmt.Sprintf("row-%d", i), Type: vault.TypeGeneric, Data: fmt.Sprintf("value %d", i)})
	}
	for name, test := range map[string]struct {
		opts  *vault.ImportOptions
		want  vault.ImportOutcome
		calls map[string]int
	}{
		"fail":    {nil, vault.ImportFailed, map[string]int{"Tokens": 3, "insert": 1, "log": 3}},
		"skip":    {&vault.ImportOptions{OnDuplicate: vault.DuplicateSkips}, vault.ImportSkipped, map[string]int{"Tokens": 3, "insert": 1, "log": 3}},
		"resumed": {&vault.ImportOptions{Resumed: true}, vault.ImportSkipped, map[string]int{"Tokens": 3, "insert": 1, "log": 6}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, store := given.Spied(t)
			imported(t, v.Owner.Client, given.Rows(rows...), nil)
			var mu sync.Mutex
			calls := map[string]int{}
			store.Before = func(call string, ch *storage.Change) error {
				mu.Lock()
				defer mu.Unlock()
				switch {
				case call == "Tokens":
					calls[call]++
				case ch != nil && len(ch.InsertTokens) > 0:
					calls["insert"]++
				case ch != nil:
					calls["log"]++
				}
				return nil
			}
			for _, r := range imported(t, v.Owner.Client, given.Rows(rows...), test.opts) {
				given.Same(t, fmt.Sprint("row ", r.Row), r.Outcome, test.want)
			}
			mu.Lock()
			defer mu.Unlock()
			given.Same(t, "calls of the storage", calls, test.calls)
		})
	}
}

// TestImportBadRowAnywhere puts a bad row at each position around the ends of a
// batch and checks that all other rows are imported.
func TestImportBadRowAnywhere(t *testing.T) {
	t.Parallel()
	const n = 2003
	v := vaulttest.New(t)
	bad := map[int]bool{1: true, 2: true, 63: true, 64: true, 65: true, 999: true, 1000: true, 1001: true, 1999: true, 2000: true, 2001: true, 2003: true}
	failing := errors.Join(vault.ErrInvalid)
	rows := func(yield func(vault.TokenParams, error) bool) {
		for i := 1; i <= n; i++ {
			p, err := vault.TokenParams{ID: fmt.Sprintf("row-%d", i), Type: vault.TypeCardNumber, Data: given.Visa}, error(nil)
			switch {
			case bad[i] && i%2 == 0:
				p, err = vault.TokenParams{}, failing
			case bad[i]:
				p.Data = "4111111111111112"
			}
			if !yield(p, err) {
				return
			}
		}
	}
	got := 0
	for _, r := range imported(t, v.Owner.Client, rows, nil) {
		got++
		given.Same(t, "row, and its failure", []any{r.Row, r.Outcome == vault.ImportFailed}, []any{got, bad[r.Row]})
		given.WantSilent(t, errors.Join(r.Err, errors.New("")), "4111111111111112")
	}
	if _, total := given.List(t, v.Owner.Client, vault.ListTokensParams{}); got != n || total != n-len(bad) {
		t.Errorf("got %d results and %d tokens, want %d and %d", got, total, n, n-len(bad))
	}
}

// TestImportEnds ends imports for reasons other than a bad row.
func TestImportEnds(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	broken := errors.New("the file is broken")
	rows := func(yield func(vault.TokenParams, error) bool) {
		_ = yield(given.Text("before", "x"), nil) && yield(vault.TokenParams{}, broken) && yield(given.Text("after", "x"), nil)
	}
	var got []string
	for r, err := range v.Owner.Import(t.Context(), rows, nil) {
		got = append(got, fmt.Sprint(r.Outcome, err))
	}
	given.Same(t, "got", got, []string{"created<nil>", "the file is broken"})
	for _, err := range v.Owner.Import(t.Context(), rows, &vault.ImportOptions{OnDuplicate: "x", FirstRow: -1, Name: "\x00"}) {
		given.WantFields(t, "options", err, "on_duplicate", "first_row", "name")
	}
	for _, err := range given.Holding(t, v, "token:read").Import(t.Context(), given.Rows(), nil) {
		must.Match(t, "without the permission", err, vault.ErrForbidden)
	}
	ctx, cancel := context.WithCancel(t.Context())
	for r, err := range v.Owner.Import(ctx, endless("c"), nil) {
		if err != nil {
			must.Match(t, "canceled", err, context.Canceled)
			break
		}
		if r.Row == 5 {
			cancel()
		}
	}
	cancel()
	for r, err := range v.Owner.Import(t.Context(), endless("d"), nil) {
		must.Do(t, err)
		if r.Row == 1500 {
			break
		}
	}
}

// endless returns an infinite iterator over rows.
func endless(prefix string) iter.Seq2[vault.TokenParams, error] {
	return func(yield func(vault.TokenParams, error) bool) {
		for i := 0; yield(given.Text(fmt.Sprintf("%s-%d", prefix, i), "x"), nil); i++ {
		}
	}
}

// TestImportNeedsRightsForEachRow checks that an import requires rights for each row.
func TestImportNeedsRightsForEachRow(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	c := given.Private(t, v, given.Rule(1, "/mine/", vault.TransformMask, "token:create", "token:update"))
	row := func(id, container, data string) vault.TokenParams {
		return vault.TokenParams{ID: id, Type: vault.TypeGeneric, Data: data, Containers: []string{container}}
	}
	given.Create(t, v.Owner.Client, row("theirs", "/theirs/", "x"))
	results := imported(t, c, given.Rows(row("own", "/mine/", "1"), row("other", "/theirs/", "2"), row("theirs", "/mine/", "3"), row("own", "/mine/", "4")),
		&vault.ImportOptions{OnDuplicate: vault.DuplicateUpdates})
	const needs = "Permission token:%s required on each container of the token."
	wantOutcomes(t, results, "1 created own", "2 failed map[] "+fmt.Sprintf(needs, "create"), "3 failed map[] "+fmt.Sprintf(needs, "update"), "4 updated own")
}

// TestImportRowsHaveSeparateBudgets checks that each row has its own budget for expressions.
func TestImportRowsHaveSeparateBudgets(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	heavy := func(id string) vault.TokenParams {
		return vault.TokenParams{ID: id, Type: vault.TypeGeneric, Data: strings.Repeat("x", 1000),
			SearchIndexes: []string{"{{ data | split: '' | sort | join: '' }}"}}
	}
	var rows []vault.TokenParams
	for i := range 300 {
		rows = append(rows, heavy(fmt.Sprintf("row-%d", i)))
	}
	for _, r := range imported(t, v.Owner.Client, given.Rows(rows...), nil) {
		given.Same(t, fmt.Sprint("row ", r.Row, ": ", r.Err), r.Outcome, vault.ImportCreated)
	}
}

// TestImportInsideOnceIsRefused checks that an import inside Once is refused.
func TestImportInsideOnceIsRefused(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	_, _, err := v.Owner.Once(t.Context(), vault.IdempotencyKey{Key: "k"}, func(ctx context.Context, c *vault.Owner) (vault.StoredResponse, error) {
		for _, err := range c.Import(ctx, given.Rows(given.Text("abc", "x")), nil) {
			return vault.StoredResponse{}, err
		}
		return vault.StoredResponse{}, nil
	})
	must.Match(t, "Import inside Once", err, must.Text("Import cannot be part of Once"))
}

// Neither an import nor an export runs far ahead of its caller, so that large rows
// do not fill the memory.
func TestImportAndExportReadLittleAhead(t *testing.T) {
	t.Parallel()
	v, store := given.Spied(t)
	const rows, size = 200, 64 << 10 // 12 MiB
	text := strings.Repeat("x", size)
	passed, settled, most := 0, 0, 0
	source := func(yield func(vault.TokenParams, error) bool) {
		for passed < rows {
			passed++
			most = max(most, passed-settled)
			if !yield(given.Text(fmt.Sprintf("row-%d", passed), text), nil) {
				return
			}
		}
	}
	for r, err := range v.Owner.Import(t.Context(), source, nil) {
		if err != nil || r.Outcome != vault.ImportCreated {
			t.Fatalf("row %d: %v %v", r.Row, err, r.Err)
		}
		settled++
	}
	// A batch is 1 MiB. One batch is written while the next is collected.
	if settled != rows || most > 3*(1<<20)/size {
		t.Errorf("%d rows in, and %d at once", settled, most)
	}
	read := 0
	var ahead atomic.Int64
	store.Listed = func(n int) { ahead.Add(int64(n)) }
	for _, err := range v.Owner.Export(t.Context(), nil) {
		must.Do(t, err)
		// A page is 4 MiB. Two pages are read ahead of the page that the caller
		// consumes.
		if n := ahead.Add(-1); n > 3*(4<<20)/size {
			t.Errorf("%d rows are read before row %d is taken", n, read)
		}
		read++
	}
	given.Same(t, "read", read, rows)
}

// TestResumedImportRevealsNothing imports guesses under the id of a token that the
// caller may not read. The caller learns that the id is taken, and nothing about
// the data.
func TestResumedImportRevealsNothing(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	secret := given.Text("known-id", "the secret")
	must.Get(v.Owner.CreateToken(t.Context(), secret))(t)
	opts := &vault.ImportOptions{Resumed: true}
	guesses := []vault.TokenParams{secret, given.Text("known-id", "a guess"), {ID: "known-id", Type: vault.TypeCardNumber, Data: given.Visa}}
	for _, guess := range guesses {
		wantOutcomes(t, imported(t, v.Public, given.Rows(guess), opts), "1 skipped known-id")
	}
	opts = &vault.ImportOptions{OnDuplicate: vault.DuplicateUpdates}
	blind := given.Holding(t, v, "token:create")
	for _, guess := range guesses {
		got := imported(t, blind, given.Rows(guess), opts)
		must.Match(t, "update", got[0].Err, vault.ErrForbidden)
	}
	reader := given.Holding(t, v, "token:create", "token:read")
	got := imported(t, reader, given.Rows(guesses[1]), &vault.ImportOptions{Resumed: true})
	must.Match(t, "other content", got[0].Err, vault.ErrConflict)
}

// exported returns the JSON lines of an export.
func exported(t testing.TB, c *vault.Client, sel vault.TokenSelection) []string {
	t.Helper()
	var lines []string
	for p, err := range c.Export(t.Context(), sel) {
		if err != nil {
			t.Fatalf("after %d tokens: %v", len(lines), err)
		}
		line := must.Get(json.Marshal(p))(t)
		lines = append(lines, string(line))
	}
	return lines
}

// TestExportImport moves tokens from one vault to another and back.
func TestExportImport(t *testing.T) {
	t.Parallel()
	from, to := vaulttest.New(t), vaulttest.New(t)
	no := false
	expires := from.Clock.Now().Add(time.Hour).Truncate(time.Second)
	for _, p := range []vault.TokenParams{
		{ID: "card", Type: vault.TypeCard, Data: vault.CardData{Number: given.Visa, ExpirationMonth: 3, ExpirationYear: 2031, CVC: "123"}},
		{ID: "full", Type: vault.TypeGeneric, Data: vault.JSON(`{"a":[1.10,null,"x"]}`), Mask: vault.JSON(`{"a":"{{ data.a | first }}"}`),
			Containers: []string{"/a/", "/b/"}, Metadata: map[string]string{"k": "v"}, SearchIndexes: []string{"{{ data.a | last }}"},
			FingerprintExpression: "{{ data.a | size }}", DeduplicateToken: &no, ExpiresAt: expires},
		{ID: "none", Type: vault.TypeSocialSecurityNumber, Data: "123-45-6789", SearchIndexes: []string{}},
		{ID: "ssn", Type: vault.TypeSocialSecurityNumber, Data: "123-45-6789"},
	} {
		given.Create(t, from.Owner.Client, p)
		from.Clock.Advance(time.Second)
	}
	want := []string{
		`{"id":"card","type":"card","data":{"number":"4242424242424242","expiration_month":3,"expiration_year":2031},"containers":["/pci/high/"]}`,
		`{"id":"full","type":"token","data":{"a":[1.10,null,"x"]},"mask":{"a":"{{ data.a | first }}"},"containers":["/a/","/b/"],"metadata":{"k":"v"},` +
			`"search_indexes":["{{ data.a | last }}"],"fingerprint_expression":"{{ data.a | size }}","deduplicate_token":false,"expires_at":"` + expires.Format(time.RFC3339Nano) + `"}`,
		`{"id":"none","type":"social_security_number","data":"123-45-6789","containers":["/pii/high/"],"search_indexes":[]}`,
		`{"id":"ssn","type":"social_security_number","data":"123-45-6789","containers":["/pii/high/"]}`,
	}
	given.Same(t, "export", exported(t, from.Owner.Client, nil), want)
	given.Same(t, "log", given.Operations(t, from, "full"), []string{"create", "use"})
	for _, r := range imported(t, to.Owner.Client, from.Owner.Export(t.Context(), nil), nil) {
		given.Same(t, "row", r.Outcome, vault.ImportCreated)
	}
	given.Same(t, "export of the copy", exported(t, to.Owner.Client, nil), want)
	given.Same(t, "found by an index", exported(t, to.Owner.Client, vault.SearchTokensParams{Query: `data:"6789"`}), want[3:])
	given.Same(t, "found by type", exported(t, to.Owner.Client, vault.ListTokensParams{Types: []vault.TokenType{vault.TypeSocialSecurityNumber}}), want[2:])
}

// TestExportRights checks that an export leaves out tokens that the client may not
// see in plaintext.
func TestExportRights(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	for _, container := range []string{"/open/", "/masked/", "/closed/"} {
		given.Create(t, v.Owner.Client, vault.TokenParams{ID: "in" + container[1:len(container)-1], Type: vault.TypeGeneric, Data: "x", Containers: []string{container}})
	}
	c := given.Private(t, v, given.Rule(1, "/open/", vault.TransformReveal, "token:use"), given.Rule(2, "/masked/", vault.TransformMask, "token:use", "token:read"))
	given.Same(t, "exported", exported(t, c, nil), []string{`{"id":"inopen","type":"token","data":"x","containers":["/open/"]}`})
	given.Same(t, "a plain permission exports", len(exported(t, given.Holding(t, v, "token:use"), nil)), 3)
	for what, c := range map[string]*vault.Client{
		"masked": given.Private(t, v, given.Rule(1, "/", vault.TransformMask, "token:use")),
		"read":   given.Private(t, v, given.Rule(1, "/", vault.TransformReveal, "token:read", "token:search")),
	} {
		for _, err := range c.Export(t.Context(), nil) {
			must.Match(t, what, err, vault.ErrForbidden)
		}
	}
	for _, err := range v.Owner.Export(t.Context(), vault.SearchTokensParams{Query: "type:"}) {
		given.WantFields(t, "a bad query", err, "query")
	}
}

// TestExportOfMany exports several pages, and stops when the loop stops.
func TestExportOfMany(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	const n = 2500
	rows := func(yield func(vault.TokenParams, error) bool) {
		for i := range n {
			if !yield(given.Text(fmt.Sprintf("row-%04d", i), "x"), nil) {
				return
			}
		}
	}
	imported(t, v.Owner.Client, rows, nil)
	i := 0
	for p, err := range v.Owner.Export(t.Context(), nil) {
		if want := fmt.Sprintf("row-%04d", i); err != nil || p.ID != want {
			t.Fatalf("%s, %v, want %s", p.ID, err, want)
		}
		i++
	}
	used := given.Entries(t, v, vault.ListLogsParams{Operation: vault.OperationUse})
	page := must.Get(v.Owner.ListLogs(t.Context(), vault.ListLogsParams{Operation: vault.OperationUse}))(t)
	given.Same(t, "tokens, uses and their type", []any{i, page.Pagination.TotalItems, used[0].EntityType}, []any{n, n, "token"})
	for range v.Owner.Export(t.Context(), nil) {
		break
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var ended error
	for _, err := range v.Owner.Export(ctx, nil) {
		cancel()
		ended = err
	}
	must.Match(t, "canceled", ended, context.Canceled)
}

// A caller with token:create tries guesses of a stored value under the id of its
// own token, so that nothing can be created. A right guess must look like a wrong
// one, for every reason to refuse a row.
func TestRefusedTokensRevealNothing(t *testing.T) {
	t.Parallel()
	const secret, guess = "4242424242424242", "4111111111111111"
	yes := true
	for name, refused := range map[string]func(*vault.TokenParams){
		"taken id": func(p *vault.TokenParams) { p.ID = "taken" },
		"id expression": func(p *vault.TokenParams) {
			p.ID = "{{ data }}"
		},
		"size": func(p *vault.TokenParams) { p.Mask = strings.Repeat("x", 5<<20) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := vaulttest.New(t)
			given.Create(t, v.Owner.Client, vault.TokenParams{ID: "secret", Type: vault.TypeCardNumber, Data: secret})
			blind := given.Holding(t, v, "token:create")
			given.Create(t, blind, given.Text("taken", "x"))
			row := func(number string) vault.TokenParams {
				p := vault.TokenParams{Type: vault.TypeCardNumber, Data: number, DeduplicateToken: &yes}
				refused(&p)
				return p
			}
			hit, miss := imported(t, blind, given.Rows(row(secret)), nil), imported(t, blind, given.Rows(row(guess)), nil)
			if diff := cmp.Diff(outcomes(miss), outcomes(hit)); diff != "" || hit[0].Outcome != vault.ImportFailed {
				t.Errorf("import (-miss +hit):\n%s%v", diff, outcomes(hit))
			}
			_, missed := blind.CreateToken(t.Context(), row(guess))
			if _, err := blind.CreateToken(t.Context(), row(secret)); fmt.Sprint(err) != fmt.Sprint(missed) || err == nil {
				t.Errorf("create: a hit is %v, a miss %v", err, missed)
			}
			_, missed = blind.Tokenize(t.Context(), []any{row(guess)})
			if _, err := blind.Tokenize(t.Context(), []any{row(secret)}); fmt.Sprint(err) != fmt.Sprint(missed) || err == nil {
				t.Errorf("tokenize: a hit is %v, a miss %v", err, missed)
			}
			given.Same(t, "log", given.Operations(t, v, "secret"), []string{"create"})
		})
	}
}

// Each batch with refused or skipped rows has a log entry that counts them, because
// those rows leave no other entry.
func TestImportLogsRefusedAndSkippedRows(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	given.Create(t, v.Owner.Client, given.Text("there", "x"))
	blind := given.Holding(t, v, "token:create")
	var rows []vault.TokenParams
	for i := range 1200 {
		rows = append(rows, given.Text("there", fmt.Sprint("guess ", i)))
	}
	imported(t, blind, given.Rows(rows...), nil)
	imported(t, blind, given.Rows(given.Text("there", "x"), given.Text("new", "x"), vault.TokenParams{}), &vault.ImportOptions{OnDuplicate: vault.DuplicateSkips})
	imported(t, blind, given.Rows(given.Text("newer", "x")), nil)
	var got []string
	for _, e := range given.Entries(t, v, vault.ListLogsParams{Operation: vault.OperationImport}) {
		given.Same(t, "entry", []any{e.ActorID, e.EntityType, e.EntityID}, []any{blind.ApplicationID(), "tenant", v.Acme.ID.String()})
		got = append(got, e.Message)
	}
	want := []string{
		"Import: of 1000 rows 1000 refused, 0 skipped",
		"Import: of 200 rows 200 refused, 0 skipped",
		"Import: of 3 rows 1 refused, 1 skipped",
	}
	slices.Sort(got)
	given.Same(t, "got", got, want)
}
