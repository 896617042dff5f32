package postgres_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres"
)

// TestSharedStatementKeepsEveryColumn lets different changes share statements, and
// writes them one by one. It reads back every column that a statement may leave out,
// share among rows, or send for each row.
func TestSharedStatementKeepsEveryColumn(t *testing.T) {
	t.Parallel()
	forms := map[string]func(i int, c *storage.Change){
		"alike": func(int, *storage.Change) {},
		"tenants": func(i int, c *storage.Change) {
			c.Tenant[0] = byte(i % 3)
		},
		"kinds": func(i int, c *storage.Change) {
			token := &c.InsertTokens[0]
			token.Type = fmt.Sprint("type", i%2)
			token.Set, token.Containers = storage.Hash{byte(i%3 + 1)}, []string{fmt.Sprintf("/c%d/", i%3), "/d/"}
		},
		"optional columns": func(i int, c *storage.Change) {
			token := &c.InsertTokens[0]
			if i%2 == 0 {
				token.CVC, token.CVCExpiresAt = []byte{byte(i)}, c.Now.Add(time.Hour)
				token.ModifiedBy, token.ModifiedAt = newID(), c.Now
			}
			if i%3 == 0 {
				token.ExpiresAt, token.Dedup = c.Now.Add(2*time.Hour), storage.Hash(randomBytes(16))
				token.CreatedBy, token.Hashes = storage.ID{}, nil
			}
		},
		"claims": func(i int, c *storage.Change) {
			if i%2 == 0 {
				c.Claim = takeClaim(newID(), storage.Key(randomBytes(32)), c)
			}
		},
		"revisions": func(i int, c *storage.Change) {
			c.InsertTokens[0].Rev, c.InsertTokens[0].KeyVersion = int64(i%2), i%4
		},
	}
	for name, form := range forms {
		for _, n := range []int{60, 12} { // at once, and one by one
			t.Run(fmt.Sprint(n, " ", name), func(t *testing.T) {
				t.Parallel()
				s := openAt(t, postgres.Vaults.URL(t), &postgres.Options{MaxConns: 2}) // one of them writes
				tenant := newID()
				changes := make([]*storage.Change, n)
				var work sync.WaitGroup
				for i := range changes {
					changes[i] = sample(tenant, 1)
					form(i, changes[i])
					work.Go(func() {
						if err := s.Write(t.Context(), changes[i]); err != nil {
							t.Error(err)
						}
					})
					if n == 12 {
						work.Wait()
					}
				}
				work.Wait()
				for _, c := range changes {
					stored(t, s, c)
				}
			})
		}
	}
}

// TestSharedLogStatementKeepsEveryColumn lets log entries of reads share statements. It reads back
// every column that a statement may share among them or send for each.
func TestSharedLogStatementKeepsEveryColumn(t *testing.T) {
	t.Parallel()
	forms := map[string]func(i int, c *storage.Change){
		"alike":   func(int, *storage.Change) {},
		"tenants": func(i int, c *storage.Change) { c.Tenant[0] = byte(i % 3) },
		"actors": func(i int, c *storage.Change) {
			if i%2 == 0 {
				c.Logs[0].ActorID, c.Logs[0].ActorType = storage.ID{}, ""
			}
		},
		"no actors": func(_ int, c *storage.Change) { c.Logs[0].ActorID = storage.ID{} },
		"messages":  func(i int, c *storage.Change) { c.Logs[0].Message = fmt.Sprint("message", i%2) },
		"several": func(i int, c *storage.Change) {
			if i%2 == 0 {
				more := c.Logs[0]
				more.ID, more.Operation = newID(), "use"
				c.Logs = append(c.Logs, more)
			}
		},
	}
	for name, form := range forms {
		for _, connections := range []int{2, 3} { // with three, reads have their own connection
			t.Run(fmt.Sprintf("%s, %d connections", name, connections), func(t *testing.T) {
				t.Parallel()
				s := openAt(t, postgres.Vaults.URL(t), &postgres.Options{MaxConns: connections})
				tenant := newID()
				changes := make([]*storage.Change, 60)
				var work sync.WaitGroup
				for i := range changes {
					c := sample(tenant, 1)
					c.InsertTokens, c.Relaxed = nil, true
					form(i, c)
					changes[i] = c
					work.Go(func() {
						if err := s.Write(t.Context(), c); err != nil {
							t.Error(err)
						}
					})
				}
				work.Wait()
				for _, c := range changes {
					logs, _, err := s.ListLogs(t.Context(), storage.LogFilter{Tenant: c.Tenant, EntityID: c.Logs[0].EntityID, Limit: 3})
					if err != nil {
						t.Fatal(err)
					}
					slices.Reverse(logs) // lists return the newest first
					if diff := cmp.Diff(c.Logs, logs); diff != "" {
						t.Errorf("log (-want +got):\n%s", diff)
					}
				}
			})
		}
	}
}

// stored checks that a change is in the database as written.
func stored(t *testing.T, s *postgres.Store, c *storage.Change) {
	t.Helper()
	want := c.InsertTokens[0]
	want.Tenant = c.Tenant
	got, err := s.Tokens(t.Context(), c.Tenant, []string{want.ID})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]storage.Token{want}, got, cmpopts.IgnoreFields(storage.Token{}, "Hashes")); diff != "" {
		t.Errorf("token (-want +got):\n%s", diff)
	}
	for _, h := range want.Hashes {
		found, _, err := s.ListTokens(t.Context(), storage.TokenFilter{Tenant: c.Tenant, Where: storage.HashIs(h), Limit: 2})
		if err != nil || len(found) != 1 || found[0].ID != want.ID {
			t.Errorf("%d tokens by a hash, %v", len(found), err)
		}
	}
	logs, _, err := s.ListLogs(t.Context(), storage.LogFilter{Tenant: c.Tenant, EntityID: want.ID, Limit: 2})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(c.Logs, logs); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	if c.Claim != nil {
		claim, err := s.Claim(t.Context(), c.Tenant, c.Claim.Key)
		if diff := cmp.Diff(c.Claim.Claim, claim); diff != "" || err != nil {
			t.Errorf("claim, %v (-want +got):\n%s", err, diff)
		}
	}
	sets, err := s.ContainerSets(t.Context(), c.Tenant)
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range sets {
		if set.Set == want.Set && cmp.Equal(set.Containers, want.Containers) {
			return
		}
	}
	t.Error("the token's set of containers is not there")
}
