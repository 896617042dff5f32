package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

const cardData = `{"number":"4242424242424242","expiration_month":12,"expiration_year":2039,"cvc":"7391"}`

// cardFor returns the body that the page of an order sends to the vault.
func cardFor(order string) string {
	return fmt.Sprintf(`{"type":"card","data":%s,"containers":[%q]}`, cardData, containerOf(path.Base(order)))
}

func TestEachKeyHasOnlyItsPermissions(t *testing.T) {
	t.Parallel()
	w := newShopPage(t)
	order, api := w.orderPage(), w.vault.url
	session, _ := w.openSession(order)
	token := w.newToken(order, cardFor(order))
	for name, c := range map[string]struct {
		method, path, key, body string
		status                  int
	}{
		"the public key stores no card":           {"POST", "/tokens", w.vault.publicKey, cardFor(order), 403},
		"a session reads no card":                 {"GET", "/tokens/" + token, session.SessionKey, "", 403},
		"a session uses no card":                  {"POST", "/detokenize", session.SessionKey, `"{{ ` + token + ` }}"`, 403},
		"a session stores no card elsewhere":      {"POST", "/tokens", session.SessionKey, `{"type":"card","data":` + cardData + `}`, 403},
		"nor for another order":                   {"POST", "/tokens", session.SessionKey, cardFor(w.orderPage()), 403},
		"a session stores nothing else":           {"POST", "/tokens", session.SessionKey, `{"type":"token","data":"x"}`, 403},
		"the shop reads cards":                    {"GET", "/tokens/" + token, w.privateKey, "", 200},
		"the shop deletes no card":                {"DELETE", "/tokens/" + token, w.privateKey, "", 403},
		"the shop administers nothing":            {"GET", "/applications", w.privateKey, "", 403},
		"a session of the shop is not authorized": {"POST", "/sessions", w.privateKey, "", 403},
	} {
		res := w.send(c.method, api+c.path, c.key, c.body)
		must.Same(t, fmt.Sprint(name, ": ", res.body), c.status, res.status)
		if bytes.Contains(res.body, []byte(goodNumber)) {
			t.Errorf("%s: the response contains the number", name)
		}
	}
}

func TestOnlyPagesOfTheShopShowTheFields(t *testing.T) {
	t.Parallel()
	w := newShopPage(t)
	res := must.Get(http.Get(w.elements + "/frame"))(t)
	res.Body.Close()
	must.Contain(t, "the policy of the frame", res.Header.Get("Content-Security-Policy"), "frame-ancestors "+w.page+";")
	for _, origin := range []string{w.page, "https://evil.example"} { // no page calls the vault
		req := must.Get(http.NewRequestWithContext(t.Context(), "OPTIONS", w.vault.url+"/tokens", nil))(t)
		req.Header.Set("Origin", origin)
		req.Header.Set("Access-Control-Request-Method", "POST")
		res := must.Get(http.DefaultClient.Do(req))(t)
		res.Body.Close()
		must.Same(t, origin, "", res.Header.Get("Access-Control-Allow-Origin"))
	}
}

func TestShopRefusesBadRequests(t *testing.T) {
	t.Parallel()
	w := newShopPage(t)
	order := w.orderPage()
	unknown := w.page + "/orders/unknown"
	for name, c := range map[string]struct {
		url, body string
		status    int
	}{
		"an order that is not there":     {unknown + "/payment", `{}`, 404},
		"a page that is not there":       {unknown, ``, 405},
		"an expression for a token":      {order + "/payment", `{"token":"a }} {{ b"}`, 400},
		"a token that is not there":      {order + "/payment", `{"token":"7f1a6f56-7a0e-4b5a-9c62-2f6a2b1f0c11"}`, 502},
		"a nonce that is not there":      {order + "/session", `{"nonce":"1234567890123456789012"}`, 502},
		"a body that is not JSON":        {order + "/session", `nonce`, 400},
		"a body of more than 4 kilobyte": {order + "/session", `{"nonce":"` + strings.Repeat("x", maxBody) + `"}`, 400},
	} {
		must.Same(t, name, c.status, w.send("POST", c.url, "", c.body).status)
	}
	if got := w.charges.Load(); got > 0 {
		t.Errorf("charged %d times", got)
	}
}

func TestConcurrentPaymentsChargeOnce(t *testing.T) {
	t.Parallel()
	w := newShopPage(t)
	order := w.orderPage()
	token := w.newToken(order, cardFor(order))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			must.Same(t, "the payment", http.StatusNoContent, w.pay(order, token).status)
		})
	}
	wg.Wait()
	must.Same(t, "charged", int64(1), w.charges.Load())
	if _, res := w.openSession(order); res.status != http.StatusConflict {
		t.Errorf("a session for a paid order: %d", res.status)
	}
}

func TestRunPrintsTheAddress(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	out, done := &record{}, make(chan error, 1)
	in, printed := io.Pipe()
	go func() {
		done <- run(ctx, []string{"-shop", "127.0.0.1:0", "-vault", "127.0.0.1:0", "-elements", "127.0.0.1:0"}, io.MultiWriter(out, printed), io.Discard)
	}()
	var address string
	must.Get(fmt.Fscanf(in, "The shop is at %s", &address))(t)
	go func() { _, _ = io.Copy(io.Discard, in) }()
	res := must.Get(http.Get(strings.TrimSuffix(address, ",")))(t)
	defer res.Body.Close()
	if policy := res.Header.Get("Content-Security-Policy"); res.StatusCode != 200 || !strings.Contains(policy, "script-src 'self' http://127.0.0.1:") {
		t.Errorf("%d, policy %q", res.StatusCode, policy)
	}
	cancel()
	must.Do(t, <-done)
	if !out.contains("Ctrl-C") {
		t.Error("the line is incomplete")
	}
	for want, bad := range map[string][]string{"flag provided but not defined": {"-nope"}, "missing port in address": {"-shop", "nowhere"}} {
		must.Match(t, fmt.Sprint(bad, " was accepted"), run(t.Context(), bad, io.Discard, io.Discard), must.Text(want))
	}
}

// TestCardPaysOnlyForItsOrder pays with tokens that must not pay. The number
// alone, or the token of another order, is not enough.
func TestCardPaysOnlyForItsOrder(t *testing.T) {
	t.Parallel()
	w := newShopPage(t)
	theirs := w.orderPage()
	victim := w.newToken(theirs, cardFor(theirs))
	for name, body := range map[string]string{
		"deduplicated":    `{"type":"card","data":{"number":"4242424242424242"},"containers":[%q],"deduplicate_token":true}`,
		"not a card":      `{"type":"token","data":{"number":"1","expiration_month":1,"expiration_year":2039},"containers":[%q],"mask":{"number":"XXXXXXXXXXXX4242","expiration_month":1,"expiration_year":2039}}`,
		"number in clear": `{"type":"card","data":` + cardData + `,"containers":[%q],"mask":{"number":"{{ data.number }}","expiration_month":1,"expiration_year":2039}}`,
		"number as year":  `{"type":"card","data":` + cardData + `,"containers":[%q],"mask":{"number":"XXXXXXXXXXXX4242","expiration_month":1,"expiration_year":"{{ data.number | to_number }}"}}`,
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
	}
	if w.charges.Load() > 0 || w.logs.contains(goodNumber) {
		t.Error("a card was charged, or a log contains its number")
	}
}

// TestOnlyTheAcquirerConfirmsACharge has acquirers that respond with neither 200
// nor 402.
func TestOnlyTheAcquirerConfirmsACharge(t *testing.T) {
	t.Parallel()
	w := newShopPage(t)
	order := w.orderPage()
	token := w.newToken(order, cardFor(order))
	for name, acquirer := range map[string]http.HandlerFunc{
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://elsewhere.example", http.StatusTemporaryRedirect)
		},
		"accepted": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) },
		"silent":   func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"forged": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("SVC-PROXY-DESTINATION-STATUS", "200")
			w.WriteHeader(404)
		},
	} {
		w.acquirer.Store(&acquirer)
		must.Same(t, name, http.StatusBadGateway, w.pay(order, token).status)
	}
}
