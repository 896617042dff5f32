//go:build !race

package tampering

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// readOnce reads a token inside of Once, and returns the response.
func readOnce(ctx context.Context, c *vault.Client, key, token string) (string, error) {
	answer, _, err := c.Once(ctx, vault.IdempotencyKey{Scope: "POST /x", Key: key}, func(ctx context.Context, c *vault.Client) (vault.StoredResponse, error) {
		tok, err := c.GetToken(ctx, token)
		if err != nil {
			return vault.StoredResponse{}, err
		}
		return vault.StoredResponse{Status: 200, Body: tok.Data}, nil
	})
	return string(answer.Body), err
}

// Whoever changes the columns of a token that decide whether a stored response may be
// replayed, gets nothing: the row does not open.
func TestAlteredColumnsReplayNothing(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		set string
		end func(*attacked, *vault.Application)
	}{
		"its expiry": {"expires_at = NULL", func(a *attacked, _ *vault.Application) { a.clock.Advance(2 * time.Hour) }},
		"its containers": {"containers = '/b/'", func(a *attacked, app *vault.Application) {
			must.Get(a.owners[0].PatchApplication(a.Context(), app.ID, vault.JSON(`{"rules":[{"priority":1,"container":"/b/","transform":"reveal","permissions":["token:read"]}]}`)))(a)
		}},
		"when it was changed": {"modified_at = NULL, modified_by = NULL", func(a *attacked, _ *vault.Application) {
			must.Get(a.owners[0].PatchToken(a.Context(), "secret", vault.JSON(`{"data":"another"}`)))(a)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			attack(t, func(a *attacked) {
				o := a.owners[0]
				app := must.Get(o.CreateApplication(a.Context(), vault.ApplicationParams{Name: "a", Type: vault.ApplicationPrivate, Rules: []vault.AccessRule{
					{Priority: 1, Container: "/a/", Transform: vault.TransformReveal, Permissions: []vault.Permission{"token:read"}},
				}}))(a)
				create(a, o.Client, vault.TokenParams{ID: "secret", Type: vault.TypeGeneric, Data: "x", Containers: []string{"/a/"}, ExpiresAt: a.clock.Now().Add(time.Hour)})
				c := must.Get(a.v.Authenticate(a.Context(), app.Key))(a)
				must.Same(a, "response", `"x"`, must.Get(readOnce(a.Context(), c, "key", "secret"))(a))
				test.end(a, app)
				a.alter(1, "UPDATE vault_tokens SET "+test.set+" WHERE id = 'secret'")
				a.heard.take()
				body, err := readOnce(a.Context(), c, "key", "secret")
				if err == nil || body != "" {
					a.Errorf("the response is replayed: %q, %v", body, err)
				}
				if len(a.heard.take()) == 0 {
					a.Error("there is no alarm")
				}
			})
		})
	}
}

// Stored responses, jobs and reminders that do not open raise an alarm. They do not
// prevent the erasure of tokens, and nothing of an erased token stays in other rows.
func TestErasureBesideRowsThatDoNotOpen(t *testing.T) {
	t.Parallel()
	attack(t, func(a *attacked) {
		o := a.owners[0]
		for _, id := range []string{"first", "second"} {
			create(a, o.Client, aText(id))
			must.Get(readOnce(a.Context(), o.Client, id, id))(a)
		}
		must.Get(o.EraseTokens(a.Context(), vault.EraseParams{IDs: []string{"first"}, Reason: "case 1"}))(a)
		reactor := must.Get(o.CreateReactor(a.Context(), vault.ReactorParams{Name: "r", Code: "module.exports = 1", Configuration: map[string]string{}}))(a)
		job := must.Get(o.ReactAsync(a.Context(), reactor.ID, vault.ReactParams{CallbackURL: "https://callback.example/"}))(a)
		claims := a.rows("vault_claims", "WHERE answer IS NOT NULL ORDER BY length(answer)")
		emptied, full := claims[0], claims[len(claims)-1]
		a.replace([]*logRow{emptied}, []*logRow{emptied.set(map[string]any{"answer": []byte(strings.Repeat("x", 80))})})
		a.alter(1, "UPDATE vault_jobs SET payload = ? WHERE id = ?", []byte("x"), job.ID[:])
		a.alter(1, "UPDATE vault_records SET body = ? WHERE kind = 'erasure'", []byte("x"))
		a.heard.take()
		must.Get(o.EraseTokens(a.Context(), vault.EraseParams{IDs: []string{"second"}, Reason: "case 2"}))(a)
		must.Same(a, "alarms", []string{"unreadable", "unreadable", "unreadable"}, a.heard.take())
		for _, r := range a.rows("vault_claims", "") {
			if r.key() == full.key() && r.equal(full) {
				a.Error("the response with an erased token stays")
			}
		}
		jobs := must.Get(o.ListJobs(a.Context(), vault.ListJobsParams{}))(a)
		must.Same(a, "jobs", []string{"unreadable"}, []string{jobs[0].State})
		a.heard.take()
		if _, err := readOnce(a.Context(), o.Client, "first", "first"); err == nil {
			a.Error("a response that does not open is replayed")
		}
		must.Same(a, "alarms", []string{"unreadable"}, a.heard.take())
	})
}

const told = "rotated by the auditor; all is well"

// The type of a token in an altered row gets into no entry that the vault vouches for.
func TestTypeOfARowDoesNotSpeak(t *testing.T) {
	t.Parallel()
	attack(t, func(a *attacked) {
		create(a, a.owners[0].Client, aText("secret"))
		a.mustVerify()
		a.alter(1, "UPDATE vault_tokens SET type = ? WHERE id = 'secret'", told)
		_, err := a.owners[0].GetToken(a.Context(), "secret")
		if err == nil {
			a.Error("the token is read")
		}
		a.wantForged(told)
	})
}

// The mac of a read leaves out the type of what was read. A type that the vault does
// not know is forged, also before the entry is in a tree.
func TestTypeOfAReadIsNotAnybodys(t *testing.T) {
	t.Parallel()
	attack(t, func(a *attacked) {
		a.config = func(c *vault.Config) { c.Evidence = nil }
		a.node(nil)
		create(a, a.owners[0].Client, aText("secret"))
		get(a, a.owners[0].Client, "secret")
		a.alter(1, "UPDATE vault_logs SET entity_type = ? WHERE operation = 'read'", told)
		a.config = nil
		a.node(nil)
		a.wantForged(told)
	})
}

// wantForged fails the test if the log has entries with a type, and verification does
// not report them.
func (a *attacked) wantForged(entityType string) {
	a.Helper()
	for range 3 {
		_, _ = a.v.Checkpoint(a.Context())
	}
	found := inPlace(a, a.v)
	for _, r := range a.rows("vault_logs", "WHERE entity_type = ?", entityType) {
		if !strings.Contains(found, "was not written by the vault") {
			a.Errorf("the vault vouches for the entry %s: %s", r.entry(), found)
		}
		if is := bundle(a, a.v.Tenant(r.tenant())); strings.Contains(string(is), entityType) && offline(is, must.Get(a.v.EvidenceKey())(a), nil) {
			a.Error("a bundle with it verifies")
		}
	}
}

// No entry is hidden from verification by values that no entry has.
func TestEntriesWithExtremeValuesAreFound(t *testing.T) {
	t.Parallel()
	for name, values := range map[string]map[string]any{
		"before all times":   {"created_at": int64(math.MinInt64)},
		"the year 1969":      {"created_at": int64(-1)},
		"the first moment":   {"created_at": int64(0)},
		"after all times":    {"created_at": int64(math.MaxInt64)},
		"before all entries": {"order": int64(math.MinInt64)},
		"order -1":           {"order": int64(-1)},
		"order 0":            {"order": int64(0)},
		"after all entries":  {"order": int64(math.MaxInt64)},
		"the lowest id":      {"id": binary(uuid.Nil)},
		"the lowest of all":  {"id": binary(uuid.Nil), "order": int64(math.MinInt64), "created_at": int64(math.MinInt64)},
		"the highest id":     {"id": binary(uuid.Max)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			attack(t, func(a *attacked) {
				create(a, a.owners[0].Client, aText("secret"))
				a.mustVerify()
				row := a.rows("vault_logs", "WHERE entity_id = 'secret'")[0]
				order := "seq"
				if a.pg {
					order = "xid"
				}
				all := map[string]any{"id": binary(idAt(a.clock.Now()))}
				for column, value := range values {
					if column == "order" {
						column = order
					}
					all[column] = value
				}
				if !a.replace(nil, []*logRow{row.set(all)}) {
					a.Fatal("the row cannot be inserted")
				}
				if found := inPlace(a, a.v); found == "" {
					a.Error("a running node does not find the entry")
				}
				a.node(nil)
				if found := inPlace(a, a.v); found == "" {
					a.Error("a new node does not find the entry")
				}
				if _, err := a.owners[0].ListLogs(a.Context(), vault.ListLogsParams{}); err != nil && !errors.Is(err, vault.ErrNotFound) {
					a.Logf("the list: %v", err)
				}
			})
		})
	}
}

// On SQLite the id of an entry is not unique. A read that is copied under another type has
// a genuine mac, and is not a second read.
func TestReadsAreNotCopied(t *testing.T) {
	t.Parallel()
	attack(t, func(a *attacked) {
		create(a, a.owners[0].Client, aText("secret"))
		get(a, a.owners[0].Client, "secret")
		a.mustVerify()
		row := a.rows("vault_logs", "WHERE operation = 'read'")[0]
		order := "seq"
		if a.pg {
			order = "xid"
		}
		if !a.replace(nil, []*logRow{row.set(map[string]any{"entity_type": "card", order: row.value(order).(int64) + 1_000_000})}) {
			return // the id is unique
		}
		a.node(nil)
		_, _ = a.v.Checkpoint(a.Context())
		if inPlace(a, a.v) == "" {
			a.Error("the copy is not found")
		}
	})
}

// A session that was ended stays ended for the node that ended it, and one from before its
// authorization cannot be authorized again unseen. Verification finds both.
func TestFormerSessionsAreFound(t *testing.T) {
	t.Parallel()
	attack(t, func(a *attacked) {
		o, end := a.owners[0], a.clock.Now().Add(time.Hour)
		public, _ := a.public()
		s := must.Get(public.CreateSession(a.Context()))(a)
		restore := a.putBack(o, "vault_records", "vault_lookups")
		authorize := func() error {
			return o.AuthorizeSession(a.Context(), vault.SessionGrant{Nonce: s.Nonce, Permissions: []vault.Permission{"token:create"}, ExpiresAt: end})
		}
		must.Do(a, authorize())
		a.mustVerify()
		id := must.Get(o.ListSessions(a.Context(), vault.PageParams{}))(a).Data[0].ID
		restoreAuthorized := a.putBack(o, "vault_records", "vault_lookups")
		restore()
		must.Contain(a, "verification", inPlace(a, a.v), "session "+id.String())
		restoreAuthorized()
		a.mustVerify()

		must.Do(a, o.DeleteSession(a.Context(), id))
		restoreAuthorized()
		a.clock.Advance(2 * time.Second)
		a.heard.take()
		if err := must.Err(a.v.Authenticate(a.Context(), s.SessionKey)); !errors.Is(err, vault.ErrUnauthenticated) {
			a.Errorf("an ended session is accepted: %v", err)
		}
		must.Same(a, "alarms", []string{"rolled_back"}, a.heard.take())
		must.Contain(a, "verification", inPlace(a, a.v), "session "+id.String())
		a.node(nil)
		must.Contain(a, "verification of another node", inPlace(a, a.v), "session "+id.String())
	})
}

// The reminder of an erasure that is over, put back, changes nothing: the vault's tree has
// the erasure once, and a job with a later token of the same id stays.
func TestFormerReminderChangesNothing(t *testing.T) {
	t.Parallel()
	attack(t, func(a *attacked) {
		o := a.owners[0]
		create(a, o.Client, aText("gone"))
		tx := must.Get(a.db.BeginTx(a.Context(), nil))(a)
		must.Get(o.InTx(tx).EraseTokens(a.Context(), vault.EraseParams{IDs: []string{"gone"}, Reason: "case 9"}))(a)
		must.Do(a, tx.Commit())
		kept := a.rows("vault_records", "WHERE kind = 'erasure'")
		must.Same(a, "reminders", 1, len(kept))
		events := func() int {
			must.Get(a.v.Checkpoint(a.Context()))(a)
			return strings.Count(string(bundle(a, o)), `\"kind\":\"erasure\"`)
		}
		sweep(a, a.v)
		must.Same(a, "events", 1, events())
		a.clock.Advance(time.Hour)
		sweep(a, a.v)
		must.Same(a, "reminders after a sweep", 0, len(a.rows("vault_records", "WHERE kind = 'erasure'")))

		create(a, o.Client, aText("gone"))
		reactor := must.Get(o.CreateReactor(a.Context(), vault.ReactorParams{Name: "r", Code: "module.exports = 1", Configuration: map[string]string{}}))(a)
		must.Get(o.ReactAsync(a.Context(), reactor.ID, vault.ReactParams{Args: map[string]any{"a": "{{ gone }}"}, CallbackURL: "https://callback.example/"}))(a)
		a.put(kept...)
		sweep(a, a.v)
		must.Same(a, "events after the reminder was put back", 1, events())
		must.Same(a, "jobs", 1, len(must.Get(o.ListJobs(a.Context(), vault.ListJobsParams{}))(a)))
		a.mustVerify()
	})
}
