package tokens

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/token"
	"github.com/seed-72ea4aab/vault/storage"
)

// MaxTotal is the limit up to which totals of searches, and of lists with a metadata
// filter, are exact.
const MaxTotal = 10_000

// CountUpTo returns how far the tokens of a list are counted; zero means all. For a
// page of a list it is far enough to see whether there is another page.
func CountUpTo(asked Query, p *form.Paging) int {
	l, ok := asked.(*List)
	switch {
	case !ok:
		return MaxTotal + 1
	case len(l.Metadata) == 0:
		return 0
	default:
		return max(MaxTotal, p.Offset()+p.Size) + 1
	}
}

// Query is a request for a list of tokens.
type Query interface {
	// Permission returns the permission that is needed on the tokens.
	Permission() string
	// Condition returns the condition on tokens, and the least transform that
	// the caller must have on them.
	Condition(ctx context.Context, op *core.Op) (where storage.And, least access.Transform, err error)
	// Binding distinguishes the list from all others.
	Binding() []string
}

// List requests the tokens that match filters. Zero fields are ignored.
type List struct {
	IDs, Types []string
	Metadata   map[string]string
}

// Permission implements Query.
func (l *List) Permission() string { return access.TokenRead }

// Binding implements Query.
func (l *List) Binding() []string {
	parts := append([]string{"list", strconv.Itoa(len(l.IDs)), strconv.Itoa(len(l.Types))}, slices.Sorted(slices.Values(l.IDs))...)
	parts = append(parts, slices.Sorted(slices.Values(l.Types))...)
	for _, key := range slices.Sorted(maps.Keys(l.Metadata)) {
		parts = append(parts, key, token.FoldMetadata(l.Metadata[key]))
	}
	return parts
}

// Condition implements Query.
func (l *List) Condition(_ context.Context, op *core.Op) (storage.And, access.Transform, error) {
	if len(l.IDs) > form.MaxListValues || len(l.Types) > form.MaxListValues || len(l.Metadata) > token.MaxMetadata {
		return nil, access.Redact, fault.Field("", "may have at most %d ids, %d types and %d metadata filters",
			form.MaxListValues, form.MaxListValues, token.MaxMetadata)
	}
	bad := &form.Problems{}
	for _, t := range l.Types {
		form.CheckText(bad, "type", t)
	}
	for _, id := range l.IDs {
		form.CheckText(bad, "id", id)
	}
	return listed(op.State.Ring, l.IDs, l.Types, l.Metadata), access.Redact, fault.Of(bad)
}

// Search requests the tokens that match a query.
type Search struct{ Query string }

// Permission implements Query.
func (s *Search) Permission() string { return access.TokenSearch }

// Binding implements Query.
func (s *Search) Binding() []string { return []string{"search", s.Query} }

// Condition implements Query.
func (s *Search) Condition(ctx context.Context, op *core.Op) (where storage.And, least access.Transform, err error) {
	where, asksData, err := ReadQuery(ctx, op, s.Query)
	if err != nil {
		return nil, least, err
	}
	least = access.Redact
	if asksData {
		if !op.MaySearchData() {
			return nil, least, fault.New(fault.ErrForbidden, "a masked client may not search by data")
		}
		if least = access.Mask; !op.Grant().Shows(access.TokenSearch, least) {
			return nil, least, fault.New(fault.ErrForbidden, "searching by data needs token:search with the transform mask or reveal")
		}
	}
	return where, least, nil
}

// ReadQuery converts a query to a condition, and reports whether it searches
// data.
func ReadQuery(ctx context.Context, op *core.Op, text string) (where storage.And, asksData bool, err error) {
	bad := &form.Problems{}
	if !form.CheckText(bad, "query", text) {
		return nil, false, fault.Of(bad)
	}
	var unread error
	search := searchTerms{Ring: op.State.Ring, Sets: sync.OnceValue(func() (sets []storage.ContainerSet) {
		sets, unread = op.DB().ContainerSets(ctx, op.TenantID())
		return sets
	})}
	cond, err := token.ParseQuery(text, &search)
	if syntax, ok := errors.AsType[*token.QueryError](err); ok {
		err = fault.Field("query", "at character %d: %s", syntax.Offset+1, syntax.Msg)
	}
	return storage.And{cond}, search.AsksData, cmp.Or(err, unread)
}

// Find returns the condition of a list: the requested condition, and that the
// caller has the permission on the token.
func Find(ctx context.Context, op *core.Op, asked Query) (storage.Cond, error) {
	where, least, err := asked.Condition(ctx, op)
	if err != nil {
		return nil, err
	}
	if where, err = restrict(ctx, op, asked.Permission(), least, where); err != nil || len(where) == 0 {
		return nil, err
	}
	return where, nil
}

// restrict adds to a condition that the caller has a permission on the token,
// with at least the given transform.
func restrict(ctx context.Context, op *core.Op, permission string, least access.Transform, where storage.And) (storage.And, error) {
	if op.Grant().OnAll(permission) && least <= access.Redact {
		return where, nil
	}
	sets, err := op.DB().ContainerSets(ctx, op.TenantID())
	if err != nil {
		return nil, err
	}
	granted := op.Grant().Condition(permission, least, sets)
	if granted == nil {
		return where, nil
	}
	return append(storage.And{granted}, where...), nil
}

// Deletable returns the next rows of a list that the caller may also delete,
// newest first, without rows that are not genuine. It moves before to the end of
// the piece, and reports whether there may be another piece.
func Deletable(ctx context.Context, op *core.Op, asked Query, walk *core.Walk, before *storage.ID) (rows []storage.Token, more bool, err error) {
	where, least, err := asked.Condition(ctx, op)
	if err != nil {
		return nil, false, err
	}
	if where, err = restrict(ctx, op, asked.Permission(), least, where); err != nil {
		return nil, false, err
	}
	if where, err = restrict(ctx, op, access.TokenDelete, access.Redact, where); err != nil {
		return nil, false, err
	}
	rows, more, err = core.NextPage(walk, func(limit int) ([]storage.Token, error) {
		rows, _, err := rowsOf(ctx, op, storage.TokenFilter{Tenant: op.TenantID(), Where: where, Now: op.Now, Before: *before, Limit: limit})
		admission.Of(ctx).Free(core.CopyTimes * Size(rows))
		return rows, err
	})
	if err != nil || len(rows) == 0 {
		return nil, false, err
	}
	*before = rows[len(rows)-1].Ord
	rows = slices.DeleteFunc(rows, func(row storage.Token) bool {
		_, ok := op.Grant().Decide(access.TokenDelete, row.ID, row.Containers)
		return !ok
	})
	rows, err = Genuine(ctx, op, where, rows)
	return rows, more, err
}

// Genuine returns the rows that open and meet the condition that found them. The
// others raise an alarm.
func Genuine(ctx context.Context, op *core.Op, where storage.Cond, rows []storage.Token) (genuine []storage.Token, err error) {
	byHash := asksHash(where)
	for i := range rows {
		if i%core.ManyRows == core.ManyRows-1 {
			if err := core.Turn(ctx); err != nil {
				return nil, err
			}
		}
		_, err := openFound(ctx, op, &rows[i], byHash, where)
		admission.Of(ctx).Free(Tree(&rows[i]))
		switch {
		case err == nil:
			genuine = append(genuine, rows[i])
		case !Unreadable(err):
			return nil, err
		}
	}
	return genuine, nil
}

// Count returns the number of tokens in a list.
func Count(ctx context.Context, op *core.Op, asked Query) (int, error) {
	where, err := Find(ctx, op, asked)
	if err != nil {
		return 0, err
	}
	_, total, err := op.DB().ListTokens(ctx, storage.TokenFilter{Tenant: op.TenantID(), Where: where, Now: op.Now, Count: true, Limit: 1, MaxBytes: op.MaxPageBytes()})
	return total, err
}

// Page shows a page of a list and returns the total, as far as [CountUpTo].
func Page(ctx context.Context, op *core.Op, asked Query, p *form.Paging, show func(Token)) (total int, err error) {
	filter := storage.TokenFilter{Tenant: op.TenantID(), Now: op.Now, Count: true}
	if filter.Where, err = Find(ctx, op, asked); err != nil {
		return 0, err
	}
	if err := fault.Of(p.Check()); err != nil {
		return 0, err
	}
	filter.Offset, filter.Limit, filter.CountUpTo = p.Offset(), p.Size, CountUpTo(asked, p)
	rows, total, err := rowsOf(ctx, op, filter)
	if err != nil {
		return 0, op.PageError(err)
	}
	return total, see(ctx, op, asked.Permission(), filter.Where, rows, show)
}

// After shows the tokens after a position in a list, and returns the next
// position, or "" if there are no more.
func After(ctx context.Context, op *core.Op, asked Query, p *form.Paging, after string, show func(Token)) (next string, err error) {
	if p.Page != 0 {
		return "", fault.Field("page", "is not for lists by cursor; leave it out")
	}
	if err := fault.Of(p.Check()); err != nil {
		return "", err
	}
	before, err := readCursor(op, asked, after)
	if err != nil {
		return "", err
	}
	where, err := Find(ctx, op, asked)
	if err != nil {
		return "", err
	}
	rows, more, err := rowsBefore(ctx, op, where, before, p.Size)
	if err != nil {
		return "", op.PageError(err)
	}
	if more {
		next = op.State.Ring.Cursor(rows[len(rows)-1].Ord[:], labelCursor, asked.Binding()...)
	}
	return next, see(ctx, op, asked.Permission(), where, rows, show)
}

// Piece shows the next piece of a list. It moves before to its end, and
// reports whether there may be another piece.
func Piece(ctx context.Context, op *core.Op, asked Query, walk *core.Walk, before *storage.ID, show func(Token)) (more bool, err error) {
	where, err := Find(ctx, op, asked)
	if err != nil {
		return false, err
	}
	rows, more, err := core.NextPage(walk, func(limit int) ([]storage.Token, error) {
		rows, _, err := rowsOf(ctx, op, storage.TokenFilter{Tenant: op.TenantID(), Where: where, Now: op.Now, Before: *before, Limit: limit})
		return rows, err
	})
	if err != nil || len(rows) == 0 {
		return false, err
	}
	*before = rows[len(rows)-1].Ord
	return more, see(ctx, op, asked.Permission(), where, rows, show)
}

// rowsBefore reads rows of a list, and reports whether there are more. It
// requests one more row than it returns, unless that is too large.
func rowsBefore(ctx context.Context, op *core.Op, where storage.Cond, before storage.ID, size int) (rows []storage.Token, more bool, err error) {
	filter := storage.TokenFilter{Tenant: op.TenantID(), Where: where, Now: op.Now, Before: before, Limit: size + 1}
	rows, _, err = rowsOf(ctx, op, filter)
	if errors.Is(err, storage.ErrTooLarge) {
		filter.Limit = size
		rows, _, err = rowsOf(ctx, op, filter)
		return rows, len(rows) == size, err
	}
	more = len(rows) > size
	return rows[:min(len(rows), size)], more, err
}

// rowsOf reads rows of a list, and reserves memory for them first.
func rowsOf(ctx context.Context, op *core.Op, f storage.TokenFilter) ([]storage.Token, int, error) {
	return core.ReadPage(ctx, op.MaxPageBytes(), Size, func(most int) ([]storage.Token, int, error) {
		f.MaxBytes = most
		return op.DB().ListTokens(ctx, f)
	})
}

const labelCursor = "cursor"

// readCursor decodes a position in a list of tokens. Zero is the start of the list.
func readCursor(op *core.Op, asked Query, text string) (at storage.ID, err error) {
	if text == "" {
		return at, nil
	}
	raw, ok := op.State.Ring.ReadCursor(text, labelCursor, asked.Binding()...)
	if !ok || len(raw) != len(at) {
		return at, fault.Field("start", "must be the after of an earlier page of this list, with the same filters")
	}
	return storage.ID(raw), nil
}
