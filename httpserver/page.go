package httpserver

import (
	"context"

	"github.com/seed-72ea4aab/vault"
)

// largePage is the size in bytes from which on the tokens of a page are encoded
// one by one. A page may have 64 MiB, and a buffer that grows to that size is
// moved as a whole each time, which takes up to 0.1 s and cannot be interrupted.
const largePage = 1 << 20

// encode writes the body of a response as JSON, in the tenant's turn if it is
// large.
func (x *exchange) encode(ctx context.Context, body any) (text []byte, err error) {
	if x.room == nil {
		return encode(body) // of a route without a key
	}
	head, tokens := splitPage(body)
	if sizeOf(tokens) >= largePage {
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

func sizeOf(tokens []vault.Token) int {
	size := 0
	for i := range tokens {
		size += len(tokens[i].Data)
	}
	return size
}

// encodePage writes a page whose tokens are large.
func (x *exchange) encodePage(ctx context.Context, page any, tokens []vault.Token) ([]byte, error) {
	const tail = "]}"
	head, err := encode(page)
	if err != nil {
		return nil, err
	}
	head = head[:len(head)-len(tail)]
	pieces, size := make([][]byte, len(tokens)), len(head)+len(tokens)+len(tail)
	for i := range tokens {
		err := x.room.Work(ctx, func() (err error) {
			pieces[i], err = encode(&tokens[i])
			return err
		})
		if err != nil {
			return nil, err
		}
		size += len(pieces[i])
	}
	text := append(make([]byte, 0, size), head...)
	for i, piece := range pieces {
		if i > 0 {
			text = append(text, ',')
		}
		text, pieces[i] = append(text, piece...), nil
	}
	return append(text, tail...), nil
}
