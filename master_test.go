package vault_test

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// changing is a database whose master key is changed while nodes serve it.
type changing struct {
	path     string
	old, new *vault.Key
}

// node opens the database as another node.
func (c *changing) node(t *testing.T, key vault.AEAD) *vault.Vault {
	t.Helper()
	store, err := sqlite.Open(t.Context(), c.path)
	if err != nil {
		t.Fatal(err)
	}
	return openVault(t, store, key, vaulttest.NewClock(vaulttest.Start))
}

// refuses asks that a key does not open the database.
func (c *changing) refuses(t *testing.T, what string, key vault.AEAD) {
	t.Helper()
	store, err := sqlite.Open(t.Context(), c.path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = vault.Open(t.Context(), store, key, nil)
	wantError(t, what, err, vault.ErrWrongKey)
}

// serves asks that a node can read, write, and create tenants for the others.
func serves(t *testing.T, v *vault.Vault, tenants ...uuid.UUID) uuid.UUID {
	t.Helper()
	for _, tenant := range tenants {
		tok := create(t, v.Tenant(tenant), generic)
		wantData(t, "data", get(t, v.Tenant(tenant), tok.ID).Data, `"x"`)
	}
	return tenantOf(t, v).TenantID()
}

// In each step of a change of the master key all nodes serve, those that are
// a step behind too; and at the end the old key is not needed.
func TestMasterKeyIsChangedWhileNodesServe(t *testing.T) {
	t.Parallel()
	c := &changing{filepath.Join(t.TempDir(), "vault.db"), vault.NewKey(), vault.NewKey()}
	behind := c.node(t, c.old)
	tenants := []uuid.UUID{serves(t, behind)}
	for _, key := range []vault.AEAD{vault.Keys(c.old, c.new), vault.Keys(c.new, c.old)} {
		ahead := c.node(t, key)
		for _, v := range []*vault.Vault{behind, ahead, behind} {
			tenants = append(tenants, serves(t, v, tenants...))
		}
		behind = ahead
	}
	c.refuses(t, "the new key alone, too early", c.new)

	deleted := serves(t, behind)
	if err := behind.DeleteTenant(t.Context(), deleted); err != nil {
		t.Fatal(err)
	}
	other := c.node(t, vault.Keys(c.new, c.old))
	serves(t, other, tenants...)
	for range 2 { // it can be called again
		if err := behind.RewrapKeys(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	tenants = append(tenants, serves(t, other, tenants...))

	c.refuses(t, "the old key", c.old)
	last := c.node(t, c.new)
	for _, v := range []*vault.Vault{last, behind, other} {
		tenants = append(tenants, serves(t, v, tenants...))
	}
	page, err := last.Tenant(tenants[0]).ListLogs(t.Context(), vault.ListLogsParams{EntityType: "tenant"})
	if err != nil {
		t.Fatal(err)
	}
	var messages []string
	for _, e := range page.Data {
		messages = append(messages, e.Message)
	}
	same(t, "log", slices.Compact(messages), []string{"Data keys up to 1 wrapped again", "Tenant created"})
}

// While a tenant's keys cannot be opened, the database asks for the old key.
func TestRewrapKeysDoesNotLeaveATenantBehind(t *testing.T) {
	t.Parallel()
	c := &changing{filepath.Join(t.TempDir(), "vault.db"), vault.NewKey(), vault.NewKey()}
	serves(t, c.node(t, c.old))
	astray := c.node(t, vault.Keys(vault.NewKey(), c.old))
	lost := serves(t, astray)
	v := c.node(t, vault.Keys(c.new, c.old))
	if err := v.RewrapKeys(t.Context()); err == nil || !strings.Contains(err.Error(), lost.String()) {
		t.Errorf("a tenant under a third key: %v", err)
	}
	c.refuses(t, "the new key alone", c.new)
	if err := astray.DeleteTenant(t.Context(), lost); err != nil {
		t.Fatal(err)
	}
	if err := v.RewrapKeys(t.Context()); err != nil {
		t.Errorf("without it: %v", err)
	}
	c.node(t, c.new)
}

// service is a master key in a KMS that can be down, or deny what is asked of
// it.
type service struct {
	vault.AEAD
	sealing, opening error
	recovers         bool // after the first refusal
}

func (s *service) Encrypt(plaintext, associatedData []byte) ([]byte, error) {
	if s.sealing != nil {
		return nil, s.sealing
	}
	return s.AEAD.Encrypt(plaintext, associatedData)
}

func (s *service) Decrypt(ciphertext, associatedData []byte) ([]byte, error) {
	if err := s.opening; err != nil {
		if s.recovers {
			s.sealing, s.opening = nil, nil
		}
		return nil, err
	}
	return s.AEAD.Decrypt(ciphertext, associatedData)
}

// A master key that does not work is not called the wrong one, whatever the
// error that it gives; and the wrong one is not said to be broken.
func TestOpenTellsABrokenKeyFromAWrongOne(t *testing.T) {
	t.Parallel()
	down := errors.New("kms: deadline exceeded")
	right, wrong := vault.NewKey(), vault.NewKey()
	for name, test := range map[string]struct {
		key  vault.AEAD
		want []error // none: it opens
	}{
		"down":                      {&service{AEAD: right, sealing: down, opening: down}, []error{vault.ErrKeyUnavailable, down}},
		"may seal alone":            {&service{AEAD: right, opening: down}, []error{vault.ErrKeyUnavailable, down}},
		"down, and another key":     {vault.Keys(wrong, &service{AEAD: right, sealing: down, opening: down}), []error{vault.ErrKeyUnavailable, down}},
		"down, and not needed":      {vault.Keys(right, &service{AEAD: wrong, sealing: down, opening: down}), nil},
		"back after a moment":       {&service{AEAD: right, sealing: down, opening: down, recovers: true}, nil},
		"wrong":                     {&service{AEAD: wrong}, []error{vault.ErrWrongKey}},
		"wrong, back after a while": {&service{AEAD: wrong, opening: down, recovers: true}, []error{vault.ErrWrongKey}},
		"several wrong ones":        {vault.Keys(wrong, vault.NewKey()), []error{vault.ErrWrongKey}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &changing{path: filepath.Join(t.TempDir(), "vault.db")}
			c.node(t, right)
			store, err := sqlite.Open(t.Context(), c.path)
			if err != nil {
				t.Fatal(err)
			}
			v, err := vault.Open(t.Context(), store, test.key, nil)
			if err == nil {
				defer v.Close()
			}
			if opened := err == nil; opened != (test.want == nil) {
				t.Fatalf("opened: %v, %v", opened, err)
			}
			for _, want := range test.want {
				wantError(t, name, err, want)
			}
			if errors.Is(err, vault.ErrWrongKey) && errors.Is(err, vault.ErrKeyUnavailable) {
				t.Errorf("both wrong and broken: %v", err)
			}
		})
	}
}

// A key that does not work leaves a new database as it was, for the key that
// does, and a vault without the tenant.
func TestABrokenKeySetsNothingUp(t *testing.T) {
	t.Parallel()
	denied := errors.New("kms: permission denied")
	for name, key := range map[string]*service{
		"seals nothing": {AEAD: vault.NewKey(), sealing: denied},
		"opens nothing": {AEAD: vault.NewKey(), opening: denied},
	} {
		path := filepath.Join(t.TempDir(), "vault.db")
		store, err := sqlite.Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		_, err = vault.Open(t.Context(), store, key, nil)
		wantError(t, name, err, vault.ErrKeyUnavailable)
		wantError(t, name, err, denied)

		working := &service{AEAD: vault.NewKey()}
		v := (&changing{path: path}).node(t, working)
		working.sealing = denied
		_, err = v.CreateTenant(t.Context(), "Acme")
		wantError(t, name+": create tenant", err, vault.ErrKeyUnavailable)
		page, err := v.Tenants(t.Context(), vault.PageParams{})
		if err != nil || len(page.Data) != 0 {
			t.Errorf("%s: %d tenants (%v)", name, len(page.Data), err)
		}
	}
}
