package vault

import (
	"context"
	"iter"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/audit"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/find"
	"github.com/seed-72ea4aab/vault/storage"
)

// ExportOptions says what to export.
type ExportOptions struct {
	// Query chooses tokens as that of [SearchTokensParams] does. Empty means all.
	// It may hold data, so it is not shown when it is printed or logged.
	Query string
}

// Export iterates over tokens with their data in clear, oldest first, in the form
// that [Client.Import] takes (permission token:use with the transform reveal;
// tokens on which the client does not have that are left out, and a client that
// has it nowhere gets ErrForbidden). Each token has an entry in the log that says
// that it was used, which is written before it is given.
//
// A cvc is not exported. Memory does not grow with the number of tokens. Like
// every iterator of [Client] it misses nothing that existed throughout and ends
// after an error; tokens that are created meanwhile may come last.
func (c *Client) Export(ctx context.Context, opts ExportOptions) iter.Seq2[TokenParams, error] {
	return func(yield func(TokenParams, error) bool) {
		err := runErr(ctx, c, &verbExport, func(ctx context.Context, op *operation) error {
			return op.export(ctx, opts, func(p TokenParams) bool { return yield(p, nil) })
		})
		if err != nil {
			yield(TokenParams{}, err)
		}
	}
}

// export yields tokens until yield returns false.
func (op *operation) export(ctx context.Context, opts ExportOptions, yield func(TokenParams) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	e := &exporter{op: op, asked: exportQuery(opts), pages: make(chan exportPage)}
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

// exportQuery is the list of tokens that an export goes through.
type exportQuery ExportOptions

func (q *exportQuery) permission() string { return access.TokenUse }

func (q *exportQuery) binding() []string { return []string{"export", q.Query} }

// condition reads the query. Whoever may see all of a token in clear may also look
// for it by its data.
func (q *exportQuery) condition(ctx context.Context, op *operation) (storage.And, access.Transform, error) {
	if !op.Grant().Shows(access.TokenUse, access.Reveal) {
		return nil, access.Reveal, fault.New(ErrForbidden, "An export needs token:use with the transform reveal.")
	}
	if q.Query == "" {
		return nil, access.Reveal, nil
	}
	where, _, err := op.readQuery(ctx, q.Query)
	return where, access.Reveal, err
}

// exporter reads pages ahead of the loop that they are for. While the entries of
// a page are written, the next one is read.
type exporter struct {
	op    *operation
	asked exportQuery
	pages chan exportPage
}

// exportPage is tokens whose use is in the log when logged is closed.
type exportPage struct {
	tokens []TokenParams
	err    error
	logged chan struct{}
}

// Bounds of what is read at once: tokens, and their sealed bytes.
const (
	exportRows  = 4000
	exportBytes = 4 << 20
)

func (e *exporter) run(ctx context.Context) {
	defer close(e.pages)
	walk, last := find.NewWalk(exportRows), storage.ID{}
	var before *exportPage
	for more := true; more || before != nil; {
		var page *exportPage
		if more {
			page = &exportPage{logged: make(chan struct{})}
			more = e.read(ctx, page, &walk, &last)
		}
		if before != nil {
			<-before.logged
			select {
			case e.pages <- *before:
			case <-ctx.Done():
				before.err = ctx.Err()
			}
			if before.err != nil {
				if page != nil {
					<-page.logged
				}
				return
			}
		}
		before = page
	}
}

// read reads a page and has its entries written. It reports whether there may be
// another page.
func (e *exporter) read(ctx context.Context, page *exportPage, walk *find.Walk, last *storage.ID) (more bool) {
	op, err := e.op.again(ctx, access.TokenUse)
	if err != nil {
		page.err = err
		close(page.logged)
		return false
	}
	inside, leave := op.Enter(ctx)
	var seen []core.Entity
	seen, more, page.err = e.open(inside, op, page, walk, last)
	go func() {
		defer close(page.logged)
		defer leave()
		if page.err == nil {
			page.err = op.LogReads(inside, audit.Use, seen...)
		}
	}()
	return more
}

// open reads a page of tokens in clear, and moves last to its end.
func (e *exporter) open(ctx context.Context, op *operation, page *exportPage, walk *find.Walk, last *storage.ID) (seen []core.Entity, more bool, err error) {
	where, err := op.find(ctx, &e.asked)
	if err != nil {
		return nil, false, err
	}
	room := admission.Of(ctx)
	room.Rest()
	if err := core.Hold(ctx, core.CopyTimes*exportBytes); err != nil {
		return nil, false, err
	}
	rows, more, err := find.Next(walk, func(limit int) ([]storage.Token, error) {
		rows, _, err := op.DB().ListTokens(ctx, storage.TokenFilter{
			Tenant: op.TenantID(), Where: where, Now: op.Now, Before: *last, OldestFirst: true, Limit: limit, MaxBytes: exportBytes,
		})
		return rows, err
	})
	if err != nil || len(rows) == 0 {
		return nil, false, err
	}
	room.Free(core.CopyTimes * (exportBytes - sizeOf(rows)))
	*last = rows[len(rows)-1].Ord
	page.tokens, seen = make([]TokenParams, 0, len(rows)), make([]core.Entity, 0, len(rows))
	for i := range rows {
		if i%manyRows == 0 {
			if err := core.Turn(ctx); err != nil {
				return nil, false, err
			}
		}
		transform, ok := op.Grant().Decide(access.TokenUse, rows[i].ID, rows[i].Containers)
		if !ok || transform != access.Reveal {
			continue // the condition and the rules disagree: show nothing
		}
		t, err := op.openToken(ctx, &rows[i])
		if err != nil {
			return nil, false, err
		}
		page.tokens, seen = append(page.tokens, t.params()), append(seen, t.entity())
	}
	return seen, more, ctx.Err()
}

// params returns what would create the token again, but for its cvc.
func (t *clearToken) params() TokenParams {
	p := TokenParams{
		ID: t.row.ID, Type: TokenType(t.row.Type), Data: JSON(t.Data.JSON()), Containers: t.row.Containers,
		Metadata: t.Metadata, SearchIndexes: t.Indexes, FingerprintExpression: t.Fingerprint,
		DeduplicateToken: t.Dedup, ExpiresAt: t.row.ExpiresAt,
	}
	if !t.Mask.IsZero() {
		p.Mask = JSON(t.Mask.JSON())
	}
	return p
}
