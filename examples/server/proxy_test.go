package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// TestProxyEndToEnd stores a card, creates a proxy, and calls it. The
// destination gets the card, and the caller gets the response of the
// destination.
func TestProxyEndToEnd(t *testing.T) {
	t.Parallel()
	received := make(chan string, 1)
	destination := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		received <- fmt.Sprintf("%s %s auth=%s key=%q %s", r.Method, r.URL, r.Header.Get("Authorization"), r.Header.Get("SVC-API-KEY"), body)
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, `{"charge":"ch_1"}`)
	}))
	t.Cleanup(destination.Close)
	p := start(t, t.TempDir(), "-allow-private-egress")
	c := p.credentials()

	var token vault.Token
	create(t, c.BaseURL+"/tokens", c.PublicKey,
		`{"type":"card","data":{"number":"4242424242424242","expiration_month":12,"expiration_year":2030,"cvc":"123"}}`, &token)
	var proxy vault.Proxy
	create(t, c.BaseURL+"/proxies", c.ManagementKey, fmt.Sprintf(`{"name":"Gateway","destination_url":%q}`, destination.URL+"/v1?live=1"), &proxy)

	body := fmt.Sprintf(`{"amount":5,"card":"{{ %s }}","last4":"{{ %s | json: '$.number' | last4 }}"}`, token.ID, token.ID)
	req := must.Get(http.NewRequestWithContext(t.Context(), "POST", c.BaseURL+"/proxy/charges?retry=0", strings.NewReader(body)))(t)
	for name, value := range map[string]string{"SVC-API-KEY": c.PrivateKey, "SVC-PROXY-KEY": proxy.Key,
		"Content-Type": "application/json", "Authorization": "Bearer sk_test"} {
		req.Header.Set(name, value)
	}
	res := must.Get(http.DefaultClient.Do(req))(t)
	defer res.Body.Close()
	answer := must.Get(io.ReadAll(res.Body))(t)
	if res.StatusCode != http.StatusAccepted || res.Header.Get("SVC-PROXY-DESTINATION-STATUS") != "202" || string(answer) != `{"charge":"ch_1"}` {
		t.Errorf("%d %v %s", res.StatusCode, res.Header, answer)
	}
	want := `POST /v1/charges?live=1&retry=0 auth=Bearer sk_test key="" {"amount":5,"card":` +
		`{"number":"4242424242424242","expiration_month":12,"expiration_year":2030,"cvc":"123"},"last4":"4242"}`
	must.Same(t, "the destination got", want, <-received)
	p.stop()
	must.Lack(t, "the log contains the number", p.stderr.String(), "4242424242424242")
}

// create posts a body and reads the entity that was created.
func create(t *testing.T, url, key, body string, dst any) {
	t.Helper()
	status, text := call(t, "POST", url, key, body)
	must.Same(t, url+": "+text, http.StatusCreated, status)
	must.Do(t, json.Unmarshal([]byte(text), dst))
}
