// Package unittest shows how to test code that keeps cards in a vault. It
// uses the vault of package vaulttest, which is in memory and has a clock
// that the test moves.
//
// The code is a wallet of customers' cards, in wallet.go. Its tests are in
// wallet_test.go:
//
//	go test ./examples/unittest
//
// The wallet gets its client from outside, so a test decides which
// application it acts as, and with which permissions.
package unittest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-72ea4aab/vault"
)

// ErrNoCode means that the security code of a card has expired. The customer
// has to enter it again.
var ErrNoCode = errors.New("the security code has expired")

// Wallet keeps the cards of customers.
type Wallet struct {
	// Client is the client that the wallet uses. It needs token:create to add
	// cards, token:read to list them, and token:use to charge them.
	Client *vault.Client
}

// Add stores a customer's card until the given time, and returns its token.
func (w *Wallet) Add(ctx context.Context, customer string, card vault.CardData, until time.Time) (string, error) {
	token, err := w.Client.CreateToken(ctx, vault.TokenParams{
		Type: vault.TypeCard, Data: card, ExpiresAt: until, Metadata: map[string]string{"customer": customer},
	})
	if err != nil {
		return "", fmt.Errorf("add a card: %w", err)
	}
	return token.ID, nil
}

// List describes the cards of a customer, newest first, as far as the client
// may see them.
func (w *Wallet) List(ctx context.Context, customer string) ([]string, error) {
	var all []string
	for token, err := range w.Client.AllTokens(ctx, vault.ListTokensParams{Metadata: map[string]string{"customer": customer}}) {
		if err != nil {
			return nil, fmt.Errorf("list cards: %w", err)
		}
		var card vault.CardData
		if err := token.Data.Decode(&card); err != nil {
			return nil, fmt.Errorf("list cards: %w", err)
		}
		all = append(all, fmt.Sprintf("%s, expires %02d/%d", card.Number, card.ExpirationMonth, card.ExpirationYear))
	}
	return all, nil
}

// Charge passes a card in plaintext to the gateway, with the amount in cents.
// It returns ErrNoCode if the security code has expired.
func (w *Wallet) Charge(ctx context.Context, token string, amount int, gateway func(vault.CardData, int) error) error {
	data, err := w.Client.Detokenize(ctx, vault.Expression(token))
	if err != nil {
		return fmt.Errorf("charge a card: %w", err)
	}
	var card vault.CardData
	if err := data.Decode(&card); err != nil {
		return fmt.Errorf("charge a card: %w", err)
	}
	if card.CVC == "" {
		return ErrNoCode
	}
	return gateway(card, amount)
}
