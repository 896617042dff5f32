package jsruntime_test

import (
	"context"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/jsruntime"
	"github.com/seed-72ea4aab/vault/script"
)

// TestUnhandledRejections rejects promises without a handler. The run
// continues. The rejection goes to the registered listener, or otherwise to the
// log.
func TestUnhandledRejections(t *testing.T) {
	t.Parallel()
	const wait = "await new Promise((done) => setTimeout(done, 1));"
	for name, c := range map[string]struct {
		body, want string
		lines      []string
	}{
		"logged":          {"Promise.reject('lost');" + wait + "return 1", "1", []string{"error: Unhandled rejection: lost"}},
		"listened to":     {"const seen = []; process.on('unhandledRejection', (reason, promise) => seen.push(reason, promise instanceof Promise)); Promise.reject('lost');" + wait + "return seen", `["lost",true]`, nil},
		"handled at once": {"Promise.reject(1).catch(() => {});" + wait + "return 1", "1", nil},
		"handled in time": {"const p = Promise.reject(1); await null; p.catch(() => {});" + wait + "return 1", "1", nil},
		"the run's own":   {"try { await Promise.reject(1) } catch { return 2 }", "2", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			host := &fakeHost{}
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			out := must.Get(jsruntime.NewInProcess(nil).Run(ctx, script.Program{Tenant: "t", Source: asFunction(c.body)}, nil, host))(t)
			must.Same(t, "the result", c.want, string(out))
			must.Same(t, "log", c.lines, host.lines)
		})
	}
}
