package unittest

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

var visa = vault.CardData{Number: "4242424242424242", ExpirationMonth: 12, ExpirationYear: 2030, CVC: "123"}

// add adds a card of Jane for a year.
func add(t *testing.T, w *Wallet, v *vaulttest.Vault) string {
	t.Helper()
	token, err := w.Add(t.Context(), "jane", visa, v.Clock.Now().AddDate(1, 0, 0))
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestListShowsMaskedCardsOfTheCustomer(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	w := &Wallet{v.Private}
	add(t, w, v)
	for customer, want := range map[string][]string{"jane": {"XXXXXXXXXXXX4242, expires 12/2030"}, "joe": nil} {
		got, err := w.List(t.Context(), customer)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", customer, diff)
		}
	}
}

func TestChargeGivesTheGatewayTheCard(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	w := &Wallet{v.Private}
	declined := errors.New("declined")
	var got vault.CardData
	err := w.Charge(t.Context(), add(t, w, v), 1999, func(card vault.CardData, _ int) error {
		got = card
		return declined
	})
	if !errors.Is(err, declined) {
		t.Errorf("the gateway's error became %v", err)
	}
	if diff := cmp.Diff(visa, got); diff != "" {
		t.Errorf("the gateway got (-want +got):\n%s", diff)
	}
}

// The code of a card expires after an hour. The test moves its clock instead
// of waiting.
func TestCodeExpiresAfterAnHour(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	w := &Wallet{v.Private}
	token := add(t, w, v)
	take := func(vault.CardData, int) error { return nil }

	v.Clock.Advance(time.Hour - time.Second)
	if err := w.Charge(t.Context(), token, 1999, take); err != nil {
		t.Errorf("within the hour: %v", err)
	}
	v.Clock.Advance(time.Second)
	if err := w.Charge(t.Context(), token, 1999, take); !errors.Is(err, ErrNoCode) {
		t.Errorf("after the hour: %v, want ErrNoCode", err)
	}
	// It can no longer be read. The next sweep deletes it from the database.
	if swept, err := v.Sweep(t.Context()); err != nil || swept.CVCs != 1 {
		t.Errorf("swept %+v, %v", swept, err)
	}
}

func TestCardExpires(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	w := &Wallet{v.Private}
	token := add(t, w, v)
	v.Clock.Advance(366 * 24 * time.Hour)
	if got, err := w.List(t.Context(), "jane"); err != nil || len(got) > 0 {
		t.Errorf("listed: %q, %v", got, err)
	}
	if _, err := v.Private.GetToken(t.Context(), token); !errors.Is(err, vault.ErrNotFound) {
		t.Errorf("the token: %v, want ErrNotFound", err)
	}
}

// Each type of application may only do its part. A public key, which is
// visible in a web page, adds cards and must not read them.
func TestRightsOfApplicationTypes(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	token := add(t, &Wallet{v.Private}, v)
	for name, c := range map[string]struct {
		client            *vault.Client
		add, list, charge error
	}{
		"public":     {v.Public, nil, vault.ErrForbidden, vault.ErrForbidden},
		"private":    {v.Private, nil, nil, nil},
		"management": {v.Management, vault.ErrForbidden, vault.ErrForbidden, vault.ErrForbidden},
		"tenant":     {v.Owner.Client, nil, nil, nil},
	} {
		w := &Wallet{c.client}
		if _, err := w.Add(t.Context(), "joe", visa, v.Clock.Now().Add(time.Hour)); !errors.Is(err, c.add) {
			t.Errorf("%s adds: %v, want %v", name, err, c.add)
		}
		if _, err := w.List(t.Context(), "jane"); !errors.Is(err, c.list) {
			t.Errorf("%s lists: %v, want %v", name, err, c.list)
		}
		charged := false
		err := w.Charge(t.Context(), token, 1999, func(vault.CardData, int) error { charged = true; return nil })
		if !errors.Is(err, c.charge) || charged != (c.charge == nil) {
			t.Errorf("%s charges: %v, want %v; the gateway was called: %v", name, err, c.charge, charged)
		}
	}
}

// A wallet of another tenant has none of this tenant's cards.
func TestTenantsSeeOnlyTheirCards(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	token := add(t, &Wallet{v.Private}, v)
	_, other := v.NewTenant(t, "Other")
	err := (&Wallet{other.Client}).Charge(t.Context(), token, 1999, func(vault.CardData, int) error { return nil })
	if !errors.Is(err, vault.ErrInvalid) {
		t.Errorf("charged: %v, want ErrInvalid, as for a token that does not exist", err)
	}
}
