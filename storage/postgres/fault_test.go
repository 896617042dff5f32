package postgres_test

import (
	"database/sql"
	"net/url"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres"
)

// with adds a parameter to a URL.
func with(t testing.TB, address, name, value string) string {
	t.Helper()
	u := must.Get(url.Parse(address))(t)
	query := u.Query()
	query.Set(name, value)
	u.RawQuery = query.Encode()
	return u.String()
}

// openAt opens a store and closes it at the end of the test.
func openAt(t testing.TB, address string, options *postgres.Options) *postgres.Store {
	t.Helper()
	s := must.Get(postgres.OpenOptions(t.Context(), address, options))(t)
	t.Cleanup(func() {
		must.Match(t, "Close", s.Close(), nil)
	})
	return s
}

// database connects to the server directly, to inspect and disturb it.
func database(t testing.TB, address string) *sql.DB {
	t.Helper()
	db := must.Get(sql.Open("postgres", address))(t)
	t.Cleanup(func() { db.Close() })
	return db
}

func number(t testing.TB, db *sql.DB, query string, args ...any) (n int) {
	t.Helper()
	must.Do(t, db.QueryRow(query, args...).Scan(&n))
	return n
}

// column returns the only column of the rows of a query.
func column[T any](t testing.TB, db *sql.DB, query string, args ...any) (all []T) {
	t.Helper()
	rows := must.Get(db.Query(query, args...))(t)
	defer rows.Close()
	for rows.Next() {
		var one T
		must.Do(t, rows.Scan(&one))
		all = append(all, one)
	}
	must.Do(t, rows.Err())
	return all
}

// TestChangeIsAppliedOnceDespiteLostConnection cuts the connection at the worst times: before the server
// has received a change, and after it has committed it.
func TestChangeIsAppliedOnceDespiteLostConnection(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		cut         int32
		connections int // with three, logs of reads have their own
	}{
		"request lost":           {loseRequest, 2},
		"response lost":          {loseAnswer, 2},
		"request lost of three":  {loseRequest, 3},
		"response lost of three": {loseAnswer, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cut := test.cut
			address := postgres.Vaults.URL(t)
			p := newProxy(t, address)
			s := openAt(t, p.address, &postgres.Options{MaxConns: test.connections})
			db := database(t, address)
			tenant := newID()
			warm := sample(tenant, 1)
			must.Do(t, s.Write(t.Context(), warm))
			for what, c := range ambiguousChanges(tenant, warm.InsertTokens[0]) {
				if what == "update" || what == "delete" {
					continue // tested below, in order
				}
				p.cut.Store(cut)
				must.Match(t, what, s.Write(t.Context(), c), nil)
				must.Same(t, what, 1, number(t, db, "SELECT count(*) FROM vault_logs WHERE id = $1", c.Logs[0].ID[:]))
			}
			asked := storage.Reading{Tenant: tenant, ID: warm.InsertTokens[0].ID, Entry: sample(tenant, 1).Logs[0]}
			for range 2 { // on a new connection, and on a used one
				asked.Entry.ID = newID()
				p.cut.Store(cut)
				must.Same(t, "reading", asked.ID, must.Get(s.ReadToken(t.Context(), asked))(t).ID)
				must.Same(t, "reading", 1, number(t, db, "SELECT count(*) FROM vault_logs WHERE id = $1", asked.Entry.ID[:]))
			}
			for _, what := range []string{"update", "delete"} {
				c := ambiguousChanges(tenant, warm.InsertTokens[0])[what]
				p.cut.Store(cut)
				must.Match(t, what, s.Write(t.Context(), c), nil)
			}
			if got := number(t, db, "SELECT sum(n) FROM vault_token_counts"); got != number(t, db, "SELECT count(*) FROM vault_tokens") {
				t.Errorf("the counters say %d tokens", got)
			}
			if got := number(t, db, "SELECT count(*) FROM vault_tokens WHERE id = $1", warm.InsertTokens[0].ID); got != 0 {
				t.Error("the deleted token still exists")
			}
		})
	}
}

func ambiguousChanges(tenant storage.ID, stored storage.Token) map[string]*storage.Change {
	change := func(fill func(c *storage.Change)) *storage.Change {
		c := sample(tenant, 1)
		c.InsertTokens = nil
		fill(c)
		return c
	}
	next := stored
	next.Body = []byte("changed")
	return map[string]*storage.Change{
		"create":   sample(tenant, 1),
		"large":    sample(tenant, 1100),
		"log":      change(func(*storage.Change) {}),
		"read log": change(func(c *storage.Change) { c.Relaxed = true }),
		"job": change(func(c *storage.Change) {
			c.InsertJobs = []storage.Job{{ID: newID(), Kind: "react", RunAt: c.Now, Payload: []byte("p")}}
		}),
		"record": change(func(c *storage.Change) {
			c.InsertRecords = []storage.Record{{Kind: "reactor", ID: newID(), Key: storage.Key(randomBytes(32)), Body: []byte("b"), CreatedAt: c.Now, Rev: 1}}
		}),
		"claim": change(func(c *storage.Change) {
			c.Claim = &storage.ClaimChange{Op: storage.ClaimTake, Claim: storage.Claim{Key: storage.Key(randomBytes(32)), Owner: tenant, LeaseUntil: c.Now.Add(time.Minute)}}
		}),
		"update": change(func(c *storage.Change) { c.UpdateTokens = []storage.TokenUpdate{{Rev: 1, Token: next}} }),
		"delete": change(func(c *storage.Change) {
			c.DeleteTokens = []storage.TokenDelete{{Ord: stored.Ord, Rev: 2, Set: stored.Set, Type: stored.Type}}
		}),
	}
}
