package elements

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"html"
	"io"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/httpserver"
	"github.com/seed-72ea4aab/vault/internal/fault"
)

//go:embed page
var files embed.FS

// file returns an embedded file.
func file(name string) []byte {
	text, err := files.ReadFile("page/" + name)
	if err != nil {
		panic(err) // unreachable: the names are constant
	}
	return text
}

// Handler serves elements.js, the frame, and the part of the API that the frame
// calls. It returns the error of [Options.Check]. The handler needs no closing; it
// works until the vault is closed.
func Handler(v *vault.Vault, opts *Options) (http.Handler, error) {
	if err := opts.Check(); err != nil {
		return nil, err
	}
	kept := *opts
	api := opts.api(v)
	h := &handler{opts: &kept, api: httpserver.Handler(v, api), authenticate: api.Authenticate, networks: make(chan struct{}, maxLookups)}
	return h, h.makeFrame()
}

// Limits of what the frame sends, and of what it gets from Networks.
const (
	maxBody     = 64 << 10 // bytes
	maxAdded    = 200      // bytes that createToken adds
	bodyTimeout = 30 * time.Second
	maxLookups  = 64 // concurrent calls of Networks
	maxNetworks = 4
)

// handler serves elements.
type handler struct {
	opts         *Options
	api          http.Handler
	authenticate func(*http.Request) (*vault.Client, error)
	networks     chan struct{}
	frame        []byte // the document of /frame
	policy       string // its Content-Security-Policy
}

// api returns the options of the API behind the frame.
func (o *Options) api(v *vault.Vault) *httpserver.Options {
	prefix := o.Prefix
	if prefix == "" {
		prefix = "SVC-"
	}
	key := http.CanonicalHeaderKey(prefix + "API-KEY")
	return &httpserver.Options{
		Prefix: prefix, MaxBody: maxBody + maxAdded, BodyTimeout: bodyTimeout, TrustedProxies: o.TrustedProxies, RateLimit: o.RateLimit,
		Logger: o.Logger, Observer: o.Observer, Drain: o.Drain,
		Authenticate: func(r *http.Request) (*vault.Client, error) { return authenticate(v, r, r.Header[key], o.Tenant) },
	}
}

// authenticate returns the client of a public key or of a session's key.
func authenticate(v *vault.Vault, r *http.Request, keys []string, tenant uuid.UUID) (*vault.Client, error) {
	if len(keys) != 1 {
		return nil, vault.ErrUnauthenticated
	}
	c, err := v.Authenticate(r.Context(), keys[0])
	switch {
	case err != nil:
		return nil, err
	case tenant != uuid.UUID{} && c.TenantID() != tenant:
		return nil, vault.ErrUnauthenticated
	case !strings.HasPrefix(keys[0], "key_pub_") && !strings.HasPrefix(keys[0], "key_sess_"):
		return nil, fault.New(vault.ErrForbidden, "elements take a public key; a page must never have a private or management key: regenerate this one")
	}
	return c, nil
}

// frameConfig is what the frame's script has to know.
type frameConfig struct {
	Origins   []string `json:"origins"`
	Header    string   `json:"header"`              // of the API key
	Authorize string   `json:"authorize,omitempty"` // AuthorizeURL
	Site      string   `json:"site,omitempty"`      // of AuthorizeURL
	BIN       bool     `json:"bin,omitempty"`
	Copy      bool     `json:"copy,omitempty"`
	Networks  bool     `json:"networks,omitempty"`
}

// makeFrame builds the document of the frame, which is the same for all, and its
// policy.
func (h *handler) makeFrame() error {
	o := h.opts
	c := frameConfig{Origins: o.Origins, Header: o.api(nil).Prefix + "API-KEY", BIN: o.ShowBIN, Copy: o.Copy, Networks: o.Networks != nil}
	connect := "'self'"
	at, err := o.authorizeURL()
	if err != nil {
		return err
	}
	if at != nil {
		c.Authorize, c.Site = at.String(), siteOf(at.Hostname())
		connect += " " + at.Scheme + "://" + at.Host + strings.NewReplacer(";", "%3B", ",", "%2C").Replace(at.EscapedPath())
	}
	config, err := json.Marshal(c)
	if err != nil {
		return err
	}
	h.frame = bytes.Replace(file("frame.html"), []byte("CONFIG"), []byte(html.EscapeString(string(config))), 1)
	h.policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src " + connect +
		"; frame-ancestors " + strings.Join(o.Origins, " ") +
		"; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
	return nil
}

// ServeHTTP serves the paths of the package documentation. Everything else is a 404.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "no-referrer")
	head.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	path := r.URL.EscapedPath()
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		switch path {
		case "/elements.js":
			head.Set("Access-Control-Allow-Origin", "*") // browsers require it for integrity
			head.Set("Cross-Origin-Resource-Policy", "cross-origin")
			serveFile(w, r, "elements.js", "text/javascript; charset=utf-8")
			return
		case "/frame.js":
			serveFile(w, r, "frame.js", "text/javascript; charset=utf-8")
			return
		case "/frame.css":
			serveFile(w, r, "frame.css", "text/css; charset=utf-8")
			return
		case "/frame":
			h.serveFrame(w)
			return
		}
	}
	serve := h.route(r.Method, strings.TrimSuffix(path, "/"))
	head.Set("Cache-Control", "no-store")
	switch {
	case serve == nil:
		refuse(w, http.StatusNotFound, "There is nothing at this path.", nil)
	case !slices.Equal(r.Header["Sec-Fetch-Site"], []string{"same-origin"}):
		refuse(w, http.StatusForbidden, "Only the frame of elements may call this, with Sec-Fetch-Site: same-origin. Programs call the API itself.", nil)
	default:
		serve(w, r)
	}
}

// tokenPath is the path of a token. The others belong to the API alone.
var tokenPath = regexp.MustCompile(`^/tokens/[^/]+$`)

// route returns what serves a path that the frame calls, or nil.
func (h *handler) route(method, path string) http.HandlerFunc {
	switch {
	case method == http.MethodPost && path == "/sessions":
		return func(w http.ResponseWriter, r *http.Request) { h.call(w, r, nil, nil) }
	case method == http.MethodPost && path == "/tokens":
		return h.createToken
	case method == http.MethodPost && path == "/networks" && h.opts.Networks != nil:
		return h.serveNetworks
	case !tokenPath.MatchString(path), path == "/tokens/search", path == "/tokens/erase", path == "/tokens/import":
	case method == http.MethodPatch:
		return h.patchToken
	case method == http.MethodGet:
		return func(w http.ResponseWriter, r *http.Request) { h.call(w, r, nil, shown) }
	}
	return nil
}

// serveFile serves a static file, compressed for browsers that accept it.
func serveFile(w http.ResponseWriter, r *http.Request, name, contentType string) {
	text := file(name)
	sum := sha256.Sum256(text)
	tag, head := hex.EncodeToString(sum[:16]), w.Header()
	head.Set("Vary", "Accept-Encoding")
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") && r.Header.Get("Range") == "" {
		head.Set("Content-Encoding", "gzip")
		text, tag = zipped()[name], tag+"-gzip"
	}
	head.Set("Content-Type", contentType)
	head.Set("Cache-Control", "no-cache")
	head.Set("ETag", `"`+tag+`"`)
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(text))
}

// zipped returns the compressed files.
var zipped = sync.OnceValue(func() map[string][]byte {
	all := map[string][]byte{}
	for _, name := range []string{"elements.js", "frame.js", "frame.css"} {
		var b bytes.Buffer
		z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level is valid
		_, _ = z.Write(file(name))                            // a buffer takes everything
		_ = z.Close()
		all[name] = b.Bytes()
	}
	return all
})

// serveFrame serves the document of the frame. The two headers of embedders let a
// page with its own embedder policy embed the frame.
func (h *handler) serveFrame(w http.ResponseWriter) {
	head := w.Header()
	head.Set("Content-Type", "text/html; charset=utf-8")
	head.Set("Cache-Control", "no-store")
	head.Set("Content-Security-Policy", h.policy)
	head.Set("Origin-Agent-Cluster", "?1")
	head.Set("Cross-Origin-Opener-Policy", "same-origin") // for a page that opens it as a window
	head.Set("Cross-Origin-Embedder-Policy", "require-corp")
	head.Set("Cross-Origin-Resource-Policy", "cross-origin")
	_, _ = w.Write(h.frame) // an error means that the browser has left
}

// Fields of requests and responses.
var (
	creatable = []string{"type", "data", "containers", "metadata", "expires_at"}
	patchable = []string{"data", "metadata"}
	shown     = []string{"id", "type", "data", "containers", "metadata", "created_at", "expires_at"}
)

// createToken creates a token that takes no part in deduplication. Its fingerprint is
// made from a random text, so nothing that is known of the data finds the token.
func (h *handler) createToken(w http.ResponseWriter, r *http.Request) {
	more := `"fingerprint_expression":"elements ` + rand.Text() + `","deduplicate_token":false}`
	h.callWith(w, r, creatable, func(text string, all map[string]json.RawMessage) (string, *refusal) {
		// The text itself is kept, so that the API judges fields that occur twice.
		if len(all) > 0 {
			return strings.TrimSuffix(text, "}") + "," + more, nil
		}
		return strings.TrimSuffix(text, "}") + more, nil
	})
}

// patchToken changes the cvc of a card, and metadata.
func (h *handler) patchToken(w http.ResponseWriter, r *http.Request) {
	h.callWith(w, r, patchable, func(text string, all map[string]json.RawMessage) (string, *refusal) {
		var data map[string]json.RawMessage
		if value, ok := all["data"]; ok && (json.Unmarshal(value, &data) != nil || len(data) != 1 || data["cvc"] == nil) {
			return "", invalid("data", "must have the field cvc alone")
		}
		return text, nil
	})
}

// callWith passes a request to the API. Its body must have only these fields, and change
// returns the body for the API. The API reads the body when it has checked the key, the
// permission and the rate limit, within its own limit of time.
func (h *handler) callWith(w http.ResponseWriter, r *http.Request, fields []string, change func(text string, all map[string]json.RawMessage) (string, *refusal)) {
	body := &changedBody{ReadCloser: http.MaxBytesReader(w, r.Body, maxBody)}
	body.change = func(text []byte) (string, *refusal) {
		all, refused := fieldsOf(text, fields)
		if refused != nil {
			return "", refused
		}
		return change(string(bytes.TrimSpace(text)), all)
	}
	inner := *r
	inner.Body = body
	if r.ContentLength > 0 {
		inner.ContentLength = -1 // of the body for the API
	}
	h.call(w, &inner, body, shown)
}

// changedBody is the body of a request, which is changed when it is read.
type changedBody struct {
	io.ReadCloser
	change  func([]byte) (string, *refusal)
	changed io.Reader // nil until it has been read
	refused *refusal
}

// Read implements [io.Reader].
func (b *changedBody) Read(p []byte) (int, error) {
	if b.changed == nil {
		text, err := io.ReadAll(b.ReadCloser)
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			b.refused = errTooLarge
		}
		if err != nil {
			return 0, err
		}
		var out string
		if out, b.refused = b.change(text); b.refused != nil {
			return 0, io.ErrUnexpectedEOF // what the API then responds with is not sent
		}
		b.changed = strings.NewReader(out)
	}
	return b.changed.Read(p)
}

// call passes a request to the API, without its query. With fields, a response to success
// has only these fields. If body is not nil, it is the body of the request.
func (h *handler) call(w http.ResponseWriter, r *http.Request, body *changedBody, fields []string) {
	inner := r.Clone(r.Context())
	inner.URL.RawQuery = ""
	for name := range inner.Header {
		if strings.HasSuffix(strings.ToUpper(name), "IDEMPOTENCY-KEY") {
			delete(inner.Header, name) // a stored response would have all fields
		}
	}
	if fields == nil {
		h.api.ServeHTTP(w, inner)
		return
	}
	held := &response{ResponseWriter: w, fields: fields, status: http.StatusOK}
	h.api.ServeHTTP(held, inner)
	if body != nil && body.refused != nil {
		body.refused.write(w)
		return
	}
	held.send()
}

// response holds back a response of the API.
type response struct {
	http.ResponseWriter
	fields []string
	status int
	body   bytes.Buffer
}

// Unwrap lets the API set deadlines.
func (p *response) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// WriteHeader implements [http.ResponseWriter].
func (p *response) WriteHeader(status int) { p.status = status }

// Write implements [io.Writer].
func (p *response) Write(text []byte) (int, error) { return p.body.Write(text) }

// send sends the response. Of an object it sends the fields that are listed.
func (p *response) send() {
	text := p.body.Bytes()
	if p.status < http.StatusMultipleChoices {
		var all map[string]json.RawMessage
		if json.Unmarshal(text, &all) != nil {
			refuse(p.ResponseWriter, http.StatusInternalServerError, "The response cannot be shown.", nil)
			return
		}
		kept := map[string]json.RawMessage{}
		for _, name := range p.fields {
			if value, ok := all[name]; ok {
				kept[name] = value
			}
		}
		text, _ = json.Marshal(kept) // raw messages that were just parsed encode
		p.Header().Set("Content-Length", strconv.Itoa(len(text)))
	}
	p.ResponseWriter.WriteHeader(p.status)
	_, _ = p.ResponseWriter.Write(text) // an error means that the browser has left
}

const titleInvalid = "One or more validation errors occurred."

// refusal is an error of the elements.
type refusal struct {
	status int
	detail string
	fields map[string][]string
}

func (f *refusal) write(w http.ResponseWriter) { refuse(w, f.status, f.detail, f.fields) }

func invalid(field, problem string) *refusal {
	return &refusal{http.StatusBadRequest, titleInvalid, map[string][]string{field: {problem}}}
}

var errTooLarge = &refusal{http.StatusRequestEntityTooLarge, "The body must arrive whole, and have at most " + strconv.Itoa(maxBody) + " bytes.", nil}

// fieldsOf returns the fields of a JSON object, which must be listed.
func fieldsOf(text []byte, fields []string) (map[string]json.RawMessage, *refusal) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil || all == nil {
		return nil, invalid("", "must be a JSON object")
	}
	bad := map[string][]string{}
	for name := range all {
		if !slices.Contains(fields, name) {
			bad[name[:min(len(name), maxName)]] = []string{"is not a field that elements take: " + strings.Join(fields, ", ")}
		}
	}
	if len(bad) > 0 {
		return nil, &refusal{http.StatusBadRequest, titleInvalid, bad}
	}
	return all, nil
}

// readBIN reads the body of a request for networks.
func readBIN(w http.ResponseWriter, r *http.Request) (string, *refusal) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(bodyTimeout)) // where the server can
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return "", errTooLarge
	}
	_ = control.SetReadDeadline(time.Time{})
	all, refused := fieldsOf(text, []string{"bin"})
	if refused != nil {
		return "", refused
	}
	var bin string
	if json.Unmarshal(all["bin"], &bin) != nil || !binText.MatchString(bin) {
		return "", invalid("bin", "must be a string of 6 to 8 digits")
	}
	return bin, nil
}

// maxName is how much of the name of an unknown field an error repeats, in bytes.
const maxName = 100

var (
	binText     = regexp.MustCompile(`^[0-9]{6,8}$`)
	networkText = regexp.MustCompile(`^[A-Za-z0-9 _-]{1,40}$`)
)

// serveNetworks responds with the networks of a co-badged card.
func (h *handler) serveNetworks(w http.ResponseWriter, r *http.Request) {
	c, err := h.authenticate(r)
	switch {
	case errors.Is(err, vault.ErrUnauthenticated), errors.Is(err, vault.ErrForbidden):
		refuse(w, http.StatusUnauthorized, "The key is not a valid public key.", nil)
		return
	case errors.Is(err, vault.ErrUnavailable):
		w.Header().Set("Retry-After", "1")
		refuse(w, http.StatusServiceUnavailable, "The key cannot be checked now. Try again in a moment.", nil)
		return
	case err != nil:
		refuse(w, http.StatusInternalServerError, "The key cannot be checked.", nil)
		return
	}
	if h.opts.RateLimit != nil {
		if wait, ok := h.opts.RateLimit(r, c, 1); !ok {
			w.Header().Set("Retry-After", strconv.Itoa(int(max(1, math.Ceil(wait.Seconds())))))
			refuse(w, http.StatusTooManyRequests, "Too many requests. Try again later.", nil)
			return
		}
	}
	bin, refused := readBIN(w, r)
	if refused != nil {
		refused.write(w)
		return
	}
	select {
	case h.networks <- struct{}{}:
		defer func() { <-h.networks }()
	default:
		w.Header().Set("Retry-After", "1")
		refuse(w, http.StatusServiceUnavailable, "Too many networks are being looked up. Try again in a moment.", nil)
		return
	}
	found := slices.DeleteFunc(slices.Clone(h.opts.Networks(bin)), func(name string) bool { return !networkText.MatchString(name) })
	writeJSON(w, http.StatusOK, map[string][]string{"networks": append([]string{}, found[:min(len(found), maxNetworks)]...)})
}

// refuse writes an error in the form of the API.
func refuse(w http.ResponseWriter, status int, detail string, fields map[string][]string) {
	body := map[string]any{"title": http.StatusText(status), "status": status, "detail": detail}
	if fields != nil {
		body["title"], body["errors"] = detail, fields
	}
	writeJSON(w, status, body)
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	text, _ := json.Marshal(body) // maps of strings and numbers encode
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	_, _ = w.Write(text) // an error means that the browser has left
}
