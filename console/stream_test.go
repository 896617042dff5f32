package console_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/console"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// TestStreamsEndWhenRightsAreRevoked revokes the rights of a user with open pages. Their
// streams must end before they send another event.
func TestStreamsEndWhenRightsAreRevoked(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]console.User{
		"gone": {}, "without a role": {ID: "jane"}, "another": {ID: "joe", Role: console.Owner},
	} {
		for _, path := range []string{"/events", "/tenants/%s/log/events"} {
			t.Run(name+path, func(t *testing.T) {
				t.Parallel()
				v := vaulttest.New(t)
				var user atomic.Pointer[console.User]
				user.Store(&console.User{ID: "jane", Role: console.Viewer})
				srv := httptest.NewServer(console.Handler(v.Vault, &console.Options{
					Authorize: func(*http.Request) (console.User, error) { return *user.Load(), nil }, Refresh: 100 * time.Millisecond,
				}))
				t.Cleanup(srv.Close)
				if strings.Contains(path, "%s") {
					path = fmt.Sprintf(path, v.Acme.ID)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				t.Cleanup(cancel)
				req := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, srv.URL+path, nil))(t)
				res := must.Get(srv.Client().Do(req))(t)
				defer res.Body.Close()
				stop := changing(t, v)
				lines := bufio.NewScanner(res.Body)
				for lines.Scan() && !strings.HasPrefix(lines.Text(), "event:") {
				}
				user.Store(&after)
				stop()
				must.Get(v.Owner.CreateToken(t.Context(), vault.TokenParams{ID: "unseen", Type: vault.TypeGeneric, Data: "x"}))(t)
				for lines.Scan() { // to the end, which comes
					must.Lack(t, "an event was sent to a user without rights", lines.Text(), "unseen")
				}
				must.Match(t, "Err", lines.Err(), nil)
			})
		}
	}
}

// changing adds log entries until stop is called, because entries from before a
// page starts to follow the log are not sent.
func changing(t *testing.T, v *vaulttest.Vault) (stop func()) {
	t.Helper()
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			default:
				_, _ = v.Owner.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: "x"})
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

// TestQuietStreamsEndWhenRightsAreRevoked checks that a stream without news ends at the
// next beat.
func TestQuietStreamsEndWhenRightsAreRevoked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ended, err := console.Quiet(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/events", nil), func(*http.Request) (console.User, error) {
			if time.Since(began) > time.Minute {
				return console.User{}, errStranger
			}
			return console.User{ID: "jane", Role: console.Viewer}, nil
		})
		if took := time.Since(began); !ended || took > 80*time.Second {
			t.Errorf("ended after %s: %v", took, err)
		}
	})
}
