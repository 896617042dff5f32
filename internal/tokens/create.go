package tokens

import (
	"cmp"
	"context"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/storage"
)

// single is a batch that creates one token, in one allocation with its
// change, row and log entry.
type single struct {
	Batch
	change storage.Change
	item   Item
	items  [1]*Item
	sent   [1]*Item
	logs   [1]storage.Log
}

func newSingle(op *core.Op) *single {
	s := &single{}
	s.op, s.Batch.items, s.Batch.sent = op, s.items[:0], s.sent[:0]
	s.Batch.change, s.Batch.logs = &s.change, s.logs[:0]
	s.Batch.rows = s.item.row[:0]
	return s
}

// Create stores a value and returns its token, or the existing token that it
// duplicates.
func Create(ctx context.Context, op *core.Op, p *Params) (Token, error) {
	s, bad := newSingle(op), &form.Problems{}
	if s.Prepare(ctx, &s.item, p, nil, bad); bad.Any() {
		return Token{}, cmp.Or(s.item.Canceled(), fault.Of(bad))
	}
	if err := s.Add(&s.item); err != nil {
		return Token{}, err
	}
	if err := core.ReserveCopies(ctx, s.item.Data); err != nil {
		return Token{}, err
	}
	if err := s.Save(ctx); err != nil {
		return Token{}, err
	}
	if s.item.Existing != nil {
		return existing(ctx, op, s.item.Existing)
	}
	return s.item.Created(), nil
}
