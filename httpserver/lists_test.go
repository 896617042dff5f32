package httpserver

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// A misspelled filter must not find everything.
func TestUnknownParametersAreRefused(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, nil)
	for path, known := range map[string]string{
		"/tokens": "metadata.x", "/v2/tokens": "start", "/logs": "actor_type", "/sessions": "page", "/applications": "type",
		"/reactors": "name", "/proxies": "name", "/permissions": "", "/logs/entity-types": "",
	} {
		key := w.keyFor("GET", path)
		for _, name := range []string{"nope", "Page", "metadata_x", "a b", "entity"} {
			res := w.do("GET", path+"?"+url.Values{name: {"secret"}}.Encode(), key, "")
			fields, _ := res.wantError(t, 400)["errors"].(map[string]any)
			if fields[name] == nil || len(fields) != 1 || strings.Contains(res.body, "secret") {
				t.Errorf("GET %s?%s: %s", path, name, res.body)
			}
		}
		if known != "" && w.do("GET", path+"?"+known+"=", key, "").StatusCode == 400 && known != "page" {
			t.Errorf("GET %s refuses %s", path, known)
		}
		w.do("GET", path, key, "").want(t, 200)
	}
	two := w.do("GET", "/tokens?one=1&two=2&page=0", w.PrivateKey, "").wantError(t, 400)["errors"].(map[string]any)
	if two["one"] == nil || two["two"] == nil {
		t.Errorf("errors do not name both: %v", two)
	}
	w.do("GET", "/tokens?start=x", w.PrivateKey, "").wantError(t, 400)
	w.do("GET", "/v2/tokens?page=1", w.PrivateKey, "").wantError(t, 400)
	w.do("GET", "/tokens?metadata[k]=v&metadata.l=w&metadata=%7B%7D", w.PrivateKey, "").want(t, 200)
	w.do("GET", "/healthz?probe=1", "", "").want(t, 200)
}

// TestListsOverCursors reads lists to the end.
func TestListsOverCursors(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, nil)
	var want []any
	for i := range 7 {
		want = slices.Insert(want, 0, any(w.create(fmt.Sprintf(`{"type":"token","data":%d,"metadata":{"k":"v"}}`, i))))
	}
	w.create(`{"type":"card_number","data":"4242424242424242"}`)
	read := map[string]func(start string) *response{
		"list": func(start string) *response {
			return w.do("GET", "/v2/tokens?type=token&metadata.k=V&size=3&start="+url.QueryEscape(start), w.PrivateKey, "")
		},
		"search": func(start string) *response {
			return w.do("POST", "/v2/tokens/search", w.PrivateKey, fmt.Sprintf(`{"query":"type:token","size":3,"start":%q}`, start))
		},
	}
	for name, page := range read {
		var got []any
		pages := 0
		for start := ""; ; pages++ {
			body := page(start).want(t, 200).decode(t)
			for _, tok := range body["data"].([]any) {
				got = append(got, tok.(map[string]any)["id"])
			}
			pagination := body["pagination"].(map[string]any)
			after, more := pagination["after"].(string)
			if pagination["next"] != pagination["after"] || pagination["page_size"] != 3.0 || pagination["total_items"] != nil {
				t.Errorf("%s: %v", name, pagination)
			}
			if !more {
				break
			}
			start = after
		}
		same(t, name+": got", got, want)
		same(t, name+": pages", pages, 2)
		page("x").wantFields(t, "start")
	}
	for body, field := range map[string]string{
		`{"query":"type:token","page":1}`: "page", `{"query":"type:token","size":101}`: "size", `{"query":"type:token","size":0}`: "size",
		`{"query":"type:token","start":1}`: "start", `{"query":"type:token","nope":1}`: "nope", `{"query":"nope:1"}`: "query",
	} {
		w.do("POST", "/v2/tokens/search", w.PrivateKey, body).wantFields(t, field)
	}
	w.do("GET", "/v2/tokens", w.PublicKey, "").wantError(t, 403)
	w.do("POST", "/v2/tokens/search", w.PublicKey, `{"query":"type:token"}`).wantError(t, 403)
}
