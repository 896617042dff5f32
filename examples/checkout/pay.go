package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	url       string
	tenant    uuid.UUID
	publicKey string              // for the page
	proxyKey  string              // of the proxy to the acquirer
	client    *vaultclient.Client // has the private key
}

// sessionLife is how long a session may create cards after it is authorized.
const sessionLife = time.Minute

// cards is the container of card tokens in the vault.
const cards = "/pci/high/"

// containerOf returns the container of an order's cards. Each order has its
// own container, so that a token pays only for its own order. A session that
// requests deduplication may get the token of another customer with the same
// card, but that token is in another container.
func containerOf(order string) string { return cards + order + "/" }

// setUp creates the shop's tenant, its two applications, and the proxy to the
// acquirer. Each application gets only the permissions that it needs.
func setUp(ctx context.Context, v *vault.Vault, url, acquirer string) (*vaultAccess, error) {
	tenant, err := v.CreateTenant(ctx, "Shop")
	if err != nil {
		return nil, err
	}
	c := v.Tenant(tenant.ID)
	// Everyone can see the public key in the page. Any public application may
	// open sessions. It must have at least one permission, so it gets one on
	// a container that is not used.
	page, err := c.CreateApplication(ctx, vault.ApplicationParams{Name: "Checkout page", Type: vault.ApplicationPublic,
		Rules: []vault.AccessRule{{Priority: 1, Container: "/nowhere/", Transform: vault.TransformRedact, Permissions: []vault.Permission{"token:create"}}}})
	if err != nil {
		return nil, err
	}
	// The server reads masked cards. It may use them in plaintext, but only a
	// proxy sees the plaintext.
	server, err := c.CreateApplication(ctx, vault.ApplicationParams{Name: "Shop server", Type: vault.ApplicationPrivate,
		Rules: []vault.AccessRule{
			{Priority: 1, Container: cards, Transform: vault.TransformMask, Permissions: []vault.Permission{"token:create", "token:read"}},
			{Priority: 2, Container: cards, Transform: vault.TransformReveal, Permissions: []vault.Permission{"token:use"}},
		}})
	if err != nil {
		return nil, err
	}
	proxy, err := c.CreateProxy(ctx, vault.ProxyParams{Name: "Acquirer", DestinationURL: acquirer})
	if err != nil {
		return nil, err
	}
	client, err := vaultclient.New(url, server.Key, nil)
	return &vaultAccess{url, tenant.ID, page.Key, proxy.Key, client}, err
}

// authorize allows the session with this nonce only to create card tokens for
// one order.
func (a *vaultAccess) authorize(ctx context.Context, order, nonce string) error {
	return a.client.AuthorizeSession(ctx, vault.SessionGrant{Nonce: nonce, ExpiresAt: time.Now().Add(sessionLife), Rules: []vault.AccessRule{
		{Priority: 1, Container: containerOf(order), Transform: vault.TransformMask, Permissions: []vault.Permission{"token:create"}},
	}})
}

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

var (
	// errNotPayable means that a token is not a card of this order with the usual
	// mask. The error does not reveal what the token holds instead.
	errNotPayable = errors.New("the token is not a masked card of this order")
	errDeclined   = errors.New("the acquirer declined the card")
)

// card reads a masked card token of an order. Any other token is an error.
func (a *vaultAccess) card(ctx context.Context, order string, token uuid.UUID) (*maskedCard, error) {
	t, err := a.client.GetToken(ctx, token.String())
	if err != nil {
		return nil, err
	}
	card := &maskedCard{}
	isCard := t.Type == vault.TypeCard && slices.Equal(t.Containers, []string{containerOf(order)})
	if !isCard || t.Data.Decode(card) != nil || !card.isMasked() { // the cause may contain the number
		return nil, errNotPayable
	}
	return card, nil
}

// charge requests the acquirer to charge an order, and returns the masked card. The
// vault replaces the token with the card on the way.
func (a *vaultAccess) charge(ctx context.Context, order string, token uuid.UUID) (*maskedCard, error) {
	card, err := a.card(ctx, order, token)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(map[string]any{"order": order, "amount": 4200, "currency": "EUR", "card": vault.Expression(token.String())})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second) // the vault waits 25 seconds for the acquirer
	defer cancel()
	// A refusal of the vault itself is an error here. So the status is always
	// the acquirer's.
	res, err := a.client.InvokeProxy(ctx, vault.ProxyCall{Key: a.proxyKey, Method: http.MethodPost,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: bytes.NewReader(body)})
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	switch res.Status {
	case http.StatusOK:
		return card, nil
	case http.StatusPaymentRequired:
		return nil, errDeclined
	default: // such as a redirect
		return nil, fmt.Errorf("the acquirer did not confirm the charge: status %d", res.Status)
	}
}
