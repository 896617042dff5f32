package httpserver

import (
	"context"

	"github.com/seed-72ea4aab/vault"
)

// encode writes the body of a response as JSON. A large body waits for the
// tenant's turn.
func (x *exchange) encode(ctx context.Context, body any) (text []byte, err error) {
	if x.room == nil {
		return encode(body) // routes without a key
	}
	if head, tokens := splitPage(body); head != nil {
		return x.encodePage(ctx, head, tokens)
	}
	err = x.room.Work(ctx, func() (err error) {
		text, err = encode(body)
		return err
	})
	return text, err
}

// splitPage returns the tokens of a page, and the page without them.
func splitPage(body any) (head any, tokens []vault.Token) {
	switch page := body.(type) {
	case *vault.Page[vault.Token]:
		return &vault.Page[vault.Token]{Pagination: page.Pagination, Data: []vault.Token{}}, page.Data
	case *cursorPage:
		return &cursorPage{Pagination: page.Pagination, Data: []vault.Token{}}, page.Data
	}
	return nil, nil
}

// encodePage writes a page of tokens into a buffer of the right size. A page
// may have 64 MiB, and growing the buffer would copy it each time, which
// takes up to 0.1 s and cannot be interrupted.
func (x *exchange) encodePage(ctx context.Context, page any, tokens []vault.Token) ([]byte, error) {
	const tail = "]}"
	head, err := encode(page)
	if err != nil {
		return nil, err
	}
	head = head[:len(head)-len(tail)]
	size := len(head) + len(tail)
	for i := range tokens {
		size += tokenSize(&tokens[i]) + len(",")
	}
	text := append(make([]byte, 0, size), head...)
	for i := range tokens {
		err := x.room.Work(ctx, func() error {
			if i > 0 {
				text = append(text, ',')
			}
			text = appendToken(text, &tokens[i])
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return append(text, tail...), nil
}
