package authority_test

import (
	"context"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/httpserver"
	"github.com/seed-72ea4aab/vault/internal/test/given"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaultclient"
)

// TestKeysAreReplacedUnderLoad replaces the key of an application again and again, in the
// steps of docs/operations.md, while programs call two nodes over HTTP. No call fails.
func TestKeysAreReplacedUnderLoad(t *testing.T) {
	t.Parallel()
	const programs, rounds = 8, 10
	for database, open := range keyWorlds {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			w := open(t, vault.Config{})
			var servers [2]*httptest.Server
			for i, node := range w.nodes {
				servers[i] = httptest.NewServer(httpserver.Handler(node, nil))
				t.Cleanup(servers[i].Close)
			}
			manager := w.application(t, "manager", vault.ApplicationManagement, "application:read", "application:update")
			admin := must.Get(vaultclient.New(servers[0].URL, manager.Key, nil))(t)

			var current atomic.Pointer[string] // the key that programs are told to use
			current.Store(&w.app.Key)
			var calls atomic.Int64
			var work sync.WaitGroup
			moved, end := make(chan struct{}, programs), make(chan struct{})
			for n := range programs {
				var used string
				c := must.Get(vaultclient.New(servers[n%2].URL, "", &vaultclient.Options{
					Retry: vaultclient.Retry{Attempts: 1},
					Key: func(context.Context) (string, error) {
						used = *current.Load()
						return used, nil
					},
				}))(t)
				work.Go(func() {
					for last := w.app.Key; ; {
						if _, err := c.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: "x"}); err != nil {
							t.Error(err)
						}
						calls.Add(1)
						if used != last {
							last = used
							moved <- struct{}{}
						}
						select {
						case <-end:
							return
						default:
						}
					}
				})
			}
			old, dead := w.list(t)[0].ID, []string{w.app.Key}
			for range rounds {
				k := must.Get(admin.CreateApplicationKey(t.Context(), w.app.ID, vault.ApplicationKeyParams{}))(t)
				current.Store(&k.Key)
				for range programs {
					<-moved
				}
				must.Do(t, admin.DeleteApplicationKey(t.Context(), w.app.ID, old))
				old, dead = k.ID, append(dead, k.Key)
			}
			close(end)
			work.Wait()
			t.Logf("%d calls, %d keys", calls.Load(), len(dead))
			left := w.list(t)
			given.Same(t, "keys that are left", len(left), 1)
			given.Same(t, "the last key", left[0].ID, old)
			for _, key := range dead[:rounds] {
				for _, node := range w.nodes {
					given.Eventually(t, "a replaced key is dead", func() bool { return !works(t, node, key) })
				}
			}
		})
	}
}
