package vault_test

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/long"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// secretOf returns random data for a token, and the texts in it that must not
// appear.
func secretOf(r *rand.Rand, depth int) (data any, secrets []string) {
	text := func() string {
		var b strings.Builder
		for range 6 + r.IntN(20) {
			b.WriteRune([]rune(`abcXYZ019 -_."\/%+&é€🔑`)[r.IntN(22)])
		}
		return b.String()
	}
	switch kind := r.IntN(4); {
	case kind == 0 && depth < 2:
		list := []any{}
		for range 1 + r.IntN(3) {
			v, s := secretOf(r, depth+1)
			list, secrets = append(list, v), append(secrets, s...)
		}
		return list, secrets
	case kind == 1 && depth < 2:
		object := map[string]any{}
		for i := range 1 + r.IntN(3) {
			v, s := secretOf(r, depth+1)
			object[fmt.Sprint("k", i)], secrets = v, append(secrets, s...)
		}
		return object, secrets
	case kind == 2:
		n := json.Number(fmt.Sprint(1_000_000 + r.Int64N(1e15)))
		return n, []string{string(n)}
	default:
		s := text()
		return s, []string{s}
	}
}

// disguised writes text as a destination may return it.
func disguised(r *rand.Rand, text string) string {
	switch r.IntN(5) {
	case 0:
		return url.QueryEscape(text)
	case 1:
		return url.PathEscape(text)
	case 2:
		quoted, _ := json.Marshal(text) // cannot fail for a string
		return string(quoted)
	case 3:
		var b strings.Builder
		for _, u := range utf16.Encode([]rune(text)) {
			fmt.Fprintf(&b, `\u%04X`, u)
		}
		return b.String()
	default:
		return text
	}
}

// undisguised returns what a reader of a text may make of it.
func undisguised(text string) []string {
	all := []string{text}
	for _, read := range []func(string) (string, error){url.QueryUnescape, url.PathUnescape, func(s string) (out string, err error) {
		err = json.Unmarshal([]byte(`"`+s+`"`), &out)
		return out, err
	}} {
		for piece := range strings.FieldsFuncSeq(text, func(c rune) bool { return c == '\n' || c == '"' }) {
			if plain, err := read(piece); err == nil {
				all = append(all, plain)
			}
		}
	}
	return all
}

// For random rules, tokens and requests, no value of a bound token appears in
// anything that the caller receives, whatever the destination returns of it.
func TestNoBoundValueComesBack(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(26, 47))
	w := newTill(t, vault.Config{})
	arrived, refused := 0, 0
	for n := range long.Rounds(150, 3000) {
		id, container := fmt.Sprintf("tok-%d", n), fmt.Sprintf("/c%d/", r.IntN(3))
		data, secrets := secretOf(r, 0)
		create(t, w.Private, vault.TokenParams{ID: id, Type: vault.TypeGeneric, Data: data, Containers: []string{container}})
		destinations := [][]string{{w.to}, {"x.test", w.to}, {"x.test"}, {"*.test"}}
		rules := []vault.AccessRule{rule(9, "/", vault.TransformMask, "token:read", "token:search", "token:update")}
		for i := range 3 {
			rules = append(rules, bound(1+i, fmt.Sprintf("/c%d/", i), destinations[r.IntN(len(destinations))]...))
		}
		key := private(t, w.Vault, rules...)
		got, sent := w.tryEverything(t, r, key, id)
		for _, secret := range secrets {
			for _, text := range got {
				for _, plain := range undisguised(text) {
					must.Lack(t, id+": "+text, plain, secret)
				}
			}
		}
		if sent {
			arrived++
		} else {
			refused++
		}
	}
	if min(arrived, refused) < long.Rounds(20, 400) {
		t.Errorf("the requests are not varied: %d arrived, %d were refused", arrived, refused)
	}
}

// tryEverything uses a token in many ways and returns everything that the caller
// receives, and whether the destination received the data.
func (w *till) tryEverything(t *testing.T, r *rand.Rand, key *vault.Client, id string) (got []string, sent bool) {
	note := func(v any, err error) {
		text, _ := json.Marshal(v) // what cannot be written cannot be received
		got = append(got, string(text), fmt.Sprint(err))
	}
	expression := []string{"{{ " + id + " }}", "{{" + id + " | stringify }}", "a {{ " + id + " | to_string }} b", "{{ " + id + " | slice: 0, 7 }}", "{{ token: " + id + " }}"}[r.IntN(5)]
	note(key.Detokenize(t.Context(), map[string]string{"x": expression}))
	note(key.PatchToken(t.Context(), id, map[string]any{"mask": "{{ data | stringify }}"}))
	note(key.PatchToken(t.Context(), id, map[string]any{"containers": []string{fmt.Sprintf("/c%d/", r.IntN(3))}}))
	note(key.GetToken(t.Context(), id))
	note(key.SearchTokens(t.Context(), vault.SearchTokensParams{Query: "id:" + id}))
	call := vault.ProxyCall{Method: http.MethodPost, URL: w.url, Header: http.Header{}}
	switch typ := []string{"application/json", "text/plain", "application/x-www-form-urlencoded", "header", "query"}[r.IntN(5)]; typ {
	case "header":
		call.Header.Set("Authorization", "Bearer "+expression)
	case "query":
		call.Query = url.Values{"q": {expression}}.Encode()
	default:
		body := map[string]string{"application/json": `{"x":"` + expression + `"}`, "text/plain": expression, "application/x-www-form-urlencoded": "x=" + url.QueryEscape(expression)}[typ]
		call.Body = strings.NewReader(body)
		call.Header.Set("Content-Type", typ)
	}
	w.answer = func(rw http.ResponseWriter, req *http.Request, body string) { sent = true; respond(r, rw, req, body) }
	answer, err := w.charge(t.Context(), key, call)
	got = append(got, answer.body, fmt.Sprint(err))
	if answer.ProxyAnswer != nil {
		for name, values := range answer.Header {
			got = append(append(got, name), values...)
		}
	}
	return got, sent
}

// respond returns what a request had, in some form.
func respond(r *rand.Rand, rw http.ResponseWriter, req *http.Request, body string) {
	query, _ := url.QueryUnescape(req.URL.RawQuery) // whatever is there
	form, _ := url.QueryUnescape(body)
	parts := []string{body, form, req.Header.Get("Authorization"), req.URL.RawQuery, query}
	var doc map[string]json.RawMessage
	if json.Unmarshal([]byte(body), &doc) == nil {
		var text string
		if json.Unmarshal(doc["x"], &text) == nil {
			parts = append(parts, text)
		}
		parts = append(parts, string(doc["x"]))
	}
	rw.Header().Set("X-Echo", strings.Map(oneLine, disguised(r, parts[r.IntN(len(parts))])))
	var out io.Writer = rw
	if r.IntN(3) == 0 {
		rw.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(rw)
		defer z.Close()
		out = z
	}
	for _, part := range parts {
		fmt.Fprintln(out, disguised(r, part))
	}
}

func oneLine(c rune) rune {
	if c == '\n' || c == '\r' {
		return ' '
	}
	return c
}

// A destination that returns the body of the request as it was sent, or the
// number in it as a float, returns nothing of the data.
func TestEchoesOfWhatWasSent(t *testing.T) {
	t.Parallel()
	w := newTill(t, vault.Config{})
	create(t, w.Private, vault.TokenParams{ID: "text", Type: vault.TypeGeneric, Data: `a <secret> & "text"`})
	create(t, w.Private, vault.TokenParams{ID: "num", Type: vault.TypeGeneric, Data: json.RawMessage("12345678901234567890")})
	w.answer = func(rw http.ResponseWriter, r *http.Request, body string) {
		var n float64
		if json.Unmarshal([]byte(body), &n) == nil {
			body = strconv.FormatFloat(n, 'f', -1, 64)
		}
		fmt.Fprint(rw, body)
	}
	for typ, test := range map[string]struct{ body, want string }{
		"application/xml":                   {"<a>{{ text }}</a>", "<a>{{ text }}</a>"},
		"application/json":                  {`"{{ num }}"`, "{{ num }}"},
		"application/x-www-form-urlencoded": {"a={{text}}&b=1", "a={{ text }}&b=1"},
		"text/plain":                        {"{{ card | json: '$.cvc' | append: '-result' }} 737", "{{ card }} 737"},
		"multipart/form-data; boundary=0123456789abcdef": {"--0123456789abcdef\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n{{ text }}\r\n--0123456789abcdef--\r\n",
			"--0123456789abcdef\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n{{ text }}\r\n--0123456789abcdef--\r\n"},
	} {
		call := vault.ProxyCall{Method: "POST", Header: http.Header{"Content-Type": {typ}}, Body: strings.NewReader(test.body)}
		got := must.Get(w.charge(t.Context(), w.key, call))(t).body
		if _, params, _ := mime.ParseMediaType(w.got.Header.Get("Content-Type")); params["boundary"] != "" {
			got = strings.ReplaceAll(got, params["boundary"], "0123456789abcdef")
		}
		same(t, typ, got, test.want)
		must.Lack(t, typ+": not filled in", w.body, "{{")
	}
}
