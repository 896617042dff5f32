package vault_test

import (
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// An origin stays with what is made from a client, and every entry has a mac,
// whoever writes it.
func TestOriginAndMac(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	long := strings.Repeat("2001:db8::", 5)
	app, err := v.Owner.From(long+"\n").As(t.Context(), v.Private.ApplicationID())
	if err != nil {
		t.Fatal(err)
	}
	tok, err := app.AsUser("jane").Masked().CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: "x"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Owner.GetToken(t.Context(), tok.ID); err != nil {
		t.Fatal(err)
	}
	page, err := v.Owner.ListLogs(t.Context(), vault.ListLogsParams{EntityType: "token"})
	if err != nil {
		t.Fatal(err)
	}
	if len(page.Data) != 2 || page.Data[0].Origin != "" || page.Data[1].Origin != long[:45] {
		t.Errorf("entries %+v", page.Data)
	}
	var n, macs int
	if err := v.DB.QueryRowContext(t.Context(), `SELECT count(*), count(mac) FROM vault_logs`).Scan(&n, &macs); err != nil {
		t.Fatal(err)
	}
	if n != macs || n < 6 {
		t.Errorf("%d of %d entries have a mac", macs, n)
	}
}
