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

// After a conflict with a new key, a tenant writes alone for a while, and other tenants
// do not. After that, only creates with the key are alone.
func TestCreatesAreAloneAfterAConflict(t *testing.T) {
	t.Parallel()
	var c conflicts
	create := func(tenant byte, id string) *storage.Change {
		return &storage.Change{Tenant: storage.ID{tenant}, InsertTokens: []storage.Token{{ID: id}}}
	}
	c.met(create(1, "taken"), storage.TokenIDTaken)
	for i := range aloneFor {
		if !c.expects(create(1, "new")) || c.expects(create(2, "taken")) {
			t.Fatalf("create %d: the tenant is not alone, or another is", i)
		}
	}
	c.met(create(1, "taken"), storage.TokenIDTaken)
	if c.expects(create(1, "new")) || len(c.alone) > 0 {
		t.Errorf("the tenant is still alone, or remembered: %v", c.alone)
	}
	if !c.expects(create(1, "taken")) {
		t.Error("a create with the key is not alone")
	}
	dedup, claim := create(1, "a"), create(1, "b")
	dedup.InsertTokens[0].Dedup = storage.Hash{1}
	claim.Claim = &storage.ClaimChange{Claim: storage.Claim{Key: storage.Key{1}}}
	for kind, change := range map[storage.ConflictKind]*storage.Change{storage.DuplicateTaken: dedup, storage.ClaimTaken: claim} {
		c.met(change, kind)
		clear(c.alone)
		if change.InsertTokens[0].ID = "c"; !c.expects(change) {
			t.Errorf("%v: a create with the key is not alone", kind)
		}
	}
}
