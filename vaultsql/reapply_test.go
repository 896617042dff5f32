package vaultsql_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaultsql"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// before and after are the same table, before and after a change of the tags.
type before struct {
	ID                               int64
	Plain, Indexed, Moved, Kept      vaultsql.Text
	Masked, Ends, Shared, Typed, Own vaultsql.Text
}

type after struct {
	ID      int64
	Plain   vaultsql.Text `vault:"subject=ID"`
	Indexed vaultsql.Text `vault:"index"`
	Moved   vaultsql.Text `vault:"container=/PII/high/"`
	Kept    vaultsql.Text
	Masked  vaultsql.Text `vault:"mask=none"`
	Ends    vaultsql.Text `vault:"expires=720h"`
	Shared  vaultsql.Text `vault:"dedup"`
	Typed   vaultsql.Text `vault:"type=card_number"`
	Own     vaultsql.Text `vault:"field=customers.own"`
}

// Reapply gives old tokens what the changed tags say, once.
func TestReapply(t *testing.T) {
	t.Parallel()
	ctx, v := t.Context(), vaulttest.New(t)
	old := make([]before, 120)
	for i := range old {
		text := vaultsql.NewText(fmt.Sprint("Jane Doe ", i/2))
		old[i] = before{int64(i + 1), text, text, text, text, text, text, text, vaultsql.NewText(number), text}
	}
	seal(t, v.Private, old)
	must.Do(t, vaultsql.CheckTags(ctx, v.Private, reread(t, old...)))
	rows := make([]after, len(old))
	for i, o := range reread(t, old...) {
		rows[i] = convert(o)
	}
	none := must.Get(vaultsql.Lookup(ctx, v.Private, after{}, "Indexed", "Jane Doe 7"))(t)
	must.Same(t, "found before", 0, len(none))
	err := vaultsql.CheckTags(ctx, v.Private, rows)
	must.Contain(t, "the first line about a field", strings.Split(err.Error(), "\n")[1], "after[0].")
	for _, want := range []string{"after[3].Indexed: ", "search_indexes", "after[7].Moved", "containers", "after[0].Ends", "after[2].Shared", "after[2].Shared: the token has another dedup", "after[5].Typed: the token has another type"} {
		if !errors.Is(err, vaultsql.ErrDrift) || !strings.Contains(err.Error(), want) {
			t.Errorf("the check does not name %s: %.500v", want, err)
		}
	}
	must.Same(t, "changed", 9*len(rows), must.Get(vaultsql.Reapply(ctx, v.Private, rows))(t))
	must.Do(t, vaultsql.CheckTags(ctx, v.Private, reread(t, rows...)))
	must.Same(t, "changed again", 0, must.Get(vaultsql.Reapply(ctx, v.Private, reread(t, rows...)))(t))
	ids := must.Get(vaultsql.Lookup(ctx, v.Private, after{}, "Indexed", "Jane Doe 7"))(t)
	slices.Sort(ids)
	want := []string{rows[14].Indexed.ID(), rows[15].Indexed.ID()}
	slices.Sort(want)
	must.Same(t, "found after", want, ids)
	must.Same(t, "the id stays", old[3].Moved.ID(), rows[3].Moved.ID())
	must.Same(t, "equal values share a token", rows[14].Shared.ID(), rows[15].Shared.ID())
	must.Same(t, "tokens of a person", 9, found(t, v, "metadata.subject:7"))
	must.Same(t, "tokens of the next person, whose token of Shared is that of the first", 8, found(t, v, "metadata.subject:8"))
	got := reread(t, rows...)
	open(t, v.Private, got)
	must.Same(t, "a value", "Jane Doe 59", get(t, got[119].Shared))
	must.Same(t, "the mask", "", got[0].Masked.Mask())
	v.Clock.Advance(721 * time.Hour)
	if err := vaultsql.Open(ctx, v.Private, reread(t, rows[:1]...)); !errors.Is(err, vault.ErrNotFound) || !strings.Contains(err.Error(), "after[0].Ends") {
		t.Errorf("after its time: %v", err)
	}
}

// convert gives a row the other type.
func convert(o before) after {
	return after(o)
}

// Unused finds tokens that no row uses, and erases them when it has a reason.
func TestUnused(t *testing.T) {
	t.Parallel()
	for name, dsn := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, w := t.Context(), newSqlVault(t, dsn(t))
			must.Get(w.db.ExecContext(ctx, "CREATE TABLE people (name text, email text)"))(t)
			rows := make([]person, 150)
			for i := range rows {
				rows[i] = person{vaultsql.NewText("Jane"), vaultsql.NewText("jane@example.com")}
			}
			seal(t, w.Private, rows)
			for _, r := range rows[:120] {
				must.Get(w.db.ExecContext(ctx, "INSERT INTO people VALUES ($1, $2)", r.Name, r.Email))(t)
			}
			foreign := vaultsql.NewText("of another program")
			seal(t, w.Private, &foreign)
			p := vaultsql.UnusedParams{
				Tokens:  vault.SearchTokensParams{Query: "metadata.field:person.Name OR metadata.field:person.Email"},
				Columns: []vaultsql.Column{{Table: "people", Name: "name"}, {Table: "people", Name: "email"}},
			}
			must.Same(t, "new tokens", 0, len(must.Get(vaultsql.Unused(ctx, w.Private, w.db, p))(t)))
			w.Clock.Advance(2 * time.Hour)
			must.Same(t, "found", 60, len(must.Get(vaultsql.Unused(ctx, w.Private, w.db, p))(t)))
			must.Same(t, "found again, because nothing was erased", 60, len(must.Get(vaultsql.Unused(ctx, w.Private, w.db, p))(t)))
			p.Reason = "no row uses them"
			must.Same(t, "erased", 60, len(must.Get(vaultsql.Unused(ctx, w.Private, w.db, p))(t)))
			must.Same(t, "left", 0, len(must.Get(vaultsql.Unused(ctx, w.Private, w.db, p))(t)))
			open(t, w.Private, reread(t, rows[:120]...), &foreign)
			must.Fail(vaultsql.Unused(ctx, w.Private, w.db, vaultsql.UnusedParams{}))(t, "without names", must.Text("must be named"))
		})
	}
}

// masksBefore and masksAfter are the same table, before and after a change of masks and
// durations.
type masksBefore struct {
	None, Short, First vaultsql.Text `vault:"mask=none"`
	Card               vaultsql.Card `vault:"mask={{ data.number | last4 }}"`
	Object             vaultsql.Of[map[string]string]
	Plain              vaultsql.Of[map[string]string] `vault:"mask={{ data.city }}"`
	Longer, Shorter    vaultsql.Text                  `vault:"expires=72h"`
}

type masksAfter struct {
	None, Short vaultsql.Text
	First       vaultsql.Text `vault:"mask=first1"`
	Card        vaultsql.Card
	Object      vaultsql.Of[map[string]string] `vault:"mask={{ data.city }}"`
	Plain       vaultsql.Of[map[string]string]
	Longer      vaultsql.Text `vault:"expires=720h"`
	Shorter     vaultsql.Text `vault:"expires=24h"`
}

// A mask that was added, changed or removed, and another duration, differ once.
func TestReapplyMasksAndDurations(t *testing.T) {
	t.Parallel()
	ctx, v := t.Context(), vaulttest.New(t)
	home := map[string]string{"city": "Bonn"}
	old := masksBefore{
		None: vaultsql.NewText("Jane Alice Doe"), Short: vaultsql.NewText("Jane"), First: vaultsql.NewText("Jane"),
		Card: vaultsql.NewCard(vault.CardData{Number: number}), Object: vaultsql.New(home), Plain: vaultsql.New(home),
		Longer: vaultsql.NewText("Jane"), Shorter: vaultsql.NewText("Jane"),
	}
	seal(t, v.Private, &old)
	v.Clock.Advance(time.Hour)
	must.Do(t, vaultsql.CheckTags(ctx, v.Private, &old))
	now := masksAfter(old)
	now = reread(t, now)[0]
	err := vaultsql.CheckTags(ctx, v.Private, &now)
	for _, want := range []string{"None: the token has another mask", "Short: ", "First: ", "Card: the token has another mask", "Object: the token has another mask", "Plain: ", "Longer: the token has another metadata, expires_at", "Shorter: "} {
		must.Match(t, want, err, must.Text("masksAfter."+want))
	}
	must.Fail(vaultsql.Reapply(ctx, v.Private.Masked(), &now))(t, "by a caller who sees masks", vaultsql.ErrMasked)
	must.Same(t, "changed", 8, must.Get(vaultsql.Reapply(ctx, v.Private, &now))(t))
	must.Match(t, "before Open", must.Err(now.None.Get()), vaultsql.ErrSealed)
	must.Do(t, vaultsql.CheckTags(ctx, v.Private, &now))
	open(t, v.Private, &now)
	for want, got := range map[string]string{"XXXXXXXXXX Doe": now.None.Mask(), "XXXX": now.Short.Mask(), "JXXX": now.First.Mask(),
		`{"number":"XXXXXXXXXXXX4242"}`: now.Card.Mask(), "Bonn": now.Object.Mask(), "": now.Plain.Mask()} {
		must.Same(t, "a mask", want, got)
	}
	v.Clock.Advance(25 * time.Hour)
	must.Match(t, "after a day", vaultsql.Open(ctx, v.Private, reread(t, now)), must.Text("masksAfter[0].Shorter"))
	v.Clock.Advance(80 * time.Hour)
	later := reread(t, now)[0]
	later.Shorter = vaultsql.Text{}
	open(t, v.Private, &later)
}
