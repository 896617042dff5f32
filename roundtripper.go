package vault

import (
	"bytes"
	"context"
	"io"
	"net/http"

	"github.com/seed-72ea4aab/vault/internal/relay"
)

// RoundTripper returns a transport that replaces the expressions in the bodies
// of outbound requests by the data of tokens, by the rules of
// [Client.InvokeProxy], and hands the requests to base; nil stands for
// [http.DefaultTransport]. With it any Go client can be pointed through the
// vault:
//
//	stripe.SetHTTPClient(&http.Client{Transport: c.RoundTripper(nil)})
//
// The client needs token:use on the tokens that a request names, and none for a
// request that names none. A body that has to be looked at may have at most
// [Config.MaxBytes]; others are not held in memory. Where requests go is up to
// the program: the egress policy of the vault is not applied, and an
// [http.Client] that follows a redirect with its body sends the data there too.
func (c *Client) RoundTripper(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return &detokenizer{c, base}
}

// detokenizer is a transport that detokenizes.
type detokenizer struct {
	client *Client
	base   http.RoundTripper
}

// RoundTrip sends a request with its expressions replaced. The request itself
// is not changed.
func (d *detokenizer) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := verbRoundTripper.Check(d.client.caller.Place); err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, err
	}
	format, _ := relay.FormatOf(req.Header)
	if req.Body == nil || req.Body == http.NoBody || format == relay.Opaque {
		return d.base.RoundTrip(req)
	}
	defer req.Body.Close()
	raw, err := relay.ReadRequest(req.Body, int64(d.client.v.cfg.MaxBytes))
	if err != nil {
		return nil, err
	}
	body, err := run(req.Context(), d.client, &verbRoundTripper, func(ctx context.Context, op *operation) ([]byte, error) {
		return relay.Detokenize(ctx, op.Op, req.Header, raw)
	})
	if err != nil {
		return nil, err
	}
	out := req.Clone(req.Context())
	out.ContentLength = int64(len(body))
	out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	out.Body, _ = out.GetBody()
	out.Header.Del("Content-Length")
	return d.base.RoundTrip(out)
}
