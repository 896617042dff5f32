package main

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"

	"github.com/google/uuid"
)

// The price of the shop's only product.
const (
	price    = 4200 // in cents
	currency = "EUR"
)

// maxBody is how many bytes of a request the shop and the acquirer read.
const maxBody = 4 << 10

//go:embed page
var files embed.FS

var pages = template.Must(template.ParseFS(files, "page/*.html"))

// shop is the shop's server. It gets nonces and tokens, but no cards.
type shop struct {
	vault  *vaultAccess
	orders orders
	visits *eachAddress // limits new orders
	logger *slog.Logger
}

func newShop(access *vaultAccess, logger *slog.Logger) *shop {
	return &shop{vault: access, visits: &eachAddress{limit: ordersPerSecond, burst: ordersAtOnce}, logger: logger.With("server", "shop")}
}

func (s *shop) handler() http.Handler {
	static, err := fs.Sub(files, "page")
	if err != nil {
		panic(err) // unreachable, because the folder is embedded
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.newOrder)
	mux.HandleFunc("GET /orders/{id}", s.showOrder)
	mux.HandleFunc("POST /orders/{id}/session", s.authorize)
	mux.HandleFunc("POST /orders/{id}/payment", s.pay)
	for _, file := range []string{"shop.css", "checkout.js", "icon.svg"} {
		mux.HandleFunc("GET /"+file, func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, static, file) })
	}
	return s.logged(s.guarded(http.NewCrossOriginProtection().Handler(mux)))
}

// guarded sets the headers of every response. They tell the browser to load
// and run only the shop's own files, to connect only to the shop and its
// vault, and to keep no copy.
func (s *shop) guarded(next http.Handler) http.Handler {
	policy := "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self' " + s.vault.url +
		"; form-action 'none'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("Cache-Control", "no-store")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r)
	})
}

func (s *shop) logged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r)
		s.logger.InfoContext(r.Context(), "request", "method", r.Method, "path", r.URL.Path)
	})
}

// newOrder creates an order for the shop's only product.
func (s *shop) newOrder(w http.ResponseWriter, r *http.Request) {
	if !s.visits.of(r).Allow() {
		http.Error(w, "Too many requests. Try again in a moment.", http.StatusTooManyRequests)
		return
	}
	o := s.orders.add()
	if o == nil {
		http.Error(w, "We cannot take more orders right now. Try again later.", http.StatusServiceUnavailable)
		return
	}
	http.Redirect(w, r, "/orders/"+o.id, http.StatusSeeOther)
}

// showOrder shows the checkout page of an order or, once it is paid, its receipt.
func (s *shop) showOrder(w http.ResponseWriter, r *http.Request) {
	o := s.orders.find(r.PathValue("id"))
	if o == nil {
		http.Error(w, "There is no such order.", http.StatusNotFound)
		return
	}
	page, card := "checkout.html", o.receipt()
	if card != nil {
		page = "receipt.html"
	}
	err := pages.ExecuteTemplate(w, page, map[string]any{"Order": o.id, "Container": containerOf(o.id),
		"Vault": s.vault.url, "PublicKey": s.vault.publicKey, "Card": card})
	if err != nil {
		s.logger.ErrorContext(r.Context(), "showing an order failed", "error", err)
	}
}

// authorize authorizes the session that a page has opened to pay for an order.
func (s *shop) authorize(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Nonce string `json:"nonce"`
	}
	o := s.read(w, r, &in)
	if o == nil {
		return
	}
	if o.receipt() != nil { // no other card is needed
		writeJSON(w, http.StatusConflict, problem{Message: "This order has already been paid."})
		return
	}
	if !o.session() {
		writeJSON(w, http.StatusTooManyRequests, tooOften)
		return
	}
	if err := s.vault.authorize(r.Context(), o.id, in.Nonce); err != nil {
		s.fail(w, r, "authorizing a session failed", err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// pay pays for an order with a card. The shop gets only its token.
func (s *shop) pay(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Token uuid.UUID `json:"token"` // only a UUID, because it becomes part of an expression
	}
	o := s.read(w, r, &in)
	if o == nil {
		return
	}
	ctx := context.WithoutCancel(r.Context()) // closing the page does not undo the payment
	err := o.pay(
		func() (*maskedCard, error) { return s.vault.card(ctx, o.id, in.Token) },
		func() error { return s.vault.charge(ctx, o.id, in.Token) })
	var no *declinedError
	switch {
	case errors.As(err, &no):
		writeJSON(w, http.StatusPaymentRequired, refusal(no.reason))
	case errors.Is(err, errTooOften):
		writeJSON(w, http.StatusTooManyRequests, tooOften)
	case errors.Is(err, errNotPayable):
		writeJSON(w, http.StatusBadRequest, problem{Message: "This card cannot be used. Reload the page and try again."})
	case err != nil:
		s.fail(w, r, "a payment failed", err)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

// problem is a message for the page, and the field that it belongs to.
type problem struct {
	Field   string `json:"field,omitempty"` // the id of an input, or "" for the form
	Message string `json:"message"`
}

// refusals are messages to the customer for the acquirer's reasons.
var refusals = map[string]problem{
	declined:    {"number", "The bank declined this card. Try another one."},
	expiredCard: {"expiry", "This card has expired. Try another one."},
	wrongCode:   {"cvc", "The bank says this security code is wrong."},
}

// refusal returns the message for a reason. The acquirer may have reasons
// that the shop does not know.
func refusal(reason string) problem {
	if p, ok := refusals[reason]; ok {
		return p
	}
	return problem{Message: "The bank declined the payment. Try another card."}
}

var tooOften = problem{Message: "There were too many attempts to pay for this order. Start a new one."}

// read finds the order of a request and decodes its body. On failure it
// writes the response and returns nil.
func (s *shop) read(w http.ResponseWriter, r *http.Request, body any) *order {
	o := s.orders.find(r.PathValue("id"))
	if o == nil {
		writeJSON(w, http.StatusNotFound, problem{Message: "This order no longer exists. Start a new one."})
		return nil
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(body); err != nil {
		writeJSON(w, http.StatusBadRequest, problem{Message: "Something went wrong on this page. Reload it and try again."})
		return nil
	}
	return o
}

// fail responds to a request if a call to the vault fails. The log has the
// cause. It contains no card data, because the vault's errors never do.
func (s *shop) fail(w http.ResponseWriter, r *http.Request, what string, err error) {
	s.logger.ErrorContext(r.Context(), what, "error", err)
	writeJSON(w, http.StatusBadGateway, problem{Message: "We could not confirm the payment. Press Pay again: you will not be charged twice."})
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // an error means that the caller has left
}
