package vaultclient

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/core"
)

// reactors sends the calls of reactors.
var reactors = collection[vault.Reactor, vault.ReactorParams]{
	verbs: &core.ReactorVerbs, path: "/reactors",
	id:   func(x *vault.Reactor) uuid.UUID { return x.ID },
	name: func(x *vault.Reactor) string { return x.Name },
	same: func(x *vault.Reactor, p vault.ReactorParams) bool { return x.Params().Same(p) },
}

// CreateReactor creates a reactor. See [vault.Client.CreateReactor].
func (c *Client) CreateReactor(ctx context.Context, p vault.ReactorParams) (*vault.Reactor, error) {
	return reactors.create(ctx, c, p)
}

// GetReactor returns a reactor. See [vault.Client.GetReactor].
func (c *Client) GetReactor(ctx context.Context, id uuid.UUID) (*vault.Reactor, error) {
	return reactors.get(ctx, c, id)
}

// ListReactors returns a page of reactors, newest first. See
// [vault.Client.ListReactors].
func (c *Client) ListReactors(ctx context.Context, p vault.ListParams) (*vault.Page[vault.Reactor], error) {
	return reactors.list(ctx, c, entityQuery(p.IDs, p.Name, p.PageParams))
}

// ReplaceReactor replaces everything of a reactor. See
// [vault.Client.ReplaceReactor].
func (c *Client) ReplaceReactor(ctx context.Context, id uuid.UUID, p vault.ReactorParams) (*vault.Reactor, error) {
	return reactors.replace(ctx, c, id, p)
}

// PatchReactor changes a reactor by a JSON merge patch. See
// [vault.Client.PatchReactor]. A key that may not read reactors gets
// [ErrUnseen].
func (c *Client) PatchReactor(ctx context.Context, id uuid.UUID, patch any) (*vault.Reactor, error) {
	return reactors.patch(ctx, c, id, patch)
}

// AllReactors iterates over all reactors that match the filters, newest first.
// See [vault.Client.AllReactors].
func (c *Client) AllReactors(ctx context.Context, p vault.ListParams) iter.Seq2[*vault.Reactor, error] {
	return reactors.all(ctx, c, func(page vault.PageParams) url.Values { return entityQuery(p.IDs, p.Name, page) })
}

// ApplyReactor creates or updates the reactor with the name of p. See
// [Client.ApplyApplication].
func (c *Client) ApplyReactor(ctx context.Context, p vault.ReactorParams) (*vault.Applied[vault.Reactor], error) {
	return reactors.apply(ctx, c, p.Name, p)
}

// DeleteReactor deletes a reactor. See [vault.Client.DeleteReactor].
func (c *Client) DeleteReactor(ctx context.Context, id uuid.UUID) error {
	return reactors.delete(ctx, c, id)
}

// React runs a reactor with detokenized arguments. See [vault.Client.React].
//
// The call has an idempotency key only if [WithIdempotencyKey] sets one,
// because the vault stores the response under the key, and the response may
// contain plaintext. Code that has responded, even with an error, is not run
// again.
func (c *Client) React(ctx context.Context, id uuid.UUID, p vault.ReactParams) (*vault.ReactResult, error) {
	if p.CallbackURL != "" {
		return nil, invalid("callback_url", "is for asynchronous runs: use ReactAsync")
	}
	r, a, err := c.sendReact(ctx, &core.VerbReact, id, p)
	if err != nil {
		return nil, err
	}
	if result, ok := reactResult(a); ok {
		return result, nil
	}
	return nil, notAVault(r, a, "it is not the result of a reactor")
}

// ReactAsync queues a run and has its result sent to the callback URL. See
// [vault.Client.ReactAsync].
func (c *Client) ReactAsync(ctx context.Context, id uuid.UUID, p vault.ReactParams) (*vault.Job, error) {
	if p.CallbackURL == "" {
		return nil, invalid("callback_url", "is required")
	}
	r, a, err := c.sendReact(ctx, &core.VerbReactAsync, id, p)
	if err != nil {
		return nil, err
	}
	job, err := uuid.Parse(a.header.Get(c.name.jobID))
	if a.status != http.StatusAccepted || err != nil {
		return nil, notAVault(r, a, fmt.Sprintf("it must have status %d and the id of a job", http.StatusAccepted))
	}
	return &vault.Job{ID: job}, nil
}

func (c *Client) sendReact(ctx context.Context, verb *core.Verb, id uuid.UUID, p vault.ReactParams) (*request, *answer, error) {
	body, err := encode(p)
	if err != nil {
		return nil, nil, err
	}
	r := &request{verb: verb, method: http.MethodPost, path: below(reactors.path, id) + "/react", typ: contentJSON, body: body,
		once: true, keyless: p.CallbackURL == ""}
	a, err := c.send(ctx, r)
	return r, a, err
}

// reactResult decodes the result of a run. It reports whether the body is
// such a result.
func reactResult(a *answer) (*vault.ReactResult, bool) {
	result := &vault.ReactResult{}
	dec := json.NewDecoder(bytes.NewReader(a.body))
	dec.DisallowUnknownFields()
	isObject := bytes.HasPrefix(a.body, []byte("{"))
	if a.status != http.StatusOK || !a.isJSON() || !isObject || dec.Decode(result) != nil || dec.More() {
		return nil, false
	}
	return result, true
}
