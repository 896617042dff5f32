package vaultsql

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/token"
)

// Forget deletes the tokens of the fields of dst, for values that are no longer
// needed; use [Erase] when a person asks to be forgotten (permission
// token:delete). Forget makes the fields absent. Write or delete the rows
// afterwards, because their columns still hold the ids. Forget skips tokens that
// do not exist.
//
// Deleting the token of a dedup field deletes the value of every row that
// shares the token.
//
// Forget makes one call for each token and stops at the first error. A second
// Forget continues with the rest. It is atomic with a client from
// [vault.Client.InTx].
func Forget(ctx context.Context, c API, dst ...any) error {
	fields, err := collect(dst)
	if err != nil {
		return err
	}
	done := map[string]bool{}
	for _, f := range fields {
		id := f.head().id
		if id != "" && !done[id] && token.CanBeID(id) {
			if err := c.DeleteToken(ctx, id); err != nil && !errors.Is(err, vault.ErrNotFound) {
				return f.wrap(err)
			}
			done[id] = true
		}
		f.reset()
	}
	return nil
}

// Erase erases the tokens of the fields of dst and makes the fields absent
// (permission token:delete). Unlike [Forget] it also deletes stored responses,
// undelivered results and pending jobs that use the tokens, and enters the reason
// in the log: see [vault.Client.EraseTokens]. The reason stays in the log, so name
// a case or a ticket, not a person. Write or delete the rows afterwards.
//
// Erase skips tokens that do not exist or that the client may not see. It erases
// the token of a dedup field for every row that shares the token.
//
// Erase makes one call for every 1,000 tokens. After an error, a second Erase
// continues with the rest. It is atomic with a client from [vault.Client.InTx].
func Erase(ctx context.Context, c API, reason string, dst ...any) error {
	fields, err := collect(dst)
	if err != nil {
		return err
	}
	var ids []string
	for _, f := range fields {
		if id := f.head().id; id != "" && token.CanBeID(id) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for some := range slices.Chunk(slices.Compact(ids), maxErased) {
		if err := eraseAll(ctx, c, vault.EraseParams{IDs: some, Reason: reason}); err != nil {
			return fmt.Errorf("vaultsql: erase: %w", err)
		}
	}
	for _, f := range fields {
		f.reset()
	}
	return nil
}

// maxErased is the maximum number of tokens in a call.
const maxErased = 1000

// eraseAll repeats an erasure until no token is left.
func eraseAll(ctx context.Context, c API, p vault.EraseParams) error {
	for {
		done, err := c.EraseTokens(ctx, p)
		switch {
		case err != nil || done.Left == 0:
			return err
		case done.Count == 0:
			return fmt.Errorf("%w: permission token:delete required on the tokens", vault.ErrForbidden)
		}
	}
}
