package vaultsql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaultsql"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// customer has a field of each kind.
type customer struct {
	ID    int64
	Name  vaultsql.Text `vault:"container=/pii/high/,index"`
	Email vaultsql.Text `vault:"type=token,dedup"`
	Card  vaultsql.Card
	Photo vaultsql.Bytes
	Prefs vaultsql.Of[map[string]any] `vault:"expires=720h"`
}

const number = "4242424242424242"

func newCustomer() *customer {
	return &customer{
		ID: 1, Name: vaultsql.NewText("Jane Doe"), Email: vaultsql.NewText("jane@example.com"),
		Card:  vaultsql.NewCard(vault.CardData{Number: number, ExpirationMonth: 12, ExpirationYear: 2031, CVC: "123"}),
		Photo: vaultsql.New([]byte("\x00\x01photo")), Prefs: vaultsql.New(map[string]any{"a": "b", "c": map[string]any{"d": "e"}}),
	}
}

// counter counts the calls of a client by name.
type counter struct {
	vault.API
	calls map[string]int
}

func count(c vault.API) *counter { return &counter{c, map[string]int{}} }

func (c *counter) total() (n int) {
	for _, k := range c.calls {
		n += k
	}
	return n
}

func (c *counter) Tokenize(ctx context.Context, document any) (vault.JSON, error) {
	c.calls["Tokenize"]++
	return c.API.Tokenize(ctx, document)
}

func (c *counter) Detokenize(ctx context.Context, document any) (vault.JSON, error) {
	c.calls["Detokenize"]++
	return c.API.Detokenize(ctx, document)
}

func (c *counter) PatchToken(ctx context.Context, id string, patch any) (*vault.Token, error) {
	c.calls["PatchToken"]++
	return c.API.PatchToken(ctx, id, patch)
}

func (c *counter) DeleteToken(ctx context.Context, id string) error {
	c.calls["DeleteToken"]++
	return c.API.DeleteToken(ctx, id)
}

func (c *counter) ListTokens(ctx context.Context, p vault.ListTokensParams) (*vault.Page[vault.Token], error) {
	c.calls["ListTokens"]++
	return c.API.ListTokens(ctx, p)
}

// expect checks which calls were made since the last check.
func (c *counter) expect(t *testing.T, want map[string]int) {
	t.Helper()
	must.Same(t, "calls", want, c.calls)
	clear(c.calls)
}

// reread returns rows as if they were read from a database.
func reread[T any](t testing.TB, rows ...T) []T {
	t.Helper()
	out := make([]T, len(rows))
	for i := range rows {
		from, to := reflect.ValueOf(rows[i]), reflect.ValueOf(&out[i]).Elem()
		for j := range from.NumField() {
			column, ok := from.Field(j).Interface().(driver.Valuer)
			if !ok {
				to.Field(j).Set(from.Field(j))
				continue
			}
			must.Do(t, to.Field(j).Addr().Interface().(sql.Scanner).Scan(must.Get(column.Value())(t)))
		}
	}
	return out
}

func (c *customer) reread(t testing.TB) *customer {
	t.Helper()
	return &reread(t, *c)[0]
}

func get[T any](t testing.TB, o vaultsql.Of[T]) T {
	t.Helper()
	v := must.Get(o.Get())(t)
	return v
}

func seal(t testing.TB, c vault.API, dst ...any) {
	t.Helper()
	must.Do(t, vaultsql.Seal(t.Context(), c, dst...))
}

func open(t testing.TB, c vault.API, dst ...any) {
	t.Helper()
	must.Do(t, vaultsql.Open(t.Context(), c, dst...))
}

func TestSealAndOpen(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	c := count(v.Private)
	cust := newCustomer()
	seal(t, c, cust)
	c.expect(t, map[string]int{"Tokenize": 1})
	seal(t, c, cust)
	c.expect(t, map[string]int{})

	got := cust.reread(t)
	must.Fail(got.Name.Get())(t, "Get before Open", vaultsql.ErrSealed)
	open(t, c, got)
	open(t, c, got) // nothing is left to open
	c.expect(t, map[string]int{"Detokenize": 1})
	want := newCustomer()
	if get(t, got.Name) != "Jane Doe" || get(t, got.Email) != "jane@example.com" || get(t, got.Card) != get(t, want.Card) {
		t.Error("the values differ from the sealed ones")
	}
	must.Same(t, "the values differ", get(t, want.Photo), get(t, got.Photo))
	must.Same(t, "the values differ", get(t, want.Prefs), get(t, got.Prefs))
	for _, masks := range [][3]string{
		{cust.Name.Mask(), got.Name.Mask(), "XXXXXXXX"},
		{cust.Card.Mask(), got.Card.Mask(), `{"number":"XXXXXXXXXXXX4242","expiration_month":12,"expiration_year":2031}`},
		{cust.Photo.Mask(), got.Photo.Mask(), "XXXXXXXXXXXX"},
		{cust.Prefs.Mask(), got.Prefs.Mask(), ""},
	} {
		if masks[0] != masks[2] || masks[1] != masks[2] {
			t.Errorf("masks %q, want %q", masks[:2], masks[2])
		}
	}
}

// A changed value changes its token, except in a dedup field.
func TestSealChanges(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	c := count(v.Private)
	cust := newCustomer()
	seal(t, c, cust)
	clear(c.calls)
	was := *cust
	cust.Name.Set("Jane Roe")
	cust.Email.Set("jane@example.org")
	cust.Card.Set(vault.CardData{Number: "5555555555554444"})
	cust.Prefs.Set(map[string]any{"c": map[string]any{"f": 1.5}, "g": []any{nil}})
	seal(t, c, cust)
	c.expect(t, map[string]int{"Tokenize": 1, "PatchToken": 3})
	if cust.Name.ID() != was.Name.ID() || cust.Card.ID() != was.Card.ID() || cust.Prefs.ID() != was.Prefs.ID() {
		t.Error("a changed value has another token")
	}
	if cust.Email.ID() == was.Email.ID() {
		t.Error("a changed dedup field kept its token")
	}
	old := was.reread(t)
	open(t, c, old)
	must.Same(t, "the token of a dedup field was changed", "jane@example.com", get(t, old.Email))
	if get(t, old.Name) != "Jane Roe" || get(t, old.Card) != (vault.CardData{Number: "5555555555554444"}) {
		t.Error("the tokens do not hold the new values")
	}
	must.Same(t, "the values differ", get(t, cust.Prefs), get(t, old.Prefs))
	must.Same(t, "the mask", "XXXXXXXX", cust.Name.Mask())
}

func TestSealOfTheSameValueMakesNoCalls(t *testing.T) {
	t.Parallel()
	c := count(vaulttest.New(t).Private)
	cust := newCustomer()
	seal(t, c, cust)
	clear(c.calls)
	cust.Name.Set("Jane Doe")
	cust.Email.Set("jane@example.com")
	must.Same(t, "a new value has the mask of the old one", "", cust.Name.Mask())
	seal(t, c, cust)
	c.expect(t, map[string]int{})
	if get(t, cust.Name) != "Jane Doe" || cust.Name.Mask() != "XXXXXXXX" {
		t.Error("the value or its mask is lost")
	}
}

// An object is changed by a patch, which has to name the members that it
// removes.
func TestSealReadsAChangedObject(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	cust := newCustomer()
	seal(t, v.Private, cust)
	got := cust.reread(t)
	c := count(v.Private)
	got.Prefs.Set(map[string]any{"z": "only"})
	got.Card.Set(vault.CardData{Number: number}) // its member names are known
	seal(t, c, got)
	c.expect(t, map[string]int{"Detokenize": 1, "PatchToken": 2})
	again := cust.reread(t)
	open(t, v.Private, again)
	must.Same(t, "the values differ", map[string]any{"z": "only"}, get(t, again.Prefs))
	must.Same(t, "the values differ", vault.CardData{Number: number}, get(t, again.Card))
	again.Prefs.Set(map[string]any{"z": nil})
	must.Match(t, "null in an object", vaultsql.Seal(t.Context(), v.Private, again), must.Text("customer.Prefs"))
	masked := cust.reread(t)
	masked.Prefs.Set(map[string]any{"y": 1})
	if err := vaultsql.Seal(t.Context(), v.Private.Masked(), masked); !errors.Is(err, vaultsql.ErrMasked) || !strings.Contains(err.Error(), "customer.Prefs") {
		t.Errorf("by a caller that cannot read it: %v", err)
	}
}

// Null in a Go struct is the same as an absent name.
func TestSealChangesAStructWithPointers(t *testing.T) {
	t.Parallel()
	type address struct{ Street, Flat *string }
	type row struct{ Address vaultsql.Of[address] }
	c := vaulttest.New(t).Private
	street, flat := "Main St", "2a"
	r := row{vaultsql.New(address{&street, &flat})}
	seal(t, c, &r)
	r.Address.Set(address{Street: &street})
	seal(t, c, &r)
	got := reread(t, r)
	open(t, c, got)
	must.Same(t, "the values differ", address{Street: &street}, get(t, got[0].Address))
}

func TestDedupSharesTokens(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	v := vaulttest.New(t)
	// Dedup fields never share a token that was created by other means, because its
	// owner may change it.
	yes := true
	other := must.Get(v.Private.CreateToken(ctx, vault.TokenParams{Type: vault.TypeGeneric, Data: "jane@example.com", DeduplicateToken: &yes}))(t)
	a, b := newCustomer(), newCustomer()
	a.Name.Set("jane@example.com")
	seal(t, v.Private, a, b)
	if a.Email.ID() != b.Email.ID() || a.Email.ID() == other.ID || a.Email.ID() == a.Name.ID() {
		t.Error("equal values of a dedup field do not share a token, or share a foreign one")
	}
	type elsewhere struct {
		Email vaultsql.Text `vault:"dedup,container=/pii/low/"`
	}
	e := elsewhere{vaultsql.NewText("jane@example.com")}
	seal(t, v.Private, &e)
	if e.Email.ID() == a.Email.ID() {
		t.Error("a field with another container shares the token")
	}
	type mixed struct {
		Text   vaultsql.Text        `vault:"dedup"`
		Number vaultsql.Of[float64] `vault:"dedup"`
	}
	m := mixed{vaultsql.NewText("42"), vaultsql.New(42.0)}
	seal(t, v.Private, &m)
	if m.Text.ID() == m.Number.ID() {
		t.Error("a text and a number share a token")
	}
	// Without dedup, each value has a separate token, whatever the tenant's
	// setting.
	must.Get(v.Owner.PatchTenant(ctx, vault.JSON(`{"settings":{"deduplicate_tokens":true}}`)))(t)
	c := newCustomer()
	seal(t, v.Private, c)
	if c.Name.ID() == b.Name.ID() || c.Card.ID() == b.Card.ID() {
		t.Error("fields without dedup share a token")
	}
}

// A card with another date is another value.
func TestDedupOfCards(t *testing.T) {
	t.Parallel()
	type row struct {
		Card vaultsql.Card `vault:"dedup"`
	}
	c := vaulttest.New(t).Private
	rows := []row{
		{vaultsql.NewCard(vault.CardData{Number: number, ExpirationYear: 2030})},
		{vaultsql.NewCard(vault.CardData{Number: number, ExpirationYear: 2031})},
		{vaultsql.NewCard(vault.CardData{Number: number, ExpirationYear: 2030})},
	}
	seal(t, c, rows)
	if rows[0].Card.ID() == rows[1].Card.ID() || rows[0].Card.ID() != rows[2].Card.ID() {
		t.Error("the wrong cards share a token")
	}
	ids, err := vaultsql.Lookup(t.Context(), c, row{}, "Card", vault.CardData{Number: number, ExpirationYear: 2031, CVC: "123"})
	if diff := cmp.Diff([]string{rows[1].Card.ID()}, ids); err != nil || diff != "" {
		t.Errorf("lookup: %v %s", err, diff)
	}
	bad := row{vaultsql.NewCard(vault.CardData{Number: number, CVC: "123"})}
	must.Match(t, "a cvc that rows would share", vaultsql.Seal(t.Context(), c, &bad), must.Text("row.Card"))
}

// The token of a dedup field lives as long as the last row that shares it.
func TestDedupWithExpiry(t *testing.T) {
	t.Parallel()
	type long struct {
		Email vaultsql.Text `vault:"dedup,expires=2000h"`
	}
	type short struct {
		Email vaultsql.Text `vault:"dedup,expires=1000h"`
	}
	c := count(vaulttest.New(t).Private)
	rows := []any{&short{vaultsql.NewText("j")}, &long{vaultsql.NewText("j")}, &short{vaultsql.NewText("j")}}
	var ends []time.Time
	for _, r := range rows {
		seal(t, c, r)
		tok := must.Get(c.GetToken(t.Context(), rows[0].(*short).Email.ID()))(t)
		ends = append(ends, tok.ExpiresAt)
	}
	if !ends[0].Before(ends[1]) || !ends[1].Equal(ends[2]) {
		t.Errorf("the token ends at %v", ends)
	}
	c.expect(t, map[string]int{"Tokenize": 3, "PatchToken": 1})
}

func TestOpenNamesMissingTokens(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	rows := []*customer{newCustomer(), newCustomer(), newCustomer()}
	for i, r := range rows {
		r.Email = vaultsql.NewText(fmt.Sprint("jane", i, "@example.com"))
	}
	seal(t, v.Private, rows)
	must.Do(t, v.Private.DeleteToken(t.Context(), rows[1].Name.ID()))
	v.Clock.Advance(721 * time.Hour)
	got := []*customer{rows[0].reread(t), rows[1].reread(t), rows[2].reread(t)}
	c := count(v.Private)
	err := vaultsql.Open(t.Context(), c, got)
	for _, want := range []string{"customer[0].Prefs", "customer[1].Prefs", "customer[2].Prefs", "customer[1].Name"} {
		if err == nil || !strings.Contains(err.Error(), "vaultsql: "+want+": ") || !errors.Is(err, vault.ErrNotFound) {
			t.Errorf("the error does not name %s: %v", want, err)
		}
	}
	if fe, ok := errors.AsType[*vaultsql.FieldError](err); !ok || strings.Count(err.Error(), "\n") != 3 {
		t.Errorf("%v, first %v", err, fe)
	}
	c.expect(t, map[string]int{"Detokenize": 2})
	if _, err := got[1].Name.Get(); !errors.Is(err, vault.ErrNotFound) || !got[1].Name.IsZero() || got[1].Name.ID() != rows[1].Name.ID() {
		t.Errorf("the absent value: %v", err)
	}
	if get(t, got[0].Name) != "Jane Doe" || get(t, got[2].Email) != "jane2@example.com" {
		t.Error("the other fields are not open")
	}
	got[1].Name.Set("Jane again") // in another token
	seal(t, v.Private, got[1])
	if got[1].Name.ID() == rows[1].Name.ID() {
		t.Error("a value has the id of a deleted token")
	}
}

func TestForget(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	c := count(v.Private)
	a, b := newCustomer(), newCustomer()
	seal(t, c, a, b)
	shared := b.reread(t)
	must.Do(t, v.Private.DeleteToken(t.Context(), a.Photo.ID()))
	clear(c.calls)
	must.Do(t, vaultsql.Forget(t.Context(), c, a))
	c.expect(t, map[string]int{"DeleteToken": 5})
	must.Same(t, "the field is absent, without an ID", []any{true, ""}, []any{a.Name.IsZero(), a.Name.ID()})
	if id, err := a.Name.Value(); id != nil || err != nil {
		t.Errorf("the column is %v, %v", id, err)
	}
	if err := vaultsql.Open(t.Context(), c, shared); err == nil || !strings.Contains(err.Error(), "customer.Email") || strings.Contains(err.Error(), "customer.Name") {
		t.Errorf("the wrong tokens were deleted: %v", err)
	}
	if err := vaultsql.Forget(t.Context(), v.Public, b); !errors.Is(err, vault.ErrForbidden) || !strings.Contains(err.Error(), "customer.Name") {
		t.Errorf("without the permission: %v", err)
	}
	if b.Name.IsZero() {
		t.Error("a field whose token is left was forgotten")
	}
}

func TestLookup(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	type person struct {
		customer
		SSN  vaultsql.Text `vault:"type=social_security_number,index"`
		Home *struct {
			Street vaultsql.Text `vault:"index"`
		}
		Plain vaultsql.Text
		Num   vaultsql.Of[float64] `vault:"index"`
	}
	rows := make([]person, 3)
	for i := range rows {
		rows[i] = person{customer: *newCustomer(), SSN: vaultsql.NewText(fmt.Sprintf("123-45-678%d", i)), Num: vaultsql.New(1.5 + float64(i/2))}
		rows[i].Home = &struct {
			Street vaultsql.Text `vault:"index"`
		}{vaultsql.NewText(`"Main" \ St ` + fmt.Sprint(i))}
	}
	rows[2].Name = vaultsql.NewText("jane doe")
	rows[1].Plain = vaultsql.NewText("Jane Doe")
	seal(t, v.Private, rows)
	for _, tt := range []struct {
		field string
		value any
		want  []string
	}{
		{"Email", "jane@example.com", []string{rows[0].Email.ID()}},
		{"Name", "Jane Doe", []string{rows[1].Name.ID(), rows[0].Name.ID()}},
		{"Name", rows[2].Name, []string{rows[2].Name.ID()}},
		{"Name", "Jane", nil},
		{"SSN", "123-45-6781", []string{rows[1].SSN.ID()}},
		{"Home.Street", `"Main" \ St 2`, []string{rows[2].Home.Street.ID()}},
		{"Num", 1.5, []string{rows[1].Num.ID(), rows[0].Num.ID()}},
		{"customer.Name", "jane doe", []string{rows[2].Name.ID()}},
	} {
		got, err := vaultsql.Lookup(t.Context(), v.Private, person{}, tt.field, tt.value)
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", tt.field, err, diff)
		}
	}
	for field, value := range map[string]any{"Plain": "Jane Doe", "Nope": "x", "ID": 1, "Home": "x", "Home.Nope": "x", "Email": "", "Name": strings.Repeat("x", 200), "Num": nil} {
		ids, err := vaultsql.Lookup(t.Context(), v.Private, &person{}, field, value)
		if err == nil || !strings.Contains(err.Error(), "person."+field) || ids != nil {
			t.Errorf("%s: %v, %v", field, ids, err)
		}
	}
	must.Fail(vaultsql.Lookup(t.Context(), v.Private, 3, "Email", "x"))(t, "a row that is not a struct was accepted", must.Text("the row must be a struct"))
}
