package vault

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/netip"
	"time"

	"github.com/seed-72ea4aab/vault/internal/egress"
	"github.com/seed-72ea4aab/vault/script"
)

// EgressPolicy says where proxies, callbacks and the code of tenants may
// connect to. The zero value allows https with TLS 1.2 or later to public
// addresses, which are checked when they are dialed, so that a name which
// changes its address gains nothing.
type EgressPolicy struct {
	// AllowHTTP allows plain http.
	AllowHTTP bool
	// AllowPrivate allows every address: loopback and private ones too.
	AllowPrivate bool
	// AllowPrefixes allows some addresses that would be refused, and
	// DenyPrefixes refuses some that would be allowed. A refusal wins.
	AllowPrefixes, DenyPrefixes []netip.Prefix
	// Ports narrows the ports. Default: any.
	Ports []uint16
	// RootCAs are the authorities that certificates are checked against.
	// Default: those of the system.
	RootCAs *x509.CertPool
	// UseEnvironmentProxy heeds HTTPS_PROXY and the like. The proxy then
	// resolves names, so it has to be trusted with what this policy forbids.
	UseEnvironmentProxy bool
	// MaxConnsPerTenant bounds the requests of one tenant that are under way.
	// Default 100.
	MaxConnsPerTenant int
}

func (p *EgressPolicy) client() *egress.Client {
	return egress.New(egress.Policy{
		AllowHTTP: p.AllowHTTP, AllowPrivate: p.AllowPrivate, AllowPrefixes: p.AllowPrefixes, DenyPrefixes: p.DenyPrefixes,
		Ports: p.Ports, RootCAs: p.RootCAs, UseEnvironmentProxy: p.UseEnvironmentProxy, MaxConnsPerTenant: p.MaxConnsPerTenant,
	})
}

// checkURL checks a URL that something will be sent to.
func (v *Vault) checkURL(bad *InvalidError, path, text string) {
	if _, err := v.egress.CheckURL(text); err != nil {
		bad.add(path, "must be an absolute URL that the egress policy allows: %s", err.Error())
	}
}

// Bounds on what is fetched for tenant code.
const (
	maxFetched   = 5 << 20
	fetchTimeout = 30 * time.Second
)

// fetchRequest and fetchResponse are the fetch operation of running code.
type fetchRequest struct {
	Method  string      `json:"method"`
	URL     string      `json:"url"`
	Headers [][2]string `json:"headers"`
	Body    string      `json:"body"` // base64
}

type fetchResponse struct {
	Status     int         `json:"status"`
	StatusText string      `json:"status_text"`
	URL        string      `json:"url"`
	Headers    [][2]string `json:"headers"`
	Body       string      `json:"body,omitempty"` // base64
}

// fetch carries out a request of running code through the guarded client.
func (h *scriptHost) fetch(ctx context.Context, args JSON) (json.RawMessage, error) {
	var in fetchRequest
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, &script.HostError{Status: http.StatusBadRequest, Message: "the request is malformed"}
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	req, err := in.request(ctx)
	if err != nil {
		return nil, &script.HostError{Code: "ERR_INVALID_URL", Message: "the request is malformed"}
	}
	if _, err := h.v.egress.CheckURL(in.URL); err != nil {
		return nil, &script.HostError{Code: "EACCES", Message: err.Error()}
	}
	res, err := h.v.egress.Do(req, h.tenant.String())
	if err != nil {
		return nil, fetchError(err)
	}
	defer res.Body.Close()
	body, err := h.line.bytes.read(res.Body, maxFetched+1)
	defer func() { h.line.bytes.release(len(body)) }()
	if errors.Is(err, errHostBytes) {
		return nil, errHostBytes
	}
	if err != nil {
		return nil, fetchError(err)
	}
	if len(body) > maxFetched {
		return nil, &script.HostError{Code: "ERR_BODY_TOO_LARGE", Message: "the answer is larger than 5 MiB"}
	}
	out := fetchResponse{Status: res.StatusCode, StatusText: http.StatusText(res.StatusCode), URL: in.URL, Body: base64.StdEncoding.EncodeToString(body)}
	for name, values := range res.Header {
		for _, value := range values {
			out.Headers = append(out.Headers, [2]string{name, value})
		}
	}
	return json.Marshal(out)
}

func (f *fetchRequest) request(ctx context.Context) (*http.Request, error) {
	body, err := base64.StdEncoding.DecodeString(f.Body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, f.Method, f.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for _, h := range f.Headers {
		req.Header.Add(h[0], h[1])
	}
	egress.RemoveHopByHop(req.Header)
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "vault")
	}
	return req, nil
}

// fetchError tells running code what went wrong, as Node names it.
func fetchError(err error) error {
	code := "ECONNREFUSED"
	switch {
	case errors.Is(err, egress.ErrForbidden):
		code = "EACCES"
	case errors.Is(err, egress.ErrBusy):
		return &script.HostError{Status: http.StatusTooManyRequests, Code: "EBUSY", Message: err.Error()}
	case errors.Is(err, context.DeadlineExceeded):
		code = "ETIMEDOUT"
	}
	return &script.HostError{Code: code, Message: err.Error()}
}
