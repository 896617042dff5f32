package destinations_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/httpserver"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// apiKey is a secret that a caller may send but not see.
const apiKey = "sk_live_51H8xYz2eZvKYlo2CaGk7QpX4m"

// parrot is a destination that repeats the text of its caller, and the secret only where
// a comment says so.
type parrot struct {
	*httptest.Server
	more chan struct{} // tells it that the caller has got something
}

func newParrot(t testing.TB) *parrot {
	p := &parrot{more: make(chan struct{}, 1)}
	p.Server = httptest.NewTLSServer(http.HandlerFunc(p.serve))
	t.Cleanup(p.Close)
	return p
}

func (p *parrot) serve(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body) // sent by the test
	text := string(raw)
	if !strings.Contains(r.Header.Get("Authorization")+text, apiKey) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	pad := strings.Repeat("p", 1500)
	switch r.URL.Path {
	case "/pause": // the guess is at the end of a part
		fmt.Fprint(w, pad+text)
		w.(http.Flusher).Flush()
		<-p.more
		fmt.Fprint(w, "and the rest", pad)
	case "/end":
		fmt.Fprint(w, pad+text)
	case "/cut":
		fmt.Fprint(w, pad+text)
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	case "/length": // less than it promises
		w.Header().Set("Content-Length", "100000")
		fmt.Fprint(w, pad+text)
	case "/gzip", "/gzip/cut": // it compresses as well as the guess continues the secret
		var zipped bytes.Buffer
		z := gzip.NewWriter(&zipped)
		fmt.Fprint(z, apiKey, text, pad)
		z.Close()
		w.Header().Set("Content-Encoding", "gzip")
		for part := range slices.Chunk(zipped.Bytes()[:zipped.Len()-len(r.URL.Path)+len("/gzip")], 16) {
			w.Write(part)
			w.(http.Flusher).Flush()
		}
	case "/all": // the secret behind the caller's text, and everything else
		all := r.Header.Get("X-Before") + apiKey + " " + strings.Fields(r.Header.Get("Authorization"))[1] + " " + text
		w.Header().Set("X-All", all)
		fmt.Fprint(w, all)
	case "/header":
		w.Header().Set("X-Text", text)
		w.Header().Set("X-"+strings.Map(func(c rune) rune {
			if c == '\\' || c == '%' {
				return '-'
			}
			return c
		}, text), "1")
	}
}

// seenOnWire sends a request on a separate connection, and returns all that its sender
// sees: the status, the sizes of headers and chunks, and how the response ends.
// got is called after the first chunk. If connect is not empty, it opens a tunnel
// first.
func seenOnWire(t testing.TB, address, connect, request string, got func()) string {
	t.Helper()
	conn := must.Get(net.Dial("tcp", address))(t)
	defer conn.Close()
	if connect != "" {
		must.Get(io.WriteString(conn, connect))(t)
		tunnel := textproto.NewReader(bufio.NewReader(conn))
		must.Contain(t, "the tunnel", must.Get(tunnel.ReadLine())(t), " 200 ")
		must.Get(tunnel.ReadLine())(t)
		conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
	}
	must.Get(io.WriteString(conn, request))(t)
	in := bufio.NewReader(conn)
	text := textproto.NewReader(in)
	all := []string{must.Get(text.ReadLine())(t)}
	header := must.Get(text.ReadMIMEHeader())(t)
	must.Contain(t, "the status", all[0], " 200 ")
	for name, values := range header {
		if name != "Date" && name != "Svc-Trace-Id" {
			all = append(all, fmt.Sprintf("header %d: %d", len(name), len(strings.Join(values, "|"))))
		}
	}
	slices.Sort(all[1:])
	for {
		line, err := text.ReadLine()
		size, _ := strconv.ParseInt(line, 16, 64)
		if err != nil || size == 0 {
			return strings.Join(append(all, fmt.Sprint("end ", line, err)), "\n")
		}
		all = append(all, "chunk "+line)
		must.Get(io.CopyN(io.Discard, in, size+2))(t)
		if got != nil {
			got()
			got = nil
		}
	}
}

// cage is a vault with secrets that one key may send to a destination.
type cage struct {
	*vaulttest.Vault
	*parrot
	to   string // the destination's host and port
	pass string // the key
	bird *vault.Client
}

func newCage(t testing.TB) *cage {
	t.Helper()
	c := &cage{parrot: newParrot(t)}
	roots := x509.NewCertPool()
	roots.AddCert(c.Certificate())
	c.Vault = vaulttest.Open(t, ":memory:", &vault.Config{Egress: vault.EgressPolicy{AllowPrivate: true, RootCAs: roots}})
	c.to = strings.TrimPrefix(c.URL, "https://")
	for id, data := range map[string]any{"key": apiKey, "pair": map[string]string{"key": apiKey, "no": "1"}} {
		must.Get(c.Private.CreateToken(t.Context(), vault.TokenParams{ID: id, Type: vault.TypeGeneric, Data: data}))(t)
	}
	_, c.pass = c.NewApplication(t, c.Owner, vault.ApplicationPrivate, []vault.AccessRule{{
		Description: "bound", Priority: 1, Container: "/", Transform: vault.TransformReveal, Permissions: []vault.Permission{vault.PermissionTokenUse}, Destinations: []string{c.to},
	}})
	c.bird = must.Get(c.Authenticate(t.Context(), c.pass))(t)
	return c
}

// A caller cannot learn a secret piece by piece. Whatever part of it the caller
// guesses, wherever the destination repeats the guess, and however it is written, all
// that the caller observes is the same.
func TestPartOfASecretIsNotObservable(t *testing.T) {
	t.Parallel()
	c := newCage(t)
	api := httptest.NewServer(httpserver.Handler(c.Vault.Vault, nil))
	defer api.Close()
	forward := httptest.NewServer(c.ForwardProxy(nil))
	defer forward.Close()

	const common = "Authorization: Bearer {{ key }}\r\nContent-Type: text/plain\r\nConnection: close\r\n"
	ways := map[string]func(path, text string, got func()) string{
		"proxy": func(path, text string, got func()) string {
			return seenOnWire(t, api.Listener.Addr().String(), "", fmt.Sprintf("POST /proxy%s HTTP/1.1\r\nHost: vault\r\nSVC-API-KEY: %s\r\nSVC-PROXY-URL: %s\r\n%sContent-Length: %d\r\n\r\n%s", path, c.pass, c.URL, common, len(text), text), got)
		},
		"forward proxy": func(path, text string, got func()) string {
			auth := base64.StdEncoding.EncodeToString([]byte("x:" + c.pass))
			connect := fmt.Sprintf("CONNECT %s HTTP/1.1\r\nHost: %s\r\nProxy-Authorization: Basic %s\r\n\r\n", c.to, c.to, auth)
			return seenOnWire(t, forward.Listener.Addr().String(), connect, fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\n%sContent-Length: %d\r\n\r\n%s", path, c.to, common, len(text), text), got)
		},
		"RoundTripper": func(path, text string, got func()) string {
			req := must.Get(http.NewRequest("POST", c.URL+path, strings.NewReader(text)))(t)
			req.Header.Set("Authorization", "Bearer {{ key }}")
			req.Header.Set("Content-Type", "text/plain")
			return readSizes(t, c.bird.RoundTripper(c.Client().Transport), req, got)
		},
	}
	forms := map[string]func(string) string{
		"plain": func(s string) string { return s },
		"escapes": func(s string) string {
			out := ""
			for _, c := range s {
				out += fmt.Sprintf(`\u%04x`, c)
			}
			return out
		},
		"percent": func(s string) string {
			out := ""
			for _, c := range s {
				out += fmt.Sprintf("%%%02x", c)
			}
			return out
		},
	}
	for way, send := range ways {
		for _, path := range []string{"/pause", "/end", "/cut", "/length", "/gzip", "/header"} {
			for form, write := range forms {
				seen := map[string]int{}
				look := func(guess string) string {
					var got func()
					if path == "/pause" {
						got = func() { c.more <- struct{}{} }
					}
					return send(path, write(guess), got)
				}
				// The destination's end may arrive with its text or after it. What a guess
				// tells is therefore what no other guess shows in several attempts.
				for range 3 {
					seen[look(strings.Repeat("!", len(apiKey)))] = 1
				}
				kinds := 1
				observe := func(guess string) {
					for range 20 {
						if seen[look(guess)] > 0 {
							return
						}
					}
					seen[look(guess)], kinds = 1, kinds+1
				}
				for n := range len(apiKey) {
					if form != "plain" && n%4 != 3 {
						continue
					}
					wrong := strings.Repeat("!", len(apiKey)-n)
					observe(apiKey[:n] + wrong)
					observe(wrong + apiKey[:n])
				}
				if bits := math.Log2(float64(kinds)); bits != 0 {
					t.Errorf("%s, %s, %s: %.1f bits for each request: %v", way, path, form, bits, seen)
				}
				if whole := look(apiKey); path != "/cut" && path != "/length" && seen[whole] > 0 {
					t.Errorf("%s, %s, %s: the whole secret is not replaced: %s", way, path, form, whole)
				}
			}
		}
	}
}

// A compressed response that breaks off shows nothing, because the place depends on how
// well a guess compresses.
func TestBrokenCompressionShowsNothing(t *testing.T) {
	t.Parallel()
	c := newCage(t)
	answers := map[string]bool{}
	for _, guess := range []string{apiKey[:16], strings.ToUpper(apiKey[:16]), "!", strings.Repeat("!?", 5000)} {
		req := must.Get(http.NewRequest("POST", c.URL+"/gzip/cut", strings.NewReader(guess)))(t)
		req.Header.Set("Authorization", "Bearer {{ key }}")
		req.Header.Set("Content-Type", "text/plain")
		res, err := c.bird.RoundTripper(c.Client().Transport).RoundTrip(req)
		if err == nil {
			res.Body.Close()
			t.Fatalf("guess %q: %s", guess, res.Status)
		}
		answers[err.Error()] = true
	}
	if len(answers) != 1 {
		t.Errorf("the errors tell guesses apart: %v", answers)
	}
}

// readSizes is seenOnWire for a transport.
func readSizes(t testing.TB, transport http.RoundTripper, req *http.Request, got func()) string {
	t.Helper()
	res := must.Get(transport.RoundTrip(req))(t)
	defer res.Body.Close()
	res.Header.Del("Date")
	all, buf := fmt.Sprint(res.Status, len(res.Header), len(fmt.Sprint(res.Header)), res.ContentLength), make([]byte, 1<<20)
	for {
		n, err := res.Body.Read(buf)
		all += fmt.Sprint(" ", n, err)
		if err != nil {
			return all
		}
		if got != nil {
			got()
			got = nil
		}
	}
}

// A caller who may also choose texts that are replaced cannot use them to learn a
// value piece by piece. Such a text may end in a guess at the start of the value. The
// destination repeats the value behind the rest of that text.
func TestChosenTextsDoNotTellAPart(t *testing.T) {
	t.Parallel()
	c := newCage(t)
	for name, test := range map[string]struct {
		before string                                 // the caller's text before the value
		choose func(guess string) (auth, body string) // a text that is replaced: before and the guess
		right  string                                 // starts with apiKey's start
		wrong  string
	}{
		"a filter on a short value": {"1zzzzz", func(guess string) (string, string) {
			return "Bearer {{ pair | json: '$.key' }}", "{{ pair | json: '$.no' | append: 'zzzzz" + guess + "' }}"
		}, "sk_", "sk-"},
		"credentials": {"MTp6enp", func(guess string) (string, string) {
			last := map[string]string{"s": "l", "r": "k"}[guess] // the base64 ends in the guess
			return "Basic " + base64.StdEncoding.EncodeToString([]byte("{{ pair | json: '$.no' }}:zzz"+last)), "{{ pair | json: '$.key' }}"
		}, "s", "r"},
	} {
		seen := map[string]bool{}
		for _, guess := range []string{test.right, test.wrong} {
			auth, body := test.choose(guess)
			call := vault.ProxyCall{Method: http.MethodPost, URL: c.URL, Path: "/all", Header: http.Header{"Content-Type": {"text/plain"}, "Authorization": {auth}}, Body: strings.NewReader(body)}
			call.Header.Set("X-Before", test.before)
			answer := must.Get(c.bird.InvokeProxy(t.Context(), call))(t)
			got := string(must.Get(io.ReadAll(answer.Body))(t))
			must.Do(t, answer.Body.Close())
			seen[fmt.Sprint(got, answer.Header["X-All"])] = true
			for _, what := range []string{got, answer.Header.Get("X-All")} {
				must.Contain(t, name, what, test.before+"{{ pair }} {{ pair }} ")
				must.Lack(t, name, what, apiKey[:3])
			}
		}
		must.Same(t, name+": different responses", 1, len(seen))
	}
}

// Nor does it help to know another value of the request. Credentials that hold it may
// begin or end in a guess at the end or the start of the value that is sought.
func TestKnownValuesDoNotTellAPart(t *testing.T) {
	t.Parallel()
	c := newCage(t)
	const known = "routing-021000021"
	// The ends of the value are base64, so that text which the caller encodes can be a
	// guess at them: Cat and Dog.
	sought := "RG9n" + apiKey + "Q2F0"
	for id, data := range map[string]string{"known": known, "sought": sought} {
		must.Get(c.Private.CreateToken(t.Context(), vault.TokenParams{ID: id, Type: vault.TypeGeneric, Data: data}))(t)
	}
	encode := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	for name, test := range map[string]struct {
		right, wrong string // the caller's part of the credentials
		auth         func(guess string) string
		body         string
	}{
		"the end":   {"Cat", "Bat", func(guess string) string { return guess + ":x{{ known }}" }, "{{ sought }}" + encode(":x"+known)},
		"the start": {"Dog", "Cog", func(guess string) string { return "{{ known }}:xxx" + guess }, encode(known+":xxx") + "{{ sought }}"},
	} {
		seen := map[string]bool{}
		for _, guess := range []string{test.right, test.wrong} {
			call := vault.ProxyCall{Method: http.MethodPost, URL: c.URL, Path: "/end", Body: strings.NewReader(test.body), Header: http.Header{
				"Content-Type": {"text/plain"}, "Authorization": {"Basic " + encode(test.auth(guess))},
			}}
			answer := must.Get(c.bird.InvokeProxy(t.Context(), call))(t)
			got := strings.TrimLeft(string(must.Get(io.ReadAll(answer.Body))(t)), "p")
			must.Do(t, answer.Body.Close())
			must.Contain(t, name, got, "{{ sought }}")
			must.Contain(t, name, got, "{{ known }}")
			seen[got] = true
		}
		must.Same(t, name+": different responses", 1, len(seen))
	}
}

// Over HTTP/2 a RoundTripper shows nothing of a value either: not in headers, in the body,
// in trailers, in informational responses, or in an error, which may quote the
// destination. Hooks of the caller are not called.
func TestEchoesOverHTTP2(t *testing.T) {
	t.Parallel()
	c := newCage(t)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		w.Header().Set("Trailer", "X-After")
		w.Header().Set("X-Early", sent)
		w.WriteHeader(http.StatusEarlyHints)
		fmt.Fprint(w, r.Proto, " ", sent[:9])
		w.(http.Flusher).Flush()
		fmt.Fprint(w, sent[9:])
		w.Header().Set("X-After", sent)
		w.Header().Set(http.TrailerPrefix+"X-Late", sent)
		if r.URL.Path == "/cut" {
			panic(http.ErrAbortHandler)
		}
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	_, pass := c.NewApplication(t, c.Owner, vault.ApplicationPrivate, []vault.AccessRule{{
		Priority: 1, Container: "/", Transform: vault.TransformReveal, Permissions: []vault.Permission{vault.PermissionTokenUse},
		Destinations: []string{server.Listener.Addr().String()},
	}})
	transport := must.Get(c.Authenticate(t.Context(), pass))(t).RoundTripper(server.Client().Transport)
	for path, want := range map[string]string{"/": "HTTP/2.0 {{ key }}", "/cut": ""} {
		traced := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			WroteHeaderField: func(name string, values []string) { t.Errorf("%s: sent %s: %v", path, name, values) },
			Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
				t.Errorf("%s: %d: %v", path, code, header)
				return nil
			},
		})
		req := must.Get(http.NewRequestWithContext(traced, "POST", server.URL+path, nil))(t)
		req.Header.Set("Authorization", "Bearer {{ key }}")
		res := must.Get(transport.RoundTrip(req))(t)
		body, err := io.ReadAll(res.Body)
		must.Do(t, res.Body.Close())
		must.Same(t, path, want, string(body))
		must.Same(t, path+": the header", "{{ key }}", res.Header.Get("X-Early"))
		must.Lack(t, path, fmt.Sprintf("%v %+v", err, res), apiKey[:6])
	}
}

// A guess at a value that the request does not use stays as it is, also if an earlier
// request of the same caller used the value.
func TestGuessesAtOtherValuesAreNotVisible(t *testing.T) {
	t.Parallel()
	c := newCage(t)
	const other = "sk_test_another_secret"
	must.Get(c.Private.CreateToken(t.Context(), vault.TokenParams{ID: "other", Type: vault.TypeGeneric, Data: other}))(t)
	for _, test := range []struct{ auth, want string }{
		{"Bearer {{ key }}", "{{ key }} " + other}, {"Bearer {{ other }}", apiKey + " {{ other }}"}, {"Bearer {{ key }}", "{{ key }} " + other},
	} {
		call := vault.ProxyCall{Method: http.MethodPost, URL: c.URL, Path: "/end", Header: http.Header{"Content-Type": {"text/plain"}, "Authorization": {test.auth}}, Body: strings.NewReader(apiKey + " " + other)}
		answer := must.Get(c.bird.InvokeProxy(t.Context(), call))(t)
		must.Same(t, test.auth, test.want, strings.TrimLeft(string(must.Get(io.ReadAll(answer.Body))(t)), "p"))
		must.Do(t, answer.Body.Close())
	}
}
