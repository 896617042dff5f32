//go:build !race

package tampering

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/long"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// dropping is a vault whose database drops writes.
type dropping struct {
	*attacked
	app, other *vault.Application
	public     *vault.Client
	spare      uuid.UUID // a tenant to delete
}

// writes are calls that write to the rows of a line: to new rows, to rows that exist,
// and deletions.
var writes = map[string]map[string]func(*dropping) error{
	"application": {
		"INSERT": func(d *dropping) error {
			return must.Err(d.owners[0].CreateApplication(d.Context(), vault.ApplicationParams{Name: "new", Type: vault.ApplicationPrivate, Permissions: everything}))
		},
		"UPDATE": func(d *dropping) error {
			return must.Err(d.owners[0].PatchApplication(d.Context(), d.app.ID, vault.JSON(`{"permissions":["token:read"]}`)))
		},
		"DELETE": func(d *dropping) error { return d.owners[0].DeleteApplication(d.Context(), d.other.ID) },
	},
	"reactor": {
		"INSERT": func(d *dropping) error { return must.Err(d.reactor()) },
		"UPDATE": func(d *dropping) error {
			return must.Err(d.owners[0].PatchReactor(d.Context(), must.Get(d.reactor())(d).ID, vault.JSON(`{"name":"x"}`)))
		},
		"DELETE": func(d *dropping) error { return d.owners[0].DeleteReactor(d.Context(), must.Get(d.reactor())(d).ID) },
	},
	"proxy": {
		"INSERT": func(d *dropping) error { return must.Err(d.proxy()) },
		"UPDATE": func(d *dropping) error {
			return must.Err(d.owners[0].PatchProxy(d.Context(), must.Get(d.proxy())(d).ID, vault.JSON(`{"name":"x"}`)))
		},
		"DELETE": func(d *dropping) error { return d.owners[0].DeleteProxy(d.Context(), must.Get(d.proxy())(d).ID) },
	},
	"session": {
		"INSERT": func(d *dropping) error { return must.Err(d.public.CreateSession(d.Context())) },
		"UPDATE": func(d *dropping) error {
			s := must.Get(d.public.CreateSession(d.Context()))(d)
			return d.owners[0].AuthorizeSession(d.Context(), vault.SessionGrant{Nonce: s.Nonce, Permissions: []vault.Permission{"token:create"}})
		},
		"DELETE": func(d *dropping) error {
			must.Get(d.public.CreateSession(d.Context()))(d)
			all := must.Get(d.owners[0].ListSessions(d.Context(), vault.PageParams{}))(d)
			return d.owners[0].DeleteSession(d.Context(), all.Data[0].ID)
		},
	},
	"tenant": {
		"INSERT": func(d *dropping) error { return must.Err(d.v.CreateTenant(d.Context(), "new")) },
		"UPDATE": func(d *dropping) error {
			return must.Err(d.owners[0].PatchTenant(d.Context(), vault.JSON(`{"name":"changed"}`)))
		},
		"DELETE": func(d *dropping) error { return d.v.DeleteTenant(d.Context(), d.spare) },
	},
	"ring": {
		"INSERT": func(d *dropping) error { return must.Err(d.v.CreateTenant(d.Context(), "new")) },
		"UPDATE": func(d *dropping) error { return d.v.RotateDataKeys(d.Context(), d.spare, nil) },
		"DELETE": func(d *dropping) error { return d.v.DeleteTenant(d.Context(), d.spare) },
	},
	root:       {"UPDATE": func(d *dropping) error { return d.v.RewrapDataKeys(d.Context()) }},
	"evidence": {"UPDATE": func(d *dropping) error { return must.Err(d.v.RotateEvidenceKey(d.Context())) }},
	"forward": {
		"INSERT": func(d *dropping) error { return must.Err(d.v.ForwardCA(d.Context())) },
		"UPDATE": func(d *dropping) error {
			must.Get(d.v.ForwardCA(d.Context()))(d)
			return must.Err(d.v.RotateForwardCA(d.Context(), nil))
		},
	},
}

func (d *dropping) reactor() (*vault.Reactor, error) {
	return d.owners[0].CreateReactor(d.Context(), vault.ReactorParams{Name: "r", Code: "module.exports = 1", Configuration: map[string]string{}})
}

func (d *dropping) proxy() (*vault.Proxy, error) {
	return d.owners[0].CreateProxy(d.Context(), vault.ProxyParams{Name: "p", DestinationURL: "https://example.com"})
}

// A trigger that drops writes keeps back only what the table says: a call whose record
// is not written fails, and a log that is not written raises an alarm.
func TestDroppedWrites(t *testing.T) {
	t.Parallel()
	for i := range table {
		name, does := table[i].name, table[i].does[dropped]
		for event, call := range writes[name] {
			t.Run(name+" "+event, func(t *testing.T) {
				t.Parallel()
				if does != fails {
					t.Fatalf("the table says: %s", does)
				}
				attack(t, func(a *attacked) {
					d := newDropping(a)
					kind := name
					if name == root {
						kind = "ring"
					}
					restore := d.drops(event, "vault_records", "kind = '"+kind+"'")
					err := call(d)
					restore()
					if err == nil {
						a.Errorf("a call succeeded, and its record was not written")
					}
				})
			})
		}
		if does == fails && writes[name] == nil {
			t.Errorf("no call writes records of the kind %s", name)
		}
	}
}

func newDropping(a *attacked) *dropping {
	d := &dropping{attacked: a}
	own := vault.NewKey()
	a.config = func(c *vault.Config) {
		c.OpenKey = func(context.Context, string) (vault.AEAD, error) { return own, nil }
	}
	a.node(nil)
	o := a.owners[0]
	d.app = must.Get(o.CreateApplication(a.Context(), vault.ApplicationParams{Name: "a", Type: vault.ApplicationPrivate, Permissions: everything}))(a)
	d.other = must.Get(o.CreateApplication(a.Context(), vault.ApplicationParams{Name: "b", Type: vault.ApplicationPrivate, Permissions: everything}))(a)
	public := must.Get(o.CreateApplication(a.Context(), vault.ApplicationParams{Name: "p", Type: vault.ApplicationPublic, Permissions: []vault.Permission{"token:create"}}))(a)
	d.public = must.Get(a.v.Authenticate(a.Context(), public.Key))(a)
	d.spare = tenantOf(a, a.v).TenantID()
	a.mustVerify()
	return d
}

// noticed are the tables of the log, with the kinds of writes that a healthy log needs.
// Without them there is an alarm, or verification finds it.
var noticed = map[string][]string{
	"vault_logs": {"INSERT"}, "vault_log_leaves": {"INSERT"}, "vault_log_trees": {"INSERT", "UPDATE"}, "vault_log_events": {"INSERT"}, "vault_log_checkpoints": {"INSERT"},
	"vault_log_nodes": {"INSERT"},
}

// A log whose rows are not written raises an alarm, or is found.
func TestDroppedWritesOfTheLog(t *testing.T) {
	t.Parallel()
	for table, events := range noticed {
		for _, event := range events {
			t.Run(table+" "+event, func(t *testing.T) {
				t.Parallel()
				attack(t, func(a *attacked) {
					a.mustVerify()
					young := a.v.Tenant(tenantOf(a, a.v).TenantID()) // its tree is not there yet
					restore := a.drops(event, table, "")
					must.Get(a.owners[0].Tokenize(a.Context(), make([]string, 300)))(a) // more than a block
					for n := range 4 {
						for _, o := range []*vault.Owner{a.owners[0], young} {
							create(a, o.Client, aText(fmt.Sprint("token-", n)))
						}
						a.clock.Advance(31 * time.Second)
						_, _ = a.v.Checkpoint(a.Context())
					}
					report, err := a.v.VerifyLogs(a.Context(), nil)
					restore()
					if s := must.Get(a.v.EvidenceStatus())(a); err == nil && report.OK() && len(s.Alarms) == 0 {
						a.Error("nobody notices")
					}
				})
			})
		}
	}
}

// A trigger drops writes to the rows of a line while callers change everything. Then no
// use gives more than it gave before, or than it would give without the trigger.
func TestDroppedWritesOfEveryLine(t *testing.T) {
	t.Parallel()
	worlds(t, func(w *world) {
		w.anchors = nil
		honest := w.afterChanges(func() func() { return func() {} })
		tried := 0
		for i := range table {
			on, condition := table[i].name, ""
			if !strings.HasPrefix(on, "vault_") {
				on, condition = "vault_records", "kind = '"+strings.Replace(on, root, "ring", 1)+"'"
			}
			if on == "vault_log_marks" && !w.pg || on == "vault_migrations" {
				continue // there is no such table, or nothing writes to it
			}
			for n, event := range []string{"INSERT", "UPDATE", "DELETE"} {
				if w.pg && !long.Run && n != i%3 {
					continue // a trigger of PostgreSQL does the same, and takes longer
				}
				tried++
				for name, is := range w.afterChanges(func() func() { return w.drops(event, on, condition) }) {
					was, known := w.b.uses[name]
					then, also := honest[name]
					if is != "" && is != was && is != then && (known || also) && name != "forward" {
						w.Errorf("without each %s of %s, %s gives %s, and not %s or %s", event, table[i].name, name, is, was, then)
					}
				}
			}
		}
		w.Logf("writes were dropped in %d ways", tried)
	})
}

// afterChanges changes everything while a trigger is there, and returns what callers then
// get.
func (w *world) afterChanges(trigger func() (remove func())) map[string]string {
	w.Helper()
	w.reset()
	w.anchors = nil
	v := must.Get(w.start())(w)
	remove := trigger()
	w.changeAll(v)
	remove()
	_ = v.Close()
	v, err := w.start()
	if err != nil {
		return nil // it gives nothing
	}
	defer func() { _ = v.Close() }()
	return w.uses(v)
}

// changeAll changes and deletes something of everything. Some calls may fail.
func (w *world) changeAll(v *vault.Vault) {
	ctx, o := w.Context(), v.Tenant(w.living[0])
	var own []string
	for _, name := range w.used.tokens {
		if tenant, id, _ := strings.Cut(name, "/"); tenant == w.living[0].String() && w.b.uses["token "+name] != "" {
			own = append(own, id)
		}
	}
	_ = o.DeleteToken(ctx, own[0])
	_, _ = o.PatchToken(ctx, own[1], vault.JSON(`{"data":"changed","metadata":{"owner":"john"}}`))
	_, _ = o.EraseTokens(ctx, vault.EraseParams{IDs: own[2:3], Reason: "case 9"})
	_, _ = o.CreateToken(ctx, vault.TokenParams{Type: vault.TypeGeneric, Data: "new", Metadata: map[string]string{"owner": "john"}})
	if apps, err := o.ListApplications(ctx, vault.ListApplicationsParams{}); err == nil {
		for i, call := range []func(uuid.UUID) error{
			func(id uuid.UUID) error {
				return must.Err(o.PatchApplication(ctx, id, vault.JSON(`{"name":"changed"}`)))
			},
			func(id uuid.UUID) error { return o.DeleteApplication(ctx, id) },
			func(id uuid.UUID) error { return must.Err(o.RegenerateKey(ctx, id)) },
		} {
			_ = call(apps.Data[i].ID)
		}
	}
	if all, err := o.ListSessions(ctx, vault.PageParams{}); err == nil && len(all.Data) > 0 {
		_ = o.DeleteSession(ctx, all.Data[0].ID)
	}
	if all, err := o.ListReactors(ctx, vault.ListParams{}); err == nil {
		_, _ = o.PatchReactor(ctx, all.Data[0].ID, vault.JSON(`{"name":"again"}`))
		_, _ = o.ReactAsync(ctx, all.Data[0].ID, vault.ReactParams{CallbackURL: "https://callback.example/"})
	}
	if all, err := o.ListProxies(ctx, vault.ListParams{}); err == nil {
		_ = o.DeleteProxy(ctx, all.Data[0].ID)
	}
	_, _ = w.once(o, "new", "new")
	_, _ = o.PatchTenant(ctx, vault.JSON(`{"name":"again"}`))
	_ = v.DeleteTenant(ctx, w.young)
	_ = v.RotateDataKeys(ctx, w.living[0], nil)
	_ = v.RewrapDataKeys(ctx)
	_, _ = v.Sweep(ctx)
	_, _ = v.Checkpoint(ctx)
}
