package vaultsql_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/httpserver"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaultclient"
	"github.com/seed-72ea4aab/vault/vaultsql"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// The mask of a text shows nothing of short texts, unless its tag says otherwise.
func TestMasks(t *testing.T) {
	t.Parallel()
	type row struct {
		Default vaultsql.Text
		None    vaultsql.Text `vault:"mask=none"`
		Last    vaultsql.Text `vault:"mask=last4,index"`
		First   vaultsql.Text `vault:"mask=first1"`
		Own     vaultsql.Text `vault:"index,mask=a {{ data | reveal: 2, 1, '*' }},container=/pii/"`
		Number  vaultsql.Text `vault:"type=card_number"`
	}
	v := vaulttest.New(t)
	for value, want := range map[string]string{
		"12345":            "XXXXX||X2345|1XXXX|a 12**5|",
		"Ann Lee":          "XXXXXXX||XXX Lee|AXXXXXX|a An****e|",
		"Lee":              "XXX||XXX|LXX|a ***|",
		"Müller-12":        "XXXXXXXXX||XXXXXr-12|MXXXXXXXX|a Mü******2|",
		"Jane Doe-1":       "XXXXXXoe-1||XXXXXXoe-1|JXXXXXXXXX|a Ja*******1|",
		"4242424242424242": "XXXXXXXXXXXX4242||XXXXXXXXXXXX4242|4XXXXXXXXXXXXXXX|a 42*************2|XXXXXXXXXXXX4242",
	} {
		text := vaultsql.NewText(value)
		r := row{text, text, text, text, text, vaultsql.Text{}}
		if value == number {
			r.Number = text
		}
		seal(t, v.Private, &r)
		got := reread(t, r)[0]
		open(t, v.Private.Masked(), &got)
		for name, r := range map[string]row{"after Seal": r, "after Open": got} {
			all := []string{r.Default.Mask(), r.None.Mask(), r.Last.Mask(), r.First.Mask(), r.Own.Mask(), r.Number.Mask()}
			must.Same(t, name, want, strings.Join(all, "|"))
		}
	}
}

// A change of a value changes its mask, too.
func TestMaskOfAChangedValue(t *testing.T) {
	t.Parallel()
	type row struct{ Name vaultsql.Text }
	v := vaulttest.New(t)
	r := row{vaultsql.NewText("Jane")}
	seal(t, v.Private, &r)
	for value, want := range map[string]string{"Jane Alice Doe": "XXXXXXXXXX Doe", "Jane Doe": "XXXXXXXX"} {
		r.Name.Set(value)
		seal(t, v.Private, &r)
		must.Same(t, "the mask", want, r.Name.Mask())
	}
	type object struct {
		Home vaultsql.Of[map[string]string] `vault:"mask={{ data.city }}"`
	}
	o := object{vaultsql.New(map[string]string{"city": "Bonn", "street": "Main"})}
	seal(t, v.Private, &o)
	must.Same(t, "the mask of an object", "Bonn", o.Home.Mask())
}

func TestBadMasks(t *testing.T) {
	t.Parallel()
	c := vaulttest.New(t).Private
	for want, row := range map[string]any{
		`"last44"`: &struct {
			A vaultsql.Text `vault:"mask=last44"`
		}{},
		`"all"`: &struct {
			A vaultsql.Text `vault:"mask=all"`
		}{},
		"mask= twice": &struct {
			A vaultsql.Text `vault:"mask=none,mask=last4"`
		}{},
		"mask": &struct {
			A vaultsql.Text `vault:"mask={{ data | nonsense }}"`
		}{A: vaultsql.NewText("x")},
	} {
		must.Match(t, want, vaultsql.Seal(t.Context(), c, row), must.Text(want))
	}
}

// The vault's clock decides when a token expires, in process and over HTTP.
func TestExpiresOnTheClockOfTheVault(t *testing.T) {
	t.Parallel()
	type row struct {
		Name  vaultsql.Text `vault:"expires=720h"`
		Email vaultsql.Text `vault:"dedup,expires=720h"`
	}
	v := vaulttest.New(t)
	srv := httptest.NewServer(httpserver.Handler(v.Vault, nil))
	defer srv.Close()
	remote := must.Get(vaultclient.New(srv.URL, v.PrivateKey, nil))(t)
	for year := range 3 { // the clock of the vault is ahead of this machine's in the end
		for name, c := range map[string]vault.API{"in process": v.Private, "wrapped": count(v.Private), "over HTTP": remote} {
			r := row{vaultsql.NewText("Jane"), vaultsql.NewText(fmt.Sprint(name, year))}
			seal(t, c, &r)
			v.Clock.Advance(719 * time.Hour)
			got := reread(t, r)[0]
			open(t, c, &got)
			r.Name.Set("Jane Roe") // the time starts again
			seal(t, c, &r)
			v.Clock.Advance(2 * time.Hour)
			again := reread(t, r)[0]
			err := vaultsql.Open(t.Context(), c, &again)
			if !errors.Is(err, vault.ErrNotFound) || !again.Email.IsZero() || again.Name.IsZero() {
				t.Errorf("%s, year %d: %v", name, year, err)
			}
		}
		v.Clock.Advance(365 * 24 * time.Hour)
	}
}

// A field that is given alone has the subject of the row before it.
func TestSubjectOfAFieldAlone(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	p, note, notes := newMember(42), vaultsql.NewText("allergic"), []vaultsql.Text{vaultsql.NewText("a"), vaultsql.NewText("b")}
	seal(t, v.Private, p)
	later := reread(t, *p)[0]
	seal(t, v.Private, &later, &note, notes)
	must.Same(t, "tokens of the person", 7, found(t, v, "metadata.subject:42"))
	inside := newMember(43)
	seal(t, v.Private, &inside.Name, inside, []any{newMember(44), &[]vaultsql.Text{vaultsql.NewText("c")}[0]})
	must.Same(t, "a field of the row itself", 4, found(t, v, "metadata.subject:43"))
	must.Same(t, "it has the tag of the row", 1, found(t, v, "metadata.subject:43 AND container:/pii/high/"))
	must.Same(t, "in a list", 5, found(t, v, "metadata.subject:44"))
	people, whose := []*member{newMember(45), newMember(46)}, vaultsql.NewText("whose?")
	must.Match(t, "after two people", vaultsql.Seal(t.Context(), v.Private, people, &whose), must.Text("after the row of its person"))
	nobody := vaultsql.NewText("nobody's")
	seal(t, v.Private, &nobody, newCustomer(), &nobody)
	done := must.Get(v.Owner.EraseTokens(t.Context(), vault.EraseParams{Query: "metadata.subject:42", Reason: "case 7"}))(t)
	must.Same(t, "erased", []int{7, 0}, []int{done.Count, done.Left})
}

// The id of an erasure leads to its proof.
func TestEraseAllProves(t *testing.T) {
	t.Parallel()
	v := vaulttest.Open(t, ":memory:", &vault.Config{Evidence: &vault.EvidenceConfig{Every: -1}})
	p := newMember(42)
	seal(t, v.Private, p)
	done := must.Get(vaultsql.EraseAll(t.Context(), v.Private, "case 7", p))(t)
	must.Same(t, "the erasure", []any{4, 0, "case 7"}, []any{done.Count, done.Left, done.Reason})
	must.Same(t, "the field is absent", true, p.Name.IsZero())
	must.Get(v.Checkpoint(t.Context()))(t)
	proof := must.Get(v.Owner.LogProof(t.Context(), done.ID))(t)
	must.Do(t, evidence.VerifyProof(proof, must.Get(v.EvidenceKey())(t)))
	entries := must.Get(v.Owner.ListLogs(t.Context(), vault.ListLogsParams{EntityID: done.ID.String()}))(t)
	must.Contain(t, "the log", fmt.Sprintf("%+v", entries.Data), "case 7")
	none := must.Get(vaultsql.EraseAll(t.Context(), v.Private, "case 8", p))(t)
	must.Same(t, "without tokens", 0, none.Count)
}

type patient struct {
	Name, Alias vaultsql.Text            `vault:"index"`
	Login       vaultsql.Text            `vault:"dedup"`
	Visits      vaultsql.Of[int64]       `vault:"index"`
	Kind        vaultsql.Of[patientKind] `vault:"index"`
	Home        struct {
		City vaultsql.Text `vault:"index"`
	}
	Work struct {
		City vaultsql.Text `vault:"index"`
	}
}

type patientKind string

type doctor struct {
	Name  vaultsql.Text `vault:"index"`
	Login vaultsql.Text `vault:"dedup"`
}

// nurse has the same names in the vault as a doctor.
type nurse struct {
	FullName vaultsql.Text `vault:"index,field=doctor.Name"`
}

// Two fields with the same value do not mix.
func TestLookupIsLimitedToItsField(t *testing.T) {
	t.Parallel()
	ctx, v := t.Context(), vaulttest.New(t)
	text := vaultsql.NewText("Kim")
	p := patient{Name: text, Alias: text, Login: text, Visits: vaultsql.New[int64](3), Kind: vaultsql.New(patientKind("Kim"))}
	p.Home.City, p.Work.City = text, text
	d := doctor{text, vaultsql.NewText("kim")}
	seal(t, v.Private, &p, &d)
	must.Get(v.Private.CreateToken(ctx, vault.TokenParams{Type: vault.TypeGeneric, Data: "Kim", SearchIndexes: []string{"{{ data }}"}}))(t)
	for field, want := range map[string]string{
		"Name": p.Name.ID(), "Alias": p.Alias.ID(), "Login": p.Login.ID(), "Kind": p.Kind.ID(), "Home.City": p.Home.City.ID(), "Work.City": p.Work.City.ID(),
	} {
		must.Same(t, field, []string{want}, must.Get(vaultsql.Lookup(ctx, v.Private, patient{}, field, "Kim"))(t))
	}
	must.Same(t, "of the other struct", []string{d.Name.ID()}, must.Get(vaultsql.Lookup(ctx, v.Private, &d, "Name", "Kim"))(t))
	must.Same(t, "with its name", []string{d.Name.ID()}, must.Get(vaultsql.Lookup(ctx, v.Private, nurse{}, "FullName", "Kim"))(t))
	for name, got := range map[string][]string{
		p.Work.City.ID(): must.Get(vaultsql.LookupIn(ctx, v.Private, func(p *patient) *vaultsql.Text { return &p.Work.City }, "Kim"))(t),
		p.Visits.ID():    must.Get(vaultsql.LookupIn(ctx, v.Private, func(p *patient) *vaultsql.Of[int64] { return &p.Visits }, 3))(t),
	} {
		must.Same(t, "by a function", []string{name}, got)
	}
	elsewhere := &vaultsql.Text{}
	must.Fail(vaultsql.LookupIn(ctx, v.Private, func(*patient) *vaultsql.Text { return elsewhere }, "Kim"))(t, "another field", must.Text("a field of the patient"))
}

// A value of another type is refused, because it would find nothing.
func TestLookupChecksTheType(t *testing.T) {
	t.Parallel()
	ctx, c := context.Background(), vaulttest.New(t).Private
	for field, values := range map[string][]any{
		"Name":   {[]byte("Kim"), 3, nil, vaultsql.New(3), new(string), []string{"Kim"}},
		"Visits": {"3", 3.0, 3, vaultsql.NewText("3")},
		"Kind":   {[]byte("Kim"), vaultsql.NewText("Kim")},
	} {
		for _, value := range values {
			ids, err := vaultsql.Lookup(ctx, c, patient{}, field, value)
			if ids != nil || !errors.Is(err, vault.ErrInvalid) || !strings.Contains(err.Error(), "patient."+field) || strings.Contains(err.Error(), "Kim") {
				t.Errorf("%s with a %T: %v, %v", field, value, ids, err)
			}
		}
	}
	var sealed vaultsql.Text
	must.Do(t, sealed.Scan("tok-1"))
	must.Fail(vaultsql.Lookup(ctx, c, patient{}, "Name", sealed))(t, "a sealed field", vaultsql.ErrSealed)
}
