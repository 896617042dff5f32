// Package erase deletes tokens that a search finds or that are named by id,
// together with everything that the vault stored because of them: responses of idempotency
// keys, undelivered results and pending jobs.
//
// Tokens are deleted first, in pieces. The change that deletes a piece also
// inserts a reminder: a sealed record with the ids of the tokens. [Complete] reads
// the reminders and deletes everything that depends on the tokens. The call that
// erased the tokens does so too, and so does every sweep, so a killed process
// leaves nothing behind. In a transaction of the application only a sweep
// does, after the commit. A reminder stays for [reminderLife], because a run in
// progress may still store its result.
package erase

import (
	"context"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/logs/audit"
	"github.com/seed-72ea4aab/vault/internal/token"
	"github.com/seed-72ea4aab/vault/internal/tokens"
	"github.com/seed-72ea4aab/vault/storage"
)

const (
	// MaxReason is the maximum number of characters of a reason.
	MaxReason = 500
	// MaxIDs is the maximum number of ids of an erasure.
	MaxIDs = 1000
)

const (
	// maxTime is how long one call deletes tokens.
	maxTime = 30 * time.Second
	// pieceSize is the maximum number of tokens that one change deletes.
	pieceSize = 200
)

// Params are the parameters of an erasure. Either Query or IDs is set.
type Params struct {
	Query  string
	IDs    []string
	Reason string
}

// Erasure is the result of a call.
type Erasure struct {
	ID        uuid.UUID
	Reason    string
	Count     int // erased tokens
	Left      int // tokens that are still found
	CreatedAt time.Time
}

// recorded returns the erasure as the vault's tree records it.
func (e *Erasure) recorded() *core.RecordedErasure {
	return &core.RecordedErasure{ID: e.ID, Reason: e.Reason, Count: int64(e.Count)}
}

func (p *Params) check() error {
	bad := &form.Problems{}
	switch {
	case p.Query != "" && p.IDs != nil:
		bad.Add("ids", "must be left out if there is a query")
	case p.IDs != nil && (len(p.IDs) == 0 || len(p.IDs) > MaxIDs):
		bad.Add("ids", "must have 1 to %d values", MaxIDs)
	case p.Query == "" && p.IDs == nil:
		bad.Add("query", "is required if there are no ids")
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
// and delete, or the tokens with some ids that the caller may delete. It works
// in pieces until it has passed all of them or the time is over. It leaves rows
// that do not open.
func Tokens(ctx context.Context, op *core.Op, p Params) (*Erasure, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	if op.State.Doc.Sealed {
		return unopened(ctx, op, p)
	}
	w := &work{op: op, asked: p.asked(), walk: core.NewWalk(pieceSize), erasure: Erasure{ID: op.NewID(), Reason: p.Reason, CreatedAt: op.Now}}
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
	if err := w.finish(ctx, until); err != nil {
		return nil, err
	}
	return &w.erasure, w.countLeft(ctx)
}

// finish enters the erasure in the log and the vault's tree, and completes. In a
// transaction of the application, a sweep does the last two after the commit.
func (w *work) finish(ctx context.Context, until time.Time) error {
	if !w.entered { // nothing was found; the log still records the search
		if err := w.op.Write(ctx, w.change()); err != nil {
			return err
		}
	}
	if w.op.InsideTx() {
		return nil
	}
	if err := complete(ctx, w.op, until); err != nil {
		return err
	}
	return w.op.RecordErasure(ctx, w.erasure.recorded())
}

// asked returns the tokens to erase.
func (p *Params) asked() tokens.Query {
	if p.IDs != nil {
		return byID{slices.DeleteFunc(slices.Clone(p.IDs), func(id string) bool { return !token.PossibleID(id) }), access.TokenDelete}
	}
	return &tokens.Search{Query: p.Query}
}

// byID requests tokens by id.
type byID struct {
	ids        []string
	permission string
}

// Permission implements [tokens.Query].
func (q byID) Permission() string { return q.permission }

// Condition implements [tokens.Query].
func (q byID) Condition(context.Context, *core.Op) (storage.And, access.Transform, error) {
	return storage.And{storage.IDIn(q.ids)}, access.Redact, nil
}

// Binding implements [tokens.Query].
func (q byID) Binding() []string { return append([]string{"ids"}, q.ids...) }

// countLeft counts the tokens that the call did not erase and that the caller
// may search, or delete.
func (w *work) countLeft(ctx context.Context) (err error) {
	w.erasure.Left, err = tokens.Count(ctx, w.op, w.asked)
	q, ok := w.asked.(byID)
	if err != nil || !ok || w.op.Require(access.TokenSearch) != nil {
		return err
	}
	seen, err := tokens.Count(ctx, w.op, byID{q.ids, access.TokenSearch})
	w.erasure.Left = max(w.erasure.Left, seen)
	return err
}

// work is an erasure in progress.
type work struct {
	op      *core.Op
	asked   tokens.Query
	walk    core.Walk
	before  storage.ID // end of the last piece
	erasure Erasure
	entered bool // the log has the entry of the erasure

	unopened bool // the tenant's own key is denied
}

// piece erases some tokens with the caller's current rights and keys. It
// reports whether there may be more.
func (w *work) piece(ctx context.Context) (bool, error) {
	return core.RetryStale(func() (bool, error) {
		op, err := w.op.Again(ctx, access.TokenDelete)
		if err != nil {
			return false, err
		}
		if err := op.Require(w.asked.Permission()); err != nil {
			return false, err
		}
		w.op = op
		before := w.before
		rows, more, err := tokens.Deletable(ctx, op, w.asked, &w.walk, &before)
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

// erase deletes rows, with a log entry for each row and a reminder of their ids.
// If some of the rows have changed since, nothing is deleted.
func (w *work) erase(ctx context.Context, rows []storage.Token) error {
	op, ch := w.op, w.change()
	n := reminder{}
	if op.InsideTx() {
		n.Erasure = &recorded{w.erasure.ID, w.erasure.Reason, len(rows)}
	}
	for i := range rows {
		row := &rows[i]
		ch.DeleteTokens = append(ch.DeleteTokens, tokens.Deletion(row))
		entry := op.Entry(audit.Delete, row.Type, row.ID)
		entry.Message = audit.TokenErased
		if w.unopened {
			entry.Message += audit.Unopened
		}
		ch.Logs = append(ch.Logs, entry)
		n.Tokens = append(n.Tokens, erased{row.ID, uuid.UUID(row.Ord)})
	}
	rec := storage.Record{Kind: KindReminder, ID: storage.ID(op.NewID()), CreatedAt: op.Now}
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
		entry.ID = storage.ID(w.erasure.ID) // so that the id of an erasure leads to its proof
		entry.Message = audit.TokensErased + w.erasure.Reason
		ch.Logs = append(ch.Logs, entry)
	}
	return ch
}

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
	return &w.erasure, op.RecordErasure(ctx, w.erasure.recorded())
}
