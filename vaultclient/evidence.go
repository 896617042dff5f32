package vaultclient

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/core"
)

// LogCheckpoint returns the newest signed note over the log. See
// [vault.Client.LogCheckpoint].
func (c *Client) LogCheckpoint(ctx context.Context) ([]byte, error) {
	return c.text(ctx, &core.VerbLogCheckpoint, "/logs/checkpoint")
}

// LogProof returns the proof that an entry is in the log. See
// [vault.Client.LogProof].
func (c *Client) LogProof(ctx context.Context, id uuid.UUID) ([]byte, error) {
	return c.text(ctx, &core.VerbLogProof, "/logs/"+id.String()+"/proof")
}

// LogConsistency returns the proof that the log extends an earlier log. See
// [vault.Client.LogConsistency].
func (c *Client) LogConsistency(ctx context.Context, from int64) (*vault.LogConsistency, error) {
	query := url.Values{"from": {strconv.FormatInt(from, 10)}}
	return get[vault.LogConsistency](ctx, c, &core.VerbLogConsistency, "/logs/consistency", query.Encode())
}

// text returns a response that is plain text.
func (c *Client) text(ctx context.Context, verb *core.Verb, path string) ([]byte, error) {
	r := &request{verb: verb, method: http.MethodGet, path: path}
	a, err := c.send(ctx, r)
	if err != nil {
		return nil, err
	}
	if a.trace == "" {
		return nil, notAVault(r, a, "it must have a trace id")
	}
	return a.body, nil
}

// ExportEvidence writes the log with its proofs, as it arrives. It is not retried.
// After an error, the output is incomplete. See [vault.Client.ExportEvidence].
func (c *Client) ExportEvidence(ctx context.Context, w io.Writer) (err error) {
	ctx, end := c.tell(ctx, &core.VerbExportEvidence)
	defer func() { end(err) }()
	r := &request{verb: &core.VerbExportEvidence, method: http.MethodGet, path: "/logs/evidence"}
	a, body, err := c.stream(ctx, r, nil)
	if err != nil {
		return err
	}
	defer body.Close()
	if a.trace == "" {
		return notAVault(r, a, "it must have a trace id")
	}
	to := &writer{Writer: w}
	if _, err = io.Copy(to, body); err != nil && to.err == nil {
		return c.lost(ctx, r.verb.Name, err)
	}
	return err
}

// writer keeps the error of a caller's writer apart from errors of the response.
type writer struct {
	io.Writer
	err error
}

func (w *writer) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	w.err = errors.Join(w.err, err)
	return n, err
}
