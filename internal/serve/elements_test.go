package serve

import (
	"net/http"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

func TestElementsFlags(t *testing.T) {
	t.Parallel()
	good := elementsFlags{addr: "127.0.0.1:0", origins: List{"https://shop.example"}}
	must.Do(t, good.check("SVC-"))
	off := elementsFlags{}
	must.Do(t, off.check("SVC-"))
	for text, e := range map[string]elementsFlags{
		"need --elements":                  {origins: good.origins},
		"--elements must be an address":    {addr: "8090", origins: good.origins},
		"--elements needs --elements-orig": {addr: good.addr},
		"* in --elements-origins":          {addr: good.addr, origins: List{"*"}},
		"--elements-origins is not an ori": {addr: good.addr, origins: List{"https://shop.example/pay"}},
		"takes the id of a tenant":         {addr: good.addr, origins: good.origins, tenant: "acme"},
		"--elements-authorize must be an":  {addr: good.addr, origins: good.origins, authorize: "shop.example"},
	} {
		must.Match(t, text, e.check("SVC-"), must.Text(text))
	}
}

// TestElementsAreServed starts a server with every flag of elements. The limits and the proxies
// are the API's.
func TestElementsAreServed(t *testing.T) {
	t.Parallel()
	api, addr := freeAddress(t), freeAddress(t)
	s := runServer(t, "-addr", api, "-prefix", "BT-", "-elements", addr, "-elements-origins", "https://shop.example,http://127.0.0.1:3000",
		"-elements-authorize", "https://shop.example/reveal", "-elements-show-bin", "-rate-limit", "0.001", "-rate-burst", "2", "-trusted-proxy", "127.0.0.1")
	key := s.await(`key_pub_\w+`)
	s.await(`the elements take the keys of every tenant`)
	res := must.Get(http.DefaultClient.Do(must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/frame", nil))(t)))(t)
	text := res.Header.Get("Content-Security-Policy")
	must.Do(t, res.Body.Close())
	for _, part := range []string{"connect-src 'self' https://shop.example/reveal;", "frame-ancestors https://shop.example http://127.0.0.1:3000;"} {
		must.Contain(t, "the policy", text, part)
	}
	send := func(addr string) int {
		req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+"/tokens", strings.NewReader(`{"type":"token","data":"secret text"}`)))(t)
		for name, value := range map[string]string{"BT-API-KEY": key, "Sec-Fetch-Site": "same-origin", "Content-Type": "application/json", "X-Forwarded-For": "203.0.113.9"} {
			req.Header.Set(name, value)
		}
		res := must.Get(http.DefaultClient.Do(req))(t)
		must.Do(t, res.Body.Close())
		return res.StatusCode
	}
	must.Same(t, "through elements", http.StatusCreated, send(addr))
	s.await(`method=POST route=/tokens status=201`)
	must.Same(t, "through the API", http.StatusCreated, send(api))
	must.Same(t, "through elements, once more", http.StatusTooManyRequests, send(addr))
	must.Same(t, "through the API, once more", http.StatusTooManyRequests, send(api))
	s.end()
}
