package vault

import (
	"context"
	"errors"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/sealed"
	"github.com/seed-72ea4aab/vault/internal/tokens"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

// A row of an earlier version has no columns in its body. They are computed again,
// and a row with other columns is altered.
func TestColumnsOfOlderRowsAreComputedAgain(t *testing.T) {
	t.Parallel()
	store, err := sqlite.Open(t.Context(), ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	v, err := Open(t.Context(), store, NewKey(), &Config{SweepEvery: -1, WorkEvery: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	tenant, err := v.CreateTenant(t.Context(), "Acme")
	if err != nil {
		t.Fatal(err)
	}
	c, yes := v.Tenant(tenant.ID), true
	for name, change := range map[string]func(*storage.Token){
		"nothing":     func(*storage.Token) {},
		"fingerprint": func(row *storage.Token) { row.Fingerprint[0]++ },
		"expression":  func(row *storage.Token) { row.Expression[0]++ },
		"dedup":       func(row *storage.Token) { row.Dedup[0]++ },
		"set":         func(row *storage.Token) { row.Set[0]++ },
	} {
		p := TokenParams{
			ID: "of-" + name, Type: TypeGeneric, Data: name, Metadata: map[string]string{"k": "v"},
			FingerprintExpression: "{{ data | upcase }}", DeduplicateToken: &yes,
		}
		if _, err := c.CreateToken(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		err := runErr(t.Context(), c.Client, &verbGetToken, func(ctx context.Context, op *operation) error {
			return rewrite(ctx, op, p.ID, change)
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.GetToken(t.Context(), p.ID); errors.Is(err, fault.ErrAltered) == (name == "nothing") {
			t.Errorf("another %s: %v", name, err)
		}
	}
	page, err := c.SearchTokens(t.Context(), SearchTokensParams{Query: `metadata.k:"v"`})
	if err != nil || len(page.Data) != 1 || page.Data[0].ID != "of-nothing" {
		t.Errorf("a search finds %+v, %v", page, err)
	}
}

// rewrite writes a token as an earlier version did, with changed columns.
func rewrite(ctx context.Context, op *operation, id string, change func(*storage.Token)) error {
	row, err := tokens.Row(ctx, op.Op, id)
	if err != nil {
		return err
	}
	t, err := tokens.Open(ctx, op.Op, row)
	if err != nil {
		return err
	}
	hashes := t.Hashes
	t.Columns, t.Hashes = [16]byte{}, nil
	update := storage.TokenUpdate{Rev: row.Rev, OldSet: row.Set, Token: *row}
	change(&update.Token)
	for ; len(hashes) > 0; hashes = hashes[16:] {
		update.Token.Hashes = append(update.Token.Hashes, storage.Hash(hashes))
	}
	var parts sealed.Parts
	place := sealed.TokenPlace(row, &parts)
	if update.Token.Body, err = op.Seal(&place, t.Encode(nil)); err != nil {
		return err
	}
	ch := op.Change()
	ch.UpdateTokens = []storage.TokenUpdate{update}
	return op.Write(ctx, ch)
}
