package main

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/seed-72ea4aab/vault"
)

// charge is a request to charge a card.
type charge struct {
	Order    string         `json:"order"`
	Amount   int            `json:"amount"` // in cents
	Currency string         `json:"currency"`
	Card     vault.CardData `json:"card"`
}

// Reasons why the acquirer declines a card.
const (
	declined    = "card_declined"
	expiredCard = "expired_card"
	wrongCode   = "incorrect_cvc"
)

// Cards and codes that the acquirer declines.
const (
	declinedNumber = "4000000000000002"
	declinedCode   = "000"
)

// acquirer is a fake payment company that moves no money. It accepts every
// card that has not expired, except for one number and one code. It charges
// an order once, however often it receives the request.
type acquirer struct {
	mu      sync.Mutex
	charged map[string]charge // by order
}

func newAcquirer() *acquirer { return &acquirer{charged: map[string]charge{}} }

// ServeHTTP responds with 200 if an order is charged, and otherwise with 402
// and the reason.
func (a *acquirer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var c charge
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&c); err != nil || c.Order == "" || c.Card.Number == "" {
		http.Error(w, "not a charge", http.StatusBadRequest)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, done := a.charged[c.Order]; done {
		writeJSON(w, http.StatusOK, struct{}{})
		return
	}
	if reason := decline(&c.Card, time.Now()); reason != "" {
		writeJSON(w, http.StatusPaymentRequired, decision{Reason: reason})
		return
	}
	a.charged[c.Order] = c
	writeJSON(w, http.StatusOK, struct{}{})
}

// decision is the acquirer's response when it declines a charge.
type decision struct {
	Reason string `json:"reason"`
}

func decline(card *vault.CardData, now time.Time) string {
	switch {
	case card.Number == declinedNumber:
		return declined
	case card.ExpirationYear*12+card.ExpirationMonth < now.Year()*12+int(now.Month()):
		return expiredCard
	case card.CVC == declinedCode:
		return wrongCode
	}
	return ""
}
