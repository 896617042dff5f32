package vaultclient_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/script"
	"github.com/seed-72ea4aab/vault/vaultclient"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// slowVault is a vault with a proxy to a destination that does not respond, a
// proxy to a destination that stops in the middle, and a reactor that does
// not end.
type slowVault struct {
	*vaulttest.Vault
	silent, half string // keys of proxies
	reactor      *vault.Reactor
}

func newSlowVault(t *testing.T, patience time.Duration) *slowVault {
	t.Helper()
	release := make(chan struct{})
	dest := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/half" {
			_, _ = io.WriteString(w, "half")
			_ = http.NewResponseController(w).Flush()
		}
		select {
		case <-release:
		case <-r.Context().Done():
			panic(http.ErrAbortHandler) // stop without ending the response
		}
	}))
	t.Cleanup(dest.Close)
	t.Cleanup(func() { close(release) })
	pool := x509.NewCertPool()
	pool.AddCert(dest.Certificate())
	w := &slowVault{Vault: vaulttest.Open(t, ":memory:", &vault.Config{
		Runtime: endless(patience), ProxyTimeout: patience,
		Egress: vault.EgressPolicy{AllowPrivate: true, RootCAs: pool},
	})}
	proxy := func(path string) string {
		return must.Get(w.Management.CreateProxy(t.Context(), vault.ProxyParams{Name: "slow", DestinationURL: dest.URL + path}))(t).Key
	}
	w.silent, w.half = proxy("/silent"), proxy("/half")
	w.reactor = must.Get(w.Management.CreateReactor(t.Context(), vault.ReactorParams{
		Name: "slow", Configuration: map[string]string{}, Code: "module.exports = () => { for (;;); }"}))(t)
	return w
}

// endless is a runtime for code that does not end. It stops the code after a
// while.
type endless time.Duration

func (endless) Check(context.Context, script.Program) error { return nil }

func (patience endless) Run(ctx context.Context, _ script.Program, _ json.RawMessage, _ script.Host) (json.RawMessage, error) {
	select {
	case <-time.After(time.Duration(patience)):
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.Canceled) {
			return nil, ctx.Err()
		}
	}
	return nil, &script.Error{Kind: script.Timeout, Status: 408, Title: "Timeout"}
}

func (endless) Close() error { return nil }

// invoke calls a proxy and reads the response to its end.
func (w *slowVault) invoke(ctx context.Context, c vault.API, key string) error {
	answer, err := c.InvokeProxy(ctx, vault.ProxyCall{Key: key})
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.ReadAll(answer.Body)
	return err
}

// When the caller's deadline passes, the error is the error of the context,
// wherever the call is waiting, in process and over HTTP. It is never an
// error of the destination or the code. For a caller that still has time, a
// silent destination and code that does not end are ErrTimeout.
func TestTimeoutsOfCallerAndDestination(t *testing.T) {
	t.Parallel()
	for whose, c := range map[string]struct {
		patience, deadline time.Duration // of the vault, and of the caller
		want, other        error
	}{
		"the caller's":      {time.Hour, 300 * time.Millisecond, context.DeadlineExceeded, vault.ErrTimeout},
		"the destination's": {100 * time.Millisecond, time.Hour, vault.ErrTimeout, context.DeadlineExceeded},
	} {
		w := newSlowVault(t, c.patience)
		f := frontOf(t, w.Vault, pass)
		for way, client := range map[string]vault.API{"in process": w.Private, "over HTTP": f.client(t, w.PrivateKey, vaultclient.Options{})} {
			calls := map[string]func(context.Context) error{
				"a silent destination": func(ctx context.Context) error { return w.invoke(ctx, client, w.silent) },
				"half an answer":       func(ctx context.Context) error { return w.invoke(ctx, client, w.half) },
				"code":                 func(ctx context.Context) error { return must.Err(client.React(ctx, w.reactor.ID, vault.ReactParams{})) },
			}
			if errors.Is(c.want, vault.ErrTimeout) {
				delete(calls, "half an answer") // which breaks off
			}
			for call, do := range calls {
				t.Run(whose+", "+way+", "+call, func(t *testing.T) {
					t.Parallel()
					ctx, cancel := context.WithTimeout(t.Context(), c.deadline)
					defer cancel()
					if err := do(ctx); !errors.Is(err, c.want) || errors.Is(err, c.other) || errors.Is(err, vault.ErrUnreachable) {
						t.Errorf("%v, want %v alone", err, c.want)
					}
				})
			}
		}
	}
}

// An error response that arrives after the caller has left, because the server
// saw the connection close, is the error of the context.
func TestErrorAfterCallerLeftIsAContextError(t *testing.T) {
	t.Parallel()
	w := newSlowVault(t, time.Hour)
	for call, do := range map[string]func(context.Context, vault.API) error{
		"proxy": func(ctx context.Context, c vault.API) error { return w.invoke(ctx, c, w.silent) },
		"reactor": func(ctx context.Context, c vault.API) error {
			return must.Err(c.React(ctx, w.reactor.ID, vault.ReactParams{}))
		},
	} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			late := roundTripper(func(*http.Request) (*http.Response, error) {
				leave()
				res := httptest.NewRecorder()
				http.Error(res, "failed", http.StatusInternalServerError)
				return res.Result(), nil
			})
			c := must.Get(vaultclient.New("https://vault.example", w.PrivateKey, &vaultclient.Options{Transport: late}))(t)
			must.Match(t, "do", do(ctx, c), context.Canceled)
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
