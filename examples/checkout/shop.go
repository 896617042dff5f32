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
	"sync"

	"github.com/google/uuid"
)

//go:embed page
var files embed.FS

var pages = template.Must(template.ParseFS(files, "page/*.html"))

// shop is the shop's server. It gets nonces and tokens, but no cards.
type shop struct {
	vault    *vaultAccess
	elements string // origin of the card fields
	logger   *slog.Logger

	mu     sync.Mutex
	orders map[string]*order // a real shop keeps them in a database
}

// order is an order for the shop's only product. Anyone who knows its id may pay
// it and see its receipt.
type order struct {
	id   string
	mu   sync.Mutex  // held while the order is being paid, so that it is paid once
	paid *maskedCard // nil until it is paid
}

// receipt returns the card that the order was paid with, or nil.
func (o *order) receipt() *maskedCard {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.paid
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
	return s.guarded(http.NewCrossOriginProtection().Handler(mux))
}

// guarded sets the headers of every response, and logs the request. The headers
// tell the browser to load only the shop's own files and the card fields, to connect
// only to the shop, and to keep no copy.
func (s *shop) guarded(next http.Handler) http.Handler {
	policy := "default-src 'none'; script-src 'self' " + s.elements + "; frame-src " + s.elements +
		"; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("Cache-Control", "no-store")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r)
		s.logger.InfoContext(r.Context(), "request", "method", r.Method, "path", r.URL.Path)
	})
}

func (s *shop) newOrder(w http.ResponseWriter, r *http.Request) {
	o := &order{id: uuid.NewString()}
	s.mu.Lock()
	s.orders[o.id] = o
	s.mu.Unlock()
	http.Redirect(w, r, "/orders/"+o.id, http.StatusSeeOther)
}

// order returns the order of a request, or nil.
func (s *shop) order(r *http.Request) *order {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.orders[r.PathValue("id")]
}

// showOrder shows the checkout page of an order or, once it is paid, its receipt.
func (s *shop) showOrder(w http.ResponseWriter, r *http.Request) {
	o := s.order(r)
	if o == nil {
		http.Error(w, "There is no such order.", http.StatusNotFound)
		return
	}
	page, card := "checkout.html", o.receipt()
	if card != nil {
		page = "receipt.html"
	}
	err := pages.ExecuteTemplate(w, page, map[string]any{"Order": o.id, "Container": containerOf(o.id),
		"Elements": s.elements, "PublicKey": s.vault.publicKey, "Card": card})
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
	switch {
	case o == nil:
	case o.receipt() != nil: // no other card is needed
		refuse(w, http.StatusConflict, problem{Message: "This order has already been paid."})
	default:
		s.answer(w, r, "authorizing a session failed", s.vault.authorize(r.Context(), o.id, in.Nonce))
	}
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
	o.mu.Lock()
	defer o.mu.Unlock()
	var err error
	if o.paid == nil {
		// Closing the page does not undo the payment.
		o.paid, err = s.vault.charge(context.WithoutCancel(r.Context()), o.id, in.Token)
	}
	s.answer(w, r, "a payment failed", err)
}

// read finds the order of a request and decodes its body. On failure it
// writes the response and returns nil.
func (s *shop) read(w http.ResponseWriter, r *http.Request, body any) *order {
	o := s.order(r)
	if o == nil {
		refuse(w, http.StatusNotFound, problem{Message: "This order no longer exists. Start a new one."})
		return nil
	}
	if readJSON(w, r, body) != nil {
		refuse(w, http.StatusBadRequest, problem{Message: "Something went wrong on this page. Reload it and try again."})
		return nil
	}
	return o
}

// maxBody is how many bytes of a request the shop and the acquirer read.
const maxBody = 4 << 10

func readJSON(w http.ResponseWriter, r *http.Request, body any) error {
	return json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(body)
}

// problem is a message for the page.
type problem struct {
	Message string `json:"message"`
}

// answer responds to a request after a call to the vault. The log has the cause of
// an error. It contains no card data, because the vault's errors never do.
func (s *shop) answer(w http.ResponseWriter, r *http.Request, failed string, err error) {
	switch {
	case err == nil:
		w.WriteHeader(http.StatusNoContent)
	case errors.Is(err, errDeclined):
		refuse(w, http.StatusPaymentRequired, problem{Message: "The bank declined this card. Try another one."})
	case errors.Is(err, errNotPayable):
		refuse(w, http.StatusBadRequest, problem{Message: "This card cannot be used. Reload the page and try again."})
	default:
		s.logger.ErrorContext(r.Context(), failed, "error", err)
		refuse(w, http.StatusBadGateway, problem{Message: "We could not confirm the payment. Press Pay again: you will not be charged twice."})
	}
}

func refuse(w http.ResponseWriter, status int, p problem) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(p) // an error means that the caller has left
}
