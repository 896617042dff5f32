package vault_test

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/pgtest"
	"github.com/seed-72ea4aab/vault/storage/postgres"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// tail is a follower of the log that gives one batch at a time.
type tail struct {
	t      testing.TB
	next   func() (*vault.LogBatch, error, bool)
	cursor string
	got    []string // entity and operation of each entry
	seen   map[string]int
}

func tailOf(t testing.TB, c *vault.Client, cursor string) *tail {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	next, stop := iter.Pull2(c.FollowLogs(ctx, cursor))
	t.Cleanup(func() { stop(); cancel() })
	f := &tail{t: t, next: next, seen: map[string]int{}}
	f.step() // so that it has begun
	return f
}

func (f *tail) step() {
	f.t.Helper()
	batch, err, ok := f.next()
	if err != nil || !ok {
		f.t.Fatalf("follow: %v, after %q", err, f.got)
	}
	for _, e := range batch.Data {
		f.got = append(f.got, e.EntityID+" "+string(e.Operation))
		if e.EntityType == "card_number" {
			f.seen[e.ID.String()]++
		}
	}
	f.cursor = batch.Cursor
}

// cards follows until an entry has come, and returns those about cards so far: a
// follower that begins now may also see what came just before, while a transaction
// of another test is open on the same server.
func (f *tail) cards(last string) []string {
	f.t.Helper()
	for !slices.Contains(f.got, last) {
		f.step()
	}
	return slices.DeleteFunc(slices.Clone(f.got), func(e string) bool { return strings.Contains(e, "-") })
}

// TestFollowLateCommits follows a log into which transactions of the application
// write early and commit late.
func TestFollowLateCommits(t *testing.T) {
	t.Parallel()
	inShops(t, nil, func(t *testing.T, s *shop) {
		f := tailOf(t, s.Owner, "")
		late := s.begin(t)
		create(t, s.Owner.InTx(late), aCard("late"))
		if s.beside {
			gone := s.begin(t)
			create(t, s.Owner.InTx(gone), aCard("never"))
			create(t, s.Owner, aCard("early"))
			rollback(t, gone)
		}
		commit(t, late)
		create(t, s.Owner, aCard("last"))
		want := []string{"late create", "early create", "last create"}
		if !s.beside {
			want = []string{"late create", "last create"}
		}
		got := f.cards("last create")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		// What was saved is not repeated, and what was not is.
		create(t, s.Owner, aCard("after"))
		again := tailOf(t, s.Owner, f.cursor)
		if got := again.cards("after create"); len(got) != 1 {
			t.Errorf("from the cursor: %q", got)
		}
		all := tailOf(t, s.Owner, vault.LogsSince(s.Clock.Now().Add(-time.Hour)))
		all.cards("after create")
		for _, e := range want {
			if !slices.Contains(all.got, e) {
				t.Errorf("since an hour ago: %q is not in %q", e, all.got)
			}
		}
	})
}

// TestFollowFromTwoNodes has two nodes and transactions of the application write
// at once, while followers on both crash and go on from what they saved.
func TestFollowFromTwoNodes(t *testing.T) {
	t.Parallel()
	const writers, each = 6, 30
	key, address := vault.NewKey(), pgtest.URL(t)
	node := func() *vault.Vault {
		store, err := postgres.OpenOptions(t.Context(), address, &postgres.Options{MaxConns: 6})
		if err != nil {
			t.Fatal(err)
		}
		v, err := vault.Open(t.Context(), store, key, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = v.Close() })
		return v
	}
	one, two := node(), node()
	tenant, err := one.CreateTenant(t.Context(), "Acme")
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("postgres", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	nodes := []*vault.Client{one.Tenant(tenant.ID), two.Tenant(tenant.ID)}
	start, err := nodes[0].NextLogs(t.Context(), "", 0)
	if err != nil {
		t.Fatal(err)
	}

	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			c, open := nodes[w%2], []*sql.Tx{}
			for i := range each {
				in := c
				if w >= 4 {
					tx, err := db.BeginTx(t.Context(), nil)
					if err != nil {
						t.Error(err)
						return
					}
					in, open = c.InTx(tx), append(open, tx)
				}
				if _, err := in.CreateToken(t.Context(), aCard(fmt.Sprintf("card-%d-%d", w, i))); err != nil {
					t.Error(err)
				}
				// Transactions stay open while others come and go.
				for len(open) > 3 || i == each-1 && len(open) > 0 {
					if err := open[0].Commit(); err != nil {
						t.Error(err)
					}
					open = open[1:]
				}
			}
		})
	}
	for n, c := range nodes {
		wg.Go(func() {
			cursor, saved := start.Cursor, map[string]int{}
			for len(saved) < writers*each {
				f := tailOf(t, c, cursor)
				for range 3 {
					if len(saved)+len(f.seen) < writers*each {
						f.step()
					}
				}
				// It crashes before it saves what came last, each time but once.
				if n == 0 || len(saved)+len(f.seen) == writers*each {
					cursor = f.cursor
					for id := range f.seen {
						saved[id]++
					}
				}
			}
			for id, times := range saved {
				if times != 1 {
					t.Errorf("node %d got entry %s %d times after it was saved", n, id, times)
				}
			}
		})
	}
	wg.Wait()
}

func TestFollowCursors(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	_, stranger := v.NewTenant(t, "Other")
	batch, err := v.Owner.NextLogs(t.Context(), "", 0)
	if err != nil || len(batch.Data) != 0 || batch.Cursor == "" {
		t.Fatalf("%v, %v", batch, err)
	}
	for what, cursor := range map[string]string{
		"nonsense": "x", "not encoded": "!!", "another tenant's": batch.Cursor, "short": batch.Cursor[:8], "no time": "since:yesterday",
	} {
		_, err := stranger.NextLogs(t.Context(), cursor, 0)
		wantFields(t, what, err, "cursor")
	}
	if _, err := holding(t, v, "token:read").NextLogs(t.Context(), "", 0); err != nil {
		wantError(t, "without the permission", err, vault.ErrForbidden)
	} else {
		t.Error("followed without the permission")
	}
	// A follower whose key dies ends.
	app, err := v.Owner.CreateApplication(t.Context(), vault.ApplicationParams{Name: "SIEM", Type: vault.ApplicationManagement, Permissions: []vault.Permission{"log:read"}})
	if err != nil {
		t.Fatal(err)
	}
	var ended error
	for batch, err := range authenticated(t, v.Vault, app.Key).FollowLogs(t.Context(), "") {
		if ended = err; batch != nil && len(batch.Data) == 0 {
			if err := v.Owner.DeleteApplication(t.Context(), app.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	wantError(t, "after its application was deleted", ended, vault.ErrUnauthenticated)
}

// TestNextLogsWaits for an entry, and no longer than it is told.
func TestNextLogsWaits(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	batch, err := v.Owner.NextLogs(t.Context(), "", 10*time.Millisecond)
	if err != nil || len(batch.Data) != 0 {
		t.Fatalf("%v, %v", batch, err)
	}
	go func() { _, _ = v.Owner.CreateToken(t.Context(), aText("new", "x")) }()
	if batch, err = v.Owner.NextLogs(t.Context(), batch.Cursor, time.Minute); err != nil || len(batch.Data) != 1 || batch.Data[0].EntityID != "new" {
		t.Errorf("%v, %v", batch, err)
	}
}

// TestFollowersAreBounded for a tenant, and not for others. A place that is left
// is free again.
func TestFollowersAreBounded(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	_, other := v.NewTenant(t, "Other")
	ctx, cancel := context.WithCancel(t.Context())
	// All but one of them take a place.
	ended := make(chan error, vault.MaxFollowers+1)
	for range vault.MaxFollowers + 1 {
		go func() {
			_, err := v.Owner.NextLogs(ctx, "", time.Minute)
			ended <- err
		}()
	}
	wantError(t, "one too many", <-ended, vault.ErrBusy)
	if _, err := v.Owner.NextLogs(t.Context(), "", 0); err != nil {
		t.Errorf("without waiting: %v", err)
	}
	if _, err := other.NextLogs(t.Context(), "", time.Millisecond); err != nil {
		t.Errorf("another tenant: %v", err)
	}
	cancel()
	for range vault.MaxFollowers {
		wantError(t, "one that waits", <-ended, context.Canceled)
	}
	if _, err := v.Owner.NextLogs(t.Context(), "", time.Millisecond); err != nil {
		t.Errorf("after the others have left: %v", err)
	}
}
