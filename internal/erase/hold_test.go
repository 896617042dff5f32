package erase_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/script"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// nothing is a runtime whose code returns nothing.
type nothing struct{}

func (nothing) Check(context.Context, script.Program) error { return nil }
func (nothing) Close() error                                { return nil }
func (nothing) Run(context.Context, script.Program, json.RawMessage, script.Host) (json.RawMessage, error) {
	return json.RawMessage("{}"), nil
}

// older is a vault in which a backup brought back an application, a proxy and a
// reactor as they were before they were changed, and others that were deleted.
type older struct {
	*vault.Vault
	t      *testing.T
	path   string
	key    *vault.Key
	clock  *vaulttest.Clock
	anchor vault.Anchor // nil without evidence
	tenant uuid.UUID

	app, same, management *vault.Application
	session               *vault.Session // of app
	proxy, goneProxy      *vault.Proxy
	reactor, goneReactor  *vault.Reactor
	backup                []byte
}

func (o *older) open() {
	o.t.Helper()
	store := must.Get(sqlite.Open(context.Background(), o.path))(o.t)
	cfg := &vault.Config{Now: o.clock.Now, SweepEvery: -1, WorkEvery: -1, Runtime: nothing{}, Egress: vault.EgressPolicy{AllowHTTP: true, AllowPrivate: true}}
	if o.anchor != nil {
		cfg.Evidence = &vault.EvidenceConfig{Every: -1, Anchors: []vault.Anchor{o.anchor}}
	}
	o.Vault = must.Get(vault.Open(o.t.Context(), store, o.key, cfg))(o.t)
}

func (o *older) owner() *vault.Owner { return o.Tenant(o.tenant) }

// newOlder returns the vault with the backup in place, and its log.
func newOlder(t *testing.T, evident bool) (o *older, log []byte) {
	t.Helper()
	folder, ctx := t.TempDir(), t.Context()
	o = &older{t: t, path: filepath.Join(folder, "vault.db"), key: vault.NewKey(), clock: vaulttest.NewClock(vaulttest.Start)}
	if evident {
		o.anchor = vault.AnchorFile(filepath.Join(folder, "notes"))
	}
	o.open()
	o.tenant = must.Get(o.CreateTenant(ctx, "Acme"))(t).ID
	rules := vault.ApplicationParams{Name: "app", Type: vault.ApplicationPublic, Permissions: []vault.Permission{"token:create"}}
	o.app = must.Get(o.owner().CreateApplication(ctx, rules))(t)
	rules.Name = "same"
	o.same = must.Get(o.owner().CreateApplication(ctx, rules))(t)
	o.management = must.Get(o.owner().CreateApplication(ctx, vault.ApplicationParams{Name: "m", Type: vault.ApplicationManagement, Permissions: []vault.Permission{"application:read", "application:update"}}))(t)
	o.session = must.Get(must.Get(o.Authenticate(ctx, o.app.Key))(t).CreateSession(ctx))(t)
	proxy := vault.ProxyParams{Name: "proxy", DestinationURL: "http://127.0.0.1:1/", RequireAuth: new(false)}
	o.proxy = must.Get(o.owner().CreateProxy(ctx, proxy))(t)
	o.goneProxy = must.Get(o.owner().CreateProxy(ctx, proxy))(t)
	reactor := vault.ReactorParams{Name: "reactor", Code: "code", Configuration: map[string]string{}}
	o.reactor = must.Get(o.owner().CreateReactor(ctx, reactor))(t)
	o.goneReactor = must.Get(o.owner().CreateReactor(ctx, reactor))(t)
	must.Do(t, o.Close())
	o.backup = must.Get(os.ReadFile(o.path))(t)

	o.open()
	o.clock.Advance(time.Minute)
	must.Get(o.owner().PatchApplication(ctx, o.app.ID, vault.JSON(`{"name":"fewer rights"}`)))(t)
	must.Get(o.owner().PatchProxy(ctx, o.proxy.ID, vault.JSON(`{"destination_url":"http://127.0.0.1:2/"}`)))(t)
	must.Get(o.owner().PatchReactor(ctx, o.reactor.ID, vault.JSON(`{"code":"repaired"}`)))(t)
	must.Do(t, o.owner().DeleteProxy(ctx, o.goneProxy.ID))
	must.Do(t, o.owner().DeleteReactor(ctx, o.goneReactor.ID))
	r := &restored{Vault: o.Vault, t: t, tenant: o.tenant}
	log = r.log()
	must.Do(t, o.Close())
	must.Do(t, os.WriteFile(o.path, o.backup, 0o600))
	o.open()
	t.Cleanup(func() { _ = o.Close() })
	if evident {
		must.Do(t, o.AcceptRestore(ctx, "disk failure"))
	}
	return o, log
}

// uses returns the error of each use.
func (o *older) uses() map[string]error {
	ctx := o.t.Context()
	_, app := o.Authenticate(ctx, o.app.Key)
	_, session := o.Authenticate(ctx, o.session.SessionKey)
	_, same := o.Authenticate(ctx, o.same.Key)
	answer, proxy := o.InvokeProxy(ctx, vault.ProxyCall{Key: o.proxy.Key})
	if proxy == nil {
		_ = answer.Body.Close()
	}
	return map[string]error{
		"application": app, "session": session, "same": same, "proxy": proxy,
		"as":       must.Err(o.owner().As(ctx, o.app.ID)),
		"reactor":  must.Err(o.owner().React(ctx, o.reactor.ID, vault.ReactParams{})),
		"no proxy": must.Err(o.owner().GetProxy(ctx, o.goneProxy.ID)), "no reactor": must.Err(o.owner().GetReactor(ctx, o.goneReactor.ID)),
	}
}

func (o *older) again(log []byte, keep ...uuid.UUID) (*vault.ErasedAgain, error) {
	o.clock.Advance(time.Minute)
	p := vault.EraseAgainParams{Keep: keep}
	if log != nil {
		p.Files = files(log)
	}
	return o.EraseAgain(o.t.Context(), p)
}

// An application, a proxy and a reactor that are older than the log says are
// suspended until a person confirms them. Deleted ones are deleted again.
func TestEraseAgainSuspends(t *testing.T) {
	t.Parallel()
	for name, evident := range map[string]bool{"with evidence": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, log := newOlder(t, evident)
			ctx := t.Context()
			must.Match(t, "before: the application", o.uses()["application"], nil)
			done := must.Get(o.again(log))(t)
			must.Same(t, "suspended", done.Suspended, []vault.Held{
				{TenantID: o.tenant, Type: "application", ID: o.app.ID}, {TenantID: o.tenant, Type: "proxy", ID: o.proxy.ID}, {TenantID: o.tenant, Type: "reactor", ID: o.reactor.ID},
			})
			must.Same(t, "deleted again", [2]int{done.Proxies, done.Reactors}, [2]int{1, 1})
			suspended := map[string]error{
				"application": vault.ErrForbidden, "session": vault.ErrForbidden, "as": vault.ErrForbidden, "proxy": vault.ErrForbidden, "reactor": vault.ErrForbidden,
				"no proxy": vault.ErrNotFound, "no reactor": vault.ErrNotFound, "same": nil,
			}
			check := func(when string, want map[string]error) {
				t.Helper()
				for use, err := range o.uses() {
					must.Match(t, when+": "+use, err, want[use])
				}
			}
			check("suspended", suspended)
			must.Contain(t, "the error", o.uses()["proxy"].Error(), "tokenvault erase --keep")
			must.Do(t, o.Close())
			o.open() // another node
			check("on another node", suspended)

			// Changes are possible, and lift nothing. A suspended entity shows it.
			m := must.Get(o.Authenticate(ctx, o.management.Key))(t)
			must.Get(m.PatchApplication(ctx, o.app.ID, vault.JSON(`{"name":"x","suspended":false}`)))(t)
			must.Get(o.owner().RegenerateKey(ctx, o.same.ID))(t)
			must.Same(t, "shown", must.Get(m.GetApplication(ctx, o.app.ID))(t).Suspended, true)
			must.Same(t, "shown", must.Get(o.owner().GetProxy(ctx, o.proxy.ID))(t).Suspended, true)
			must.Same(t, "shown", must.Get(o.owner().GetReactor(ctx, o.reactor.ID))(t).Suspended, true)
			suspended["same"] = vault.ErrUnauthenticated
			check("after changes", suspended)

			done = must.Get(o.again(log))(t)
			must.Same(t, "suspended by a second call", len(done.Suspended), 0)
			must.Get(o.again(log, o.app.ID))(t)
			must.Get(o.again(nil, o.proxy.ID, o.reactor.ID))(t)
			done = must.Get(o.again(log))(t)
			must.Same(t, "suspended after the confirmation", len(done.Suspended), 0)
			must.Do(t, o.Close())
			o.open() // the node before may know the suspended proxy for a second
			uses := o.uses()
			for _, use := range []string{"application", "as", "reactor"} {
				must.Match(t, "confirmed: "+use, uses[use], nil)
			}
			must.Match(t, "confirmed: proxy", uses["proxy"], vault.ErrUnreachable)
			must.Fail(o.again(nil, o.app.ID))(t, "what is not suspended", vault.ErrNotFound)

			var messages []string
			for e, err := range o.owner().AllLogs(ctx, vault.ListLogsParams{}) {
				must.Do(t, err)
				if text, _, _ := strings.Cut(e.Message, " ("); strings.Contains(text, "after a restore") {
					messages = append(messages, text)
				}
			}
			must.Same(t, "entries", messages, []string{
				"Reactor confirmed after a restore", "Proxy confirmed after a restore", "Application confirmed after a restore",
				"Reactor suspended after a restore", "Proxy suspended after a restore", "Application suspended after a restore",
			})
		})
	}
}

// Whether a row is older is judged by its sealed revision, not by a column that a
// database writer can change.
func TestEraseAgainDoesNotBelieveColumns(t *testing.T) {
	t.Parallel()
	o, log := newOlder(t, true)
	db := must.Get(sql.Open("sqlite", o.path))(t)
	defer db.Close()
	must.Get(db.ExecContext(t.Context(), "UPDATE vault_records SET rev = 100 WHERE kind IN ('application', 'proxy', 'reactor')"))(t)
	done := must.Get(o.again(log))(t)
	must.Same(t, "suspended", len(done.Suspended), 3)
	must.Match(t, "the application", o.uses()["application"], vault.ErrForbidden)
}

// Changes after the restore give a row the revisions that the log had already. They do
// not hide that the row lacks the changes before, also in the log of a sink that went on
// after the restore.
func TestEraseAgainAfterFurtherChanges(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ evident, wentOn bool }{
		"with evidence": {true, false}, "with evidence, a sink that went on": {true, true},
		"without": {false, false}, "without, a sink that went on": {false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, log := newOlder(t, test.evident)
			ctx := t.Context()
			o.clock.Advance(time.Minute)
			for _, name := range []string{`{"name":"x"}`, `{"name":"y"}`} {
				must.Get(o.owner().PatchApplication(ctx, o.app.ID, vault.JSON(name)))(t)
				must.Get(o.owner().PatchProxy(ctx, o.proxy.ID, vault.JSON(name)))(t)
				must.Get(o.owner().PatchReactor(ctx, o.reactor.ID, vault.JSON(name)))(t)
			}
			r := &restored{Vault: o.Vault, t: t, tenant: o.tenant}
			must.Same(t, "suspended with the log of this database", len(must.Get(o.again(r.log()))(t).Suspended), 0)
			if test.wentOn {
				log = append(log, r.log()...)
			}
			done := must.Get(o.again(log))(t)
			must.Same(t, "suspended", len(done.Suspended), 3)
			must.Match(t, "the application", o.uses()["application"], vault.ErrForbidden)
			must.Same(t, "suspended by a second call", len(must.Get(o.again(log))(t).Suspended), 0)
			must.Get(o.again(log, o.app.ID))(t)
			must.Match(t, "the application", o.uses()["application"], nil)
			must.Same(t, "suspended after the confirmation", len(must.Get(o.again(log))(t).Suspended), 0)
		})
	}
}

// An entity that is kept from the start is confirmed, and never suspended.
func TestEraseAgainKeeps(t *testing.T) {
	t.Parallel()
	o, log := newOlder(t, true)
	done := must.Get(o.again(log, o.app.ID))(t)
	must.Same(t, "suspended", len(done.Suspended), 2)
	must.Same(t, "kept", len(done.Kept), 1)
	must.Match(t, "the application", o.uses()["application"], nil)
	dry := must.Get(o.EraseAgain(t.Context(), vault.EraseAgainParams{Files: files(log), DryRun: true}))(t)
	must.Same(t, "suspended by a further call", len(dry.Suspended), 0)
}

// A dry run lists what would be suspended, and suspends nothing.
func TestEraseAgainDryRunSuspendsNothing(t *testing.T) {
	t.Parallel()
	o, log := newOlder(t, false)
	done := must.Get(o.EraseAgain(t.Context(), vault.EraseAgainParams{Files: files(log), DryRun: true}))(t)
	must.Same(t, "suspended", len(done.Suspended), 3)
	must.Match(t, "the application", o.uses()["application"], nil)
}

// A database writer cannot lift a suspension: the row from before it, and a row whose
// columns are changed, do not let the application in on a node that knows it.
func TestSuspensionIsSealed(t *testing.T) {
	t.Parallel()
	o, log := newOlder(t, true)
	db := must.Get(sql.Open("sqlite", o.path))(t)
	defer db.Close()
	id := o.app.ID
	var rev int64
	var body []byte
	read := func() {
		t.Helper()
		must.Do(t, db.QueryRowContext(t.Context(), "SELECT rev, body FROM vault_records WHERE id = ?", id[:]).Scan(&rev, &body))
	}
	read()
	former, formerRev := body, rev
	must.Get(o.again(log))(t)
	read()
	for name, row := range map[string]struct {
		rev  int64
		body []byte
	}{"the former row": {formerRev, former}, "the former body": {rev, former}, "the former revision": {formerRev, body}} {
		must.Get(db.ExecContext(t.Context(), "UPDATE vault_records SET rev = ?, body = ? WHERE id = ?", row.rev, row.body, id[:]))(t)
		if err := o.uses()["application"]; err == nil {
			t.Errorf("%s: the application is let in", name)
		}
	}
}
