package httpserver

import (
	"context"

	"github.com/seed-72ea4aab/vault"
)

// encode writes the body of a response as JSON. A large body waits for the
// tenant's turn.
func (x *exchange) encode(ctx context.Context, body any) ([]byte, error) {
	switch page := body.(type) {
	case *vault.Page[vault.Token]:
		return x.encodePage(ctx, &vault.Page[vault.Token]{Pagination: page.Pagination, Data: []vault.Token{}}, page.Data)
	case *cursorPage:
		return x.encodePage(ctx, &cursorPage{Pagination: page.Pagination, Data: []vault.Token{}}, page.Data)
	}
	if err := x.room.Work(ctx); err != nil {
		return nil, err
	}
	return encode(body)
}

// encodePage writes a page of tokens, given without them, into a buffer of the right
// size. A page may have 64 MiB, and growing the buffer would copy it each time, which
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
		if err := x.room.Work(ctx); err != nil {
			return nil, err
		}
		if i > 0 {
			text = append(text, ',')
		}
		text = appendToken(text, &tokens[i])
	}
	return append(text, tail...), nil
}
