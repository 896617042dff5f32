package transfer

import (
	"context"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/logs/audit"
	"github.com/seed-72ea4aab/vault/internal/tokens"
	"github.com/seed-72ea4aab/vault/storage"
)

// Export yields tokens with their plaintext, oldest first, until yield
// returns false. The use of a token is logged before it is yielded.
func Export(ctx context.Context, op *core.Op, asked tokens.Query, yield func(tokens.Params) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	e := &exporter{op: op, asked: exported{asked}, pages: make(chan page)}
	go e.run(ctx)
	defer func() {
		cancel()
		for range e.pages { // until it has ended
		}
	}()
	for page := range e.pages {
		if page.err != nil {
			return page.err
		}
		for i := range page.tokens {
			if !yield(page.tokens[i]) {
				return nil
			}
		}
	}
	return ctx.Err()
}

// exported is the list of tokens of an export.
type exported struct{ selected tokens.Query }

// Permission implements tokens.Query.
func (q *exported) Permission() string { return access.TokenUse }

// Binding implements tokens.Query.
func (q *exported) Binding() []string { return append([]string{"export"}, q.selected.Binding()...) }

// Condition implements tokens.Query. A caller that may see a whole token may
// also search for it by its data.
func (q *exported) Condition(ctx context.Context, op *core.Op) (storage.And, access.Transform, error) {
	if to := op.Grant().Destinations(); to != nil && !op.Grant().Shows(access.TokenUse, access.Reveal) {
		return nil, access.Reveal, fault.LimitedTo(to.String())
	}
	if !op.Grant().Shows(access.TokenUse, access.Reveal) {
		return nil, access.Reveal, fault.New(fault.ErrForbidden, "an export needs token:use with the transform reveal")
	}
	search, ok := q.selected.(*tokens.Search)
	if !ok {
		where, _, err := q.selected.Condition(ctx, op)
		return where, access.Reveal, err
	}
	where, _, err := tokens.ReadQuery(ctx, op, search.Query)
	return where, access.Reveal, err
}

// exporter reads pages ahead of its caller. While the log entries of a page
// are written, the next page is read.
type exporter struct {
	op    *core.Op
	asked exported
	pages chan page
}

// page is a page of tokens. Their use is logged when logged is closed.
type page struct {
	tokens []tokens.Params
	err    error
	logged chan struct{}
}

// Limits of one read: tokens, and their sealed bytes.
const (
	exportRows  = 4000
	exportBytes = 4 << 20
)

func (e *exporter) run(ctx context.Context) {
	defer close(e.pages)
	walk, last := core.NewWalk(exportRows), storage.ID{}
	var before *page
	for more := true; more || before != nil; {
		var next *page
		if more {
			next = &page{logged: make(chan struct{})}
			more = e.read(ctx, next, &walk, &last)
		}
		if before != nil {
			<-before.logged
			select {
			case e.pages <- *before:
			case <-ctx.Done():
				before.err = ctx.Err()
			}
			if before.err != nil {
				if next != nil {
					<-next.logged
				}
				return
			}
		}
		before = next
	}
}

// read reads a page and starts writing its log entries. It reports whether
// there may be another page.
func (e *exporter) read(ctx context.Context, p *page, walk *core.Walk, last *storage.ID) (more bool) {
	op, err := e.op.Again(ctx, access.TokenUse)
	if err != nil {
		p.err = err
		close(p.logged)
		return false
	}
	inside, leave := op.Enter(ctx)
	var seen []core.Entity
	seen, more, p.err = e.open(inside, op, p, walk, last)
	go func() {
		defer close(p.logged)
		defer leave()
		if p.err == nil {
			p.err = op.LogReads(inside, audit.Use, seen...)
		}
	}()
	return more
}

// open reads a page of tokens in plaintext, and moves last to its end.
func (e *exporter) open(ctx context.Context, op *core.Op, p *page, walk *core.Walk, last *storage.ID) (seen []core.Entity, more bool, err error) {
	rows, more, err := e.rows(ctx, op, walk, *last)
	if err != nil || len(rows) == 0 {
		return nil, false, err
	}
	*last = rows[len(rows)-1].Ord
	p.tokens, seen = make([]tokens.Params, 0, len(rows)), make([]core.Entity, 0, len(rows))
	for i := range rows {
		if i%core.ManyRows == 0 {
			if err := core.Turn(ctx); err != nil {
				return nil, false, err
			}
		}
		transform, ok := op.Grant().Decide(access.TokenUse, rows[i].ID, rows[i].Containers)
		if !ok || transform != access.Reveal {
			continue // the condition and the rules disagree, so nothing is shown
		}
		t, err := tokens.Open(ctx, op, &rows[i])
		if err != nil {
			return nil, false, err
		}
		p.tokens, seen = append(p.tokens, t.Params()), append(seen, t.Entity())
	}
	return seen, more, ctx.Err()
}

// rows reserves memory for a page and reads its rows.
func (e *exporter) rows(ctx context.Context, op *core.Op, walk *core.Walk, last storage.ID) (rows []storage.Token, more bool, err error) {
	where, err := tokens.Find(ctx, op, &e.asked)
	if err != nil {
		return nil, false, err
	}
	room := admission.Of(ctx)
	room.Rest()
	if err := core.Reserve(ctx, core.CopyTimes*exportBytes); err != nil {
		return nil, false, err
	}
	rows, more, err = core.NextPage(walk, func(limit int) ([]storage.Token, error) {
		rows, _, err := op.DB().ListTokens(ctx, storage.TokenFilter{
			Tenant: op.TenantID(), Where: where, Now: op.Now, Before: last, OldestFirst: true, Limit: limit, MaxBytes: exportBytes,
		})
		return rows, err
	})
	if err == nil {
		room.Free(core.CopyTimes * (exportBytes - tokens.Size(rows)))
	}
	return rows, more, err
}
