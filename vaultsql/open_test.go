package vaultsql_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaultsql"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// four has four sealed columns.
type four struct {
	A vaultsql.Text `vault:"container=/pii/a/"`
	B vaultsql.Text `vault:"container=/pii/b/"`
	C vaultsql.Text `vault:"container=/pii/c/"`
	D vaultsql.Card
}

// sealFour returns sealed rows as if they were read from a database.
func sealFour(t testing.TB, c vault.API, n int) []four {
	t.Helper()
	rows := make([]four, n)
	for i := range rows {
		rows[i] = four{vaultsql.NewText(fmt.Sprint("Jane ", i)), vaultsql.NewText(fmt.Sprint("Doe ", i)),
			vaultsql.NewText(fmt.Sprint("Main St ", i)), vaultsql.NewCard(vault.CardData{Number: number})}
	}
	seal(t, c, rows)
	return reread(t, rows...)
}

func TestAThousandRowsOpenInFortyCalls(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	rows := sealFour(t, v.Private, 1000)
	c := count(v.Private)
	open(t, c, rows)
	c.expect(t, map[string]int{"Detokenize": 40})
	for i, r := range rows {
		if get(t, r.A) != fmt.Sprint("Jane ", i) || get(t, r.C) != fmt.Sprint("Main St ", i) || get(t, r.D).Number != number {
			t.Fatalf("row %d has wrong values", i)
		}
	}
}

// rule returns an access rule with the given permissions.
func rule(priority int, container string, transform vault.Transform, permissions ...vault.Permission) vault.AccessRule {
	return vault.AccessRule{Priority: priority, Container: container, Transform: transform, Permissions: permissions}
}

const (
	use  = vault.PermissionTokenUse
	read = vault.PermissionTokenRead
)

// TestOpenRespectsRights opens one row with different rights. Each field is a
// value (v), masked (m), redacted (r), or an error (-).
func TestOpenRespectsRights(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	stored := sealFour(t, v.Private, 3)
	client := func(rules ...vault.AccessRule) vault.API {
		c, _ := v.NewApplication(t, v.Owner, vault.ApplicationPrivate, rules)
		return c
	}
	for name, tt := range map[string]struct {
		c    vault.API
		want string
	}{
		"the tenant":                   {v.Owner, "vvvv"},
		"the tenant, masked":           {v.Owner.Masked(), "mmmm"},
		"a private application":        {v.Private, "vvvv"},
		"masked":                       {v.Private.Masked(), "mmmm"},
		"reads masks":                  {client(rule(1, "/", vault.TransformMask, read)), "mmmm"},
		"reads values":                 {client(rule(1, "/", vault.TransformReveal, read)), "vvvv"},
		"reads nothing":                {client(rule(1, "/", vault.TransformRedact, read)), "rrrr"},
		"uses masks":                   {client(rule(1, "/", vault.TransformMask, use)), "mmmm"},
		"uses some":                    {client(rule(1, "/pii/a/", vault.TransformReveal, use), rule(2, "/", vault.TransformMask, read)), "vmmm"},
		"uses some, and reads none":    {client(rule(1, "/pii/a/", vault.TransformReveal, use)), "-"},
		"uses all, some by their mask": {client(rule(1, "/pii/b/", vault.TransformMask, use), rule(2, "/", vault.TransformReveal, use)), "vmvv"},
		"reads some":                   {client(rule(1, "/pii/", vault.TransformMask, read)), "mmm-"},
		"may do nothing":               {v.Management, "-"},
	} {
		rows := reread(t, stored...)
		err := vaultsql.Open(t.Context(), tt.c, rows)
		must.Same(t, fmt.Sprintf("%s: %v", name, err), strings.Contains(tt.want, "-"), err != nil)
		if tt.want == "-" {
			if !errors.Is(err, vault.ErrForbidden) || !strings.Contains(err.Error(), "four[0].") {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if _, err := rows[2].B.Get(); err != nil && !strings.Contains(err.Error(), "vaultsql: four[2].B: ") {
			t.Errorf("%s: the error does not name the field: %v", name, err)
		}
		must.Same(t, name+": sees", tt.want, sees(rows[2]))
	}
}

// sees returns a letter for the state of each field of a row after Open.
func sees(row any) (letters string) {
	fields := reflect.ValueOf(row)
	for i := range fields.NumField() {
		err, _ := valueOf(fields.Field(i))[1].(error)
		switch mask := fields.Field(i).Interface().(interface{ Mask() string }).Mask(); {
		case err == nil:
			letters += "v"
		case errors.Is(err, vaultsql.ErrMasked) && mask == "":
			letters += "r"
		case errors.Is(err, vaultsql.ErrMasked):
			letters += "m"
		default:
			letters += "-"
		}
	}
	return letters
}

// Use that is limited to destinations opens nothing.
func TestOpenOfBoundUse(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	rows := sealFour(t, v.Private, 2)
	bound := rule(1, "/", vault.TransformReveal, use)
	bound.Destinations = []string{"api.stripe.com"}
	key, _ := v.NewApplication(t, v.Owner, vault.ApplicationPrivate, []vault.AccessRule{bound})
	err := vaultsql.Open(t.Context(), key, rows)
	if !errors.Is(err, vault.ErrForbidden) || !strings.Contains(err.Error(), "the use of this token is limited to requests to api.stripe.com") {
		t.Errorf("it is opened: %v", err)
	}
	key, _ = v.NewApplication(t, v.Owner, vault.ApplicationPrivate, []vault.AccessRule{bound, rule(2, "/", vault.TransformMask, read)})
	open(t, key, rows)
	must.Fail(rows[0].D.Get())(t, "the card is shown", vaultsql.ErrMasked)
}

// Tokens of one field in several containers are opened with the rights on
// each container.
func TestOpenUsesRightsOnEachContainer(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	const rows, moved = 210, 5
	stored := sealFour(t, v.Private, rows)
	for _, r := range stored[:moved] {
		must.Get(v.Owner.PatchToken(t.Context(), r.A.ID(), vault.JSON(`{"containers":["/old/"]}`)))(t)
	}
	app, _ := v.NewApplication(t, v.Owner, vault.ApplicationPrivate, []vault.AccessRule{
		rule(1, "/pii/", vault.TransformReveal, use), rule(2, "/", vault.TransformMask, read)})
	c := count(app)
	open(t, c, stored)
	for i, r := range stored {
		want := "vvvm"
		if i < moved {
			want = "mvvm"
		}
		must.Same(t, fmt.Sprintf("row %d: sees", i), want, sees(r))
	}
	if c.total() > 24 {
		t.Errorf("%d calls: %v", c.total(), c.calls)
	}
}

// A caller that may only read opens page by page.
func TestOpenReadsMasksByPage(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	rows := sealFour(t, v.Private, 100)
	c := count(v.Private.Masked())
	open(t, c, rows)
	c.expect(t, map[string]int{"Detokenize": 4, "ListTokens": 4})
}

// looksMasked are values that a mask could have produced.
var looksMasked = []string{"", "X", "XX", "XXXX", "XXXXX", "XXXXXXJane", "Xé"}

// A value that looks like a mask is still a value.
func TestOpenDistinguishesValuesFromMasks(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	type row struct{ Text vaultsql.Text }
	var stored []row
	for _, text := range looksMasked {
		stored = append(stored, row{vaultsql.NewText(text)})
	}
	stored = append(stored, row{vaultsql.NewText("has its own mask")})
	seal(t, v.Private, stored)
	must.Get(v.Owner.PatchToken(t.Context(), stored[len(stored)-1].Text.ID(), vault.JSON(`{"mask":"hidden {{ data | last4 }}"}`)))(t)
	session, err := v.Public.CreateSession(t.Context())
	if err == nil {
		err = v.Private.AuthorizeSession(t.Context(), vault.SessionGrant{Nonce: session.Nonce, Permissions: []vault.Permission{use}})
	}
	must.Do(t, err)
	guest := must.Get(v.Authenticate(t.Context(), session.SessionKey))(t)
	masks, _ := v.NewApplication(t, v.Owner, vault.ApplicationPrivate, []vault.AccessRule{rule(1, "/", vault.TransformMask, use)})
	for name, tt := range map[string]struct {
		c    vault.API
		want string
	}{
		"the tenant": {v.Owner, "vvvvvvvv"}, "an application": {v.Private, "vvvvvvvv"},
		"a session": {guest, "vvvvvvvv"}, "who sees masks": {masks, "rmmmmmmm"},
	} {
		rows := reread(t, stored...)
		open(t, tt.c, rows)
		var got string
		for i := range rows {
			got += sees(rows[i])
			if text, err := rows[i].Text.Get(); err == nil && i < len(looksMasked) && text != looksMasked[i] {
				t.Errorf("%s: value %d is wrong", name, i)
			}
		}
		must.Same(t, name+" sees", tt.want, got)
	}
}

// Every type of token opens with one call.
func TestOpenOfEveryType(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	type row struct {
		Generic vaultsql.Text
		Object  vaultsql.Of[map[string]int]
		Card    vaultsql.Card
		Bank    vaultsql.Of[vault.BankData]
		Number  vaultsql.Text `vault:"type=card_number"`
		Account vaultsql.Text `vault:"type=us_bank_account_number"`
		Routing vaultsql.Text `vault:"type=us_bank_routing_number"`
		SSN     vaultsql.Text `vault:"type=social_security_number"`
		EIN     vaultsql.Text `vault:"type=employer_id_number"`
		Bytes   vaultsql.Bytes
	}
	r := row{vaultsql.NewText("Jane Doe"), vaultsql.New(map[string]int{"a": 1}), vaultsql.NewCard(vault.CardData{Number: number, ExpirationMonth: 1}),
		vaultsql.New(vault.BankData{RoutingNumber: "021000021", AccountNumber: "123"}), vaultsql.NewText(number), vaultsql.NewText("123"),
		vaultsql.NewText("021000021"), vaultsql.NewText("123-45-6789"), vaultsql.NewText("123456789"), vaultsql.New([]byte("bytes"))}
	seal(t, v.Private, &r)
	must.Same(t, "a bank account is a", vault.TypeBank, must.Get(v.Private.GetToken(t.Context(), r.Bank.ID()))(t).Type)
	again := reread(t, r)[0]
	masked := again
	c := count(v.Private)
	open(t, c, &again)
	c.expect(t, map[string]int{"Detokenize": 1})
	if get(t, again.SSN) != "123-45-6789" || get(t, again.Bank).AccountNumber != "123" || get(t, again.Account) != "123" {
		t.Error("the values are wrong")
	}
	open(t, v.Private.Masked(), &masked)
	must.Same(t, "a masked caller sees", "mrmmmmmmmm", sees(masked))
	must.Same(t, "masks differ", masked.SSN.Mask(), again.SSN.Mask())
}

// Other text in a column does not become part of an expression.
func TestOpenIgnoresInvalidIDs(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	victim := vaultsql.NewText(secret)
	seal(t, v.Private, &victim)
	for _, id := range []string{"x }}{{ " + victim.ID(), victim.ID() + " | last4", "ab", " " + victim.ID(), "jane@example.com\n", "no-such-token"} {
		var text vaultsql.Text
		must.Do(t, text.Scan(id))
		if err := vaultsql.Open(t.Context(), v.Private, &text); !errors.Is(err, vault.ErrNotFound) || !text.IsZero() {
			t.Errorf("%v, %v", err, text.IsZero())
		}
	}
}

// small is a vault that returns at most two tokens in a result. Its error
// names the first token over the limit, as the vault does.
type small struct{ vault.API }

func (s small) Detokenize(ctx context.Context, document any) (vault.JSON, error) {
	if len(document.([]string)) > 2 {
		return nil, &vault.InvalidError{Fields: map[string][]string{"[2]": {"the result is too large"}}}
	}
	return s.API.Detokenize(ctx, document)
}

// Large values open in smaller batches, because the vault limits how much a
// call reads and returns.
func TestOpenReadsLargeValuesInBatches(t *testing.T) {
	t.Parallel()
	v := vaulttest.Open(t, ":memory:", &vault.Config{MaxPageBytes: 100 << 10})
	type row struct{ Text vaultsql.Text }
	rows := make([]row, 8)
	for i := range rows {
		rows[i].Text.Set(strings.Repeat(fmt.Sprint(i), 40<<10))
	}
	seal(t, v.Private, rows)
	for name, tt := range map[string]struct {
		c    vault.API
		want string
	}{"values": {v.Private, "v"}, "masks": {v.Private.Masked(), "m"}, "small results": {small{v.Private}, "v"}} {
		got := reread(t, rows...)
		open(t, tt.c, got)
		for i := range got {
			text, err := got[i].Text.Get()
			if sees(got[i]) != tt.want || err == nil && text != get(t, rows[i].Text) {
				t.Errorf("%s: row %d has a wrong value", name, i)
			}
		}
	}
}
