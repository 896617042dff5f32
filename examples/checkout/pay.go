package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
)

// vaultAccess is how the shop's server reaches the vault: over HTTP, as if it
// were elsewhere.
type vaultAccess struct {
	url        string
	publicKey  string // for the page
	privateKey string
	proxyKey   string // of the proxy to the acquirer
	client     *http.Client
}

// Bounds on requests to the vault.
const (
	vaultTimeout = 30 * time.Second
	maxAnswer    = 64 << 10
)

// sessionLife is how long a session may create cards, from its authorization on.
const sessionLife = time.Minute

// maskedCard is what the shop gets to see of a card.
type maskedCard struct {
	Number string `json:"number"`
	Month  int    `json:"expiration_month"`
	Year   int    `json:"expiration_year"`
}

// Last4 is the end of the number, which the mask leaves.
func (c *maskedCard) Last4() string { return c.Number[max(0, len(c.Number)-4):] }

// Expiry is the month in which the card expires, as the card shows it.
func (c *maskedCard) Expiry() string { return fmt.Sprintf("%02d/%02d", c.Month, c.Year%100) }

// errVault means that the vault did not do what it was asked for.
var errVault = errors.New("the vault refused")

// declinedError is the acquirer's refusal of a card.
type declinedError struct{ reason string }

func (e *declinedError) Error() string { return "declined: " + e.reason }

// authorize lets the session of a nonce create card tokens, and do nothing else
// with them.
func (a *vaultAccess) authorize(ctx context.Context, nonce string) error {
	end := time.Now().Add(sessionLife)
	res, err := a.call(ctx, http.MethodPost, "/sessions/authorize", vault.Grant{Nonce: nonce, ExpiresAt: &end,
		Rules: []vault.AccessRule{{Priority: 1, Container: cards, Transform: vault.Mask, Permissions: []string{"token:create"}}}})
	if err != nil {
		return err
	}
	return res.expect(http.StatusOK, nil)
}

// card reads a card token, masked.
func (a *vaultAccess) card(ctx context.Context, token uuid.UUID) (*maskedCard, error) {
	res, err := a.call(ctx, http.MethodGet, "/tokens/"+token.String(), nil)
	if err != nil {
		return nil, err
	}
	var t struct {
		Data maskedCard `json:"data"`
	}
	return &t.Data, res.expect(http.StatusOK, &t)
}

// charge asks the acquirer for the price of an order. The vault replaces the
// token by the card on the way.
func (a *vaultAccess) charge(ctx context.Context, order string, token uuid.UUID) error {
	res, err := a.call(ctx, http.MethodPost, "/proxy", map[string]any{
		"order": order, "amount": price, "currency": currency, "card": "{{ " + token.String() + " }}",
	})
	if err != nil {
		return err
	}
	if res.header.Get("SVC-PROXY-DESTINATION-STATUS") == "402" {
		var d decision
		if err := res.expect(http.StatusPaymentRequired, &d); err != nil {
			return err
		}
		return &declinedError{d.Reason}
	}
	return res.expect(http.StatusOK, nil)
}

// answer is what the vault said.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// expect reads an answer of this status into dst, which may be nil. Another
// status is an error.
func (a *answer) expect(status int, dst any) error {
	if a.status != status {
		return fmt.Errorf("%w: status %d", errVault, a.status)
	}
	if dst == nil {
		return nil
	}
	return json.Unmarshal(a.body, dst)
}

// call sends a request to the vault with the private key; body may be nil.
func (a *vaultAccess) call(ctx context.Context, method, path string, body any) (*answer, error) {
	var sent io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		sent = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, a.url+path, sent)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("SVC-API-KEY", a.privateKey)
	req.Header.Set("SVC-PROXY-KEY", a.proxyKey)
	res, err := a.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	return &answer{res.StatusCode, res.Header, text}, err
}
