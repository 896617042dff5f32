package vaultclient

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/seed-72ea4aab/vault"
)

// AllTokens iterates over all tokens that meet the filters and that the key may
// read, newest first. Tokens created during the loop are not returned. Creating
// and deleting tokens during the loop does not make it skip or repeat others,
// so a loop may delete what it is given. The page parameters are ignored. See
// [vault.Client.AllTokens].
//
// Pages overlap, so the audit log has more than one entry for some reads.
func (c *Client) AllTokens(ctx context.Context, p vault.ListTokensParams) iter.Seq2[*vault.Token, error] {
	return func(yield func(*vault.Token, error) bool) {
		w := &walk{size: pageSize}
		for {
			p.PageParams = w.window()
			page, err := c.listTokens(ctx, "AllTokens", p)
			if errors.Is(err, vault.ErrTooLarge) && w.size > 1 {
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
		}
	}
}

// pageSize is the most tokens that a page has.
const pageSize = 100

// walk goes through a list by pages although the list changes. It knows its
// place by the time of the last token seen, since lists are ordered by time. A
// count of the tokens seen would not do: they may have been deleted since, or
// new ones may have come before them.
type walk struct {
	started bool
	until   time.Time       // of the last token that was seen
	seen    map[string]bool // the ids that were seen of that time
	passed  int             // how many tokens of the list are believed to be seen
	size    int             // of a page that is small enough to be sent
	asked   vault.PageParams
}

// window chooses the next page: of those that contain the last token seen,
// which shows whether anything moved, the one with the most tokens after it.
func (w *walk) window() vault.PageParams {
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
		try(size) // every smaller page ends with the last token seen
	}
	return w.asked
}

// take returns the tokens of a page that were not seen yet, and whether there
// may be more. If the page does not start with a token that was seen, it may
// have skipped some, and the walk goes back.
func (w *walk) take(page []vault.Token) (fresh []vault.Token, more bool) {
	offset := (w.asked.Page - 1) * w.asked.Size
	if offset > 0 && (len(page) == 0 || !w.has(&page[0])) {
		w.passed = max(0, w.passed-w.size)
		return nil, true
	}
	for i := range page {
		if w.has(&page[i]) {
			continue
		}
		w.add(&page[i])
		fresh = append(fresh, page[i])
	}
	w.passed = offset + len(page)
	return fresh, len(page) == w.asked.Size
}

// has reports whether a token was seen, or is newer than all that were.
func (w *walk) has(t *vault.Token) bool {
	at := t.CreatedAt
	return w.started && (at.After(w.until) || at.Equal(w.until) && w.seen[t.ID])
}

func (w *walk) add(t *vault.Token) {
	if at := t.CreatedAt; !w.started || !at.Equal(w.until) {
		w.started, w.until, w.seen = true, at, map[string]bool{}
	}
	w.seen[t.ID] = true
}
