package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestOnlyTheAcquirerConfirmsACharge has acquirers that respond with
// neither 200 nor 402.
func TestOnlyTheAcquirerConfirmsACharge(t *testing.T) {
	t.Parallel()
	var strayed atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { strayed.Add(1) }))
	t.Cleanup(elsewhere.Close)
	for name, acquirer := range map[string]http.HandlerFunc{
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		},
		"redirect to a page":  func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, http.StatusSeeOther) },
		"accepted":            func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) },
		"refusal not in JSON": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusPaymentRequired) },
		"failure":             func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"not even an answer":  func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"pretends to be asked": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("SVC-PROXY-DESTINATION-STATUS", "200")
			w.WriteHeader(404)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.acquirer.Handler = acquirer
			w.start()
			order := w.orderPage()
			if res := w.pay(order, w.newCard(order)); res.status != http.StatusBadGateway {
				t.Errorf("%d %s", res.status, res.body)
			}
			if o := w.store.orders.find(path.Base(order)); o.receipt() != nil || o.mayGo() {
				t.Error("the order counts as paid, or as not charged")
			}
			if strayed.Load() > 0 {
				t.Error("a request was sent elsewhere")
			}
		})
	}
}

func TestUnknownDeclineHasAMessage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.acquirer.Handler = http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		writeJSON(rw, http.StatusPaymentRequired, decision{Reason: "stolen_card"})
	})
	w.start()
	order := w.orderPage()
	var got problem
	if err := w.pay(order, w.newCard(order)).expect(http.StatusPaymentRequired, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(problem{Message: "The bank declined the payment. Try another card."}, got); diff != "" {
		t.Error(diff)
	}
}

// TestCardPaysOnlyForItsOrder pays with tokens that must not pay. The number
// alone, or the token of another order, is not enough.
func TestCardPaysOnlyForItsOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start()
	theirs := w.orderPage()
	victim := w.newCard(theirs)
	if res := w.pay(theirs, victim); res.status != http.StatusNoContent {
		t.Fatalf("%d %s", res.status, res.body)
	}
	for name, body := range map[string]string{
		"deduplicated":    `{"type":"card","data":{"number":"4242424242424242"},"containers":[%q],"deduplicate_token":true}`,
		"not a card":      `{"type":"token","data":{"number":"1","expiration_month":1,"expiration_year":2039},"containers":[%q],"mask":{"number":"XXXXXXXXXXXX4242","expiration_month":1,"expiration_year":2039}}`,
		"a number alone":  `{"type":"card_number","data":"4242424242424242","containers":[%q]}`,
		"number in clear": `{"type":"card","data":` + cardData + `,"containers":[%q],"mask":{"number":"{{ data.number }}","expiration_month":1,"expiration_year":2039}}`,
		"number as year":  `{"type":"card","data":` + cardData + `,"containers":[%q],"mask":{"number":"XXXXXXXXXXXX4242","expiration_month":1,"expiration_year":"{{ data.number | to_number }}"}}`,
		"too long a year": `{"type":"card","data":` + cardData + `,"containers":[%q],"mask":{"number":"XXXXXXXXXXXX4242","expiration_month":1,"expiration_year":"{{ data.number | append: data.number | to_number }}"}}`,
		"more of it":      `{"type":"card","data":` + cardData + `,"containers":[%q],"mask":{"number":"{{ data.number | reveal_last: 6 }}","expiration_month":1,"expiration_year":2039}}`,
		"without a date":  `{"type":"card","data":{"number":"4242424242424242"},"containers":[%q]}`,
	} {
		order := w.orderPage()
		token := w.newToken(order, fmt.Sprintf(body, containerOf(path.Base(order))))
		if name == "deduplicated" && token != victim {
			t.Fatal("the tokens were not deduplicated")
		}
		if res := w.pay(order, token); res.status != http.StatusBadRequest || !strings.Contains(string(res.body), "This card cannot be used.") {
			t.Errorf("%s: %d %s", name, res.status, res.body)
		}
		if w.store.orders.find(path.Base(order)).receipt() != nil {
			t.Errorf("%s: the order is paid", name)
		}
	}
	if got := w.charges(); len(got) != 1 || w.asked.Load() != 1 {
		t.Errorf("charged %d times, requested %d times", len(got), w.asked.Load())
	}
	if w.logs.contains(goodNumber) {
		t.Error("a log contains the number")
	}
}

func TestPaymentAttemptsAreLimited(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start()
	order := w.orderPage()
	token := w.newToken(order, strings.Replace(cardFor(order), "2039", "2020", 1))
	for n := range maxAttempts + 1 { // one session, one token, many charges
		want := http.StatusPaymentRequired
		if n == maxAttempts {
			want = http.StatusTooManyRequests
		}
		if res := w.pay(order, token); res.status != want {
			t.Errorf("attempt %d: %d %s", n+1, res.status, res.body)
		}
	}
	if got := w.asked.Load(); got != maxAttempts {
		t.Errorf("the acquirer received %d requests", got)
	}
	o := (&orders{}).add()
	for range maxAttempts {
		if !o.session() {
			t.Fatal("a session was refused too early")
		}
	}
	if o.session() {
		t.Error("there is no bound on sessions")
	}
}

// TestOrdersInUseAreKept fills the shop with orders, while the clock stands still.
func TestOrdersInUseAreKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, ordersInUseAreKept)
}

func ordersInUseAreKept(t *testing.T) {
	var all orders
	idle, opened, over, paid, unsure, paying := all.add(), all.add(), all.add(), all.add(), all.add(), all.add()
	opened.session()
	over.until = time.Now().Add(-time.Second)
	card := func() (*maskedCard, error) { return &maskedCard{}, nil }
	if err := paid.pay(card, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	if err := unsure.pay(card, func() error { return errNotCharged }); err == nil {
		t.Fatal("there was no error")
	}
	err := paying.pay(card, func() error {
		for range 2 * maxOrders {
			all.add()
		}
		return &declinedError{declined}
	})
	if err == nil {
		t.Fatal("there was no error")
	}
	for name, c := range map[string]struct {
		order *order
		kept  bool
	}{
		"idle": {idle, false}, "its session is over": {over, false},
		"a session is open": {opened, true}, "paid": {paid, true}, "perhaps charged": {unsure, true}, "being paid": {paying, true},
	} {
		if got := all.find(c.order.id) != nil; got != c.kept {
			t.Errorf("%s: kept is %v", name, got)
		}
	}
	if len(all.byID) != maxOrders || len(all.line) != maxOrders {
		t.Errorf("%d orders are kept", len(all.byID))
	}
	for _, o := range all.byID {
		o.open = true
	}
	if all.add() != nil {
		t.Error("there is no bound on orders in use")
	}
}

func TestOneVisitorDoesNotBlockOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	visit := func(h http.Handler, method, target, from, key string) int {
		req := httptest.NewRequestWithContext(t.Context(), method, target, nil)
		req.RemoteAddr = from
		req.Header.Set("SVC-API-KEY", key)
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, req)
		return rec.Code
	}
	for name, c := range map[string]struct {
		handler             http.Handler
		method, target, key string
		good, atOnce        int
	}{
		"the vault": {w.vault.Handler, "POST", "/sessions", w.store.vault.publicKey, 201, vaultAtOnce},
		"the shop":  {w.shop.Handler, "GET", "/", "", 303, ordersAtOnce},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused := 0
			for n := range 20 * c.atOnce { // faster than the limiter refills
				from := fmt.Sprintf("[2001:db8::%x]:1", n) // addresses of one customer
				if status := visit(c.handler, c.method, c.target, from, c.key); status == http.StatusTooManyRequests {
					refused++
				} else if status != c.good {
					t.Fatal(status)
				}
			}
			if refused == 0 {
				t.Error("there is no limit")
			}
			for _, other := range []string{"192.0.2.1:1", "[2001:db8:0:1::1]:1"} {
				if status := visit(c.handler, c.method, c.target, other, c.key); status != c.good {
					t.Errorf("%s: %d", other, status)
				}
			}
		})
	}
}

func TestLimitersAreBounded(t *testing.T) {
	t.Parallel()
	e := &eachAddress{limit: 1, burst: 1}
	first := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
	kept := e.of(first)
	for n := range 3 * maxAddresses {
		r := first.Clone(t.Context())
		r.RemoteAddr = fmt.Sprintf("10.%d.%d.%d:1", n>>16, n>>8&255, n&255)
		e.of(r)
		if n%(maxAddresses/2) == 0 && e.of(first) != kept {
			t.Fatal("the limiter of a frequent address was dropped")
		}
	}
	if len(e.recent) > maxAddresses || len(e.old) > maxAddresses {
		t.Errorf("%d and %d limiters are kept", len(e.recent), len(e.old))
	}
}
