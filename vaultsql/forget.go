package vaultsql

import (
	"context"
	"errors"

	"github.com/seed-72ea4aab/vault"
)

// Forget deletes the tokens of the fields of dst (permission token:delete), and
// makes the fields absent: write the rows back to have NULL in their columns. A
// token that is gone already is no error.
//
// A token of a dedup field is deleted for every row that shares it.
//
// It deletes one token after the other and stops at the first error; another
// Forget goes on with the rest. It is atomic with a client of
// [vault.Client.InTx].
func Forget(ctx context.Context, c vault.API, dst ...any) error {
	fields, err := collect(dst)
	if err != nil {
		return err
	}
	done := map[string]bool{}
	for _, f := range fields {
		id := f.head().id
		if id != "" && !done[id] && canBeID(id) {
			if err := c.DeleteToken(ctx, id); err != nil && !errors.Is(err, vault.ErrNotFound) {
				return f.wrap(err)
			}
			done[id] = true
		}
		f.reset()
	}
	return nil
}
