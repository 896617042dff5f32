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

// Erase is [EraseAll] without the result.
func Erase(ctx context.Context, c API, reason string, dst ...any) error {
	_, err := EraseAll(ctx, c, reason, dst...)
	return err
}

// EraseAll erases the tokens of the fields of dst and makes the fields absent
// (permission token:delete). Unlike [Forget] it also deletes stored responses,
// undelivered results and pending jobs that use the tokens, and enters the reason
// in the log: see [vault.Client.EraseTokens]. The reason stays in the log, so name
// a case or a ticket, not a person. Write or delete the rows afterwards.
//
// The result counts the erased tokens. Its ID is the ID of the erasure's entry in the
// log, and [vault.Client.LogProof] returns the proof of it:
//
//	done, err := vaultsql.EraseAll(ctx, c, "case 4711", &customer)
//	proof, err := c.LogProof(ctx, done.ID)
//
// EraseAll skips tokens that do not exist or that the client may not see. It erases
// the token of a dedup field for every row that shares the token.
//
// EraseAll makes one call for every 1,000 tokens, and none if no field has a token. Of
// several calls, the result has the ID of the last one and the sum of the counts. After
// an error, a second EraseAll continues with the rest. It is atomic with a client from
// [vault.Client.InTx].
func EraseAll(ctx context.Context, c API, reason string, dst ...any) (*vault.Erasure, error) {
	fields, err := collect(dst)
	if err != nil {
		return nil, err
	}
	done, err := eraseTokens(ctx, c, reason, idsOf(fields))
	if err != nil {
		return nil, fmt.Errorf("vaultsql: erase: %w", err)
	}
	for _, f := range fields {
		f.reset()
	}
	return done, nil
}

// idsOf returns the distinct ids of fields.
func idsOf(fields []*field) []string {
	var ids []string
	for _, f := range fields {
		if id := f.head().id; id != "" && token.CanBeID(id) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// maxErased is the maximum number of tokens in a call.
const maxErased = 1000

// eraseTokens erases tokens until none is left.
func eraseTokens(ctx context.Context, c API, reason string, ids []string) (*vault.Erasure, error) {
	last, count := &vault.Erasure{Reason: reason}, 0
	for some := range slices.Chunk(ids, maxErased) {
		for left := true; left; {
			done, err := c.EraseTokens(ctx, vault.EraseParams{IDs: some, Reason: reason})
			if err != nil {
				return nil, err
			}
			if done.Left > 0 && done.Count == 0 {
				return nil, fmt.Errorf("%w: permission token:delete required on the tokens", vault.ErrForbidden)
			}
			last, count, left = done, count+done.Count, done.Left > 0
		}
	}
	last.Count = count
	return last, nil
}
