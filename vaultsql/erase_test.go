package vaultsql_test

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaultsql"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// member has a subject, and tokens in a nested struct.
type member struct {
	ID    int64
	Name  vaultsql.Text `vault:"container=/pii/high/,subject=ID"`
	Email vaultsql.Text
	Home  struct{ Street vaultsql.Text }
	Phone []vaultsql.Text
}

func newMember(id int64) *member {
	p := &member{ID: id, Name: vaultsql.NewText("Jane Doe"), Email: vaultsql.NewText("jane@example.com"), Phone: []vaultsql.Text{vaultsql.NewText("555-1")}}
	p.Home.Street = vaultsql.NewText("1 Main Street")
	return p
}

// found returns the number of tokens that a query finds.
func found(t *testing.T, v *vaulttest.Vault, query string) int {
	t.Helper()
	page := must.Get(v.Owner.SearchTokens(t.Context(), vault.SearchTokensParams{Query: query}))(t)
	return page.Pagination.TotalItems
}

// Every token of a row can be found by the subject of the row.
func TestSubject(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	people := []*member{newMember(42), newMember(43)}
	seal(t, v.Private, people)
	must.Same(t, "tokens of the first person", 4, found(t, v, "metadata.subject:42"))
	old := &struct {
		ID   string
		Name vaultsql.Text
	}{"44", vaultsql.NewText("Joe")}
	seal(t, v.Private, old)
	now := &struct {
		ID   string
		Name vaultsql.Text `vault:"subject=ID"`
	}{old.ID, old.Name}
	now.Name.Set("Joseph")
	seal(t, v.Private, now)
	must.Same(t, "a changed value", 1, found(t, v, "metadata.subject:44"))
	done := must.Get(v.Owner.EraseTokens(t.Context(), vault.EraseParams{Query: "metadata.subject:42", Reason: "case 7"}))(t)
	must.Same(t, "erased", 4, done.Count)
	must.Do(t, vaultsql.Open(t.Context(), v.Private, people[1]))
}

type rowKey string

// String must not be used: it is for people.
func (rowKey) String() string { return "a key" }

func TestSubjectTypes(t *testing.T) {
	t.Parallel()
	v, id := vaulttest.New(t), uuid.New()
	for want, row := range map[string]any{
		"7": &struct {
			ID   *uint8
			Name vaultsql.Text `vault:"subject=ID"`
		}{ID: new(uint8(7)), Name: vaultsql.NewText("a")},
		"k-1": &struct {
			ID   rowKey
			Name vaultsql.Text `vault:"subject=ID"`
		}{ID: "k-1", Name: vaultsql.NewText("a")},
		id.String(): &struct {
			ID   uuid.UUID
			Name vaultsql.Text `vault:"subject=ID"`
		}{ID: id, Name: vaultsql.NewText("a")},
	} {
		seal(t, v.Private, row)
		must.Same(t, "tokens of "+want, 1, found(t, v, fmt.Sprintf("metadata.subject:%q", want)))
	}
	err := vaultsql.Seal(t.Context(), v.Private, newMember(0))
	if !errors.Is(err, vault.ErrInvalid) || !strings.Contains(err.Error(), "member.Name") || !strings.Contains(err.Error(), "field ID") {
		t.Errorf("without a key: %v", err)
	}
}

func TestSubjectsThatAreRefused(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	for want, row := range map[string]any{
		"no exported field Id": &struct {
			ID   int
			Name vaultsql.Text `vault:"subject=Id"`
		}{},
		"no exported field id": &struct {
			id   int
			Name vaultsql.Text `vault:"subject=id"`
		}{id: 1},
		"Email is sealed": &struct {
			Email vaultsql.Text
			Name  vaultsql.Text `vault:"subject=Email"`
		}{},
		"Size is not a string": &struct {
			Size float64
			Name vaultsql.Text `vault:"subject=Size"`
		}{},
		"another field of the struct has subject=ID": &struct {
			ID, Key int
			Email   vaultsql.Text `vault:"subject=ID"`
			Name    vaultsql.Text `vault:"subject=Key"`
		}{},
		"subject= twice": &struct {
			ID   int
			Name vaultsql.Text `vault:"subject=ID,subject=ID"`
		}{},
	} {
		must.Match(t, "Seal", vaultsql.Seal(t.Context(), v.Private, row), must.Text(want))
	}
}

func TestErase(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	a, b := newMember(1), newMember(2)
	seal(t, v.Private, a, b)
	must.Do(t, v.Private.DeleteToken(t.Context(), a.Email.ID()))
	some, _ := v.NewApplication(t, v.Owner, vault.ApplicationPrivate, []vault.AccessRule{
		rule(1, "/pii/", vault.TransformMask, "token:delete"), rule(2, "/", vault.TransformMask, "token:search")})
	for name, c := range map[string]vault.API{"no right": v.Public, "a right on some": some} {
		if err := vaultsql.Erase(t.Context(), c, "case 7", a); !errors.Is(err, vault.ErrForbidden) || a.Home.Street.IsZero() {
			t.Errorf("%s: %v", name, err)
		}
	}
	must.Match(t, "without a reason", vaultsql.Erase(t.Context(), v.Private, "", a), vault.ErrInvalid)
	must.Do(t, vaultsql.Erase(t.Context(), v.Private, "case 7", a, a))
	if !a.Name.IsZero() || !a.Phone[0].IsZero() {
		t.Error("the fields are not absent")
	}
	must.Same(t, "tokens are left", 0, found(t, v, "metadata.subject:1"))
	must.Match(t, "another person", vaultsql.Open(t.Context(), v.Private, b), nil)
}

// An erasure in a transaction is undone with it.
func TestEraseInTx(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	p := newMember(1)
	seal(t, v.Private, p)
	for _, step := range []struct {
		end  func(*sql.Tx) error
		left int
	}{{(*sql.Tx).Rollback, 4}, {(*sql.Tx).Commit, 0}} {
		row := *p
		row.Phone = []vaultsql.Text{p.Phone[0]}
		tx := must.Get(v.DB.BeginTx(t.Context(), nil))(t)
		must.Do(t, vaultsql.Erase(t.Context(), v.Private.InTx(tx), "case 7", &row))
		must.Do(t, step.end(tx))
		must.Same(t, "tokens are left", step.left, found(t, v, "metadata.subject:1"))
	}
}
