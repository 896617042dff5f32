package relay

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/seed-72ea4aab/vault/internal/egress"
)

// Quiet returns a copy of a request for another transport, of which package httptrace
// tells the sender nothing.
func Quiet(req *http.Request) *http.Request { return req.WithContext(egress.Untraced(req.Context())) }

// QuietError returns an error for the failure of another transport, which may quote
// what the destination sent.
func QuietError(ctx context.Context, err error) error { return sendError(ctx, err) }

// QuietBody returns a body of a response whose errors quote nothing that the
// destination sent.
func QuietBody(ctx context.Context, body io.ReadCloser) io.ReadCloser { return &quietBody{body, ctx} }

type quietBody struct {
	io.ReadCloser
	ctx context.Context
}

func (b *quietBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = sendError(b.ctx, err)
	}
	return n, err
}
