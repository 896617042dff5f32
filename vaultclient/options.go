package vaultclient

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/egress"
	"github.com/seed-72ea4aab/vault/internal/pace"
)

// Options configures a [Client]. The zero value is safe and complete.
type Options struct {
	// Key, if set, returns the API key of each request, in place of the key of [New],
	// which must then be empty. It is called for each attempt, possibly from several
	// goroutines. [IdentityFile] returns one for a workload with a JWT. An error fails
	// the call.
	Key func(context.Context) (string, error)

	// Transport sends the requests, with its own TLS settings, proxies and
	// connection pool. By default, all clients share a transport that trusts
	// the system's certificate authorities and keeps up to 100 idle
	// connections to a host. For plain http on this machine, the default
	// ignores the proxies in the environment.
	Transport http.RoundTripper

	// Prefix starts the name of each of the API's headers. It must match the
	// server's. Default "SVC-".
	Prefix string

	// UserAgent is sent with every call except InvokeProxy, whose headers
	// come from the caller. Default "vaultclient".
	UserAgent string

	// Timeout limits each attempt, from connecting to the end of the
	// response. The context limits the whole call. InvokeProxy streams, so
	// only its context limits it. Default 30 seconds.
	Timeout time.Duration

	// MaxAnswer limits responses, in bytes. It does not apply to responses of
	// proxies, which are streamed. Default 64 MiB.
	MaxAnswer int64

	// AllowPlainHTTP allows plain http to other machines. The API key and all
	// data are then sent unencrypted. Set it only in networks that encrypt
	// traffic themselves.
	AllowPlainHTTP bool

	// Retry configures how calls are retried.
	Retry Retry

	// Observer, if set, is notified of each call with a [vault.EventCall].
	// One event covers all attempts of a call. An iterator has an event for
	// each page that it reads. A call whose parameters cannot be sent has
	// none. The event has no TenantID, because the client does not know it.
	// The module otelvault has an observer that records spans.
	Observer vault.Observer
}

// Retry configures how often a call is sent, and the pauses between attempts.
// The zero value means the defaults.
type Retry struct {
	// Attempts is the maximum number of attempts; 1 means no retries. Default
	// 4.
	Attempts int
	// MinDelay and MaxDelay limit the pauses. The pause after the n-th
	// attempt is random, between 0 and MinDelay times 2 to the n-1, and at
	// most MaxDelay. Default 100 milliseconds and 5 seconds.
	//
	// If the server requests a longer pause than the random one, the client
	// waits that long. If it requests more than MaxDelay, the call fails at
	// once, with the pause in [Error.RetryAfter].
	MinDelay, MaxDelay time.Duration
	// Sleep waits for the given time. If the context is done first, it
	// returns the context's error. Tests replace it in order not to wait.
	// Default: a timer.
	Sleep func(ctx context.Context, d time.Duration) error
}

// Defaults and limits of Options.
const (
	defaultPrefix    = "SVC-"
	defaultUserAgent = "vaultclient"
	defaultTimeout   = 30 * time.Second
	defaultMaxAnswer = 64 << 20
	defaultAttempts  = 4
	defaultMinDelay  = 100 * time.Millisecond
	defaultMaxDelay  = 5 * time.Second
	maxAttempts      = 100
)

// complete checks options and returns them with defaults in place of zero
// values.
func (o *Options) complete() (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	switch {
	case strings.Trim(c.Prefix, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "":
		return c, errors.New("vaultclient: Options.Prefix may contain only letters, digits, - and _")
	case strings.ContainsFunc(c.UserAgent, func(r rune) bool { return r < ' ' || r > '~' }):
		return c, errors.New("vaultclient: Options.UserAgent may contain only printable ASCII characters")
	case c.Timeout < 0 || c.MaxAnswer < 0:
		return c, errors.New("vaultclient: the limits in Options must not be negative")
	case c.Retry.Attempts < 0 || c.Retry.Attempts > maxAttempts || c.Retry.MinDelay < 0 || c.Retry.MaxDelay < 0:
		return c, errors.New("vaultclient: Options.Retry must have 0 to 100 attempts, and its delays must not be negative")
	}
	c.Prefix = cmp.Or(c.Prefix, defaultPrefix)
	c.UserAgent = cmp.Or(c.UserAgent, defaultUserAgent)
	c.Timeout = cmp.Or(c.Timeout, defaultTimeout)
	c.MaxAnswer = cmp.Or(c.MaxAnswer, defaultMaxAnswer)
	c.Retry.Attempts = cmp.Or(c.Retry.Attempts, defaultAttempts)
	c.Retry.MinDelay = cmp.Or(c.Retry.MinDelay, defaultMinDelay)
	c.Retry.MaxDelay = cmp.Or(c.Retry.MaxDelay, defaultMaxDelay)
	if c.Retry.Sleep == nil {
		c.Retry.Sleep = pace.Sleep
	}
	return c, nil
}

// sharedTransport is for clients without their own transport. directTransport
// is for clients without their own transport that use plain http on this
// machine, because their key must not leave the machine unencrypted.
var (
	sharedTransport = sync.OnceValue(func() http.RoundTripper { return newTransport(func(*http.Transport) {}) })
	directTransport = sync.OnceValue(func() http.RoundTripper { return newTransport(func(t *http.Transport) { t.Proxy = nil }) })
)

// newTransport returns a transport like the default of net/http that keeps
// more than two connections to a host, because a program calls its vault from
// many goroutines.
func newTransport(adjust func(*http.Transport)) http.RoundTripper {
	standard, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport // the program has replaced it
	}
	t := standard.Clone()
	t.MaxIdleConnsPerHost = t.MaxIdleConns
	adjust(t)
	return t
}

// parseBase parses the URL of a vault. Errors do not contain the URL, because
// it may contain a password by mistake.
func parseBase(text string, plain bool) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("vaultclient: the URL must be like https://vault.example or https://vault.example/path")
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, errors.New("vaultclient: the URL must not have a user, query or fragment")
	case u.Scheme == "http" && !plain && !egress.IsLoopback(u.Hostname()):
		return nil, errors.New("vaultclient: the URL must be https, or the API key would be sent unencrypted; see Options.AllowPlainHTTP")
	}
	base := &url.URL{Scheme: u.Scheme, Host: strings.ToLower(u.Host), Path: strings.TrimRight(u.Path, "/")}
	base.RawPath = strings.TrimRight(u.EscapedPath(), "/")
	return base, nil
}

// textIn reports whether all strings of parameters are valid UTF-8. JSON
// cannot represent other strings, so the vault would store something else.
// Fields of type any are JSON, or are converted to it.
func textIn(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String:
		return utf8.ValidString(v.String())
	case reflect.Pointer:
		return v.IsNil() || textIn(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && !textIn(v.Field(i)) {
				return false
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			if !textIn(v.Index(i)) {
				return false
			}
		}
	case reflect.Map:
		for entries := v.MapRange(); entries.Next(); {
			if !textIn(entries.Key()) || !textIn(entries.Value()) {
				return false
			}
		}
	default: // numbers, booleans and fields of type any
	}
	return true
}
