package destinations_test

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/given"
	"github.com/seed-72ea4aab/vault/internal/test/long"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// secretText returns a random text. Some are longer than 4,096 bytes.
func secretText(r *rand.Rand) string {
	var b strings.Builder
	if r.IntN(12) == 0 {
		b.WriteString(strings.Repeat([]string{"A", "AB"}[r.IntN(2)], 4100))
	}
	for range 6 + r.IntN(20) {
		b.WriteRune([]rune(`abcXYZ019 -_."\/%+&é€🔑`)[r.IntN(22)])
	}
	return b.String()
}

// secretOf returns random data for a token, and the texts in it that must not
// appear. Names of members must not either, in a response to a request that inserts
// them.
func secretOf(r *rand.Rand, depth int) (data any, secrets, names []string) {
	switch kind := r.IntN(4); {
	case kind == 0 && depth < 2:
		list := []any{}
		for range 1 + r.IntN(3) {
			v, s, m := secretOf(r, depth+1)
			list, secrets, names = append(list, v), append(secrets, s...), append(names, m...)
		}
		return list, secrets, names
	case kind == 1 && depth < 2:
		object := map[string]any{}
		for range 1 + r.IntN(3) {
			v, s, m := secretOf(r, depth+1)
			name := secretText(r)
			object[name], secrets, names = v, append(secrets, s...), append(append(names, m...), name)
		}
		return object, secrets, names
	case kind == 2:
		n := json.Number(fmt.Sprint(1_000_000 + r.Int64N(1e15)))
		return n, []string{string(n)}, nil
	default:
		s := secretText(r)
		return s, []string{s}, nil
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
		data, secrets, names := secretOf(r, 0)
		metadata := map[string]string{fmt.Sprintf("name-%d", r.Int64()): fmt.Sprint("A&b ", r.Int64())}
		given.Create(t, w.Private, vault.TokenParams{ID: id, Type: vault.TypeGeneric, Data: data, Metadata: metadata, Containers: []string{container}})
		whole := must.Get(w.Private.GetToken(t.Context(), id))(t)
		destinations := [][]string{{w.to}, {"x.test", w.to}, {"x.test"}, {"*.test"}}
		rules := []vault.AccessRule{given.Rule(9, "/", vault.TransformMask, "token:read", "token:search", "token:update")}
		for i := range 3 {
			rules = append(rules, bound(1+i, fmt.Sprintf("/c%d/", i), destinations[r.IntN(len(destinations))]...))
		}
		key := given.Private(t, w.Vault, rules...)
		expression, hidden := expressionOf(r, id), slices.Concat(secrets, names)
		if strings.Contains(expression, "token:") {
			hidden = slices.Concat(hidden, []string{whole.Fingerprint}, slices.Collect(maps.Keys(metadata)), slices.Collect(maps.Values(metadata)))
		}
		got, response, sent := w.tryEverything(t, r, key, id, expression)
		wantNoneOf(t, id, got, secrets)
		wantNoneOf(t, id+" in a response", response, hidden)
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

// wantNoneOf checks that texts have no secret in any form, and no half of a long one.
func wantNoneOf(t *testing.T, what string, texts, secrets []string) {
	t.Helper()
	for _, text := range texts {
		for _, plain := range undisguised(text) {
			for _, secret := range secrets {
				must.Lack(t, what+": "+text, plain, secret)
				if half := len(secret) / 2; half > 1000 {
					must.Lack(t, what+": "+text, plain, secret[:half])
					must.Lack(t, what+": "+text, plain, secret[half:])
				}
			}
		}
	}
}

// expressionOf returns an expression that inserts a token, or tries to take it apart.
func expressionOf(r *rand.Rand, id string) string {
	return []string{"{{ " + id + " }}", "{{" + id + " | stringify }}", "a {{ " + id + " | to_string }} b", "{{ " + id + " | slice: 0, 7 }}", "{{ token: " + id + " }}"}[r.IntN(5)]
}

// tryEverything uses a token in many ways. It returns everything that the caller
// receives, the part that is a response of the destination, and whether the
// destination received the data.
func (w *till) tryEverything(t *testing.T, r *rand.Rand, key *vault.Client, id, expression string) (got, response []string, sent bool) {
	note := func(v any, err error) {
		text, _ := json.Marshal(v) // what cannot be written cannot be received
		got = append(got, string(text), fmt.Sprint(err))
	}
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
	response = []string{answer.body, fmt.Sprint(err)}
	if answer.ProxyAnswer != nil {
		for name, values := range answer.Header {
			response = append(append(response, name), values...)
		}
	}
	return append(got, response...), response, sent
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
	for _, part := range slices.Clone(parts) { // and each text of the documents in it
		if start := strings.IndexAny(part, "{["); start >= 0 {
			var doc any
			if json.NewDecoder(strings.NewReader(part[start:])).Decode(&doc) == nil {
				parts = append(parts, textsIn(doc)...)
			}
		}
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

// textsIn returns the strings and the names of members of a document.
func textsIn(doc any) (texts []string) {
	switch doc := doc.(type) {
	case string:
		return []string{doc}
	case []any:
		for _, e := range doc {
			texts = append(texts, textsIn(e)...)
		}
	case map[string]any:
		for name, e := range doc {
			texts = append(append(texts, name), textsIn(e)...)
		}
	}
	return texts
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
	given.Create(t, w.Private, vault.TokenParams{ID: "text", Type: vault.TypeGeneric, Data: `a <secret> & "text"`})
	given.Create(t, w.Private, vault.TokenParams{ID: "num", Type: vault.TypeGeneric, Data: json.RawMessage("12345678901234567890")})
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
		given.Same(t, typ, got, test.want)
		must.Lack(t, typ+": not filled in", w.body, "{{")
	}
}
