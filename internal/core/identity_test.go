package core

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// revealing returns an application whose rules reveal everything.
func revealing(tenant uuid.UUID) *principal {
	app := &Application{ID: uuid.New(), TenantID: tenant, Rules: []access.Rule{
		{Priority: 1, Container: "/", Transform: access.Reveal, Permissions: []string{access.TokenRead, access.TokenSearch, access.TokenUse}}}}
	who, err := app.principal()
	if err != nil {
		panic(err)
	}
	return who
}

// A manner stays with an identity whose principal is read again, in whatever order
// identities were derived. The test fills every field, so that it covers new
// fields.
func TestMannerOutlivesItsPrincipal(t *testing.T) {
	t.Parallel()
	tenant, proxy := uuid.New(), uuid.New()
	derive := []func(Identity) Identity{
		Identity.Masked, Identity.Scripted,
		func(id Identity) Identity { return id.AsUser("ops") },
		func(id Identity) Identity { return id.Calling(proxy) },
		func(id Identity) Identity { return id.From("192.0.2.7") },
	}
	for first := range derive {
		who := revealing(tenant)
		id := Identity{who: who, grant: who.grant}
		for i := range derive {
			id = derive[(first+i)%len(derive)](id)
		}
		id.manner.limits = []limit{{Rights{Permissions: []string{access.TokenRead}}, new(access.Grant)}}
		for field, value := range reflect.ValueOf(*id.manner).Fields() {
			if value.IsZero() {
				t.Errorf("no identity was derived that sets %s", field.Name)
			}
		}
		now := id.renewed(revealing(tenant))
		if now.manner != id.manner {
			t.Error("the manner was lost")
		}
		if now.Grant().Has(access.TokenRead) {
			t.Error("the limit was lost")
		}
	}
}

// A masked identity has its limit at once, and also after it was renewed or
// stored.
func TestMasked(t *testing.T) {
	t.Parallel()
	tenant := uuid.New()
	who := revealing(tenant)
	for name, id := range map[string]Identity{"owner": Owner(tenant), "application": {who: who, grant: who.grant}} {
		derived := id.AsUser("ops").Masked()
		text := must.Get(json.Marshal(derived.Stored()))(t)
		var stored Stored
		must.Do(t, json.Unmarshal(text, &stored))
		kept := must.Get(stored.Identity(tenant))(t)
		for what, id := range map[string]Identity{"derived": derived, "renewed": derived.renewed(id.who), "kept": kept.renewed(id.who)} {
			if seen, _ := id.Grant().Decide(access.TokenRead, "t", []string{"/"}); seen != access.Mask {
				t.Errorf("%s, %s: reads with %v", name, what, seen)
			}
			if id.Grant().Has(access.TokenUse) || id.MaySearchData() || id.IsOwner() {
				t.Errorf("%s, %s: may use tokens, search by data, or is the owner", name, what)
			}
			if actor, kind, name := id.Actor(); actor != id.Creator() || kind != ActorUser || name != "ops" {
				t.Errorf("%s: acts as %s %q", what, kind, name)
			}
		}
	}
}

// A stored identity keeps its whole manner, except whether running code was the
// caller.
func TestStoredIdentityKeepsItsManner(t *testing.T) {
	t.Parallel()
	who := revealing(uuid.New())
	id := Identity{who: who, grant: who.grant}.Masked().AsUser("ops").Calling(uuid.New()).From("192.0.2.7")
	for range 2 { // a stored identity can be stored again
		stored := id.Stored()
		kept := must.Get(stored.Identity(who.tenant))(t)
		want, got := *id.manner, *kept.manner
		must.Same(t, "limits, one more than before", len(want.limits)+1, len(got.limits))
		want.limits, got.limits = nil, nil
		if !reflect.DeepEqual(want, got) {
			t.Errorf("kept %+v, want %+v", got, want)
		}
		id = kept.renewed(who)
	}
}
