package vaultclient_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/script"
	"github.com/seed-72ea4aab/vault/vaultclient"
)

// Code that may have run is not run again without an idempotency key.
func TestReactIsRetriedOnlyWithAKey(t *testing.T) {
	t.Parallel()
	v := scripted(t)
	counting := must.Get(v.Management.CreateReactor(t.Context(), vault.ReactorParams{Name: "r", Configuration: map[string]string{},
		Code: "module.exports = async () => ({tokenize: 'made', raw: 1})"}))(t)
	for name, c := range map[string]struct {
		happens fault
		ctx     context.Context
		params  vault.ReactParams
		want    int // number of requests
		fails   bool
	}{
		"a lost answer":             {lose, t.Context(), vault.ReactParams{}, 1, true},
		"a 503 of a gateway":        {answer(503), t.Context(), vault.ReactParams{}, 1, true},
		"a 429 of a gateway":        {answer(429), t.Context(), vault.ReactParams{}, 1, true},
		"a 408 of a gateway":        {answer(408), t.Context(), vault.ReactParams{}, 1, true},
		"a 429 of the vault":        {busy(v), t.Context(), vault.ReactParams{}, 2, false},
		"a 429, with a key":         {answer(429), vaultclient.WithIdempotencyKey(t.Context(), "k2"), vault.ReactParams{}, 2, false},
		"a lost answer, with a key": {lose, vaultclient.WithIdempotencyKey(t.Context(), "k"), vault.ReactParams{}, 2, false},
		"a lost answer, later":      {lose, t.Context(), vault.ReactParams{CallbackURL: "https://callback.example/"}, 2, false},
	} {
		f := frontOf(t, v, first(c.happens))
		client := f.client(t, f.PrivateKey, vaultclient.Options{})
		_, err := client.React(c.ctx, counting.ID, c.params)
		if c.params.CallbackURL != "" {
			_, err = client.ReactAsync(c.ctx, counting.ID, c.params)
		}
		same(t, fmt.Sprint(name, ": ", err, ": failed"), err != nil, c.fails)
		same(t, fmt.Sprint(name, ": ", err, ": requests"), f.count(), c.want)
	}
	same(t, "tokens", must.Get(v.Owner.ListTokens(t.Context(), vault.ListTokensParams{}))(t).Pagination.TotalItems, 4)
}

// A response that code built is not mistaken for a failing server or an error
// of the vault. The code runs once, with and without an idempotency key, and
// the error contains nothing of its response.
func TestErrorsOfCodeAreFinal(t *testing.T) {
	t.Parallel()
	v := scripted(t)
	maker, _ := v.NewApplication(t, v.Owner, vault.ApplicationPrivate, []vault.AccessRule{{Priority: 1, Container: "/", Transform: vault.TransformMask, Permissions: []vault.Permission{"token:create"}}})
	app := must.Get(maker.OwnApplication(t.Context()))(t)
	for _, throws := range []string{
		"RateLimitError('4242')", "ServiceUnavailableError('4242')",
		"CustomHttpResponseError({status: 503, headers: {'Retry-After': '1'}, body: '4242'})",
		"CustomHttpResponseError({status: 409, headers: {'Retry-After': '1'}, body: {}})",
		"CustomHttpResponseError({status: 429, headers: {'Retry-After': '1'}, body: {title: 'Too Many Requests', status: 429, detail: '4242'}})",
		"CustomHttpResponseError({status: 409, headers: {'Retry-After': '1'}, body: {title: 'Conflict', status: 409, detail: '4242'}})",
		"CustomHttpResponseError({status: 503, headers: {}, body: {title: '4242', status: 503, detail: '4242'}})",
		"CustomHttpResponseError({status: 401, headers: {}, body: {title: 'x', status: 401, detail: '4242'}})",
		"CustomHttpResponseError({status: 400, headers: {}, body: {title: 'x', status: 400, detail: 'y', errors: {'4242': ['4242']}}})",
	} {
		r := must.Get(v.Management.CreateReactor(t.Context(), vault.ReactorParams{Name: "r", Configuration: map[string]string{},
			ApplicationID: app.ID,
			Code:          "module.exports = async (req) => { await req.bt.tokens.create({type: 'token', data: 'ran'}); throw new " + throws + " }"}))(t)
		f := frontOf(t, v, pass)
		before := f.tokens(t)
		for n, ctx := range []context.Context{t.Context(), vaultclient.WithIdempotencyKey(t.Context(), throws)} {
			_, err := f.client(t, f.PrivateKey, vaultclient.Options{}).React(ctx, r.ID, vault.ReactParams{})
			var failed *script.Error
			if !errors.As(err, &failed) || len(problemOf(err).Kinds) != 0 || strings.Contains(err.Error(), "4242") {
				t.Errorf("%s: error %v", throws, err)
			}
			same(t, throws+": requests", f.count(), n+1)
			same(t, throws+": tokens", f.tokens(t)-before, n+1)
		}
	}
}
