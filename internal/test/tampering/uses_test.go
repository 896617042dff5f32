//go:build !race

package tampering

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/internal/test/long"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/script"
)

// nothing is a runtime whose code returns nothing.
type nothing struct{}

func (nothing) Check(context.Context, script.Program) error { return nil }
func (nothing) Close() error                                { return nil }
func (nothing) Run(context.Context, script.Program, json.RawMessage, script.Host) (json.RawMessage, error) {
	return json.RawMessage("{}"), nil
}

// things are what callers know of a world.
type things struct {
	keys     map[string]string // API keys of applications
	sessions map[string]string // keys of sessions
	ids      map[string][]uuid.UUID
	tokens   []string // in the form tenant/id
	tenants  []uuid.UUID
	claims   []string // in the form tenant/number
}

// remember adds an application's key.
func (s *things) remember(app *vault.Application) {
	s.keys[fmt.Sprintf("%s/%s/%d", app.TenantID, app.ID, len(s.keys))] = app.Key
}

// settle gives a tenant what can be used: tokens, sessions, claims, jobs, an erasure.
func (w *world) settle(o *vault.Owner) {
	w.Helper()
	ctx, end := w.Context(), w.clock.Now().Add(30*24*time.Hour)
	for i := range 2 {
		tok := create(w, o.Client, vault.TokenParams{
			Type: vault.TypeGeneric, Data: fmt.Sprint("secret ", len(w.used.tokens)), Metadata: map[string]string{"owner": "john", "n": fmt.Sprint(i)},
		})
		w.used.tokens = append(w.used.tokens, o.TenantID().String()+"/"+tok.ID)
	}
	for _, name := range []string{"waits", "authorized"} {
		s := must.Get(must.Get(w.v.Authenticate(ctx, w.public[o.TenantID()]))(w).CreateSession(ctx))(w)
		w.used.sessions[fmt.Sprintf("%s/%s/%d", o.TenantID(), name, len(w.used.sessions))] = s.SessionKey
		if name == "authorized" {
			must.Do(w, o.AuthorizeSession(ctx, vault.SessionGrant{Nonce: s.Nonce, Permissions: []vault.Permission{"token:create"}, ExpiresAt: end}))
		}
	}
	claim := fmt.Sprintf("%s/%d", o.TenantID(), len(w.used.claims))
	w.used.claims = append(w.used.claims, claim)
	must.Get(w.once(o, claim, "response "+claim))(w)
	reactors := must.Get(o.ListReactors(ctx, vault.ListParams{}))(w)
	must.Get(o.ReactAsync(ctx, reactors.Data[0].ID, vault.ReactParams{CallbackURL: "https://callback.example/"}))(w)
	gone := create(w, o.Client, vault.TokenParams{Type: vault.TypeGeneric, Data: "erased"})
	must.Get(o.EraseTokens(ctx, vault.EraseParams{IDs: []string{gone.ID}, Reason: "case 8"}))(w)
}

// once makes a request under an idempotency key.
func (w *world) once(o *vault.Owner, key, response string) (string, error) {
	answer, _, err := o.Once(w.Context(), vault.IdempotencyKey{Scope: "POST /x", Key: key}, func(context.Context, *vault.Owner) (vault.StoredResponse, error) {
		return vault.StoredResponse{Status: 200, Body: []byte(response)}, nil
	})
	return string(answer.Body), err
}

// outages lets the master key and a tenant's own key be denied for a time.
func (w *world) outages(master, own *deniable) {
	w.Helper()
	was := w.config
	w.config = func(c *vault.Config) {
		was(c)
		c.KeyAge, c.KeyGrace = 20*time.Millisecond, time.Hour
	}
	w.node(nil)
	w.config = was
	for kind, key := range map[string]*deniable{"key_state": master, "own_key_state": own} {
		stored := func() string {
			text := ""
			for _, r := range w.rows("vault_records", "WHERE kind = '"+kind+"'") {
				text += fmt.Sprintf("%x", r.value("body"))
			}
			return text
		}
		before := stored()
		o := w.v.Tenant(w.owned)
		serves := func() bool {
			_, err := o.ListTokens(w.Context(), vault.ListTokensParams{})
			return err == nil
		}
		eventually(w, "calls succeed", serves)
		w.clock.Advance(time.Second)
		key.denied.Store(true)
		eventually(w, "calls fail", func() bool { return !serves() })
		key.denied.Store(false)
		eventually(w, "calls succeed again", serves)
		eventually(w, "there is a record of the outage", func() bool {
			w.clock.Advance(time.Second)
			return stored() != before
		})
	}
	w.node(nil)
}

// restore brings back the database as it was before a note, and accepts that.
func (w *world) restore() {
	w.Helper()
	before := w.covered()
	w.checkpoints(1)
	w.anchorHas(w.v)
	must.Do(w, w.v.Close())
	w.v = nil
	w.become(before)
	w.node(nil)
	must.Do(w, w.v.AcceptRestore(w.Context(), "a disk failed"))
}

// look records what callers get at both moments.
func (w *world) look() {
	w.Helper()
	must.Do(w, w.v.Close())
	w.v = nil
	notes := w.notes
	for _, m := range []*moment{&w.a, &w.b} {
		w.become(m.rows)
		w.anchors = nil
		v := must.Get(w.start())(w)
		m.uses = w.uses(v)
		_ = v.Close()
	}
	w.notes = notes
	w.become(w.b.rows)
}

// covers fails the test if the machine would leave out a table or a kind of records.
func (w *world) covers() {
	w.Helper()
	has := map[string]bool{}
	for _, m := range []moment{w.a, w.b} {
		for _, r := range m.rows {
			has[r.line()] = true
		}
	}
	for name := range has {
		if !slices.ContainsFunc(table, func(l line) bool { return l.name == name }) {
			w.Errorf("the vault has stored a row of %s, which has no line", name)
		}
	}
	for _, name := range append(slices.Clone(w.all), append(seal.RecordKinds(), root)...) {
		few := w.pg && name == "vault_log_counts" // a short log has no sums
		if !has[name] && name != "vault_records" && !few {
			w.Errorf("the world has no row of %s", name)
		}
	}
}

// uses returns the result of everything that callers can do with what they know. It is
// empty if the vault refuses.
func (w *world) uses(v *vault.Vault) map[string]string {
	ctx, all := w.Context(), map[string]string{}
	see := func(name string, value any, err error) {
		text := ""
		if err == nil {
			b, _ := json.Marshal(value)
			text = string(b)
		}
		all[name] = text
	}
	for name, key := range w.used.keys {
		c, err := v.Authenticate(ctx, key)
		var app *vault.Application
		if err == nil {
			app, err = c.OwnApplication(ctx)
		}
		see("key "+name, app, err)
	}
	for name, key := range w.used.sessions {
		c, err := v.Authenticate(ctx, key)
		if err == nil {
			err = c.HasPermission(ctx, "token:create")
		}
		see("session "+name, "token:create", err)
	}
	for _, name := range w.used.tokens {
		tenant, id, _ := strings.Cut(name, "/")
		tok, err := v.Tenant(uuid.MustParse(tenant)).GetToken(ctx, id)
		see("token "+name, tok, err)
	}
	for _, tenant := range w.used.tenants {
		o := v.Tenant(tenant)
		is, err := o.GetTenant(ctx)
		if err == nil {
			see("tenant "+tenant.String(), []any{is.Name, is.CreatedAt}, nil)
		}
		for _, id := range w.used.ids["reactor"] {
			is, err := o.GetReactor(ctx, id)
			see(fmt.Sprintf("reactor %s/%s", tenant, id), is, err)
		}
		for _, id := range w.used.ids["proxy"] {
			is, err := o.GetProxy(ctx, id)
			see(fmt.Sprintf("proxy %s/%s", tenant, id), is, err)
		}
		page, err := o.SearchTokens(ctx, vault.SearchTokensParams{Query: `metadata.owner:"john"`})
		if err == nil {
			for i := range page.Data {
				see(fmt.Sprintf("found %s/%s", tenant, page.Data[i].ID), "", nil)
			}
		}
		jobs, err := o.ListJobs(ctx, vault.ListJobsParams{})
		for i := range jobs {
			if jobs[i].State != "unreadable" {
				see(fmt.Sprintf("job %s/%s", tenant, jobs[i].ID), []any{jobs[i].ReactorID, jobs[i].CreatedAt}, err)
			}
		}
	}
	for _, claim := range w.used.claims {
		tenant, _, _ := strings.Cut(claim, "/")
		body, err := w.once(v.Tenant(uuid.MustParse(tenant)), claim, "again")
		if body != "again" { // it is replayed
			see("response "+claim, body, err)
		}
	}
	ca, err := v.ForwardCA(ctx)
	see("forward", ca, err)
	return all
}

// useless returns a use whose result is neither the result of a genuine moment nor a
// refusal. If the mixture may not bring an older state back, only the later moment
// counts.
func (m *mixture) useless(v *vault.Vault) string {
	m.Helper()
	forward, rollback := false, false
	for key, r := range m.rows {
		row := cmp.Or(r, m.b.rows[key])
		forward = forward || row.kind() == "forward"
		does := lineOf(row).does[m.changeOf(key)]
		rollback = rollback || strings.HasPrefix(does, "accepted") || strings.HasPrefix(does, found) || strings.HasPrefix(does, fails)
	}
	for name, is := range m.uses(v) {
		switch {
		case is == "" || is == m.b.uses[name] || rollback && is == m.a.uses[name]:
		case name == "forward" && forward: // an authority that no client trusts
		default:
			return fmt.Sprintf("%s gives %s, and not %s or %s", name, is, m.b.uses[name], m.a.uses[name])
		}
	}
	return ""
}

// untried are changes of lines that have no rows for them: rows that never change have no
// older copy, and the tombstones no longer exist at the later moment.
var untried = map[string]change{
	"vault_log_nodes": older, "vault_log_events": older, "vault_log_checkpoints": older, "vault_migrations": older,
	"former_name": older, "tombstone": deleted,
}

// Every change of every line is tried on some rows, so that none is left to chance. A
// change that the database allows on none of them fails the test.
func TestEveryChangeOfEveryLine(t *testing.T) {
	t.Parallel()
	worlds(t, func(w *world) {
		tries := long.Rounds(1, 3)
		counts := map[change]int{}
		for i := range table {
			name := table[i].name
			if !w.pg && name == "vault_log_marks" || w.pg && name == "vault_log_counts" {
				continue // there is no row
			}
			for how := range dropped {
				if no, ok := untried[name]; ok && no == how {
					continue
				}
				tried := w.changes(i, how, tries)
				heldBack := name == "vault_log_marks" && how == older // by open transactions of other tests
				if counts[how] += tried; tried == 0 && !heldBack {
					w.Errorf("the change %d of %s was not tried", how, name)
				}
			}
		}
		w.Logf("changes of %d lines, by kind: %v", len(table), counts)
	})
}

// changes tries a change of a line on some rows, and returns on how many.
func (w *world) changes(i int, how change, tries int) (tried int) {
	w.Helper()
	of := func(r *logRow) bool { return r.line() == table[i].name }
	for n := 0; tried < tries && n < 20*tries; n++ {
		m := newMixture(w, 7, 0)
		if m.Rand = rand.New(rand.NewPCG(uint64(i), uint64(how)<<32|uint64(n))); !m.make(how, of) {
			continue
		}
		m.tricks = []string{fmt.Sprintf("%s: change %d", table[i].name, how)}
		wrong, allowed := m.try(mode{running: (n+i+int(how))%2 == 0, calls: true, uses: true})
		if allowed {
			tried++
		}
		if wrong != "" {
			w.Errorf("%s\n%s", wrong, m)
		}
	}
	return tried
}

// make makes one change to a selected row, and reports whether there is such a row.
func (m *mixture) make(how change, of func(*logRow) bool) bool {
	if how == older {
		keys := slices.DeleteFunc(m.keys(of), func(key string) bool {
			a, b := m.a.rows[key], m.b.rows[key]
			return a == nil || b != nil && b.equal(a)
		})
		if len(keys) == 0 {
			return false
		}
		key := anyOf(m.Rand, keys)
		m.rows[key] = m.a.rows[key]
		return true
	}
	r := anyOf(m.Rand, m.present(of))
	if keys := m.keys(of); r == nil && how != deleted && len(keys) > 0 {
		r = m.a.rows[anyOf(m.Rand, keys)]
	}
	if r == nil {
		return false
	}
	i := m.IntN(len(r.names))
	for how != deleted && r.isKey(i) && len(r.keys) < len(r.names) {
		i = m.IntN(len(r.names))
	}
	switch how {
	case altered:
		m.add(r.with(i, anyOf(m.Rand, otherValues(r.values[i]))))
	case copied: // to another tenant, or to another id
		if slices.Contains(r.names, "tenant_id") && m.IntN(2) == 0 {
			r = r.set(map[string]any{"tenant_id": binary(anyOf(m.Rand, append(slices.Clone(m.living), m.young)))})
		} else {
			r = r.double()
		}
		m.add(r)
	case deleted:
		m.drop(r)
	case invented:
		m.add(r.double().with(i, anyOf(m.Rand, otherValues(r.values[i]))))
	default:
		return false
	}
	m.tidy()
	return len(m.rows) > 0
}
