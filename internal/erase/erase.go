// Package erase deletes the tokens that a search finds, together with
// everything that the vault stored because of them: responses of idempotency
// keys, undelivered results and pending jobs.
//
// Tokens are deleted first, in pieces. The change that deletes a piece also
// inserts a note: a sealed record with the ids of the tokens. [Settle] reads
// the notes and deletes everything that depends on the tokens. The call that
// erased the tokens settles, and so does every sweep, so a killed process
// leaves nothing behind. A note stays for [noteLife], because a run in
// progress may still store its result.
package erase

import (
	"context"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/audit"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/find"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/tokens"
	"github.com/seed-72ea4aab/vault/storage"
)

// MaxReason is the maximum number of characters of a reason.
const MaxReason = 500

const (
	// maxTime is how long one call deletes tokens.
	maxTime = 30 * time.Second
	// pieceSize is the maximum number of tokens that one change deletes.
	pieceSize = 200
)

// Params are the parameters of an erasure.
type Params struct{ Query, Reason string }

// Erasure is the result of a call.
type Erasure struct {
	ID        uuid.UUID
	Reason    string
	Count     int // erased tokens
	Left      int // tokens that the search still finds
	CreatedAt time.Time
}

func (p *Params) check() error {
	bad := &form.Problems{}
	if p.Query == "" {
		bad.Add("query", "is required")
	}
	switch n := utf8.RuneCountInString(p.Reason); {
	case n == 0:
		bad.Add("reason", "is required")
	case n > MaxReason:
		bad.Add("reason", "must have at most %d characters", MaxReason)
	default:
		form.CheckText(bad, "reason", p.Reason)
	}
	return fault.Of(bad)
}

// Tokens erases the tokens that match a query and that the caller may search
// and delete. It works in pieces, newest tokens first, until it has passed all
// of them or the time is over. It leaves rows that do not open.
func Tokens(ctx context.Context, op *core.Op, p Params) (*Erasure, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	w := &work{
		op: op, search: &tokens.Search{Query: p.Query}, walk: find.NewWalk(pieceSize),
		erasure: Erasure{ID: op.NewID(), Reason: p.Reason, CreatedAt: op.Now},
	}
	until := op.Now.Add(maxTime)
	for op.Vault.Now().Before(until) {
		more, err := w.piece(ctx)
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
	}
	if !w.entered { // nothing was found; the log still records the search
		if err := w.op.Write(ctx, w.change()); err != nil {
			return nil, err
		}
	}
	if err := settle(ctx, w.op, until); err != nil {
		return nil, err
	}
	if err := w.op.RecordErasure(ctx, w.erasure.ID, p.Reason, int64(w.erasure.Count)); err != nil {
		return nil, err
	}
	left, err := tokens.Count(ctx, w.op, w.search)
	w.erasure.Left = left
	return &w.erasure, err
}

// work is an erasure in progress.
type work struct {
	op      *core.Op
	search  *tokens.Search
	walk    find.Walk
	before  storage.ID // end of the last piece
	erasure Erasure
	entered bool // the log has the entry of the erasure
}

// piece erases some tokens with the caller's current rights and keys. It
// reports whether there may be more.
func (w *work) piece(ctx context.Context) (bool, error) {
	return core.RetryStale(func() (bool, error) {
		op, err := w.op.Again(ctx, access.TokenDelete)
		if err != nil {
			return false, err
		}
		if err := op.Require(access.TokenSearch); err != nil {
			return false, err
		}
		w.op = op
		before := w.before
		rows, more, err := tokens.Deletable(ctx, op, w.search, &w.walk, &before)
		if err != nil {
			return false, err
		}
		if len(rows) > 0 {
			if err := w.erase(ctx, rows); err != nil {
				return false, err
			}
		}
		w.before = before
		return more, nil
	})
}

// erase deletes rows, with a log entry for each row and a note of their ids.
// If some of the rows have changed since, nothing is deleted.
func (w *work) erase(ctx context.Context, rows []storage.Token) error {
	op, ch := w.op, w.change()
	var n note
	for i := range rows {
		row := &rows[i]
		ch.DeleteTokens = append(ch.DeleteTokens, tokens.Deletion(row))
		entry := op.Entry(audit.Delete, row.Type, row.ID)
		entry.Message = audit.TokenErased
		ch.Logs = append(ch.Logs, entry)
		n.Tokens = append(n.Tokens, erased{row.ID, uuid.UUID(row.Ord)})
	}
	rec := storage.Record{Kind: KindNote, ID: storage.ID(op.NewID()), CreatedAt: op.Now}
	if err := op.SealRecord(&rec, n); err != nil {
		return err
	}
	ch.InsertRecords = []storage.Record{rec}
	if err := op.Write(ctx, ch); err != nil {
		return err
	}
	w.entered = true
	w.erasure.Count += len(rows)
	return nil
}

// change returns a change. It has the entry of the erasure, unless the log
// already has it.
func (w *work) change() *storage.Change {
	ch := w.op.Change()
	if !w.entered {
		entry := w.op.Entry(audit.Create, audit.Erasure, w.erasure.ID.String())
		entry.Message = audit.TokensErased + w.erasure.Reason
		ch.Logs = append(ch.Logs, entry)
	}
	return ch
}
