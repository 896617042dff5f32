package vaultsql

import (
	"context"
	"errors"

	"github.com/seed-72ea4aab/vault"
)

// Forget deletes the tokens of the fields of dst and makes the fields absent
// (permission token:delete). Write or delete the rows afterwards, because
// their columns still hold the ids. Forget skips tokens that do not exist.
//
// Deleting the token of a dedup field deletes the value of every row that
// shares the token.
//
// Forget makes one call for each token and stops at the first error. A second
// Forget continues with the rest. It is atomic with a client from
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
