package vault_test

import (
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// Reveal shows the data, mask its mask, and redact leaves the property out.
func TestTransforms(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	text := create(t, v.Tenant, vault.TokenParams{Type: vault.Generic, Data: "secret", Metadata: map[string]string{"k": "v"}})
	number := create(t, v.Tenant, vault.TokenParams{Type: vault.Generic, Data: 1234567890})
	for transform, want := range map[vault.Transform][2]string{
		vault.Reveal: {`"secret"`, `1234567890`}, vault.Mask: {`"XXcret"`, ``}, vault.Redact: {``, ``},
	} {
		c := private(t, v, rule(1, "/", transform, "token:read"))
		got := get(t, c, text.ID)
		wantData(t, string(transform), got.Data, want[0])
		wantData(t, string(transform)+" without a mask", get(t, c, number.ID).Data, want[1])
		wantData(t, string(transform)+": mask", got.Mask, `"{{ data | reveal_last: 4 }}"`)
		same(t, "metadata", got.Metadata, map[string]string{"k": "v"})
		same(t, "fingerprint", got.Fingerprint, text.Fingerprint)
	}
}

// Plain permissions are rules on everything with mask, token:use with reveal.
func TestPlainPermissionsMask(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	tok := create(t, v.Tenant, vault.TokenParams{Type: vault.Generic, Data: "secret", Containers: []string{"/any/where/"}, SearchIndexes: []string{"{{ data }}"}})
	wantData(t, "read", get(t, v.Private, tok.ID).Data, `"XXcret"`)
	page, err := v.Private.SearchTokens(t.Context(), vault.SearchTokensParams{Query: "data:secret"})
	if err != nil || len(page.Data) != 1 {
		t.Fatalf("search: %v", err)
	}
	wantData(t, "search", page.Data[0].Data, `"XXcret"`)
	out, err := v.Private.Detokenize(t.Context(), vault.JSON(`"{{ `+tok.ID+` }}"`))
	if err != nil {
		t.Fatal(err)
	}
	wantData(t, "use", out, `"secret"`)
}

// The lowest priority number that matches decides; plain permissions come last.
func TestRulePriority(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	high := create(t, v.Tenant, vault.TokenParams{ID: "high", Type: vault.Generic, Data: "secret", Containers: []string{"/pci/high/"}})
	low := create(t, v.Tenant, vault.TokenParams{ID: "low", Type: vault.Generic, Data: "secret", Containers: []string{"/pci/low/"}})
	byID := vault.AccessRule{Priority: 1, Transform: vault.Reveal, Permissions: []string{"token:read"},
		Conditions: []vault.Condition{{Attribute: "id", Operator: "equals", Value: "high"}, {Attribute: "container", Operator: "starts_with", Value: "/pci/"}}}
	for name, tt := range map[string]struct {
		p         vault.ApplicationParams
		high, low string
	}{
		"narrow first":         {vault.ApplicationParams{Rules: []vault.AccessRule{rule(1, "/pci/high/", vault.Redact, "token:read"), rule(2, "/", vault.Reveal, "token:read")}}, ``, `"secret"`},
		"order is by number":   {vault.ApplicationParams{Rules: []vault.AccessRule{rule(9, "/", vault.Reveal, "token:read"), rule(3, "/pci/high/", vault.Redact, "token:read")}}, ``, `"secret"`},
		"wide first":           {vault.ApplicationParams{Rules: []vault.AccessRule{rule(1, "/", vault.Mask, "token:read"), rule(2, "/pci/high/", vault.Reveal, "token:read")}}, `"XXcret"`, `"XXcret"`},
		"other permissions":    {vault.ApplicationParams{Rules: []vault.AccessRule{rule(1, "/", vault.Redact, "token:use"), rule(2, "/pci/", vault.Reveal, "token:read")}}, `"secret"`, `"secret"`},
		"plain ones come last": {vault.ApplicationParams{Rules: []vault.AccessRule{rule(7, "/pci/high/", vault.Reveal, "token:read")}, Permissions: []string{"token:read"}}, `"secret"`, `"XXcret"`},
		"conditions on id":     {vault.ApplicationParams{Rules: []vault.AccessRule{byID, rule(2, "/", vault.Redact, "token:read")}}, `"secret"`, ``},
	} {
		tt.p.Name, tt.p.Type = name, vault.Private
		c := application(t, v, tt.p)
		wantData(t, name+": high", get(t, c, high.ID).Data, tt.high)
		wantData(t, name+": low", get(t, c, low.ID).Data, tt.low)
	}
}

// Containers inherit downward, and only along whole segments.
func TestContainersInherit(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	c := private(t, v, rule(1, "/PCI/Low/", vault.Reveal, everything...))
	for container, allowed := range map[string]bool{
		"/pci/low/": true, "/pci/low/deep/er/": true, "/PCI/LOW/": true,
		"/pci/": false, "/pci/lower/": false, "/": false, "/x/pci/low/": false, "/pci/high/": false,
	} {
		tok := create(t, v.Tenant, vault.TokenParams{Type: vault.Generic, Data: "secret", Containers: []string{container}})
		for _, tt := range []struct {
			name string
			err  error
		}{
			{"create", second(c.CreateToken(t.Context(), vault.TokenParams{Type: vault.Generic, Data: "x", Containers: []string{container}}))},
			{"read", second(c.GetToken(t.Context(), tok.ID))},
			{"update", second(c.UpdateToken(t.Context(), tok.ID, vault.JSON(`{"metadata":{"a":"b"}}`)))},
			{"use", second(c.Detokenize(t.Context(), vault.JSON(`"{{ `+tok.ID+` }}"`)))},
			{"delete", c.DeleteToken(t.Context(), tok.ID)},
		} {
			if allowed && tt.err != nil {
				t.Errorf("%s in %s: %v", tt.name, container, tt.err)
			}
			if !allowed {
				wantError(t, tt.name+" in "+container, tt.err, vault.ErrForbidden)
			}
		}
		_, err := v.Tenant.GetToken(t.Context(), tok.ID)
		if deleted := err != nil; deleted != allowed {
			t.Errorf("in %s deleted: %v, want %v", container, deleted, allowed)
		}
	}
}

// A token in several containers needs the permission in each, and the
// strictest transform applies.
func TestSeveralContainers(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	c := private(t, v, rule(1, "/open/", vault.Reveal, everything...), rule(2, "/half/", vault.Mask, everything...),
		rule(3, "/shut/", vault.Redact, everything...))
	for _, tt := range []struct {
		containers []string
		want       string
		forbidden  bool
	}{
		{[]string{"/open/"}, `"secret"`, false},
		{[]string{"/open/", "/open/x/"}, `"secret"`, false},
		{[]string{"/open/", "/half/"}, `"XXcret"`, false},
		{[]string{"/shut/", "/open/", "/half/"}, ``, false},
		{[]string{"/open/", "/elsewhere/"}, ``, true},
	} {
		p := vault.TokenParams{Type: vault.Generic, Data: "secret", Containers: tt.containers}
		tok := create(t, v.Tenant, p)
		got, err := c.GetToken(t.Context(), tok.ID)
		_, createErr := c.CreateToken(t.Context(), p)
		_, patchErr := c.UpdateToken(t.Context(), tok.ID, vault.JSON(`{"metadata":{}}`))
		if tt.forbidden {
			wantError(t, "read", err, vault.ErrForbidden)
			wantError(t, "create", createErr, vault.ErrForbidden)
			wantError(t, "update", patchErr, vault.ErrForbidden)
			wantError(t, "delete", c.DeleteToken(t.Context(), tok.ID), vault.ErrForbidden)
			continue
		}
		if err != nil || createErr != nil || patchErr != nil {
			t.Errorf("%v: %v %v %v", tt.containers, err, createErr, patchErr)
			continue
		}
		wantData(t, "data", got.Data, tt.want)
	}
}

// Moving a token needs token:update on the old and the new containers.
func TestMovingATokenNeedsBothPlaces(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	c := private(t, v, rule(1, "/mine/", vault.Reveal, everything...), rule(2, "/theirs/", vault.Reveal, "token:read", "token:create"))
	mine := create(t, v.Tenant, vault.TokenParams{Type: vault.Generic, Data: "secret", Containers: []string{"/mine/"}})
	theirs := create(t, v.Tenant, vault.TokenParams{Type: vault.Generic, Data: "secret", Containers: []string{"/theirs/"}})
	for id, patch := range map[string]string{mine.ID: `{"containers":["/theirs/"]}`, theirs.ID: `{"containers":["/mine/"]}`} {
		_, err := c.UpdateToken(t.Context(), id, vault.JSON(patch))
		wantError(t, patch, err, vault.ErrForbidden)
	}
	_, err := c.UpdateToken(t.Context(), mine.ID, vault.JSON(`{"containers":["/mine/","/theirs/"]}`))
	wantError(t, "to a place beside the old one", err, vault.ErrForbidden)
	_, err = c.UpdateToken(t.Context(), mine.ID, vault.JSON(`{"containers":null}`))
	wantError(t, "to the default container", err, vault.ErrForbidden)
	same(t, "containers", get(t, v.Tenant, mine.ID).Containers, []string{"/mine/"})
	update(t, c, mine.ID, `{"containers":["/mine/deep/"]}`)
	wantData(t, "data after the move", get(t, c, mine.ID).Data, `"secret"`)
}

// Nobody gets at a token through a permission that he does not hold.
func TestEachOperationNeedsItsPermission(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	tok := create(t, v.Tenant, vault.TokenParams{ID: "tok", Type: vault.Generic, Data: "secret"})
	operations := map[string]func(*vault.Client) error{
		"token:create": func(c *vault.Client) error {
			return second(c.CreateToken(t.Context(), vault.TokenParams{Type: vault.Generic, Data: "x"}))
		},
		"token:read":   func(c *vault.Client) error { return second(c.GetToken(t.Context(), tok.ID)) },
		"token:update": func(c *vault.Client) error { return second(c.UpdateToken(t.Context(), tok.ID, vault.JSON(`{}`))) },
		"token:search": func(c *vault.Client) error {
			return second(c.SearchTokens(t.Context(), vault.SearchTokensParams{Query: "type:card"}))
		},
		"token:use":    func(c *vault.Client) error { return second(c.Detokenize(t.Context(), vault.JSON(`"{{ tok }}"`))) },
		"token:delete": func(c *vault.Client) error { return c.DeleteToken(t.Context(), tok.ID) },
	}
	for needed, do := range operations {
		for _, held := range everything {
			if held != needed {
				wantError(t, needed+" with "+held, do(holding(t, v, held)), vault.ErrForbidden)
			}
		}
		wantError(t, needed+" with a management key", do(v.Management), vault.ErrForbidden)
	}
	for _, needed := range []string{"token:create", "token:read", "token:update", "token:search", "token:use", "token:delete"} {
		if err := operations[needed](holding(t, v, needed)); err != nil {
			t.Errorf("%s with it: %v", needed, err)
		}
	}
	_, err := holding(t, v, "token:use").Tokenize(t.Context(), vault.JSON(`"x"`))
	wantError(t, "Tokenize without token:create", err, vault.ErrForbidden)
	_, err = holding(t, v, "token:use").ListTokens(t.Context(), vault.ListTokensParams{})
	wantError(t, "ListTokens without token:read", err, vault.ErrForbidden)
	_, err = holding(t, v, "token:use").Detokenize(t.Context(), vault.JSON(`"{{"`))
	wantError(t, "the permission is there, so the body is judged", err, vault.ErrInvalid)
	_, err = holding(t, v, "token:read").Detokenize(t.Context(), vault.JSON(`"{{"`))
	wantError(t, "the permission is judged before the body", err, vault.ErrForbidden)
}

// Another tenant's token is not found, with the same words as a missing one.
func TestTenantsDoNotSeeEachOther(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	_, other := v.NewTenant(t, "Other")
	create(t, v.Tenant, vault.TokenParams{ID: "ours", Type: vault.Generic, Data: "secret", SearchIndexes: []string{"{{ data }}"}, Metadata: map[string]string{"k": "v"}})
	for name, do := range map[string]func(id string) error{
		"get":    func(id string) error { return second(other.GetToken(t.Context(), id)) },
		"update": func(id string) error { return second(other.UpdateToken(t.Context(), id, vault.JSON(`{}`))) },
		"delete": func(id string) error { return other.DeleteToken(t.Context(), id) },
	} {
		theirs, missing := do("ours"), do("none")
		wantError(t, name, theirs, vault.ErrNotFound)
		same(t, name+": text", theirs.Error(), missing.Error())
	}
	_, err := other.Detokenize(t.Context(), vault.JSON(`"{{ ours }}"`))
	wantError(t, "use", err, vault.ErrInvalid)
	found, total := list(t, other, vault.ListTokensParams{IDs: []string{"ours"}})
	same(t, "list", found, []string{})
	same(t, "total", total, 0)
	page, err := other.SearchTokens(t.Context(), vault.SearchTokensParams{Query: "data:secret OR metadata.k:v"})
	if err != nil || page.Pagination.TotalItems != 0 {
		t.Errorf("search finds %d tokens (%v)", page.Pagination.TotalItems, err)
	}
	app := v.Private.ApplicationID()
	_, err = other.GetApplication(t.Context(), app)
	wantError(t, "application", err, vault.ErrNotFound)
	_, err = other.As(t.Context(), app)
	wantError(t, "acting as an application", err, vault.ErrNotFound)
}
