//go:build !race

package tampering

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// A row of one tenant whose key cannot be read keeps no other tenant from anything.
func TestMalformedRowsHarmNoOthers(t *testing.T) {
	t.Parallel()
	attack(t, func(a *attacked) {
		own := vault.NewKey()
		a.config = func(c *vault.Config) {
			c.OpenKey = func(context.Context, string) (vault.AEAD, error) { return own, nil }
			c.Runtime = nothing{}
			c.Sinks = []vault.Sink{{Name: "sink", Sender: vault.LogWriter(io.Discard)}}
		}
		a.node(nil)
		o, bad := a.owners[1], a.owners[0]
		create(a, o.Client, vault.TokenParams{ID: "due", Type: vault.TypeGeneric, Data: "x", ExpiresAt: a.clock.Now().Add(time.Hour)})
		create(a, o.Client, aText("kept"))
		create(a, o.Client, aText("erased"))
		must.Get(readOnce(a.Context(), o.Client, "key", "erased"))(a)
		for _, of := range a.owners {
			reactor := must.Get(of.CreateReactor(a.Context(), vault.ReactorParams{Name: "r", Code: "module.exports = 1", Configuration: map[string]string{}}))(a)
			must.Get(of.ReactAsync(a.Context(), reactor.ID, vault.ReactParams{CallbackURL: "https://callback.invalid/"}))(a)
		}
		create(a, bad.Client, aText("bad"))
		must.Get(readOnce(a.Context(), bad.Client, "key", "bad"))(a)
		a.mustVerify()
		a.clock.Advance(2 * time.Hour)
		for _, kind := range seal.RecordKinds() {
			for _, id := range [][]byte{{7}, make([]byte, 17)} {
				a.alter(1, `INSERT INTO vault_records (tenant_id, kind, id, name, name_fold, key_version, created_at, rev, body, expires_at)
					VALUES (?, ?, ?, 'x', 'x', 1, 1, 0, ?, 1)`, binary(bad.TenantID()), kind, id, []byte("x"))
			}
		}
		a.alter(1, "UPDATE vault_claims SET key = ? WHERE tenant_id = ?", []byte{7}, binary(bad.TenantID()))
		a.alter(1, "UPDATE vault_records SET body = ? WHERE kind = 'sink' AND length(id) = 16 AND name = 'sink'", []byte("x"))
		a.alter(1, "UPDATE vault_jobs SET id = ? WHERE tenant_id = ?", []byte{7}, binary(bad.TenantID()))
		a.alter(1, "UPDATE vault_tokens SET ord = ? WHERE id = 'bad'", []byte{7})
		for range 2 {
			for name, call := range map[string]func() error{
				"read": func() error { return must.Err(o.GetToken(a.Context(), "kept")) },
				"erase": func() error {
					return must.Err(o.EraseTokens(a.Context(), vault.EraseParams{IDs: []string{"erased"}, Reason: "x"}))
				},
				"list":   func() error { return must.Err(a.v.ListTenants(a.Context(), vault.PageParams{})) },
				"verify": func() error { return must.Err(a.v.VerifyLogs(a.Context(), nil)) },
				"send":   func() error { return a.v.SendLogs(a.Context()) },
				"sign":   func() error { return must.Err(a.v.Checkpoint(a.Context())) },
			} {
				if err := call(); err != nil {
					a.Errorf("%s: %v", name, err)
				}
			}
			_ = a.v.Work(a.Context()) // there is no such destination
			if jobs, err := o.ListJobs(a.Context(), vault.ListJobsParams{}); err != nil || len(jobs) != 1 || jobs[0].Ran.Status == 0 {
				a.Errorf("the job of another tenant does not run: %+v, %v", jobs, err)
			}
			_, _ = a.v.Sweep(a.Context()) // it reports the tenant
			if _, err := o.GetToken(a.Context(), "due"); err == nil || len(a.rows("vault_tokens", "WHERE id = 'due'")) > 0 {
				a.Error("the sweep has not reached the others")
			}
			a.node(nil)
			o = a.owners[1]
		}
	})
}
