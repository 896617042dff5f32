package postgres

import (
	"reflect"
	"slices"
	"testing"

	"github.com/seed-72ea4aab/vault/storage"
)

// A change with anything that the statement of a group would leave out does not
// share it.
func TestOnlyPlainCreatesShareAStatement(t *testing.T) {
	t.Parallel()
	inGroups := []string{"Tenant", "Now", "Before", "Unsure", "Hold", "InsertTokens", "Logs", "Relaxed"}
	for field := range reflect.TypeFor[storage.Change]().Fields() {
		if slices.Contains(inGroups, field.Name) {
			continue
		}
		c := storage.Change{InsertTokens: make([]storage.Token, 1), Logs: make([]storage.Log, 1)}
		if classOf(&c) != creates {
			t.Fatal("a plain create does not share a statement")
		}
		v := reflect.ValueOf(&c).Elem().FieldByIndex(field.Index)
		if v.Kind() == reflect.Pointer {
			v.Set(reflect.New(field.Type.Elem()))
			c.Claim.Op = storage.ClaimFinish // groups may take claims
		} else {
			v.Set(reflect.MakeSlice(field.Type, 1, 1))
		}
		if classOf(&c) == creates {
			t.Errorf("a change with %s shares a statement", field.Name)
		}
	}
}

// After a conflict, a tenant writes alone for a while, and other tenants do not.
func TestTenantWritesAloneAfterAConflict(t *testing.T) {
	t.Parallel()
	var c conflicts
	tenant, other := storage.ID{1}, storage.ID{2}
	c.note(tenant)
	for i := range aloneFor {
		if !c.expects(tenant) || c.expects(other) {
			t.Fatalf("create %d: the tenant is not alone, or another is", i)
		}
	}
	if c.expects(tenant) || len(c.alone) > 0 {
		t.Errorf("the tenant is still alone, or remembered: %v", c.alone)
	}
}
