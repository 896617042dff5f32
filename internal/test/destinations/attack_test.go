package destinations_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/given"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/script"
)

// wantNothingOf fails if one of the texts has a part of the card number that is
// longer than what a mask shows.
func wantNothingOf(t testing.TB, what string, texts ...any) {
	t.Helper()
	for _, text := range texts {
		must.Lack(t, what, fmt.Sprintf("%+v", text), given.Visa[:5])
	}
}

// The vault's own response to a bound request does not depend on the data, so that
// a sender cannot guess it piece by piece.
func TestBoundRequestsAnswerNoQuestions(t *testing.T) {
	t.Parallel()
	w := newTill(t, vault.Config{})
	const pad = "AAAAAAAAAAAAAAAAAAAA"
	for _, guess := range []string{given.Visa[:1], given.Visa[:2], "9"} {
		body := "--" + pad + guess + "\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n--" + pad + "{{ card | json: '$.number' }}\r\n--" + pad + guess + "--\r\n"
		call := vault.ProxyCall{Method: "POST", Header: http.Header{"Content-Type": {"multipart/form-data; boundary=" + pad + guess}}, Body: strings.NewReader(body)}
		_, err := w.charge(t.Context(), w.key, call)
		if err != nil {
			t.Errorf("the boundary %s%s: %v", pad, guess, err)
			continue
		}
		got := &http.Request{Method: "POST", Header: w.got.Header, Body: io.NopCloser(strings.NewReader(w.body))}
		if err := got.ParseMultipartForm(1000); err != nil || got.FormValue("a") != "--"+pad+given.Visa {
			t.Errorf("the destination got %v, %v", got.Form, err)
		}
	}
	given.Create(t, w.Private, vault.TokenParams{ID: "short", Type: vault.TypeGeneric, Data: "abcde"})
	for _, expression := range []string{
		"{{ token: card | json: '$.enrichments.card.last4' }}", "{{ token: card | json: '$.enrichments.card.bin' }}",
		"{{ short | append: card }}", "{{ short | append: data }}", "{{ short | append: token: card }}", "{{ short | default: card.number }}",
		"{{ card | json: '$.number[0]' }}", "{{ card | json: '$.number.length' }}", "{{ card | json: '$[\"number\"][:5]' }}", "{{ card.number }}",
		"{{ card | json: '$.number' | json: '$[0]' }}", "{{ card | stringify | json: '$.number' }}", "{{ card | to_string | slice: 11, 5 }}",
	} {
		call := vault.ProxyCall{Method: "POST", Header: http.Header{"Content-Type": {"text/plain"}}, Body: strings.NewReader(expression)}
		if _, err := w.charge(t.Context(), w.key, call); err == nil && !strings.Contains(w.body, given.Visa) {
			t.Errorf("%s: the destination got %s", expression, w.body)
		} else {
			wantNothingOf(t, expression, err)
		}
	}
}

// Bound requests share a connection, and the destination may keep it open.
func TestBoundRequestsKeepTheirConnection(t *testing.T) {
	t.Parallel()
	w := newTill(t, vault.Config{})
	for range 10 {
		must.Get(w.charge(t.Context(), w.key, cardCall()))(t)
		given.Same(t, "the connection is closed", w.got.Close, false)
	}
	if n := w.conn.Load(); n > 5 { // more than one only on a slow machine
		t.Errorf("10 requests took %d connections", n)
	}
	call := cardCall()
	call.Connection = "close"
	must.Get(w.charge(t.Context(), w.key, call))(t)
	given.Same(t, "the connection is closed, as the caller wants", w.got.Close, true)
}

// A destination that repeats the data in its status line, as a number, or in
// something that is not HTTP does not get it past the vault.
func TestEchoesInOtherPlaces(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	w := newTill(t, vault.Config{Logger: slog.New(slog.NewTextHandler(&log, nil)), FullAudit: true})
	const long = "6212345678900000003" // more digits than a float has
	given.Create(t, w.Private, vault.TokenParams{ID: "long", Type: vault.TypeCardNumber, Data: long})
	w.answer = func(rw http.ResponseWriter, _ *http.Request, body string) {
		n, err := strconv.ParseFloat(body, 64)
		fmt.Fprintf(rw, "%v %s %f %d %v", n, strconv.FormatFloat(n, 'f', -1, 64), n, int64(n), err)
	}
	call := vault.ProxyCall{Method: "POST", Header: http.Header{"Content-Type": {"text/plain"}}, Body: strings.NewReader("{{ long }}")}
	got := must.Get(w.charge(t.Context(), w.key, call))(t).body
	must.Lack(t, "as a float", got, long[:8])
	must.Lack(t, "as a float", got, "6.2123")
	for name, response := range map[string]string{
		"status line": "HTTP/1.1 200 " + given.Visa + "\r\nContent-Length: 1\r\n\r\nx",
		"not HTTP":    given.Visa + " is not HTTP\r\n\r\n",
		"a bad line":  "HTTP/1.1 200 OK\r\n" + given.Visa + "\r\n\r\n",
		"a bad size":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + given.Visa + given.Visa + "\r\n",
		"cut off":     "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + given.Visa[:12],
		"two in one":  "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 " + given.Visa + "\r\n\r\n",
	} {
		w.answer = func(rw http.ResponseWriter, _ *http.Request, _ string) {
			conn, _, _ := rw.(http.Hijacker).Hijack() // an HTTP/1 server can
			_, _ = io.WriteString(conn, response)
			conn.Close()
		}
		answer, err := w.charge(t.Context(), w.key, cardCall())
		wantNothingOf(t, name, answer.ProxyAnswer, answer.body, err)
		client := &http.Client{Transport: w.key.RoundTripper(&http.Transport{TLSClientConfig: w.cert})}
		res, err := client.Post(w.url, "application/json", strings.NewReader(cardExpression))
		wantNothingOf(t, name+" with RoundTripper", err)
		if err == nil {
			body, err := io.ReadAll(res.Body) // what arrived
			wantNothingOf(t, name+" with RoundTripper", res.Status, res.Header, string(body), err)
		}
	}
	wantNothingOf(t, "logger", log.String())
	for _, e := range given.Entries(t, w.Vault, vault.ListLogsParams{}) {
		wantNothingOf(t, "log", e)
	}
}

// seen is an observer that keeps all events.
type seen struct {
	mu  sync.Mutex
	all []string
}

func (s *seen) Start(ctx context.Context, e vault.Event) (context.Context, func(error)) {
	if e.Header != nil {
		e.Header.Set("Tracestate", "seen=1")
	}
	note := func(err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all = append(s.all, fmt.Sprintf("%+v %v", e, err))
	}
	note(nil)
	return s.traced(ctx), note
}

// traced returns a context with which package httptrace reports everything that is sent.
func (s *seen) traced(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaderField: func(name string, values []string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all = append(s.all, fmt.Sprint(name, values))
	}})
}

// Observers, and hooks of the caller or of an observer, do not see the headers that were
// filled in.
func TestObserversSeeNoBoundData(t *testing.T) {
	t.Parallel()
	s := &seen{}
	w := newTill(t, vault.Config{Observer: s})
	call := cardCall()
	call.Header = http.Header{"Content-Type": {"application/json"}, "X-Card": {"{{ card | json: '$.number' }}"}}
	call.Query = url.Values{"q": {"{{ card | json: '$.number' }}"}}.Encode()
	must.Get(w.charge(s.traced(t.Context()), w.key, call))(t)
	given.Same(t, "sent", w.got.Header.Get("X-Card")+w.got.Header.Get("Tracestate"), given.Visa+"seen=1")
	wantNothingOf(t, "events", strings.Join(s.all, "\n"))
}

// Rights that are cut to a bound use take effect on everything that was begun before.
func TestBoundUseEndsEarlierSight(t *testing.T) {
	t.Parallel()
	var told []string
	w := newTill(t, vault.Config{WorkEvery: -1, Runtime: given.Runtime(func(_ context.Context, in map[string]any, _ script.Host) (any, error) {
		return map[string]any{"raw": in["args"]}, nil
	})})
	w.answer = func(_ http.ResponseWriter, _ *http.Request, body string) { told = append(told, body) }
	app := must.Get(w.Owner.CreateApplication(t.Context(), vault.ApplicationParams{Name: "A", Type: vault.ApplicationPrivate, Rules: []vault.AccessRule{
		given.Rule(1, "/", vault.TransformReveal, "token:use", "token:update"), given.Rule(2, "/", vault.TransformMask, "token:read", "token:create")}}))(t)
	key := given.Authenticated(t, w.Vault.Vault, app.Key)
	reactor := must.Get(w.Management.CreateReactor(t.Context(), vault.ReactorParams{Name: "r", Code: "x", Configuration: map[string]string{}}))(t)
	pending := must.Get(w.Public.CreateSession(t.Context()))(t)
	must.Do(t, key.AuthorizeSession(t.Context(), vault.SessionGrant{Nonce: pending.Nonce, Rules: []vault.AccessRule{given.Rule(1, "/", vault.TransformReveal, "token:read", "token:use")}}))
	session := given.Authenticated(t, w.Vault.Vault, pending.SessionKey)
	once := func() (vault.StoredResponse, error) {
		out, _, err := key.Once(t.Context(), vault.IdempotencyKey{Scope: "s", Key: "k"}, func(ctx context.Context, c *vault.Client) (vault.StoredResponse, error) {
			out, err := c.React(ctx, reactor.ID, vault.ReactParams{Args: "{{ card }}"})
			if err != nil {
				return vault.StoredResponse{}, err
			}
			return vault.StoredResponse{Status: 200, Body: out.Raw}, nil
		})
		return out, err
	}
	must.Contain(t, "the response", string(must.Get(once())(t).Body), given.Visa)
	must.Get(key.ReactAsync(t.Context(), reactor.ID, vault.ReactParams{Args: "{{ card }}", CallbackURL: w.url}))(t)
	params := app.Params()
	params.Rules = []vault.AccessRule{bound(1, "/", w.to), given.Rule(2, "/", vault.TransformMask, "token:read", "token:create", "token:update")}
	must.Get(w.Owner.ReplaceApplication(t.Context(), app.ID, params))(t)
	out, err := once()
	must.Match(t, "a stored response", err, vault.ErrForbidden)
	wantNothingOf(t, "a stored response", string(out.Body), err)
	must.Do(t, w.Work(t.Context()))
	if len(told) != 1 || !strings.Contains(told[0], "limited to requests") {
		t.Errorf("callbacks: %q", told)
	}
	wantNothingOf(t, "callback", told)
	tok, err := session.GetToken(t.Context(), "card")
	wantNothingOf(t, "session", string(tok.Data), err)
	_, err = session.Detokenize(t.Context(), "{{ card }}")
	w.limited(t, "session", err)
	for _, patch := range []string{`{"data":{"expiration_month":1},"mask":"{{ data.number }}"}`, `{"data":{"cvc":"123"},"mask":{"n":"{{ data.number | slice: 0, 9 }}"}}`, `{"mask":null,"metadata":{"x":"{{ card }}"}}`} {
		tok, err := key.PatchToken(t.Context(), "card", json.RawMessage(patch))
		wantNothingOf(t, patch, tok, err)
	}
	copied, err := key.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: "{{ card | json: '$.number' }}", Mask: "{{ data }}"})
	wantNothingOf(t, "a copy", copied, err)
}

// A destination with the name but another certificate gets nothing.
func TestBoundUseNeedsACertificate(t *testing.T) {
	t.Parallel()
	w := newTill(t, vault.Config{})
	host, port, _ := net.SplitHostPort(w.to)
	name := "localhost:" + port // the certificate is for 127.0.0.1 and example.com
	key := given.Private(t, w.Vault, bound(1, "/", name))
	call := cardCall()
	call.URL = "https://" + name
	must.Match(t, "another name for "+host, must.Err(w.charge(t.Context(), key, call)), vault.ErrUnreachable)
	given.Same(t, "sent", w.body, "")
}

// All that an expression can insert is replaced, whatever its length and its place in
// the token, and so are the forms in which programs repeat it.
func TestEveryInsertedTextIsReplaced(t *testing.T) {
	t.Parallel()
	w := newTill(t, vault.Config{})
	long := strings.Repeat("0123456789abcdef", 300) // 4,800 bytes
	pair := []string{long + "the first secret", long + "another secret"}
	for id, data := range map[string]any{
		"first": pair[0], "second": pair[1], "stutter": strings.Repeat("A", 5000) + "key material", "ampersand": long + "&the rest",
		"named": map[string]any{"DE89370400440532013000": map[string]any{"owner": "Jane Doe"}}, "line": "sk_live_line\n", "mixed": "Sk_lIvE_MiXeD",
	} {
		given.Create(t, w.Private, vault.TokenParams{ID: id, Type: vault.TypeGeneric, Data: data})
	}
	tagged := given.Create(t, w.Private, vault.TokenParams{ID: "tagged", Type: vault.TypeGeneric, Data: "the tagged data", Metadata: map[string]string{"customer-number": "4711-0815"}})
	whole := must.Get(w.Private.GetToken(t.Context(), tagged.ID))(t)
	text := http.Header{"Content-Type": {"text/plain"}}
	for name, test := range map[string]struct {
		header         http.Header
		send, response string // the response is what was sent if it is empty
		lacks          []string
	}{
		"a common start":       {text, "{{ first }} {{ second }}", "", []string{"the first secret", "another secret", "89abcdef"}},
		"only the second":      {text, "{{ second }}", "", []string{"another secret", "89abcdef"}},
		"an overlap":           {text, "A{{ stutter }}", "", []string{"key material", "AAAAAA"}},
		"inserted into XML":    {http.Header{"Content-Type": {"text/xml"}}, "<a>{{ ampersand }}</a>", "", []string{"the rest", "89abcdef"}},
		"a name of a member":   {nil, `{"x":"{{ named }}"}`, "", []string{"DE8937", "Jane"}},
		"a name in a text":     {nil, `{"x":"{{ named | stringify }}"}`, "<DE89370400440532013000>", []string{"DE8937"}},
		"metadata":             {nil, `{"x":"{{ token: tagged }}"}`, "<4711-0815|customer-number|the tagged data>", []string{"4711", "customer", "tagged data"}},
		"a fingerprint":        {nil, `{"x":"{{ token: tagged | json: '$.fingerprint' }}"}`, "<" + whole.Fingerprint + ">", []string{whole.Fingerprint}},
		"a trailing newline":   {nil, `{"x":"{{ line }}"}`, "<sk_live_line>", []string{"sk_live"}},
		"the name of a header": {nil, `{"x":"{{ mixed }}"}`, "header", []string{"mixed"}},
	} {
		w.answer = func(rw http.ResponseWriter, _ *http.Request, body string) {
			switch test.response {
			case "":
				_, _ = io.WriteString(rw, body)
			case "header":
				rw.Header().Set("X-Sk_lIvE_MiXeD-x", "1")
			default:
				_, _ = io.WriteString(rw, test.response)
			}
		}
		got := must.Get(w.charge(t.Context(), w.key, vault.ProxyCall{Method: "POST", Header: test.header, Body: strings.NewReader(test.send)}))(t)
		for _, lacks := range test.lacks {
			must.Lack(t, name, got.body+strings.ToLower(fmt.Sprint(got.Header)), lacks)
		}
	}
	w.answer = func(rw http.ResponseWriter, _ *http.Request, _ string) {
		_, _ = io.WriteString(rw, `{"expiration_month":12,"owners":1}`)
	}
	got := must.Get(w.charge(t.Context(), w.key, vault.ProxyCall{Method: "POST", Body: strings.NewReader(`{"x":"{{ card }}"}`)}))(t)
	given.Same(t, "names that the type has", got.body, `{"expiration_month":12,"owners":1}`)
}

// The limits of a request do not tell how long a value is that its caller may not see.
func TestLimitsDoNotTellALength(t *testing.T) {
	t.Parallel()
	w := newTill(t, vault.Config{})
	for n, repeats := range map[int]int{1_100: 1, 3_900: 1, 5_000: 2, 8_100: 2} {
		id := fmt.Sprint("value-", n)
		given.Create(t, w.Private, vault.TokenParams{ID: id, Type: vault.TypeGeneric, Data: strings.Repeat("v", n)})
		most := 4096 / repeats // expressions that fit
		for count, want := range map[int]error{most: nil, most + 1: vault.ErrInvalid} {
			body := strings.Repeat("{{ "+id+" }}", count)
			_, err := w.charge(t.Context(), w.key, vault.ProxyCall{Method: "POST", Header: http.Header{"Content-Type": {"text/plain"}}, Body: strings.NewReader(body)})
			if want == nil && err != nil || want != nil && err == nil {
				t.Errorf("%d times %d bytes: %v", count, n, err)
			}
		}
	}
}

// A request in whose response data was replaced is reported once, with its
// application.
func TestReplacementsAreReported(t *testing.T) {
	t.Parallel()
	s := &seen{}
	w := newTill(t, vault.Config{Observer: s})
	client, _ := w.NewApplication(t, w.Owner, vault.ApplicationPrivate, []vault.AccessRule{bound(1, "/", w.to)})
	for response, want := range map[string]int{"nothing": 0, given.Visa + " and " + given.Visa: 1, given.Visa[:15] + "3": 0} {
		w.answer = func(rw http.ResponseWriter, _ *http.Request, _ string) {
			rw.Header().Set("X-Text", response)
			_, _ = io.WriteString(rw, response)
		}
		s.all = nil
		must.Get(w.charge(t.Context(), client, cardCall()))(t)
		all := strings.Join(s.all, "\n")
		given.Same(t, response, strings.Count(all, "Kind:echo Name:replaced")/2, want)
		if want > 0 {
			must.Contain(t, "the event", all, "EntityID:"+client.ApplicationID().String())
		}
	}
}

// A destination that reads a request in another charset, or decompresses it, would repeat
// other characters. So the request is refused, or not filled in. Headers have no charset: many programs read and write them in
// Latin-1.
func TestCharsetsOfBoundRequests(t *testing.T) {
	t.Parallel()
	w := newTill(t, vault.Config{})
	const name = "Jürgen Müller"
	given.Create(t, w.Private, vault.TokenParams{ID: "name", Type: vault.TypeGeneric, Data: name})
	latin1 := func(text string) string {
		var read []rune
		for _, b := range []byte(text) {
			read = append(read, rune(b))
		}
		return string(read)
	}
	w.answer = func(rw http.ResponseWriter, r *http.Request, body string) {
		rw.Header().Set("X-Body", strings.ReplaceAll(body, "ü", "\xfc"))
		_ = json.NewEncoder(rw).Encode([]string{body, latin1(body), latin1(r.Header.Get("X-Name"))})
	}
	part := func(header string) string {
		return "--b\r\nContent-Disposition: form-data; name=a\r\n" + header + "\r\n\r\n{{ name }}\r\n--b--"
	}
	for _, test := range []struct {
		types []string
		body  string
		ok    bool
	}{
		{[]string{"text/plain"}, "{{ name }}", true},
		{[]string{"text/plain; charset=UTF-8"}, "{{ name }}", true},
		{[]string{"text/plain; charset=iso-8859-1"}, "{{ name }}", true},
		{[]string{"text/plain; charset=utf-16le"}, "without", true},
		{[]string{"text/plain; charset=utf-16le"}, "{{ name }}", false},
		{[]string{"text/plain", "text/plain; charset=IBM037"}, "{{ name }}", false},
		{[]string{"application/x-www-form-urlencoded; charset=utf-7"}, "a={{ name }}", false},
		{[]string{"text/plain; charset=utf-8; charset=utf-16"}, "{{ name }}", false},
		{[]string{"text/plain"}, "\xff\xfe{{ name }}", false},
		{[]string{"application/xml"}, "<\x00a\x00>\x00{{ name }}", false},
		{[]string{"application/xml"}, "\x4c\x6f\xa7\x94{{ name }}", false},
		{[]string{"text/xml"}, `<?xml version="1.0" encoding='ISO-2022-JP'?><a>{{ name }}</a>`, false},
		{[]string{"text/xml"}, `<?xml version="1.0" encoding="UTF-8"?><a>{{ name }}</a>`, true},
		{[]string{"multipart/form-data; boundary=b; charset=IBM037"}, part("X: y"), false},
		{[]string{"multipart/form-data; boundary=b"}, part("Content-Type: text/plain; charset=shift_jis"), false},
	} {
		header := http.Header{"Content-Type": test.types, "X-Name": {"{{ name }}"}}
		answer, err := w.charge(t.Context(), w.key, vault.ProxyCall{Method: "POST", Header: header, Body: strings.NewReader(test.body)})
		what := fmt.Sprint(test.types, " ", test.body)
		if !test.ok {
			given.WantFields(t, what, err, "headers.Content-Type")
			continue
		}
		must.Match(t, what, err, nil)
		all := answer.Header.Get("X-Body") + answer.body
		for _, text := range []string{"rgen", "ller"} {
			must.Lack(t, what, all, text)
		}
	}
	header := http.Header{"Content-Type": {"text/plain"}, "Content-Encoding": {"identity", "deflate"}}
	must.Get(w.charge(t.Context(), w.key, vault.ProxyCall{Method: "POST", Header: header, Body: strings.NewReader("{{ name }}")}))(t)
	given.Same(t, "a body that the destination decompresses is not filled in", w.body, "{{ name }}")
	header = http.Header{"Content-Type": {"text/plain; charset=utf-16le"}}
	must.Get(w.charge(t.Context(), w.Private, vault.ProxyCall{Method: "POST", Header: header, Body: strings.NewReader("{{ name }}")}))(t)
	given.Same(t, "a caller who may see the data", w.body, name)
}
