package vault

import (
	"context"
	"errors"
	"slices"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/audit"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/kept"
	"github.com/seed-72ea4aab/vault/internal/reveal"
	"github.com/seed-72ea4aab/vault/internal/tokens"
	"github.com/seed-72ea4aab/vault/storage"
)

// replay asks whether a kept answer may be given again: those who used its
// tokens must still be allowed to see as much of them, else it is ErrForbidden,
// and the data must exist, else it is ErrWithdrawn. Each replay is a use of the
// tokens, and entered in the log.
func (op *operation) replay(ctx context.Context, k *kept.Answer) error {
	if k.TooMany {
		return ErrWithdrawn
	}
	if len(k.Uses) == 0 {
		return nil
	}
	rows, err := op.rowsOf(ctx, k.Uses)
	if err != nil {
		return err
	}
	withdrawn := false
	var seen []core.Entity
	for _, use := range k.Uses {
		row := rows[use.Ord]
		if row == nil || tokens.Expired(row, op.Now) {
			withdrawn = true
			continue
		}
		if err := op.maySeeAgain(ctx, &use, row); err != nil {
			return err
		}
		if !use.CVCEnds.IsZero() && (row.CVC == nil || !row.CVCExpiresAt.Equal(use.CVCEnds) || !row.CVCExpiresAt.After(op.Now)) {
			withdrawn = true
		}
		if e := (core.Entity{Type: row.Type, ID: row.ID}); !slices.Contains(seen, e) {
			seen = append(seen, e)
		}
	}
	if withdrawn {
		return ErrWithdrawn
	}
	return op.LogReads(ctx, audit.Use, seen...)
}

// rowsOf reads the rows of tokens that were used, without opening them.
func (op *operation) rowsOf(ctx context.Context, uses []kept.Use) (map[uuid.UUID]*storage.Token, error) {
	var ids []string
	for i := range uses {
		if !slices.Contains(ids, uses[i].ID) {
			ids = append(ids, uses[i].ID)
		}
	}
	rows := map[uuid.UUID]*storage.Token{}
	for piece := range slices.Chunk(ids, reveal.AtOnce) {
		some, err := tokens.Rows(ctx, op.Op, piece)
		if err != nil {
			return nil, err
		}
		for i := range some {
			some[i].Body = nil // only its columns are needed
			rows[uuid.UUID(some[i].Ord)] = &some[i]
		}
	}
	return rows, nil
}

// maySeeAgain asks whether the one that used a token may still see as much.
func (op *operation) maySeeAgain(ctx context.Context, use *kept.Use, row *storage.Token) error {
	grant := op.Grant()
	if use.As != (uuid.UUID{}) {
		id, err := op.As(ctx, use.As)
		if errors.Is(err, ErrNotFound) || errors.Is(err, ErrUnauthenticated) {
			return fault.New(ErrForbidden, "The application that the stored answer depends on no longer exists.")
		}
		if err != nil {
			return err
		}
		grant = id.Grant()
	}
	if shown, ok := grant.Decide(use.Permission, row.ID, row.Containers); !ok || shown < use.Shown {
		return fault.PermissionOnToken(use.Permission)
	}
	return nil
}
