package erase

import (
	"context"
	"slices"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
)

// unopened erases tokens by id while the tenant's own key is denied. The rows are
// deleted unopened, and their entries say so. What the vault stored because of the
// tokens is deleted by a sweep when the key is available again.
func unopened(ctx context.Context, op *core.Op, p Params) (*Erasure, error) {
	if p.IDs == nil || op.InsideTx() {
		return nil, fault.ErrKeyDenied // a search needs the keys
	}
	w := &work{op: op, unopened: true, erasure: Erasure{ID: op.NewID(), Reason: p.Reason, CreatedAt: op.Now}}
	for ids := range slices.Chunk(p.asked().(byID).ids, pieceSize) {
		err := core.Retry(func() error {
			rows, err := op.DB().Tokens(ctx, op.TenantID(), ids)
			if err == nil && len(rows) > 0 {
				err = w.erase(ctx, rows)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if !w.entered {
		if err := op.Write(ctx, w.change()); err != nil {
			return nil, err
		}
	}
	return &w.erasure, op.RecordErasure(ctx, w.erasure.ID, w.erasure.Reason, int64(w.erasure.Count))
}
