package once

import (
	"context"
	"errors"
	"slices"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/logs/audit"
	"github.com/seed-72ea4aab/vault/internal/tokens"
	"github.com/seed-72ea4aab/vault/storage"
)

// rowsAtOnce is the maximum number of whole rows in memory.
const rowsAtOnce = 16

// Judge checks whether a stored response or result may be replayed. The
// identities that used its tokens must still be allowed to see as much;
// otherwise the error is ErrForbidden. The tokens must exist unchanged;
// otherwise it is ErrWithdrawn. A replay of reads is a use of the tokens and is
// logged. A replay of a write's response is not, because the write was.
func Judge(ctx context.Context, op *core.Op, on *core.Depends) error {
	uses := on.Uses
	if mark := op.ShortLived(); on.Maker != "" && mark != "" && mark != on.Maker {
		return fault.New(fault.ErrForbidden, "the stored answer has a key, and a caller with a JWT or with a key that ends gets only keys that it has made itself")
	}
	if on.TooMany {
		return fault.ErrWithdrawn
	}
	if len(uses) == 0 {
		return nil
	}
	rows, err := rowsOf(ctx, op, uses)
	if err != nil {
		return err
	}
	withdrawn := false
	var seen []core.Entity
	for i := range uses {
		use := &uses[i]
		row := rows[use.Ord]
		if row == nil || tokens.Expired(row, op.Now) {
			withdrawn = true
			continue
		}
		if err := maySeeAgain(ctx, op, use, row); err != nil {
			return err
		}
		if !use.AnyState && !row.ModifiedAt.Equal(use.Modified) {
			withdrawn = true
		}
		if !use.CVCEnds.IsZero() && (row.CVC == nil || !row.CVCExpiresAt.Equal(use.CVCEnds) || !row.CVCExpiresAt.After(op.Now)) {
			withdrawn = true
		}
		if outer := op.Uses(ctx); outer != nil { // the response becomes part of another
			op.Bind(outer, *use)
		}
		if !use.AnyState && !slices.ContainsFunc(seen, func(e core.Entity) bool { return e.ID == row.ID }) {
			seen = append(seen, core.Entity{Type: row.Type, ID: row.ID, Use: use})
		}
	}
	if withdrawn {
		return fault.ErrWithdrawn
	}
	return op.LogReads(ctx, audit.Use, seen...)
}

// rowsOf reads the rows of the used tokens. It opens each row, because write access
// to the database is enough to change the columns that decide. A row that does not
// open raises an alarm, and counts as missing.
func rowsOf(ctx context.Context, op *core.Op, uses []core.TokenUse) (map[uuid.UUID]*storage.Token, error) {
	var ids []string
	for i := range uses {
		if !slices.Contains(ids, uses[i].ID) {
			ids = append(ids, uses[i].ID)
		}
	}
	rows := map[uuid.UUID]*storage.Token{}
	for piece := range slices.Chunk(ids, rowsAtOnce) {
		some, err := tokens.Rows(ctx, op, piece)
		if err != nil {
			return nil, err
		}
		some, err = tokens.Genuine(ctx, op, nil, some)
		if err != nil {
			return nil, err
		}
		for i := range some {
			some[i].Body = nil // only the columns are needed
			rows[uuid.UUID(some[i].Ord)] = &some[i]
		}
	}
	return rows, nil
}

// maySeeAgain checks whether the identity that used a token may still see as
// much.
func maySeeAgain(ctx context.Context, op *core.Op, use *core.TokenUse, row *storage.Token) error {
	grant := op.Grant()
	if use.As != (uuid.UUID{}) {
		id, err := op.As(ctx, use.As)
		if errors.Is(err, fault.ErrNotFound) || errors.Is(err, fault.ErrUnauthenticated) {
			return fault.New(fault.ErrForbidden, "the application that the stored answer depends on no longer exists")
		}
		if err != nil {
			return err
		}
		grant = id.Grant()
	}
	if d := grant.DecideTo(use.Permission, row.ID, row.Containers, use.To); d.Transform == access.None || d.Transform < use.Shown {
		return fault.PermissionOnToken(use.Permission)
	}
	return nil
}
