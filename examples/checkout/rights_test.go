package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"
	"testing"

	"github.com/seed-72ea4aab/vault"
)

const cardData = `{"number":"4242424242424242","expiration_month":12,"expiration_year":2039,"cvc":"7391"}`

// cardFor returns the body that the page of an order sends to the vault.
func cardFor(order string) string {
	return fmt.Sprintf(`{"type":"card","data":%s,"containers":[%q]}`, cardData, containerOf(path.Base(order)))
}

// answer is an HTTP response.
type answer struct {
	status int
	body   []byte
}

// expect decodes a response with this status into dst. Another status is an
// error.
func (a *answer) expect(status int, dst any) error {
	if a.status != status {
		return fmt.Errorf("%d %s", a.status, a.body)
	}
	return json.Unmarshal(a.body, dst)
}

// send sends a request and returns the response.
func (w *world) send(method, url, key, body string) *answer {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("SVC-API-KEY", key)
	req.Header.Set("Origin", originOf(w.listeners.shop))
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return &answer{res.StatusCode, text}
}

// openSession opens a session as the page of an order does.
func (w *world) openSession(order string) (vault.Session, *answer) {
	w.t.Helper()
	var s vault.Session
	if err := w.send("POST", w.store.vault.url+"/sessions", w.store.vault.publicKey, "").expect(201, &s); err != nil {
		w.t.Fatal(err)
	}
	return s, w.send("POST", order+"/session", "", fmt.Sprintf(`{"nonce":%q}`, s.Nonce))
}

// newCard creates a card token as the page of an order does.
func (w *world) newCard(order string) string { return w.newToken(order, cardFor(order)) }

// newToken creates a token in a session for an order.
func (w *world) newToken(order, body string) string {
	w.t.Helper()
	session, res := w.openSession(order)
	if res.status != http.StatusNoContent {
		w.t.Fatalf("authorize: %d %s", res.status, res.body)
	}
	var token vault.Token
	if err := w.send("POST", w.store.vault.url+"/tokens", session.SessionKey, body).expect(201, &token); err != nil {
		w.t.Fatal(err)
	}
	return token.ID
}

// pay pays an order with a token as its page does.
func (w *world) pay(order, token string) *answer {
	w.t.Helper()
	return w.send("POST", order+"/payment", "", fmt.Sprintf(`{"token":%q}`, token))
}

func TestEachKeyHasOnlyItsPermissions(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start()
	order, api := w.orderPage(), w.store.vault.url
	session, _ := w.openSession(order)
	token := w.newCard(order)
	for name, c := range map[string]struct {
		method, path, key, body string
		status                  int
	}{
		"the public key stores no card":           {"POST", "/tokens", w.store.vault.publicKey, cardFor(order), 403},
		"a session reads no card":                 {"GET", "/tokens/" + token, session.SessionKey, "", 403},
		"a session uses no card":                  {"POST", "/detokenize", session.SessionKey, `"{{ ` + token + ` }}"`, 403},
		"a session stores no card elsewhere":      {"POST", "/tokens", session.SessionKey, `{"type":"card","data":` + cardData + `}`, 403},
		"nor for another order":                   {"POST", "/tokens", session.SessionKey, cardFor(w.orderPage()), 403},
		"a session stores nothing else":           {"POST", "/tokens", session.SessionKey, `{"type":"token","data":"x"}`, 403},
		"the shop reads cards":                    {"GET", "/tokens/" + token, w.store.vault.privateKey, "", 200},
		"the shop deletes no card":                {"DELETE", "/tokens/" + token, w.store.vault.privateKey, "", 403},
		"the shop administers nothing":            {"GET", "/applications", w.store.vault.privateKey, "", 403},
		"a session of the shop is not authorized": {"POST", "/sessions", w.store.vault.privateKey, "", 403},
	} {
		res := w.send(c.method, api+c.path, c.key, c.body)
		if res.status != c.status {
			t.Errorf("%s: %d %s", name, res.status, res.body)
		}
		if bytes.Contains(res.body, []byte(goodNumber)) {
			t.Errorf("%s: the response contains the number", name)
		}
	}
}

func TestVaultAcceptsOnlyPagesOfTheShop(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start()
	for origin, want := range map[string]string{originOf(w.listeners.shop): originOf(w.listeners.shop), "https://evil.example": ""} {
		req, err := http.NewRequestWithContext(t.Context(), "OPTIONS", w.store.vault.url+"/tokens", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Origin", origin)
		req.Header.Set("Access-Control-Request-Method", "POST")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if got := res.Header.Get("Access-Control-Allow-Origin"); got != want {
			t.Errorf("%s: %q, want %q", origin, got, want)
		}
	}
}

func TestShopRefusesBadRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start()
	order := w.orderPage()
	unknown := originOf(w.listeners.shop) + "/orders/unknown"
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
		if res := w.send("POST", c.url, "", c.body); res.status != c.status {
			t.Errorf("%s: %d %s", name, res.status, res.body)
		}
	}
	if got := w.charges(); len(got) > 0 {
		t.Errorf("charged: %+v", got)
	}
}

func TestConcurrentPaymentsChargeOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start()
	order := w.orderPage()
	token := w.newCard(order)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if res := w.pay(order, token); res.status != http.StatusNoContent {
				t.Errorf("%d %s", res.status, res.body)
			}
		})
	}
	wg.Wait()
	if got := w.charges(); len(got) != 1 || w.asked.Load() != 1 {
		t.Errorf("charged %d times, requested %d times", len(got), w.asked.Load())
	}
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
		done <- run(ctx, []string{"-shop", "127.0.0.1:0", "-vault", "127.0.0.1:0"}, io.MultiWriter(out, printed), io.Discard)
	}()
	var address string
	if _, err := fmt.Fscanf(in, "The shop is at %s", &address); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, in) }()
	res, err := http.Get(strings.TrimSuffix(address, ","))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if policy := res.Header.Get("Content-Security-Policy"); res.StatusCode != 200 || !strings.Contains(policy, "script-src 'self';") {
		t.Errorf("%d, policy %q", res.StatusCode, policy)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if !out.contains("Ctrl-C") {
		t.Error("the line is incomplete")
	}
	for _, bad := range [][]string{{"-nope"}, {"-shop", "nowhere"}} {
		if err := run(t.Context(), bad, io.Discard, io.Discard); err == nil {
			t.Errorf("%v was accepted", bad)
		}
	}
}

func TestMaskedCardsAreShort(t *testing.T) {
	t.Parallel()
	var c maskedCard
	if err := json.Unmarshal([]byte(`{"number":"XXXXXXXXXXXX4242","expiration_month":9,"expiration_year":2030}`), &c); err != nil {
		t.Fatal(err)
	}
	if c.Last4() != "4242" || c.Expiry() != "09/30" {
		t.Errorf("%s %s", c.Last4(), c.Expiry())
	}
}
