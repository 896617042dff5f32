package vaultclient

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/core"
)

// AllTokens iterates over all selected tokens that the key may read, or
// search, newest first. See [vault.Client.AllTokens].
func (c *Client) AllTokens(ctx context.Context, sel vault.TokenSelection) iter.Seq2[*vault.Token, error] {
	return cursorWalk(func(size int, after string) (*vault.CursorPage[vault.Token], error) {
		return c.tokensAfter(ctx, &core.VerbAllTokens, sel, size, after)
	})
}

// AllSessions iterates over all active sessions, newest first. See
// [vault.Client.AllSessions].
func (c *Client) AllSessions(ctx context.Context) iter.Seq2[*vault.SessionInfo, error] {
	return pageWalk(func(s *vault.SessionInfo) uuid.UUID { return s.ID },
		func(asked vault.PageParams) (*vault.Page[vault.SessionInfo], error) {
			return get[vault.Page[vault.SessionInfo]](ctx, c, &core.VerbAllSessions, "/sessions", pageQuery(asked).Encode())
		}, nil)
}

// AllLogs iterates over all entries of the audit log that match the filters,
// newest first. See [vault.Client.AllLogs].
func (c *Client) AllLogs(ctx context.Context, p vault.ListLogsParams) iter.Seq2[*vault.LogEntry, error] {
	return func(yield func(*vault.LogEntry, error) bool) {
		p := p // moveEnd changes EndDate
		pageWalk(func(e *vault.LogEntry) uuid.UUID { return e.ID },
			func(asked vault.PageParams) (*vault.Page[vault.LogEntry], error) {
				p.PageParams = asked
				return c.listLogs(ctx, &core.VerbAllLogs, p)
			},
			func(page []vault.LogEntry) (passed int, moved bool) { return moveEnd(&p.EndDate, page) },
		)(yield)
	}
}

// moveEnd sets the end of a log filter to the last entry seen, so that the
// vault does not count through the whole log to find a page. It returns how
// many entries of the new list were seen, and whether the end has moved.
func moveEnd(end *time.Time, page []vault.LogEntry) (passed int, moved bool) {
	last := page[len(page)-1].CreatedAt
	next := last.Add(time.Microsecond) // exclusive
	if next.Equal(*end) {
		return 0, false
	}
	*end = next
	for i := len(page) - 1; i >= 0 && page[i].CreatedAt.Equal(last); i-- {
		passed++
	}
	return passed, true
}

// pageSize is the maximum number of items on a page.
const pageSize = 100

// tooMuch reports whether a page of this size is too large, but a smaller
// page may succeed.
func tooMuch(err error, size int) bool {
	var bad *vault.InvalidError
	return size > 1 && (errors.Is(err, vault.ErrTooLarge) || errors.As(err, &bad) && bad.Fields["size"] != nil)
}

// cursorWalk iterates over a list by cursor.
func cursorWalk(read func(size int, after string) (*vault.CursorPage[vault.Token], error)) iter.Seq2[*vault.Token, error] {
	return func(yield func(*vault.Token, error) bool) {
		for size, after := pageSize, ""; ; {
			page, err := read(size, after)
			if tooMuch(err, size) {
				size /= 2
				continue
			}
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range page.Data {
				if !yield(&page.Data[i], nil) {
					return
				}
			}
			if after = page.Pagination.After; after == "" {
				return
			}
			size = min(2*size, pageSize) // later tokens may be smaller
		}
	}
}

// pageWalk iterates over a list by pages. If move is not nil, it may change
// the list so that it starts later. It then returns how many items of the new
// list were seen, and true.
func pageWalk[T any](id func(*T) uuid.UUID, read func(vault.PageParams) (*vault.Page[T], error), move func([]T) (int, bool)) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		w := &walk[T]{id: id, size: pageSize}
		for {
			page, err := read(w.window())
			if tooMuch(err, w.size) {
				w.size /= 2
				continue
			}
			if err != nil {
				yield(nil, err)
				return
			}
			fresh, more := w.take(page.Data)
			for i := range fresh {
				if !yield(&fresh[i], nil) {
					return
				}
			}
			if !more {
				return
			}
			if move != nil && len(fresh) > 0 {
				if passed, moved := move(page.Data); moved {
					w.passed = passed
				}
			}
		}
	}
}

// walk iterates over a list by pages while the list changes. Its position is
// the id of the last item seen, because lists are ordered by id. A count of
// the items seen is not enough: items may be deleted, and new items may come
// before them.
type walk[T any] struct {
	id      func(*T) uuid.UUID
	started bool
	last    uuid.UUID // id of the last item seen
	passed  int       // estimated number of items seen
	size    int       // page size that the server can send
	asked   vault.PageParams
}

// window chooses the next page. It must contain the last item seen, which
// shows whether the list has changed. Of these pages, window chooses the page
// with the most items after that item.
func (w *walk[T]) window() vault.PageParams {
	w.asked = vault.PageParams{Page: 1, Size: w.size}
	if w.passed == 0 {
		return w.asked
	}
	most := 0
	try := func(size int) {
		page := (w.passed-1)/size + 1
		if gain := page*size - w.passed; gain > most {
			most, w.asked = gain, vault.PageParams{Page: page, Size: size}
		}
	}
	for size := w.size; size > w.size/2; size-- {
		try(size)
	}
	for size := w.size + 1; most == 0; size++ {
		try(size) // on every smaller page, the last item seen comes last
	}
	return w.asked
}

// take returns the new items of a page, and whether there may be more. If the
// page does not start with an item that was seen, it may have skipped items,
// and the walk goes back.
func (w *walk[T]) take(page []T) (fresh []T, more bool) {
	offset := (w.asked.Page - 1) * w.asked.Size
	if offset > 0 && (len(page) == 0 || !w.has(&page[0])) {
		w.passed = max(0, w.passed-w.size)
		return nil, true
	}
	for i := range page {
		if !w.has(&page[i]) {
			w.started, w.last = true, w.id(&page[i])
			fresh = append(fresh, page[i])
		}
	}
	w.passed = offset + len(page)
	return fresh, len(page) == w.asked.Size
}

// has reports whether an item was seen, or is newer than all items seen.
func (w *walk[T]) has(item *T) bool {
	id := w.id(item)
	return w.started && bytes.Compare(id[:], w.last[:]) >= 0
}
