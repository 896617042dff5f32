package vault

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/egress"
	"github.com/seed-72ea4aab/vault/storage"
)

// ProxyCall is a request that is to go through a proxy.
type ProxyCall struct {
	// Key is that of a stored proxy. Without one, URL is the destination of an
	// ephemeral proxy, which has no transforms.
	Key string
	URL string

	// Method is that of HTTP. Default GET.
	Method string
	// Path is put behind the path of the destination, as it is: escaped, and
	// empty or with a slash in front. Dot segments are refused.
	Path string
	// Query is put behind the query of the destination, as it is and without ?.
	Query string
	// Header is forwarded, but for Host and what concerns one connection only.
	Header http.Header
	// Body may be nil. It is read at most until the body of the answer is
	// closed, and not closed.
	Body io.Reader
	// ContentLength is the length of Body. 0 and -1 mean that it is unknown.
	ContentLength int64
	// MaxBody bounds, in bytes, a body that has to be held in memory: one whose
	// type can hold expressions, or that goes through a transform. Default
	// [Config.MaxBytes]. Other bodies are streamed, and may have any size.
	MaxBody int64

	// OwnPrefix starts the names of headers that are between the caller and the
	// vault: they are taken out in both directions. Empty means that there are
	// none.
	OwnPrefix string
	// TraceID, when set, is sent in the header TRACE-ID under OwnPrefix.
	TraceID string
	// KeepAlive and Connection, when set, are sent in the headers of these
	// names. Connection is keep-alive or close.
	KeepAlive, Connection string
}

// ProxyAnswer is the answer of a destination.
type ProxyAnswer struct {
	Status int
	// Header has a Content-Length when the length of Body is known.
	Header http.Header
	// Body streams, unless a transform made it. It must be closed. Reading it
	// fails with ErrUnreachable when the destination breaks off, and with
	// ErrTimeout when it falls silent.
	Body io.ReadCloser
}

// InvokeProxy sends a request through a proxy (permission token:use, unless
// the proxy requires no authentication). The expressions of its body are
// replaced by the data of tokens, as [Client.Detokenize] does, by the type of
// the body: in the strings of JSON, in the values of a form, in each part of a
// multipart body, and anywhere in other text. A body with a Content-Encoding
// and one of a binary type is not looked at, and everything outside of
// expressions is forwarded byte for byte.
//
// Then the request transform of the proxy runs, the destination is called, and
// on a status from 200 to 299 the response transform runs. Redirects are
// answers like others. A proxy of another tenant is ErrNotFound; a destination
// that is silent is ErrTimeout, one that cannot be reached ErrUnreachable; an
// error of a transform is a [*script.Error].
//
// The log gets an entry for the proxy ("ephemeral" for one that is not stored)
// and for each token that is used.
func (c *Client) InvokeProxy(ctx context.Context, p ProxyCall) (*ProxyAnswer, error) {
	if p.Key == "" && p.URL == "" {
		return nil, errNoDestination()
	}
	if p.Key == "" {
		op, err := c.begin(ctx, access.TokenUse)
		if err != nil {
			return nil, err
		}
		return op.invokeURL(ctx, &p)
	}
	owner, x, err := c.v.proxyOf(ctx, p.Key)
	if err != nil {
		return nil, err
	}
	if owner.tenant != c.tenant {
		return nil, errNoProxy
	}
	permission := ""
	if x.RequireAuth {
		permission = access.TokenUse
	}
	op, err := c.begin(ctx, permission)
	if err != nil {
		return nil, err
	}
	return op.invoke(ctx, x, &p)
}

// InvokeProxy is [Client.InvokeProxy] for a caller who shows no API key. Only a
// proxy that requires no authentication takes such a call; others fail with
// ErrUnauthenticated. Expressions are replaced with the rights of the proxy's
// application; without one that holds token:use they are ErrForbidden.
func (v *Vault) InvokeProxy(ctx context.Context, p ProxyCall) (*ProxyAnswer, error) {
	switch {
	case p.Key == "" && p.URL == "":
		return nil, errNoDestination()
	case p.Key == "":
		return nil, ErrUnauthenticated
	}
	op, x, err := v.openProxyOf(ctx, p.Key)
	if err != nil {
		return nil, err
	}
	if op.Client, err = op.anonymous(ctx, x); err != nil {
		return nil, err
	}
	return op.invoke(ctx, x, &p)
}

// ProxyCaller returns who calls a proxy without an API key, so that such calls
// can be counted before they are made: a client of the proxy's tenant that may
// do nothing by itself, and whose [Client.ProxyID] is the proxy. It fails as
// [Vault.InvokeProxy] does for an unknown key, and for a proxy that requires
// authentication.
func (v *Vault) ProxyCaller(ctx context.Context, key string) (*Client, error) {
	op, x, err := v.openProxyOf(ctx, key)
	if err != nil {
		return nil, err
	}
	caller := op.nobody()
	caller.proxy = x.ID
	return caller, nil
}

// openProxyOf finds a proxy that anybody may call.
func (v *Vault) openProxyOf(ctx context.Context, key string) (*call, *Proxy, error) {
	op, x, err := v.proxyOf(ctx, key)
	if err == nil && x.RequireAuth {
		err = ErrUnauthenticated
	}
	return op, x, err
}

var errNoProxy = errorf(ErrNotFound, "There is no such proxy.")

func errNoDestination() error {
	return invalid("", "must name a proxy by its key, or a destination by its URL")
}

// maxProxyKey is longer than every key.
const maxProxyKey = 100

// proxyOf finds a proxy by its key, and opens an operation as its tenant. What
// was found is used for up to a second, but on the node that changes a proxy not
// beyond the change; then it is dropped, because it may hold secrets.
func (v *Vault) proxyOf(ctx context.Context, key string) (*call, *Proxy, error) {
	if len(key) > maxProxyKey {
		return nil, nil, errNoProxy
	}
	hash := hashKey(key)
	if x, ok := v.proxies.get(hash); ok {
		op, err := v.Tenant(x.TenantID).begin(ctx, "")
		return op, x, proxyGone(err)
	}
	asked, gen := time.Now(), v.proxies.generation()
	rec, err := v.store.Lookup(ctx, hash)
	if errors.Is(err, storage.ErrNotFound) || err == nil && rec.Kind != kindProxy {
		return nil, nil, errNoProxy
	}
	if err != nil {
		return nil, nil, err
	}
	op, err := v.Tenant(uuid.UUID(rec.Tenant)).begin(ctx, "")
	if err != nil {
		return nil, nil, proxyGone(err)
	}
	x, err := op.openProxy(ctx, &rec)
	if err != nil {
		return nil, nil, err
	}
	v.proxies.put(hash, x, asked, gen)
	time.AfterFunc(maxKeyCacheAge, func() { v.proxies.forget(hash) })
	return op, x, nil
}

// proxyGone says of a tenant that is being deleted that its proxies are gone.
func proxyGone(err error) error {
	if errors.Is(err, ErrNotFound) {
		return errNoProxy
	}
	return err
}

// anonymous returns the client of a call without an API key: the proxy's
// application, if that may use tokens, else one that may do nothing.
func (op *call) anonymous(ctx context.Context, x *Proxy) (*Client, error) {
	if x.ApplicationID == nil {
		return op.nobody(), nil
	}
	c, err := op.As(ctx, *x.ApplicationID)
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrUnauthenticated) || err == nil && !c.grant.Has(access.TokenUse) {
		return op.nobody(), nil
	}
	return c, err
}

// nobody is a client that may do nothing.
func (op *call) nobody() *Client {
	return &Client{v: op.v, tenant: op.tenant, grant: new(access.Grant)}
}

// invocation is a request on its way through a proxy.
type invocation struct {
	*call
	*ProxyCall
	proxy  *Proxy
	target *url.URL
	out    message   // what goes to the destination
	stream io.Reader // the body instead of out.body, when it is not held in memory
}

// ephemeral stands in the log for the id of a proxy that is not stored.
const ephemeral = "ephemeral"

// invokeURL sends a request through an ephemeral proxy.
func (op *call) invokeURL(ctx context.Context, p *ProxyCall) (*ProxyAnswer, error) {
	bad := &InvalidError{}
	if op.v.checkURL(bad, p.OwnPrefix+"PROXY-URL", p.URL); bad.err() != nil {
		return nil, bad
	}
	return op.invoke(ctx, &Proxy{DestinationURL: p.URL}, p)
}

// invoke takes a request to the destination and the answer back.
func (op *call) invoke(ctx context.Context, x *Proxy, p *ProxyCall) (*ProxyAnswer, error) {
	if p.MaxBody <= 0 {
		p.MaxBody = int64(op.v.cfg.MaxBytes)
	}
	p.Method = cmp.Or(p.Method, http.MethodGet)
	inv := &invocation{call: op, ProxyCall: p, proxy: x}
	if err := inv.prepare(); err != nil {
		return nil, err
	}
	if err := inv.detokenizeOrStream(ctx); err != nil {
		return nil, err
	}
	if x.RequestTransform != nil {
		if err := inv.transformRequest(ctx); err != nil {
			return nil, err
		}
	}
	res, err := inv.send(ctx)
	if err != nil {
		return nil, err
	}
	if res.StatusCode < 200 {
		res.Body.Close()
		return nil, errorf(ErrUnreachable, "The destination answered with a status that is none.")
	}
	egress.RemoveHopByHop(res.Header)
	dropOwn(res.Header, p.OwnPrefix)
	if x.ResponseTransform != nil && res.StatusCode >= 200 && res.StatusCode <= 299 {
		return inv.transformResponse(ctx, res)
	}
	if res.StatusCode == http.StatusNoContent {
		res.Header.Del("Content-Length")
	}
	return &ProxyAnswer{Status: res.StatusCode, Header: res.Header, Body: res.Body}, nil
}

// prepare finds out where the request goes and what headers it takes along.
func (inv *invocation) prepare() error {
	if inv.Method == http.MethodConnect {
		return invalid("method", "must not be CONNECT")
	}
	if !slices.Contains([]string{"", "keep-alive", "close"}, strings.ToLower(inv.Connection)) {
		return invalid(inv.OwnPrefix+"PROXY-CONNECTION", "must be keep-alive or close")
	}
	base, err := inv.v.egress.CheckURL(inv.proxy.DestinationURL)
	if err != nil {
		// The policy has changed since the proxy was written.
		return errorf(ErrUnreachable, "The destination is not allowed: %s.", err)
	}
	if inv.target, err = extend(base, inv.Path, inv.Query); err != nil {
		return err
	}
	header := http.Header{}
	for name, values := range inv.Header {
		name = http.CanonicalHeaderKey(name)
		header[name] = append(header[name], values...)
	}
	egress.RemoveHopByHop(header)
	dropOwn(header, inv.OwnPrefix)
	for _, name := range []string{"Host", "Content-Length", "Expect"} {
		header.Del(name)
	}
	if err := egress.CheckHeader(header); err != nil {
		return invalid("headers", "%s", err.Error())
	}
	inv.out.header = header
	return nil
}

// dropOwn removes the headers whose names start with a prefix.
func dropOwn(header http.Header, prefix string) {
	if prefix == "" {
		return
	}
	for name := range header {
		if len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix) {
			delete(header, name)
		}
	}
}

// extend puts a path and a query behind those of a URL.
func extend(base *url.URL, path, query string) (*url.URL, error) {
	u := *base
	if path != "" {
		if path[0] != '/' {
			return nil, invalid("path", "must start with a slash")
		}
		raw := strings.TrimSuffix(base.EscapedPath(), "/") + path
		plain, err := url.PathUnescape(raw)
		if err != nil {
			return nil, invalid("path", "has a %% that is not followed by two hexadecimal digits")
		}
		if hasDotSegment(path) {
			return nil, invalid("path", "must have no dot segments")
		}
		u.Path, u.RawPath = plain, raw
	}
	switch {
	case u.RawQuery == "":
		u.RawQuery = query
	case query != "":
		u.RawQuery += "&" + query
	}
	if strings.ContainsFunc(u.RawQuery, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return nil, invalid("query", "must have no spaces and control characters")
	}
	return &u, nil
}

// hasDotSegment reports whether a path could lead upwards: also for a
// destination that decodes it first, takes backslashes for slashes, or leaves
// the parameters of a segment out ("..;x").
func hasDotSegment(path string) bool {
	plain, err := url.PathUnescape(path)
	if err != nil {
		return true
	}
	isSlash := func(r rune) bool { return r == '/' || r == '\\' }
	return slices.ContainsFunc(strings.FieldsFunc(plain, isSlash), func(segment string) bool {
		name, _, _ := strings.Cut(segment, ";")
		return name == "." || name == ".."
	})
}

// detokenizeOrStream reads the body and replaces its expressions, or leaves a
// body unread that nobody needs to look at. It enters the invocation in the log.
func (inv *invocation) detokenizeOrStream(ctx context.Context) error {
	entered := entity{kindProxy, ephemeral}
	if inv.proxy.ID != (uuid.UUID{}) {
		entered.id = inv.proxy.ID.String()
	}
	format, _ := formatOf(inv.out.header)
	if format == formatOpaque && inv.proxy.RequestTransform == nil {
		inv.stream = inv.Body
		return inv.logReads(ctx, opUse, entered)
	}
	if inv.ContentLength > inv.MaxBody {
		return errorf(ErrTooLarge, "The body must have at most %d bytes.", inv.MaxBody)
	}
	raw, err := readBody(inv.Body, inv.MaxBody)
	if err != nil {
		return err
	}
	// What comes from a slow caller may take longer than keys may be used.
	if err := inv.refresh(ctx); err != nil {
		return err
	}
	inv.out.body, err = inv.detokenizeBody(ctx, inv.out.header, raw, entered)
	return err
}
