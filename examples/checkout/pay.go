package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/vaultclient"
)

// vaultAccess is the shop server's access to the vault: over HTTP, as if the
// vault ran elsewhere.
type vaultAccess struct {
	url        string
	page       uuid.UUID // the application of publicKey
	publicKey  string    // for the page
	privateKey string
	proxyKey   string              // of the proxy to the acquirer
	client     *vaultclient.Client // has the private key, and follows no redirects
}

// connect creates the client for the vault at this address.
func (a *vaultAccess) connect(url string) (err error) {
	a.url = url
	a.client, err = vaultclient.New(url, a.privateKey, &vaultclient.Options{MaxAnswer: maxAnswer})
	return err
}

// Limits on requests to the vault, for all attempts together.
const (
	callTimeout   = 10 * time.Second
	chargeTimeout = 30 * time.Second // the vault waits 25 seconds for the acquirer
	maxAnswer     = 64 << 10
)

// sessionLife is how long a session may create cards after it is authorized.
const sessionLife = time.Minute

// cards is the container of card tokens in the vault.
const cards = "/pci/high/"

// containerOf returns the container of an order's cards. Each order has its
// own container, so that a token pays only for its own order. A session that
// requests deduplication may get the token of another customer with the same
// card, but that token is in another container.
func containerOf(order string) string { return cards + order + "/" }

// maskedCard is the part of a card that the shop sees.
type maskedCard struct {
	Number string `json:"number"`
	Month  int    `json:"expiration_month"`
	Year   int    `json:"expiration_year"`
}

// Last4 returns the last digits of the number, which the mask shows.
func (c *maskedCard) Last4() string { return c.Number[max(0, len(c.Number)-4):] }

// Expiry returns the expiry date in the form on the card.
func (c *maskedCard) Expiry() string { return fmt.Sprintf("%02d/%02d", c.Month, c.Year%100) }

// maskedNumber matches a card number that shows only its last four digits.
var maskedNumber = regexp.MustCompile(`^X{8,15}[0-9]{4}$`)

// isMasked reports whether the card shows only its last four digits and its
// date. The creator of a token may choose its mask, and here the creator is a
// visitor.
func (c *maskedCard) isMasked() bool {
	return maskedNumber.MatchString(c.Number) && 1 <= c.Month && c.Month <= 12 && 1000 <= c.Year && c.Year <= 9999
}

// errNotPayable means that a token is not a card of this order with the usual
// mask. The error does not reveal what the token holds instead.
var errNotPayable = errors.New("the token is not a masked card of this order")

// errNotCharged means that the acquirer's response neither confirms nor
// declines the charge.
var errNotCharged = errors.New("the acquirer did not confirm the charge")

// declinedError means that the acquirer declined a card.
type declinedError struct{ reason string }

func (e *declinedError) Error() string { return "the acquirer declined the card" }

// authorize allows the session with this nonce only to create card tokens for
// one order.
func (a *vaultAccess) authorize(ctx context.Context, order, nonce string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	end := time.Now().Add(sessionLife)
	return a.client.AuthorizeSession(ctx, vault.SessionGrant{Nonce: nonce, ExpiresAt: end, Rules: []vault.AccessRule{
		{Priority: 1, Container: containerOf(order), Transform: vault.TransformMask, Permissions: []vault.Permission{"token:create"}},
	}})
}

// card reads a masked card token of an order. Any other token is an error.
func (a *vaultAccess) card(ctx context.Context, order string, token uuid.UUID) (*maskedCard, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	t, err := a.client.GetToken(ctx, token.String())
	if err != nil {
		return nil, err
	}
	if t.Type != vault.TypeCard || !slices.Equal(t.Containers, []string{containerOf(order)}) {
		return nil, errNotPayable
	}
	card := &maskedCard{}
	if t.Data.Decode(card) != nil || !card.isMasked() { // the cause may contain the number
		return nil, errNotPayable
	}
	return card, nil
}

// charge requests the acquirer to charge the price of an order. The vault
// replaces the token with the card on the way.
func (a *vaultAccess) charge(ctx context.Context, order string, token uuid.UUID) error {
	body, err := json.Marshal(map[string]any{
		"order": order, "amount": price, "currency": currency, "card": "{{ " + token.String() + " }}",
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, chargeTimeout)
	defer cancel()
	// A refusal of the vault itself is an error here. So the status is always
	// the acquirer's.
	res, err := a.client.InvokeProxy(ctx, vault.ProxyCall{Key: a.proxyKey, Method: http.MethodPost,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: bytes.NewReader(body), ContentLength: int64(len(body))})
	if err != nil {
		return err
	}
	defer res.Body.Close()
	switch res.Status {
	case http.StatusOK:
		return nil
	case http.StatusPaymentRequired:
		var d decision
		if err := json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(&d); err != nil {
			return errNotCharged
		}
		return &declinedError{d.Reason}
	default: // such as a redirect
		return fmt.Errorf("%w: status %d", errNotCharged, res.Status)
	}
}
